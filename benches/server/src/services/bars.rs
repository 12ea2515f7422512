//! The bars: what our server is to reach, mostly as a multiple of what another reaches in the same run.

use super::peers::Peer::{self, Azurite, Disk, Floor, Lazurite, Nginx};
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
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At least so many times our own of another case.
    OfCase(f64, &'static str),
}

use Must::{AtLeast, AtMost, Least, Most, OfCase};

#[rustfmt::skip]
const BARS: &[Bar] = &[
    Bar("table insert @1", "p50_us", Most(1.5, Floor)),
    Bar("table upsert @1", "p50_us", Most(1.5, Floor)),
    Bar("table merge @1", "p50_us", Most(1.5, Floor)),
    Bar("table get @1", "p50_us", Most(1.5, Floor)),
    Bar("table insert @16", "per_s", Least(20.0, Azurite)),
    Bar("table insert @16", "per_s", Least(0.45, Floor)),
    Bar("table insert @16", "cpu_us", Most(2.5, Floor)),
    Bar("table insert @64", "per_s", Least(20.0, Azurite)),
    Bar("table insert @64", "per_s", Least(0.45, Floor)),
    Bar("table insert @64", "cpu_us", Most(2.5, Floor)),
    Bar("table upsert @16", "per_s", Least(20.0, Azurite)),
    Bar("table upsert @16", "per_s", Least(0.45, Floor)),
    Bar("table upsert @16", "cpu_us", Most(2.5, Floor)),
    Bar("table upsert @64", "per_s", Least(20.0, Azurite)),
    Bar("table upsert @64", "per_s", Least(0.45, Floor)),
    Bar("table upsert @64", "cpu_us", Most(2.5, Floor)),
    Bar("table merge @16", "per_s", Least(20.0, Azurite)),
    Bar("table merge @16", "per_s", Least(0.45, Floor)),
    Bar("table merge @16", "cpu_us", Most(2.5, Floor)),
    Bar("table merge @64", "per_s", Least(20.0, Azurite)),
    Bar("table merge @64", "per_s", Least(0.45, Floor)),
    Bar("table merge @64", "cpu_us", Most(2.5, Floor)),
    Bar("table get @16", "per_s", Least(20.0, Azurite)),
    Bar("table get @16", "per_s", Least(0.60, Floor)),
    Bar("table get @16", "cpu_us", Most(2.0, Floor)),
    Bar("table get @64", "per_s", Least(20.0, Azurite)),
    Bar("table get @64", "per_s", Least(0.60, Floor)),
    Bar("table get @64", "cpu_us", Most(2.0, Floor)),
    Bar("table range of 100 @16", "per_s", Least(12.0, Azurite)),
    Bar("table transaction, entities @16", "per_s", Least(8.0, Azurite)),
    Bar("table transaction, entities @16", "per_s", AtLeast(80_000.0)),
    Bar("table filtered scan, rows @1", "per_s", Least(1.0, Azurite)),
    Bar("table one row a partition @16", "seconds", AtMost(5.0)),
    Bar("table insert among 10M @16", "per_s", OfCase(0.8, "table insert among 10k @16")),
    Bar("table upsert among 10M @16", "per_s", OfCase(0.8, "table upsert among 10k @16")),
    Bar("table merge among 10M @16", "per_s", OfCase(0.8, "table merge among 10k @16")),
    Bar("table get among 10M @16", "per_s", OfCase(0.8, "table get among 10k @16")),
    Bar("table range of 100 among 10M @16", "per_s", OfCase(0.8, "table range of 100 among 10k @16")),
    Bar("table with 10M", "rss_mb", AtMost(300.0)),
    Bar("table with 10M", "ready_ms", AtMost(1000.0)),
    Bar("queue put @64", "per_s", Least(35.0, Azurite)),
    Bar("queue put @64", "per_s", Least(0.45, Floor)),
    Bar("queue put @64", "cpu_us", Most(2.5, Floor)),
    Bar("queue put, get, delete @16", "per_s", Least(18.0, Azurite)),
    Bar("queue get, delete of 10k @16", "per_s", Least(1000.0, Azurite)),
    Bar("queue get, delete of 10k @16", "per_s", OfCase(0.8, "queue get, delete of 100 @16")),
    Bar("queue get, delete of 1M @16", "per_s", OfCase(0.8, "queue get, delete of 100 @16")),
    Bar("queue get, delete of 10M @16", "per_s", OfCase(0.8, "queue get, delete of 100 @16")),
    Bar("queue get, delete after 1M @16", "per_s", OfCase(0.8, "queue get, delete of 100 @16")),
    Bar("queue get, delete of 100 @16", "p99_us", AtMost(1000.0)),
    Bar("queue get, delete of 10k @16", "p99_us", AtMost(1000.0)),
    Bar("queue get, delete of 1M @16", "p99_us", AtMost(1000.0)),
    Bar("queue get, delete of 10M @16", "p99_us", AtMost(1000.0)),
    Bar("queue get, delete after 1M @16", "p99_us", AtMost(1000.0)),
    Bar("queue get 32 of 10k @16", "per_s", Least(500.0, Azurite)),
    Bar("queue with 10M", "rss_mb", AtMost(200.0)),
    Bar("blob put 4 KiB @64", "per_s", Least(35.0, Azurite)),
    Bar("blob put 4 KiB @64", "per_s", Least(0.40, Floor)),
    Bar("blob put 4 KiB @64", "cpu_us", Most(2.5, Floor)),
    Bar("blob get 4 KiB @64", "per_s", Least(25.0, Azurite)),
    Bar("blob get 4 KiB @64", "per_s", Least(0.55, Floor)),
    Bar("blob get 4 KiB @64", "cpu_us", Most(2.0, Floor)),
    Bar("blob put in blocks, MiB @4", "per_s", Least(10.0, Azurite)),
    Bar("blob put in blocks, MiB @4", "per_s", Least(0.7, Disk)),
    Bar("blob get 64 MiB, MiB @1", "per_s", Least(0.6, Nginx)),
    Bar("blob get 64 MiB, MiB @4", "per_s", Least(0.6, Nginx)),
    Bar("blob append 4 KiB @16", "per_s", Least(20.0, Azurite)),
    Bar("blob get 25 MB appends @1", "per_s", OfCase(0.33, "blob get 25 MB flat @1")),
    Bar("blob get 25 MB blocks @1", "per_s", OfCase(0.33, "blob get 25 MB flat @1")),
    Bar("blob get 25 MB pages @1", "per_s", OfCase(0.33, "blob get 25 MB flat @1")),
    Bar("blob list 5000 of 10k @4", "per_s", Least(50.0, Azurite)),
    Bar("blob list 100 by prefix of 10k @4", "per_s", Least(40.0, Azurite)),
    Bar("blob list by delimiter of 10k @4", "per_s", Least(100.0, Azurite)),
    Bar("blob list 5000 of 1M @4", "per_s", OfCase(0.8, "blob list 5000 of 10k @4")),
    Bar("blob list 100 by prefix of 1M @4", "per_s", OfCase(0.8, "blob list 100 by prefix of 10k @4")),
    Bar("blob list by delimiter of 1M @4", "per_s", OfCase(0.8, "blob list by delimiter of 10k @4")),
    Bar("blob delete of 10k @16", "per_s", Least(500.0, Azurite)),
    Bar("blob 64 uploads at once", "peak_mb", AtMost(200.0)),
];

