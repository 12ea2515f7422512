//! The workloads, and for each service the loads of which they consist.

mod blob;
mod blob_loads;
mod list;
mod queue;
mod queue_loads;
mod table;
mod table_loads;

use std::fmt;

use clap::ValueEnum;

use super::Bench;
use crate::cli::Part;
use crate::report::Outcome;

/// A workload: what is asked of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Entities of a kibibyte inserted.
    TableInsert,
    /// Entities replaced, or inserted where there was none.
    TableUpsert,
    /// Two properties of entities changed.
    TableMerge,
    /// Entities read by their keys.
    TableGet,
    /// A hundred entities of a partition by a range of keys.
    TableRange,
    /// A partition of 10,000 entities, filtered by a property.
    TableScan,
    /// Entities of ten partitions by RowKey alone.
    TableRowKey,
    /// Transactions of a hundred inserts.
    TableTransaction,
    /// 100,000 upserts, each into a partition of its own.
    TablePartitions,
    /// The same operations with 10 thousand, a million and 10 million entities stored; a restart with the latter.
    TableDeep,
    /// Messages of a kibibyte put.
    QueuePut,
    /// A message put, got and deleted.
    QueueCycle,
    /// The first of 10,000 messages seen.
    QueuePeek,
    /// A message of 10,000 updated.
    QueueUpdate,
    /// Thirty-two of 10,000 messages got at once.
    QueueGet32,
    /// Messages got and deleted with 100 to 10 million waiting, and after a million were consumed.
    QueueDeep,
    /// Messages that live for a second, put into 640 queues.
    QueueExpiry,
    /// Blobs of 1 KiB, 4 KiB and 1 MiB put and got.
    BlobSmall,
    /// Blobs of 64 MiB: put in blocks, got, read by ranges.
    BlobLarge,
    /// Blocks of 4 KiB appended.
    BlobAppend,
    /// Blocks of 1 KiB appended, with a snapshot after each.
    BlobHistory,
    /// A blob in 50,000 small parts got, beside the same bytes put at once.
    BlobParts,
    /// Pages of 4 KiB written at random, alone and beside a reader of another blob.
    BlobPages,
    /// Blobs among 10 thousand, 100 thousand and a million listed.
    BlobList,
    /// Blobs among 10,000 deleted.
    BlobDelete,
    /// Sixty-four uploads of 64 MiB at once, and the memory that they take.
    BlobUploads,
}

/// What was asked for by name or by service, in our order; everything if nothing was.
pub(super) fn chosen(only: &[Workload], services: &[Part]) -> Vec<Workload> {
    let all = Workload::value_variants().iter().copied();
    let is_chosen = |workload: &Workload| match (only, services) {
        ([], []) => true,
        _ => only.contains(workload) || services.contains(&workload.service()),
    };
    all.filter(is_chosen).collect()
}

/// How much is stored where that is what matters, and what it is called whatever the scale.
const DEPTHS: [(&str, f64); 3] = [("10k", 1e4), ("1M", 1e6), ("10M", 1e7)];

/// How much is stored at this scale where that is what matters. The first depth shrinks late, see [`Bench::scaled_small`].
fn depth(bench: &Bench, full: f64, least: u64) -> u64 {
    match full <= 1e4 {
        true => bench.scaled_small(full, least),
        false => bench.scaled(full, least),
    }
}

impl Workload {
    pub(super) fn run(self, bench: &mut Bench) -> Outcome<()> {
        match self {
            Workload::TableInsert => table::insert(bench),
            Workload::TableUpsert => table::upsert(bench),
            Workload::TableMerge => table::merge(bench),
            Workload::TableGet => table::get(bench),
            Workload::TableRange => table::range(bench),
            Workload::TableScan => table::scan(bench),
            Workload::TableRowKey => table::row_key(bench),
            Workload::TableTransaction => table::transaction(bench),
            Workload::TablePartitions => table::partitions(bench),
            Workload::TableDeep => table::deep(bench),
            Workload::QueuePut => queue::put(bench),
            Workload::QueueCycle => queue::cycle(bench),
            Workload::QueuePeek => queue::peek(bench),
            Workload::QueueUpdate => queue::update(bench),
            Workload::QueueGet32 => queue::get_32(bench),
            Workload::QueueDeep => queue::deep(bench),
            Workload::QueueExpiry => queue::expiry(bench),
            Workload::BlobSmall => blob::small(bench),
            Workload::BlobLarge => blob::large(bench),
            Workload::BlobAppend => blob::append(bench),
            Workload::BlobHistory => blob::history(bench),
            Workload::BlobParts => blob::parts(bench),
            Workload::BlobPages => blob::pages(bench),
            Workload::BlobList => list::run(bench),
            Workload::BlobDelete => blob::delete(bench),
            Workload::BlobUploads => blob::uploads(bench),
        }
    }

    fn service(self) -> Part {
        match self {
            Workload::TableInsert
            | Workload::TableUpsert
            | Workload::TableMerge
            | Workload::TableGet
            | Workload::TableRange
            | Workload::TableScan
            | Workload::TableRowKey
            | Workload::TableTransaction
            | Workload::TablePartitions
            | Workload::TableDeep => Part::Table,
            Workload::QueuePut
            | Workload::QueueCycle
            | Workload::QueuePeek
            | Workload::QueueUpdate
            | Workload::QueueGet32
            | Workload::QueueDeep
            | Workload::QueueExpiry => Part::Queue,
            Workload::BlobSmall
            | Workload::BlobLarge
            | Workload::BlobAppend
            | Workload::BlobHistory
            | Workload::BlobParts
            | Workload::BlobPages
            | Workload::BlobList
            | Workload::BlobDelete
            | Workload::BlobUploads => Part::Blob,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().expect("no value is skipped");
        f.pad(name.get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_name_and_by_service() {
        assert_eq!(chosen(&[], &[]).len(), Workload::value_variants().len());
        let some = chosen(&[Workload::QueuePut], &[Part::Table]);
        assert!(some.contains(&Workload::QueuePut) && some.contains(&Workload::TableDeep));
        assert!(!some.contains(&Workload::BlobList) && !some.contains(&Workload::QueueDeep));
    }
}
