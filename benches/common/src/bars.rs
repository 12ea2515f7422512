//! Bars: the required values of our figures, absolute or as multiples of other figures of the same
//! run. Prints a table that compares each figure with its bar.

use crate::measurements::Better;
use crate::results::{OURS, Results};
use crate::text::number;

/// A bar: a figure, and the condition that it must meet.
pub struct Bar {
    /// The case that the figure belongs to.
    pub case: &'static str,
    /// The name of the figure.
    pub figure: &'static str,
    /// The name of the bar in the table.
    pub label: &'static str,
    /// The condition on the figure.
    pub expectation: Expectation,
}

/// A bar that the table calls by the name of its case.
pub const fn bar(case: &'static str, figure: &'static str, expectation: Expectation) -> Bar {
    Bar {
        case,
        figure,
        label: case,
        expectation,
    }
}

/// The condition on a figure of ours.
#[derive(Clone, Copy)]
pub enum Expectation {
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
    /// At least this multiple of the reference.
    TimesAtLeast(f64, Reference),
    /// At most this multiple of the reference.
    TimesAtMost(f64, Reference),
}

/// The figure that ours is compared with.
#[derive(Clone, Copy)]
pub enum Reference {
    /// The same figure of the best of these peers.
    Peers(&'static [&'static str]),
    /// Another figure of the best of these peers.
    FigureOfPeers(&'static [&'static str], &'static str),
    /// Another figure of our own in the same case.
    OwnFigure(&'static str),
    /// The same figure of our own in another case.
    OwnCase(&'static str),
}

use Expectation::{AtLeast, AtMost, TimesAtLeast, TimesAtMost};
use Reference::{FigureOfPeers, OwnCase, OwnFigure, Peers};

/// Prints each bar whose figure was measured: the requirement, the figure, and whether it is met.
/// Returns how many were missed.
pub fn print<'a>(results: &Results, bars: impl IntoIterator<Item = &'a Bar>) -> usize {
    let is_measured = |bar: &&Bar| results.figure(bar.case, OURS, bar.figure).is_some();
    let mut bars = bars.into_iter().filter(is_measured).peekable();
    if bars.peek().is_some() {
        println!(
            "\n{:40} {:>19} {:>46} {:>9} {:>8} {:>7}  cores used by others",
            "bars", "figure", "must be", "reached", "is", ""
        );
    }
    let mut missed = 0;
    for bar in bars {
        let comparison = Comparison::of(bar, results);
        missed += usize::from(comparison.verdict == MISSED);
        println!(
            "{:40} {:>19} {:>46} {:>9} {:>8} {:>7}  {:.1}",
            bar.label,
            bar.figure,
            comparison.expected,
            comparison.reached,
            comparison.ratio,
            comparison.verdict,
            results.other_cores(bar.case)
        );
    }
    missed
}

/// The comparison of a bar with the figure that was reached, as text.
struct Comparison {
    expected: String,
    reached: String,
    ratio: String,
    verdict: &'static str,
}

impl Comparison {
    /// Compares the bar with the results. Panics if our figure was not measured.
    fn of(bar: &Bar, results: &Results) -> Comparison {
        let ours = results.figure(bar.case, OURS, bar.figure);
        let ours = ours.expect("only bars with a figure are compared");
        match bar.expectation {
            AtLeast(least) => Comparison::with_limit("at least", least, ours, ours >= least),
            AtMost(most) => Comparison::with_limit("at most", most, ours, ours <= most),
            TimesAtLeast(factor, reference) => {
                let theirs = reference.figure(bar, results, Better::More);
                let expected = format!("at least {factor:.2}x {}", reference.name());
                Comparison::with_ratio(expected, ours, theirs, |ratio| ratio >= factor)
            }
            TimesAtMost(factor, reference) => {
                let theirs = reference.figure(bar, results, Better::Less);
                let expected = format!("at most {factor:.2}x {}", reference.name());
                Comparison::with_ratio(expected, ours, theirs, |ratio| ratio <= factor)
            }
        }
    }

