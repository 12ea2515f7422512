//! The comparison as one HTML file, with pictures of the simulation.

use crate::commands::what_if::report::Report;
use lazurite_base::units::{count, counted};
use lazurite_design::{Second, Simulation};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Columns of a picture, and its height.
const COLUMNS: usize = 300;
const HEIGHT: f64 = 120.0;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1f24; --faint: #59636e; --back: #fff; --line: #d1d9e0; --asked: #8c959f; --refused: #c4221f; --ranges: #0969da; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --faint: #9198a1; --back: #0d1117; --line: #3d444d; --asked: #656c76; --refused: #f85149; --ranges: #4493f8; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; } p { color: var(--faint); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; } .number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: 9rem; border-bottom: 1px solid var(--line); } ul { list-style: none; padding: 0; } code { overflow-wrap: anywhere; }
.asked { fill: var(--asked); } .refused { fill: var(--refused); } .ranges { stroke: var(--ranges); fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; } .key.asked { background: var(--asked); } .key.refused { background: var(--refused); } .key.ranges { height: .15rem; margin-bottom: .3rem; background: var(--ranges); }
";

/// The whole page.
pub fn page(report: &Report<'_>) -> String {
    let [before, after] = report.heads();
    let rows = |plan: &(String, f64)| format!("{}, {} rows", plan.0, count(plan.1.round() as u64));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "What if: " (report.table) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (report.title()) }
                p { (report.basis()) }
                @for warning in report.warnings() { p { strong { (warning) } } }
                div.scroll tabindex="0" { table {
                    thead { tr { th {} th.number { (before) } th.number { (after) } } }
                    tbody { @for (name, [before, after]) in report.figures() {
                        tr { th scope="row" { (name) } td.number { (before) } td.number { (after) } }
                    } }
                } }
                h2 { "Load and refusals, second by second" }
                p { (report.assumptions()) }
                ul {
                    li { span."key asked" {} "entities asked for" }
                    li { span."key refused" {} "entities refused" }
                    li { span."key ranges" {} "ranges of the table" }
                }
                @for (name, of) in [(before, &report.before), (after, &report.after)] {
                    h3 { (name) }
                    (picture(&of.simulation))
                }
                h2 { "Queries" }
                div.scroll tabindex="0" { table {
                    thead { tr { th.number { "times" } th { "filter" } th { (before) } th { (after) } } }
                    tbody { @for of in &report.queries {
                        tr {
                            td.number { (count(of.times)) }
                            td { code { @if of.shape.is_empty() { "(no filter)" } @else { (of.shape) } } }
                            td { (rows(&of.plans[0])) }
                            td { (rows(&of.plans[1])) }
                        }
                    } }
                } }
                @let notes = report.notes();
                @if !notes.is_empty() {
                    h2 { "Besides" }
                    ul { @for note in &notes { li { (note.trim()) } } }
                }
            }
        }
    };
    page.into_string()
}

/// The load and its refused part as columns, and the number of ranges as a line.
fn picture(simulation: &Simulation) -> Markup {
    let seconds = &simulation.seconds;
    let columns: Vec<_> = seconds
        .chunks(seconds.len().div_ceil(COLUMNS).max(1))
        .map(Column::of)
        .collect();
    let most = columns
        .iter()
        .map(|column| column.asked)
        .fold(1.0, f64::max);
    let ranges = columns
        .iter()
        .map(|column| column.ranges)
        .fold(1.0, f64::max);
    let width = columns.len().max(1);
    let line: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let y = HEIGHT - column.ranges / ranges * (HEIGHT - 4.0);
            format!("{at} {y:.1} {} {y:.1}", at + 1)
        })
        .collect();
    let (peak, last) = (
        count(most.round() as u64),
        columns.last().map_or(0.0, |column| column.ranges),
    );
    let (refused, asked) = simulation.refused_of();
    let label = format!(
        "at most {peak} entities a second; {} of {} are refused; {} at the end",
        count(refused.round() as u64),
        count(asked.round() as u64),
        counted(last as u64, "range")
    );
    html! {
        svg role="img" aria-label=(label) viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" {
            @for (at, column) in columns.iter().enumerate() {
                @let asked = column.asked / most * HEIGHT;
                @let refused = column.refused / most * HEIGHT;
                rect.asked x=(at) y=(format!("{:.1}", HEIGHT - asked)) width="1.1" height=(format!("{asked:.1}")) {}
                rect.refused x=(at) y=(format!("{:.1}", HEIGHT - refused)) width="1.1" height=(format!("{refused:.1}")) {}
            }
            polyline.ranges points=(line.join(" ")) {}
        }
        p { (label) "." }
    }
}

/// A few seconds of a simulation: the means of load and refused part, in entities a second, and the
/// number of ranges at the end.
struct Column {
    asked: f64,
    refused: f64,
    ranges: f64,
}

impl Column {
    fn of(seconds: &[Second]) -> Column {
        let mean = |value: &dyn Fn(&Second) -> f64| {
            seconds.iter().map(value).sum::<f64>() / seconds.len() as f64
        };
        Column {
            asked: mean(&|second| second.asked),
            refused: mean(&Second::refused),
            ranges: seconds.last().map_or(1.0, |second| second.ranges as f64),
        }
    }
}
