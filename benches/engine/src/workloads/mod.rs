//! The table of the workloads, and the steps of each. Each step runs in a separate process.

mod commits;
mod delete_range;
mod fill;
mod large;
mod locked;
mod open;
mod queue;
mod read;
mod scan;
mod sustained;
mod ycsb;

use std::ptr;

use lazurite_bench_common::Outcome;

use crate::context::Context;

/// A workload. Its row in [`WORKLOADS`] and its lines in the tables are all that a new one needs.
pub(crate) struct Workload {
    /// The name on the command line, and the case of the results.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) store: Store,
    pub(crate) steps: &'static [Step],
}

/// One step of a workload.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Whether the process is killed at the end of the step, which then never returns.
    pub(crate) is_killed: bool,
    pub(crate) run: fn(&Context) -> Outcome<()>,
}

/// The store that a workload runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A new store, removed afterwards.
    Own,
    /// The shared store, which this workload fills.
    Filled,
    /// The shared store, filled by [`LOAD`] if no workload has done it.
    Shared,
}

use Store::{Filled, Own, Shared};

/// The step that fills the shared store.
pub(crate) const LOAD: &Step = &step("load", fill::load);

#[rustfmt::skip]
pub(crate) static WORKLOADS: &[Workload] = &[
    Workload {
        name: "fillseq", help: "One row a commit, in the order of the keys", store: Own,
        steps: &[step("fillseq", fill::sequential)],
    },
    Workload {
        name: "fillrandom", help: "One row a commit, in random order; fills the shared store", store: Filled,
        steps: &[step("fillrandom", fill::random)],
    },
    Workload {
        name: "readrandom", help: "Rows read at random, all of them in the cache, by one thread and by two", store: Shared,
        steps: &[step("readrandom", read::hot)],
    },
    Workload {
        name: "readcold", help: "Rows read at random, four times as many as the cache holds", store: Shared,
        steps: &[step("readcold", read::cold)],
    },
    Workload {
        name: "readmissing", help: "Reads of keys that do not exist", store: Shared,
        steps: &[step("readmissing", read::missing)],
    },
    Workload {
        name: "readseq", help: "All rows in order", store: Shared,
        steps: &[step("readseq", scan::all)],
    },
    Workload {
        name: "scan", help: "A hundred rows from a random key on", store: Shared,
        steps: &[step("scan", scan::short)],
    },
    Workload {
        name: "prefixscan", help: "The fifty rows whose keys share a prefix", store: Shared,
        steps: &[step("prefixscan", scan::prefixes)],
    },
    Workload {
        name: "overwrite", help: "Rows overwritten, some far more often than others (Zipf)", store: Shared,
        steps: &[step("overwrite", fill::overwrite)],
    },
    Workload {
        name: "sustained", help: "Two writers of small rows that never pause", store: Own,
        steps: &[step("sustained", sustained::small)],
    },
    Workload {
        name: "sustained-large", help: "Two writers that overwrite values of 48 KiB and never pause", store: Own,
        steps: &[step("sustained-large", sustained::large)],
    },
    Workload {
        name: "readwhilewriting", help: "Rows read at random during 20,000 writes a second", store: Shared,
        steps: &[step("readwhilewriting", read::beside_writes)],
    },
    Workload {
        name: "ycsb-a", help: "Half reads, half updates, some rows far more often than others (Zipf)", store: Shared,
        steps: &[step("ycsb-a", ycsb::a)],
    },
    Workload {
        name: "ycsb-b", help: "95 reads to 5 updates", store: Shared,
        steps: &[step("ycsb-b", ycsb::b)],
    },
    Workload {
        name: "ycsb-c", help: "Reads only", store: Shared,
        steps: &[step("ycsb-c", ycsb::c)],
    },
    Workload {
        name: "ycsb-d", help: "95 reads, mostly of the latest rows, to 5 inserts", store: Shared,
        steps: &[step("ycsb-d", ycsb::d)],
    },
    Workload {
        name: "ycsb-e", help: "95 scans of up to 100 rows to 5 inserts", store: Shared,
        steps: &[step("ycsb-e", ycsb::e)],
    },
    Workload {
        name: "ycsb-f", help: "Half reads, half reads that are followed by an update of the row", store: Shared,
        steps: &[step("ycsb-f", ycsb::f)],
    },
    Workload {
        name: "commits", help: "Synced commits of one row by 1, 8 and 64 writers", store: Own,
        steps: &[step("commits", commits::run)],
    },
    Workload {
        name: "locked", help: "One row a commit, not synced: without a lock, and with one key or three locked", store: Own,
        steps: &[step("locked", locked::run)],
    },
    Workload {
        name: "queue", help: "Push to the tail, pop from the head, a million rows in between", store: Own,
        steps: &[step("queue", queue::run)],
    },
    Workload {
        name: "deleterange", help: "Half of the rows deleted by range, then the first remaining row sought", store: Own,
        steps: &[step("deleterange", delete_range::run)],
    },
    Workload {
        name: "large64k", help: "Values of 64 KiB: written, read, all overwritten", store: Own,
        steps: &[step("large64k", large::of_64_kib)],
    },
    Workload {
        name: "large1m", help: "Values of 1 MiB: the same", store: Own,
        steps: &[step("large1m", large::of_1_mib)],
    },
    Workload {
        name: "streamed", help: "Values of 1 MiB that arrive in pieces", store: Own,
        steps: &[step("streamed", large::streamed)],
    },
    Workload {
        name: "open", help: "Opening, after a clean stop and after a kill with 450,000 rows in the log", store: Own,
        steps: &[
            step("open-load", open::load),
            step("open-clean", open::clean),
            Step { is_killed: true, ..step("open-fill-log", open::fill_log) },
            step("open-killed", open::killed),
        ],
    },
];

const fn step(name: &'static str, run: fn(&Context) -> Outcome<()>) -> Step {
    Step {
        name,
        is_killed: false,
        run,
    }
}

/// Every step that there is.
pub(crate) fn steps() -> impl Iterator<Item = &'static Step> {
    let of_workloads = WORKLOADS.iter().flat_map(|workload| workload.steps);
    of_workloads.chain([LOAD])
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        ptr::eq(self, other)
    }
}
