//! The workloads, and the steps of which each consists. A step runs in a process of its own.

mod commits;
mod delete_range;
mod fill;
mod large;
mod open;
mod queue;
mod read;
mod scan;

use std::fmt;

use clap::ValueEnum;

use super::context::Context;
use crate::report::Outcome;

/// A workload: what is asked of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Workload {
    /// One row a commit, in the order of the keys.
    Fillseq,
    /// One row a commit, in random order; what follows reads these rows.
    Fillrandom,
    /// Rows read at random, all of them in the cache, by one thread and by two.
    Readrandom,
    /// Rows read at random, four times as many as the cache holds.
    Readcold,
    /// Keys read under which there is nothing.
    Readmissing,
    /// All rows in order.
    Readseq,
    /// A hundred rows from a random key on.
    Scan,
    /// The fifty rows whose keys share a prefix.
    Prefixscan,
    /// Rows overwritten, some far more often than others (Zipf).
    Overwrite,
    /// Rows read at random beside 20,000 writes a second.
    Readwhilewriting,
    /// Synced commits of one row by 1, 8 and 64 writers.
    Commits,
    /// Push to the tail, pop from the head, a million rows in between.
    Queue,
    /// Half of the rows deleted by range, then the first that is left looked for.
    Deleterange,
    /// Values of 64 KiB: written, read, all overwritten.
    Large64k,
    /// Values of 1 MiB: the same.
    Large1m,
    /// Opening, after a clean stop and after a kill with 450,000 rows in the log.
    Open,
}

/// One step of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Step {
    /// The rows that others read, when nobody else has written them.
    Load,
    Fillseq,
    Fillrandom,
    Readrandom,
    Readcold,
    Readmissing,
    Readseq,
    Scan,
    Prefixscan,
    Overwrite,
    Readwhilewriting,
    Commits,
    Queue,
    Deleterange,
    Large64k,
    Large1m,
    OpenLoad,
    OpenClean,
    OpenFillLog,
    OpenKilled,
}

/// In which directory a workload works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its own, removed afterwards.
    Own,
    /// The one with the rows of fillrandom, which it writes.
    Writes,
    /// The same, and the rows must be there.
    Reads,
}

impl Workload {
    pub(super) fn steps(self) -> &'static [Step] {
        match self {
            Workload::Fillseq => &[Step::Fillseq],
            Workload::Fillrandom => &[Step::Fillrandom],
            Workload::Readrandom => &[Step::Readrandom],
            Workload::Readcold => &[Step::Readcold],
            Workload::Readmissing => &[Step::Readmissing],
            Workload::Readseq => &[Step::Readseq],
            Workload::Scan => &[Step::Scan],
            Workload::Prefixscan => &[Step::Prefixscan],
            Workload::Overwrite => &[Step::Overwrite],
            Workload::Readwhilewriting => &[Step::Readwhilewriting],
            Workload::Commits => &[Step::Commits],
            Workload::Queue => &[Step::Queue],
            Workload::Deleterange => &[Step::Deleterange],
            Workload::Large64k => &[Step::Large64k],
            Workload::Large1m => &[Step::Large1m],
            Workload::Open => &[
                Step::OpenLoad,
                Step::OpenClean,
                Step::OpenFillLog,
                Step::OpenKilled,
            ],
        }
    }

    pub(super) fn place(self) -> Place {
        match self {
            Workload::Fillrandom => Place::Writes,
            Workload::Fillseq
            | Workload::Commits
            | Workload::Queue
            | Workload::Deleterange
            | Workload::Large64k
            | Workload::Large1m
            | Workload::Open => Place::Own,
            Workload::Readrandom
            | Workload::Readcold
            | Workload::Readmissing
            | Workload::Readseq
            | Workload::Scan
            | Workload::Prefixscan
            | Workload::Overwrite
            | Workload::Readwhilewriting => Place::Reads,
        }
    }
}

impl Step {
    pub(super) fn run(self, context: &Context) -> Outcome<()> {
        match self {
            Step::Load => fill::load(context),
            Step::Fillseq => fill::sequential(context),
            Step::Fillrandom => fill::random(context),
            Step::Readrandom => read::hot(context),
            Step::Readcold => read::cold(context),
            Step::Readmissing => read::missing(context),
            Step::Readseq => scan::all(context),
            Step::Scan => scan::short(context),
            Step::Prefixscan => scan::prefixes(context),
            Step::Overwrite => fill::overwrite(context),
            Step::Readwhilewriting => read::beside_writes(context),
            Step::Commits => commits::run(context),
            Step::Queue => queue::run(context),
            Step::Deleterange => delete_range::run(context),
            Step::Large64k => large::run(context, 64 << 10),
            Step::Large1m => large::run(context, 1 << 20),
            Step::OpenLoad => open::load(context),
            Step::OpenClean => open::clean(context),
            Step::OpenFillLog => open::fill_log(context),
            Step::OpenKilled => open::killed(context),
        }
    }
}

impl Step {
    /// Whether the process is killed when it has done its work.
    pub(in crate::engine) fn is_killed(self) -> bool {
        self == Step::OpenFillLog
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

/// The name on the command line.
fn name(value: &impl ValueEnum, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = value.to_possible_value().expect("no value is skipped");
    f.write_str(name.get_name())
}
