//! The bars of our server: the figures that it must reach, mostly as a multiple of another server's
//! figure in the same run.

use lazurite_bench_common::bars::Expectation::{AtLeast, AtMost, TimesAtLeast, TimesAtMost};
use lazurite_bench_common::bars::Reference::{self, OwnCase, Peers};
use lazurite_bench_common::bars::{Bar, bar};

const AZURITE: Reference = Peers(&["azurite"]);
const DISK: Reference = Peers(&["disk"]);

#[rustfmt::skip]
pub(super) const BARS: &[Bar] = &[
    bar("table insert @16", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table insert @64", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table upsert @16", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table upsert @64", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table merge @16", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table merge @64", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table get @16", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table get @64", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("table range of 100 @16", "per_s", TimesAtLeast(12.0, AZURITE)),
    bar("table RowKey eq @1", "per_s", TimesAtLeast(0.2, OwnCase("table get in ten partitions @1"))),
    bar("table RowKey lt @1", "per_s", TimesAtLeast(0.2, OwnCase("table get in ten partitions @1"))),
    bar("table transaction, entities @16", "per_s", TimesAtLeast(8.0, AZURITE)),
    bar("table transaction, entities @16", "per_s", AtLeast(80_000.0)),
    bar("table filtered scan, rows @1", "per_s", TimesAtLeast(1.0, AZURITE)),
    bar("table one row a partition @16", "seconds", AtMost(5.0)),
    bar("table insert among 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("table insert among 10k @16"))),
    bar("table upsert among 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("table upsert among 10k @16"))),
    bar("table merge among 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("table merge among 10k @16"))),
    bar("table get among 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("table get among 10k @16"))),
    bar("table range of 100 among 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("table range of 100 among 10k @16"))),
    bar("table with 10M", "rss_mb", AtMost(300.0)),
    bar("table with 10M", "ready_ms", AtMost(1000.0)),
    bar("queue put @64", "per_s", TimesAtLeast(35.0, AZURITE)),
    bar("queue put, get, delete @16", "per_s", TimesAtLeast(18.0, AZURITE)),
    bar("queue get, delete of 10k @16", "per_s", TimesAtLeast(1000.0, AZURITE)),
    bar("queue get, delete of 10k @16", "per_s", TimesAtLeast(0.8, OwnCase("queue get, delete of 100 @16"))),
    bar("queue get, delete of 1M @16", "per_s", TimesAtLeast(0.8, OwnCase("queue get, delete of 100 @16"))),
    bar("queue get, delete of 10M @16", "per_s", TimesAtLeast(0.8, OwnCase("queue get, delete of 100 @16"))),
    bar("queue get, delete after 1M @16", "per_s", TimesAtLeast(0.8, OwnCase("queue get, delete of 100 @16"))),
    bar("queue get, delete of 100 @16", "p99_us", AtMost(1000.0)),
    bar("queue get, delete of 10k @16", "p99_us", AtMost(1000.0)),
    bar("queue get, delete of 1M @16", "p99_us", AtMost(1000.0)),
    bar("queue get, delete of 10M @16", "p99_us", AtMost(1000.0)),
    bar("queue get, delete after 1M @16", "p99_us", AtMost(1000.0)),
    bar("queue get 32 of 10k @16", "per_s", TimesAtLeast(500.0, AZURITE)),
    bar("queue with 10M", "rss_mb", AtMost(200.0)),
    bar("queue rows of expired messages", "rows_left", AtMost(0.0)),
    bar("blob put 4 KiB @64", "per_s", TimesAtLeast(35.0, AZURITE)),
    bar("blob get 4 KiB @64", "per_s", TimesAtLeast(25.0, AZURITE)),
    bar("synced table insert @1", "p50_us", TimesAtMost(1.5, DISK)),
    bar("synced blob put 1 KiB @1", "p50_us", TimesAtMost(1.2, OwnCase("synced table insert @1"))),
    bar("synced blob put 4 KiB @1", "p50_us", TimesAtMost(1.2, OwnCase("synced table insert @1"))),
    bar("synced blob put 16 KiB @1", "p50_us", TimesAtMost(1.2, OwnCase("synced table insert @1"))),
    bar("synced blob put 4 KiB @16", "per_s", TimesAtLeast(0.8, OwnCase("synced table insert @16"))),
    bar("blob put in blocks, MiB @4", "per_s", TimesAtLeast(10.0, AZURITE)),
    bar("blob put in blocks, MiB @4", "per_s", TimesAtLeast(0.7, DISK)),
    bar("blob append 4 KiB @16", "per_s", TimesAtLeast(20.0, AZURITE)),
    bar("blob get 25 MB appends @1", "per_s", TimesAtLeast(0.33, OwnCase("blob get 25 MB flat @1"))),
    bar("blob get 25 MB blocks @1", "per_s", TimesAtLeast(0.33, OwnCase("blob get 25 MB flat @1"))),
    bar("blob get 25 MB pages @1", "per_s", TimesAtLeast(0.33, OwnCase("blob get 25 MB flat @1"))),
    // The work is bound by the processor. With one connection, server and client already keep more
    // than one core busy. So on two cores, 64 connections cannot double the rate.
    bar("blob page write 4 KiB @64", "per_s", TimesAtLeast(1.5, OwnCase("blob page write 4 KiB @1"))),
    bar("blob page write during reads @65", "per_s", TimesAtLeast(0.5, OwnCase("blob page write 4 KiB @64"))),
    bar("blob history of snapshots", "append_last_by_first", AtMost(1.5)),
    bar("blob history of snapshots", "page_last_by_first", AtMost(1.5)),
    bar("blob history of snapshots", "read_last_by_first", AtMost(1.5)),
    bar("blob history of copies", "append_last_by_first", AtMost(1.5)),
    bar("blob history of copies", "page_last_by_first", AtMost(1.5)),
    bar("blob history of copies", "read_last_by_first", AtMost(1.5)),
    bar("blob list 5000 of 10k @4", "per_s", TimesAtLeast(50.0, AZURITE)),
    bar("blob list 100 by prefix of 10k @4", "per_s", TimesAtLeast(40.0, AZURITE)),
    bar("blob list by delimiter of 10k @4", "per_s", TimesAtLeast(100.0, AZURITE)),
    bar("blob list 5000 of 1M @4", "per_s", TimesAtLeast(0.8, OwnCase("blob list 5000 of 10k @4"))),
    bar("blob list 100 by prefix of 1M @4", "per_s", TimesAtLeast(0.8, OwnCase("blob list 100 by prefix of 10k @4"))),
    bar("blob list by delimiter of 1M @4", "per_s", TimesAtLeast(0.8, OwnCase("blob list by delimiter of 10k @4"))),
    bar("blob delete of 10k @16", "per_s", TimesAtLeast(500.0, AZURITE)),
    bar("blob 64 uploads at once", "peak_mb", AtMost(200.0)),
    bar("start: ready", "p50_ms", AtMost(100.0)),
    bar("start: idle", "rss_mb", AtMost(40.0)),
    bar("state: any operation", "max_ms", AtMost(50.0)),
    bar("state: any operation", "disk_mb", AtMost(20.0)),
    bar("pages: slowest page", "first_ms", AtMost(50.0)),
    // A search examines everything. A search in a queue stops after a second and reports its
    // progress.
    bar("pages: slowest search", "first_ms", AtMost(1000.0)),
    bar("pages: longest", "kib", AtMost(150.0)),
    bar("space-deletion: deleted", "seconds", AtMost(60.0)),
    bar("space-snapshot: deleted, still held", "seconds", AtMost(60.0)),
    bar("space-snapshot: nothing held", "seconds", AtMost(60.0)),
    bar("space-fork: deleted, still held", "seconds", AtMost(60.0)),
    bar("space-fork: nothing held", "seconds", AtMost(60.0)),
    bar("space-reset: reset", "seconds", AtMost(60.0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_bars_are_alike() {
        let of = |bar: &Bar| match bar.expectation {
            TimesAtLeast(_, reference) | TimesAtMost(_, reference) => {
                (bar.case, bar.figure, reference.name())
            }
            AtLeast(_) | AtMost(_) => (bar.case, bar.figure, String::new()),
        };
        let mut all: Vec<_> = BARS.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), BARS.len());
    }
}
