//! The number of pieces of advice, for the page Home.

use crate::advisor::names::ADVICE;
use crate::context::Console;
use crate::links;
use lazurite_advisor::Report;
use lazurite_base::units::count;
use lazurite_services::advisor;
use maud::{Markup, html};

/// The advisor's report about the accounts that the console shows.
pub fn report(console: &Console) -> Report {
    advisor::report(&console.advisor, &|account| console.shows(account))
}

/// The card with the number of pieces of advice.
pub fn card(console: &Console) -> Markup {
    let report = report(console);
    let pieces = report.advice.len() as u64;
    html! {
        a.card href=(links::path(ADVICE, &[])) {
            h2 { "Advice" } p.figure { (count(pieces)) }
            p { (if pieces == 1 { "piece" } else { "pieces" }) " of advice on the workload" }
        }
    }
}