    fn with_limit(phrase: &str, limit: f64, ours: f64, is_met: bool) -> Comparison {
        Comparison {
            expected: format!("{phrase} {}", number(limit)),
            reached: number(ours),
            ratio: String::new(),
            verdict: verdict(is_met),
        }
    }

    fn with_ratio(
        expected: String,
        ours: f64,
        theirs: Option<f64>,
        is_met: impl Fn(f64) -> bool,
    ) -> Comparison {
        let reference = theirs.map_or("not run".to_owned(), number);
        // CPU time below the resolution of the clock is 0, and gives no ratio.
        let ratio = theirs
            .filter(|theirs| *theirs > 0.0)
            .map(|theirs| ours / theirs);
        Comparison {
            expected: format!("{expected} ({reference})"),
            reached: number(ours),
            ratio: ratio.map_or("-".into(), |ratio| format!("{}x", number(ratio))),
            verdict: ratio.map_or("-", |ratio| verdict(is_met(ratio))),
        }
    }
}

const MISSED: &str = "MISSED";

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { MISSED }
}

impl Reference {
    /// The value of the reference; `None` if it did not run.
    fn figure(self, bar: &Bar, results: &Results, better: Better) -> Option<f64> {
        match self {
            Peers(peers) => results.best(bar.case, peers, bar.figure, better),
            FigureOfPeers(peers, name) => results.best(bar.case, peers, name, better),
            OwnFigure(name) => results.figure(bar.case, OURS, name),
            OwnCase(case) => results.figure(case, OURS, bar.figure),
        }
    }

    /// The name of the reference in the table.
    pub fn name(self) -> String {
        match self {
            Peers(peers) | FigureOfPeers(peers, _) => peers.join(", "),
            OwnFigure(name) => format!("our {name}"),
            OwnCase(case) => case.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Findings;

    fn results(ours: f64, theirs: f64) -> Results {
        let mut results = Results::default();
        for (peer, figure) in [(OURS, ours), ("fjall", theirs)] {
            let mut findings = Findings::default();
            findings.set("per_s", figure);
            findings.set("t_ms", figure);
            results.add("scan", peer, findings);
        }
        results
    }

    fn verdict_of(figure: &'static str, expectation: Expectation) -> &'static str {
        let bar = Bar {
            case: "scan",
            figure,
            label: "",
            expectation,
        };
        Comparison::of(&bar, &results(30.0, 20.0)).verdict
    }

    #[test]
    fn bar_is_met_at_its_figure() {
        assert_eq!(verdict_of("per_s", AtMost(30.0)), "met");
        assert_eq!(verdict_of("per_s", AtMost(29.0)), "MISSED");
        assert_eq!(verdict_of("per_s", AtLeast(30.0)), "met");
        assert_eq!(verdict_of("per_s", AtLeast(31.0)), "MISSED");
        let fjall = Peers(&["fjall", "rocksdb"]);
        assert_eq!(verdict_of("per_s", TimesAtLeast(1.5, fjall)), "met");
        assert_eq!(verdict_of("per_s", TimesAtLeast(1.6, fjall)), "MISSED");
        assert_eq!(verdict_of("t_ms", TimesAtMost(1.5, fjall)), "met");
        assert_eq!(verdict_of("t_ms", TimesAtMost(0.3, fjall)), "MISSED");
        let own = OwnFigure("per_s");
        assert_eq!(verdict_of("t_ms", TimesAtLeast(1.0, own)), "met");
    }

    #[test]
    fn missed_bars_are_counted_and_those_without_a_figure_are_not() {
        let bar = |case, most| Bar {
            case,
            figure: "per_s",
            label: case,
            expectation: AtMost(most),
        };
        let bars = [bar("scan", 29.0), bar("scan", 30.0), bar("none", 1.0)];
        assert_eq!(print(&results(30.0, 20.0), &bars), 1);
    }

    #[test]
    fn bar_has_no_verdict_if_its_reference_did_not_run() {
        let rocksdb = Peers(&["rocksdb"]);
        assert_eq!(verdict_of("per_s", TimesAtLeast(0.1, rocksdb)), "-");
        assert_eq!(verdict_of("per_s", TimesAtLeast(0.1, OwnCase("none"))), "-");
    }
}
