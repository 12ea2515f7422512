//! The note on every page while the clock is adjusted or faults are set.

use crate::context::{Console, fork_of};
use lazurite_base::units::{counted, duration};
use lazurite_protocol::date;
use lazurite_services::clock::Shown;
use maud::{Markup, html};
use std::time::Duration;

/// The note that requests fail on purpose, or that the clock is adjusted; empty if neither is true.
pub fn banner(console: &Console, account: &str) -> Markup {
    let services = console.services_of(fork_of(account));
    let services = services.unwrap_or_else(|_| console.services());
    let rules = services.faults.rules().len() as u64;
    let clock = services.clock.is_adjusted().then(|| services.clock.shown());
    html! {
        @if rules > 0 || clock.is_some() {
            p.warned.banner {
                @if rules > 0 {
                    "Faults are on: " (counted(rules, "rule")) " may delay requests or make them fail. "
                    a href="/_lazurite/state#faults" { "Show or clear them" }
                }
                @if let Some(shown) = clock {
                    @if rules > 0 { br; }
                    "The clock " @if shown.frozen { "is frozen at " (date::iso8601_seconds(shown.now)) } @else { "was moved: it is " (distance(&shown)) }
                    ". " a href="/_lazurite/state#clock" { "Show or move it" }
                }
            }
        }
    }
}

/// The distance of the clock, such as `1 h ahead of the machine`.
pub fn distance(shown: &Shown) -> String {
    let distance = Duration::try_from_secs_f64(shown.offset_seconds.abs().round());
    let distance = duration(distance.unwrap_or_default());
    let word = if shown.offset_seconds < -0.5 {
        "behind"
    } else {
        "ahead of"
    };
    format!("{distance} {word} the machine")
}
