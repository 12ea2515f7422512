//! The bars: what our server is to reach, mostly as a multiple of what another reaches in the same run.

use super::peers::Peer::{self, Floor, Lazurite};
use super::report::Results;
use crate::report::number;

/// One bar: of which case, which figure, what it must be.
struct Bar(&'static str, &'static str, Must);

/// What a figure of ours must be.
#[derive(Clone, Copy)]
enum Must {
    /// At least so many times that of another.
    Least(f64, Peer),
    /// At most so many times that of another.
    Most(f64, Peer),
}

use Must::{Least, Most};

#[rustfmt::skip]
const BARS: &[Bar] = &[
    Bar("table insert @1", "p50_us", Most(1.5, Floor)),
    Bar("table insert @16", "per_s", Least(0.45, Floor)),
    Bar("table insert @16", "cpu_us", Most(2.5, Floor)),
    Bar("table insert @64", "per_s", Least(0.45, Floor)),
    Bar("table insert @64", "cpu_us", Most(2.5, Floor)),
    Bar("table get @1", "p50_us", Most(1.5, Floor)),
    Bar("table get @16", "per_s", Least(0.60, Floor)),
    Bar("table get @16", "cpu_us", Most(2.0, Floor)),
    Bar("table get @64", "per_s", Least(0.60, Floor)),
    Bar("table get @64", "cpu_us", Most(2.0, Floor)),
    Bar("queue put @64", "per_s", Least(0.45, Floor)),
    Bar("queue put @64", "cpu_us", Most(2.5, Floor)),
    Bar("blob put 4 KiB @64", "per_s", Least(0.40, Floor)),
    Bar("blob put 4 KiB @64", "cpu_us", Most(2.5, Floor)),
    Bar("blob get 4 KiB @64", "per_s", Least(0.55, Floor)),
    Bar("blob get 4 KiB @64", "cpu_us", Most(2.0, Floor)),
];

/// Prints every bar that was tried: what it is, what was reached, whether that is enough.
pub(super) fn print(results: &Results) {
    println!(
        "\n{:32} {:>9} {:>34} {:>11} {:>8} {:>7}  cores used by others",
        "bars", "figure", "must be", "reached", "is", ""
    );
    for Bar(case, name, must) in BARS {
        let Some(ours) = results.figure(case, Lazurite, name) else {
            continue;
        };
        let verdict = Verdict::of(ours, *must, |peer| results.figure(case, peer, name));
        println!(
            "{case:32} {name:>9} {:>34} {:>11} {:>8} {:>7}  {:.1}",
            verdict.demand,
            number(ours),
            verdict.relation,
            verdict.word,
            results.busiest(case)
        );
    }
}

/// What became of a bar, in words.
struct Verdict {
    demand: String,
    relation: String,
    word: &'static str,
}

impl Verdict {
    fn of(ours: f64, must: Must, figure_of: impl Fn(Peer) -> Option<f64>) -> Verdict {
        let (phrase, factor, peer) = match must {
            Least(factor, peer) => ("at least", factor, peer),
            Most(factor, peer) => ("at most", factor, peer),
        };
        let theirs = figure_of(peer);
        let ratio = theirs.map(|theirs| ours / theirs);
        let is_met = ratio.map(|ratio| match must {
            Least(..) => ratio >= factor,
            Most(..) => ratio <= factor,
        });
        let of = theirs.map_or("not run".to_owned(), number);
        Verdict {
            demand: format!("{phrase} {factor:.2}x {} ({of})", peer.name()),
            relation: ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x")),
            word: match is_met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "-",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_at_its_figure_and_not_judged_without_the_peer() {
        let word = |must, theirs| Verdict::of(30.0, must, |_| theirs).word;
        assert_eq!(word(Least(1.5, Floor), Some(20.0)), "met");
        assert_eq!(word(Least(1.6, Floor), Some(20.0)), "MISSED");
        assert_eq!(word(Most(1.5, Floor), Some(20.0)), "met");
        assert_eq!(word(Most(1.4, Floor), Some(20.0)), "MISSED");
        assert_eq!(word(Most(1.4, Floor), None), "-");
    }
}
