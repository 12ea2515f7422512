//! The tables of the report, the pages and the terminal, as plain text.

use lazurite_bench_common::{number, thousands};

use crate::guide::finding::{Finding, Measured, bytes};
use crate::guide::pattern::Measure;
use crate::guide::report::Report;
use crate::guide::words::price;

/// The headings of [`cells`]. Figures of time are in [`TIME_COLUMN`].
pub(super) const COLUMNS: [&str; 9] = [
    "design",
    "requests to write",
    "requests to answer",
    "rows examined",
    "by the hosted service",
    "received",
    "stored",
    "ms to answer",
    "price a month",
];
pub(super) const TIME_COLUMN: usize = 7;
pub(super) const PRICE_COLUMN: usize = 8;

/// The row of a design.
pub(super) fn cells(report: &Report, finding: &Finding, design: &Measured) -> [String; 9] {
    let total = report.bill(finding, design).total();
    [
        design.design.to_owned(),
        thousands(design.build.requests),
        thousands(design.ask.requests),
        or_dash(design.ask.examined.map(thousands)),
        or_dash(design.ask.azure_examined),
        bytes(design.ask.received_bytes),
        bytes(design.stored.bytes()),
        number(design.ask.seconds * 1e3),
        price(total, &report.prices.currency),
    ]
}

/// The measure of the pattern, if it is in none of [`COLUMNS`].
pub(super) fn own_column(finding: &Finding) -> Option<Measure> {
    let goal = finding.pattern.goal;
    let is_own = matches!(
        goal,
        Measure::HottestPartition | Measure::Refused | Measure::HalfDone
    );
    is_own.then_some(goal)
}

/// The results of the deaths of programs for each design; `None` if the pattern has no such runs.
pub(super) fn deaths(finding: &Finding) -> Option<String> {
    let texts = finding.designs.iter().filter_map(|design| {
        let deaths = design.deaths?;
        Some(format!(
            "{}: {} of {} half done, {} requests",
            design.design,
            thousands(deaths.losses.half_done as u64),
            thousands(deaths.losses.objects as u64),
            thousands(deaths.requests)
        ))
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| {
        format!(
            "If the programs die at each of their steps in turn and are started again: {}",
            texts.join("; ")
        )
    })
}

/// A figure, or `-` where the server does not report it.
pub(super) fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or("-".into(), |figure| figure.to_string())
}
