//! The tables of the report, the pages and the terminal, as plain text.

use lazurite_bench_common::{number, thousands};

use crate::guide::finding::{Finding, Measured, Tried, TriedRun, bytes};
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
        Measure::Sent | Measure::HottestPartition | Measure::Refused | Measure::HalfDone
    );
    is_own.then_some(goal)
}

/// A table of texts.
pub(super) struct Table {
    pub(super) titles: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

type Figure = fn(&TriedRun) -> u64;

/// The results of a trial. Figures that are zero in all runs are left out.
pub(super) fn trial(tried: &Tried) -> Table {
    let figures: [(&str, Figure); 5] = [
        ("requests", |run| run.usage.requests),
        ("entities in batches", |run| run.usage.batch_entities),
        ("refused", |run| run.usage.refused),
        ("rows examined", |run| run.usage.rows_of_queries()),
        ("rounds", |run| run.tally.rounds as u64),
    ];
    let is_shown = |figure: Figure| tried.runs.iter().any(|run| figure(run) > 0);
    let mut shown = figures.to_vec();
    shown.retain(|(_, figure)| is_shown(*figure));
    let titles = shown.iter().map(|(title, _)| *title);
    let titles = ["run", tried.trial.harm.title()].into_iter().chain(titles);
    let rows = tried.runs.iter().map(|run| {
        let (harmed, objects) = (run.tally.harmed as u64, run.tally.objects as u64);
        let harmed = format!("{} of {}", thousands(harmed), thousands(objects));
        let figures = shown.iter().map(|(_, figure)| thousands(figure(run)));
        [run.name.to_owned(), harmed]
            .into_iter()
            .chain(figures)
            .collect()
    });
    Table {
        titles: titles.collect(),
        rows: rows.collect(),
    }
}

/// A figure, or `-` where the server does not report it.
pub(super) fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or("-".into(), |figure| figure.to_string())
}
