//! The bars of our engine: mostly multiples of the best figure of some peers in the same run.

use lazurite_bench_common::bars::Bar;
use lazurite_bench_common::bars::Expectation::{self, AtMost, TimesAtLeast, TimesAtMost};
use lazurite_bench_common::bars::Reference::{FigureOfPeers, OwnFigure, Peers};

const LSM: &[&str] = &["fjall", "rocksdb"];
const ROCKSDB: &[&str] = &["rocksdb"];
const FJALL: &[&str] = &["fjall"];
/// The factor that counts as equal: a difference of 5 % may be noise of the machine.
const LEVEL: f64 = 0.95;

const fn bar(
    case: &'static str,
    figure: &'static str,
    label: &'static str,
    expectation: Expectation,
) -> Bar {
    Bar {
        case,
        figure,
        label,
        expectation,
    }
}

#[rustfmt::skip]
pub(crate) const BARS: &[Bar] = &[
    bar("fillrandom", "per_s", "fillrandom, puts/s", TimesAtLeast(1.5, Peers(LSM))),
    bar("fillrandom", "write_amplification", "... write amplification", AtMost(2.2)),
    bar("fillrandom", "space", "... space / logical, idle", AtMost(0.65)),
    bar("fillrandom", "worst_us", "... worst put, us", AtMost(5000.0)),
    bar("fillrandom", "cpu_us", "... CPU us/put, all threads", AtMost(4.0)),
    bar("overwrite", "per_s", "overwrite (Zipf), puts/s", TimesAtLeast(1.3, Peers(LSM))),
    bar("commits", "w1_per_s", "synced commits/s, 1 waiting", TimesAtLeast(1.5, Peers(ROCKSDB))),
    bar("commits", "w8_per_s", "... 8 waiting", TimesAtLeast(2.0, Peers(ROCKSDB))),
    bar("commits", "tickets_per_s", "... 64 waiting, awaited", TimesAtLeast(2.0, FigureOfPeers(ROCKSDB, "w64_per_s"))),
    bar("commits", "tickets_p99_us", "... p99 us of these", AtMost(4000.0)),
    bar("commits", "w64_per_s", "... 64 waiting, threads", TimesAtLeast(2.0, Peers(ROCKSDB))),
    bar("commits", "w64_p99_us", "... p99 us of these", AtMost(4000.0)),
    bar("readrandom", "t1_per_s", "readrandom hot, gets/s", TimesAtLeast(1.3, Peers(LSM))),
    bar("readrandom", "t2_per_s", "... 2 threads", TimesAtLeast(1.9, OwnFigure("t1_per_s"))),
    bar("readmissing", "per_s", "readmissing, gets/s", TimesAtLeast(LEVEL, Peers(FJALL))),
    bar("scan", "per_s", "scans of 100, scans/s", TimesAtLeast(1.5, Peers(ROCKSDB))),
    bar("prefixscan", "per_s", "prefix scans of 50, scans/s", TimesAtLeast(2.0, Peers(ROCKSDB))),
    bar("readseq", "per_s", "readseq, rows/s", TimesAtLeast(1.0, Peers(ROCKSDB))),
    bar("readwhilewriting", "p99_us", "read p99 us during 20,000 writes/s", AtMost(10.0)),
    bar("queue", "per_s", "queue, push and pop pairs/s", TimesAtLeast(50.0, Peers(ROCKSDB))),
    bar("queue", "spread", "... slowest tenth / fastest", AtMost(1.5)),
    bar("queue", "p99_us", "... pop p99 us", AtMost(30.0)),
    bar("deleterange", "delete_ms", "delete of a million rows by range, ms", AtMost(1.0)),
    bar("deleterange", "first_ms", "... first row after it, ms", AtMost(0.1)),
    bar("deleterange", "first_idle_ms", "... the same, idle, ms", AtMost(0.1)),
    bar("large64k", "write_mb_s", "64 KiB values, write MB/s", TimesAtLeast(1.5, Peers(FJALL))),
    bar("large64k", "write_amplification", "... write amplification", AtMost(1.1)),
    bar("large64k", "read_mb_s", "... read MB/s", TimesAtLeast(1.3, Peers(LSM))),
    bar("large64k", "overwrite_space", "... space / logical after overwriting", AtMost(1.25)),
    bar("large1m", "write_mb_s", "1 MiB values, write MB/s", TimesAtLeast(1.5, Peers(FJALL))),
    bar("large1m", "write_amplification", "... write amplification", AtMost(1.1)),
    bar("large1m", "read_mb_s", "... read MB/s", TimesAtLeast(1.3, Peers(LSM))),
    bar("large1m", "overwrite_space", "... space / logical after overwriting", AtMost(1.25)),
    bar("open", "clean_ms", "open after a clean stop, ms", AtMost(10.0)),
    bar("open", "killed_ms", "open after a kill, ms", TimesAtMost(1.0 / 3.0, Peers(ROCKSDB))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::WORKLOADS;

    #[test]
    fn every_bar_names_a_workload_and_known_peers() {
        for bar in BARS {
            assert!(WORKLOADS.iter().any(|workload| workload.name == bar.case));
            if let TimesAtLeast(_, reference) | TimesAtMost(_, reference) = bar.expectation
                && let Peers(peers) | FigureOfPeers(peers, _) = reference
            {
                assert!(
                    peers
                        .iter()
                        .all(|peer| ["fjall", "redb", "rocksdb"].contains(peer))
                );
            }
        }
    }
}
