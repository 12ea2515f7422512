//! The bars: what our engine is to reach, mostly as a multiple of what the best of some peers reaches in the same run.

use super::peers::Peer;
use super::report::Better::{self, Less, More};
use super::report::Results;
use super::workloads::Workload as W;
use crate::report::number;

/// One bar: whose figure, which, its label, what it must be.
struct Bar(W, &'static str, &'static str, Must);

/// What a figure of ours must be.
#[derive(Clone, Copy)]
enum Must {
    /// At most this.
    AtMost(f64),
    /// So many times as good as the best of these peers.
    Times(f64, Better, &'static [&'static str]),
    /// The same, and the peers' figure has another name.
    TimesOf(f64, &'static [&'static str], &'static str),
    /// So many times another figure of our own.
    TimesOwn(f64, &'static str),
}

use Must::{AtMost, Times, TimesOf, TimesOwn};

const LSM: &[&str] = &["fjall", "rocksdb"];
const ROCKSDB: &[&str] = &["rocksdb"];
const FJALL: &[&str] = &["fjall"];
/// What counts as level: the machine's own noise is larger.
const LEVEL: f64 = 0.95;

#[rustfmt::skip]
const BARS: &[Bar] = &[
    Bar(W::Fillrandom, "per_s", "fillrandom, puts/s", Times(1.5, More, LSM)),
    Bar(W::Fillrandom, "write_amplification", "... write amplification", AtMost(2.2)),
    Bar(W::Fillrandom, "space", "... space / logical, settled", AtMost(0.65)),
    Bar(W::Fillrandom, "worst_us", "... worst put, us", AtMost(5000.0)),
    Bar(W::Fillrandom, "cpu_us", "... CPU us/put, all threads", AtMost(4.0)),
    Bar(W::Overwrite, "per_s", "overwrite (Zipf), puts/s", Times(1.3, More, LSM)),
    Bar(W::Commits, "w1_per_s", "synced commits/s, 1 waiting", Times(1.5, More, ROCKSDB)),
    Bar(W::Commits, "w8_per_s", "... 8 waiting", Times(2.0, More, ROCKSDB)),
    Bar(W::Commits, "tickets_per_s", "... 64 waiting, awaited", TimesOf(2.0, ROCKSDB, "w64_per_s")),
    Bar(W::Commits, "tickets_p99_us", "... p99 us of these", AtMost(4000.0)),
    Bar(W::Commits, "w64_per_s", "... 64 waiting, threads", Times(2.0, More, ROCKSDB)),
    Bar(W::Commits, "w64_p99_us", "... p99 us of these", AtMost(4000.0)),
    Bar(W::Readrandom, "t1_per_s", "readrandom hot, gets/s", Times(1.3, More, LSM)),
    Bar(W::Readrandom, "t2_per_s", "... 2 threads", TimesOwn(1.9, "t1_per_s")),
    Bar(W::Readmissing, "per_s", "readmissing, gets/s", Times(LEVEL, More, FJALL)),
    Bar(W::Scan, "per_s", "scans of 100, scans/s", Times(1.5, More, ROCKSDB)),
    Bar(W::Prefixscan, "per_s", "prefix scans of 50, scans/s", Times(2.0, More, ROCKSDB)),
    Bar(W::Readseq, "per_s", "readseq, rows/s", Times(1.0, More, ROCKSDB)),
    Bar(W::Readwhilewriting, "p99_us", "read p99 us beside a 20,000/s writer", AtMost(10.0)),
    Bar(W::Queue, "per_s", "queue, push and pop pairs/s", Times(50.0, More, ROCKSDB)),
    Bar(W::Queue, "spread", "... slowest tenth / fastest", AtMost(1.5)),
    Bar(W::Queue, "p99_us", "... pop p99 us", AtMost(30.0)),
    Bar(W::Deleterange, "delete_ms", "delete of a million rows by range, ms", AtMost(1.0)),
    Bar(W::Deleterange, "first_ms", "... first row after it, ms", AtMost(0.1)),
    Bar(W::Deleterange, "first_settled_ms", "... the same, settled, ms", AtMost(0.1)),
    Bar(W::Large64k, "write_mb_s", "64 KiB values, write MB/s", Times(1.5, More, FJALL)),
    Bar(W::Large64k, "write_amplification", "... write amplification", AtMost(1.1)),
    Bar(W::Large64k, "read_mb_s", "... read MB/s", Times(1.3, More, LSM)),
    Bar(W::Large64k, "overwrite_space", "... space / logical after overwriting", AtMost(1.25)),
    Bar(W::Large1m, "write_mb_s", "1 MiB values, write MB/s", Times(1.5, More, FJALL)),
    Bar(W::Large1m, "write_amplification", "... write amplification", AtMost(1.1)),
    Bar(W::Large1m, "read_mb_s", "... read MB/s", Times(1.3, More, LSM)),
    Bar(W::Large1m, "overwrite_space", "... space / logical after overwriting", AtMost(1.25)),
    Bar(W::Open, "clean_ms", "open after a clean stop, ms", AtMost(10.0)),
    Bar(W::Open, "killed_ms", "open after a kill, ms", Times(1.0 / 3.0, Less, ROCKSDB)),
];

