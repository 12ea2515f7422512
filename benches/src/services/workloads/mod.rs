//! The workloads, and for each service the loads of which they consist.

mod blob;
mod queue;
mod table;

use std::fmt;

use clap::ValueEnum;

use super::Bench;
use crate::cli::Part;
use crate::report::Outcome;

/// A workload: what is asked of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Entities of a kibibyte, inserted one a request.
    TableInsert,
    /// The same entities, read by their keys.
    TableGet,
    /// Messages of 256 bytes put.
    QueuePut,
    /// Blobs of 4 KiB put, and got.
    BlobSmall,
}

/// Connections of workloads that show how a service takes more of them.
const CONNECTIONS: &[usize] = &[1, 16, 64];

/// What was asked for by name or by service, in our order; everything if nothing was.
pub(super) fn chosen(only: &[Workload], services: &[Part]) -> Vec<Workload> {
    let all = Workload::value_variants().iter().copied();
    let is_chosen = |workload: &Workload| match (only, services) {
        ([], []) => true,
        _ => only.contains(workload) || services.contains(&workload.service()),
    };
    all.filter(is_chosen).collect()
}

impl Workload {
    pub(super) fn run(self, bench: &mut Bench) -> Outcome<()> {
        match self {
            Workload::TableInsert => table::insert(bench),
            Workload::TableGet => table::get(bench),
            Workload::QueuePut => queue::put(bench),
            Workload::BlobSmall => blob::small(bench),
        }
    }

    fn service(self) -> Part {
        match self {
            Workload::TableInsert | Workload::TableGet => Part::Table,
            Workload::QueuePut => Part::Queue,
            Workload::BlobSmall => Part::Blob,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().expect("no value is skipped");
        f.pad(name.get_name())
    }
}