/// Prints every bar that was tried: what it is, what was reached, whether that is enough.
pub(super) fn print(results: &Results) {
    println!(
        "\n{:36} {:>8} {:>42} {:>9} {:>8} {:>7}  cores used by others",
        "bars", "figure", "must be", "reached", "is", ""
    );
    for Bar(case, name, must) in BARS {
        let Some(ours) = results.figure(case, Lazurite, name) else {
            continue;
        };
        let verdict = Verdict::of(ours, *must, &|of| match of {
            Of::Peer(peer) => results.figure(case, peer, name),
            Of::Case(other) => results.figure(other, Lazurite, name),
        });
        println!(
            "{case:36} {name:>8} {:>42} {:>9} {:>8} {:>7}  {:.1}",
            verdict.demand,
            number(ours),
            verdict.relation,
            verdict.word,
            results.busiest(case)
        );
    }
}

/// Whose figure ours is compared with.
enum Of {
    Peer(Peer),
    Case(&'static str),
}

/// What became of a bar, in words.
struct Verdict {
    demand: String,
    relation: String,
    word: &'static str,
}

impl Verdict {
    fn of(ours: f64, must: Must, figure: &dyn Fn(Of) -> Option<f64>) -> Verdict {
        match must {
            AtLeast(least) => Verdict::fixed("at least", least, ours >= least),
            AtMost(most) => Verdict::fixed("at most", most, ours <= most),
            Least(factor, peer) => Verdict::times(
                format!("at least {factor}x {}", peer.name()),
                ours,
                figure(Of::Peer(peer)),
                |ratio| ratio >= factor,
            ),
            Most(factor, peer) => Verdict::times(
                format!("at most {factor}x {}", peer.name()),
                ours,
                figure(Of::Peer(peer)),
                |ratio| ratio <= factor,
            ),
            OfCase(factor, case) => Verdict::times(
                format!("at least {factor}x {}", variant(case)),
                ours,
                figure(Of::Case(case)),
                |ratio| ratio >= factor,
            ),
        }
    }