/// Prints every bar that was tried: what it is, what was reached, whether that is enough.
pub(super) fn print(results: &Results) {
    let tried = |bar: &&Bar| results.figure(Peer::Lazurite, bar.0, bar.1).is_some();
    let bars: Vec<&Bar> = BARS.iter().filter(tried).collect();
    if bars.is_empty() {
        return;
    }
    println!(
        "\n{:40} {:>36} {:>11} {:>10} {:>7}  cores used by others",
        "bars", "must be", "reached", "is", ""
    );
    for bar in bars {
        let verdict = Verdict::of(bar, results);
        println!(
            "{:40} {:>36} {:>11} {:>10} {:>7}  {:.1}",
            bar.2,
            verdict.demand,
            verdict.reached,
            verdict.relation,
            verdict.word,
            results.busiest(bar.0)
        );
    }
}

/// What became of a bar, in words.
struct Verdict {
    demand: String,
    reached: String,
    relation: String,
    word: &'static str,
}

impl Verdict {
    fn of(Bar(workload, name, _, must): &Bar, results: &Results) -> Verdict {
        let ours = results.figure(Peer::Lazurite, *workload, name);
        let ours = ours.expect("only bars with a figure are shown");
        match *must {
            AtMost(most) => Verdict {
                demand: format!("at most {}", number(most)),
                reached: number(ours),
                relation: String::new(),
                word: word(ours <= most),
            },
            TimesOwn(factor, other) => {
                let own = results.figure(Peer::Lazurite, *workload, other);
                Verdict::times(factor, More, ours, own, "our own one thread")
            }
            Times(factor, better, peers) => {
                let best = results.best(&present(peers), *workload, name, better);
                Verdict::times(factor, better, ours, best, &peers.join(", "))
            }
            TimesOf(factor, peers, other) => {
                let best = results.best(&present(peers), *workload, other, More);
                Verdict::times(factor, More, ours, best, &peers.join(", "))
            }
        }
    }

    fn times(factor: f64, better: Better, ours: f64, theirs: Option<f64>, whose: &str) -> Verdict {
        let of = theirs.map_or("not run".to_owned(), number);
        let ratio = theirs.map(|theirs| ours / theirs);
        let enough = |ratio: f64| match better {
            More => ratio >= factor,
            Less => ratio <= factor,
        };
        Verdict {
            demand: format!("{factor:.2}x {whose} ({of})"),
            reached: number(ours),
            relation: ratio.map_or("-".into(), |ratio| format!("{ratio:.2}x")),
            word: ratio.map_or("-", |ratio| word(enough(ratio))),
        }
    }
}

fn word(is_met: bool) -> &'static str {
    match is_met {
        true => "met",
        false => "MISSED",
    }
}

/// Those of the named peers that this program was built with.
fn present(names: &[&str]) -> Vec<Peer> {
    use clap::ValueEnum;
    let peers = Peer::value_variants().iter();
    peers
        .copied()
        .filter(|peer| names.contains(&peer.name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::step::Findings;

    fn results(ours: f64, fjalls: f64) -> Results {
        let mut results = Results::new(vec![Peer::Lazurite, Peer::Fjall]);
        for (peer, figure) in [(Peer::Lazurite, ours), (Peer::Fjall, fjalls)] {
            let figures = [("per_s".to_owned(), figure), ("t_ms".to_owned(), figure)].into();
            let findings = Findings {
                figures,
                ..Findings::default()
            };
            results.add(peer, W::Scan, findings);
        }
        results
    }

    fn word_of(name: &'static str, must: Must, results: &Results) -> &'static str {
        Verdict::of(&Bar(W::Scan, name, "", must), results).word
    }

    #[test]
    fn a_bar_is_met_at_its_figure_and_not_judged_without_the_peer() {
        let results = results(30.0, 20.0);
        assert_eq!(word_of("per_s", Times(1.5, More, LSM), &results), "met");
        assert_eq!(word_of("per_s", Times(1.6, More, LSM), &results), "MISSED");
        assert_eq!(word_of("t_ms", Times(1.5, Less, FJALL), &results), "met");
        assert_eq!(word_of("t_ms", Times(0.3, Less, FJALL), &results), "MISSED");
        assert_eq!(word_of("per_s", Times(0.1, More, ROCKSDB), &results), "-");
        assert_eq!(word_of("per_s", AtMost(29.0), &results), "MISSED");
        assert_eq!(word_of("t_ms", TimesOwn(1.0, "per_s"), &results), "met");
    }

    #[test]
    fn every_bar_names_peers_that_there_are() {
        let known = ["lazurite", "fjall", "redb", "rocksdb"];
        for Bar(.., must) in BARS {
            if let Times(_, _, peers) | TimesOf(_, peers, _) = must {
                assert!(peers.iter().all(|peer| known.contains(peer)));
            }
        }
    }
}