    fn fixed(phrase: &str, limit: f64, is_met: bool) -> Verdict {
        Verdict {
            demand: format!("{phrase} {}", number(limit)),
            relation: String::new(),
            word: word(is_met),
        }
    }

    fn times(
        demand: String,
        ours: f64,
        theirs: Option<f64>,
        is_met: impl Fn(f64) -> bool,
    ) -> Verdict {
        let of = theirs.map_or("not run".to_owned(), number);
        let ratio = theirs.map(|theirs| ours / theirs);
        Verdict {
            demand: format!("{demand} ({of})"),
            relation: ratio.map_or("-".into(), |ratio| format!("{}x", number(ratio))),
            word: ratio.map_or("-", |ratio| word(is_met(ratio))),
        }
    }
}

fn word(is_met: bool) -> &'static str {
    match is_met {
        true => "met",
        false => "MISSED",
    }
}

/// What distinguishes a case from the others of its kind: how much is stored.
fn variant(case: &str) -> &str {
    let name = case.split(" @").next().unwrap_or(case);
    let words = name.rmatch_indices(' ').nth(1);
    words.map_or(name, |(at, _)| &name[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_at_its_figure_and_not_judged_without_the_peer() {
        let word = |must, theirs| Verdict::of(30.0, must, &|_| theirs).word;
        assert_eq!(word(Least(1.5, Floor), Some(20.0)), "met");
        assert_eq!(word(Least(1.6, Floor), Some(20.0)), "MISSED");
        assert_eq!(word(Most(1.5, Floor), Some(20.0)), "met");
        assert_eq!(word(Most(1.4, Floor), Some(20.0)), "MISSED");
        assert_eq!(word(Most(1.4, Floor), None), "-");
        assert_eq!(word(AtMost(30.0), None), "met");
        assert_eq!(word(AtLeast(31.0), None), "MISSED");
        assert_eq!(word(OfCase(0.8, "a @1"), Some(40.0)), "MISSED");
        assert_eq!(variant("queue get, delete of 100 @16"), "of 100");
    }

    #[test]
    fn no_two_bars_are_alike() {
        let of = |bar: &Bar| match bar.2 {
            Least(_, peer) | Most(_, peer) => (bar.0, bar.1, peer.name()),
            OfCase(_, case) => (bar.0, bar.1, case),
            AtLeast(_) | AtMost(_) => (bar.0, bar.1, ""),
        };
        let mut all: Vec<_> = BARS.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), BARS.len());
    }
}
