//! The table of the workloads, and for each service the loads of which they consist.

mod blob;
mod blob_loads;
mod history;
mod list;
mod queue;
mod queue_loads;
mod synced;
mod table;
mod table_loads;

use std::ptr;

use lazurite_bench_common::Outcome;

use crate::client::Service::{self, Blob, Queue, Table};
use crate::services::bench::Bench;

/// A workload. Its row in [`WORKLOADS`] is all that a new one needs.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) service: Service,
    pub(super) run: fn(&mut Bench) -> Outcome<()>,
}

#[rustfmt::skip]
pub(super) static WORKLOADS: &[Workload] = &[
    row("table-insert", Table, table::insert, "Entities of a kibibyte inserted"),
    row("table-upsert", Table, table::upsert, "Entities replaced, or inserted where there was none"),
    row("table-merge", Table, table::merge, "Two properties of entities changed"),
    row("table-get", Table, table::get, "Entities read by their keys"),
    row("table-range", Table, table::range, "A hundred entities of a partition by a range of keys"),
    row("table-scan", Table, table::scan, "A partition of 10,000 entities, filtered by a property"),
    row("table-row-key", Table, table::row_key, "Entities of ten partitions by RowKey alone"),
    row("table-transaction", Table, table::transaction, "Transactions of a hundred inserts"),
    row("table-partitions", Table, table::partitions, "100,000 upserts, each into a partition of its own"),
    row("table-deep", Table, table::deep, "The same operations with 10 thousand, a million and 10 million entities stored; a restart with the latter"),
    row("queue-put", Queue, queue::put, "Messages of a kibibyte put"),
    row("queue-cycle", Queue, queue::cycle, "A message put, got and deleted"),
    row("queue-peek", Queue, queue::peek, "The first of 10,000 messages peeked"),
    row("queue-update", Queue, queue::update, "A message of 10,000 updated"),
    row("queue-get32", Queue, queue::get_32, "Thirty-two of 10,000 messages got at once"),
    row("queue-deep", Queue, queue::deep, "Messages got and deleted with 100 to 10 million waiting, and after a million were consumed"),
    row("queue-expiry", Queue, queue::expiry, "Messages that live for a second, put into 640 queues"),
    row("blob-small", Blob, blob::small, "Blobs of 1 KiB, 4 KiB and 1 MiB put and got"),
    row("blob-synced", Blob, synced::run, "Puts of 4 KiB and inserts that are on the disk before their answer"),
    row("blob-large", Blob, blob::large, "Blobs of 64 MiB: put in blocks, got, read by ranges"),
    row("blob-append", Blob, blob::append, "Blocks of 4 KiB appended"),
    row("blob-history", Blob, blob::history, "Appends, page writes and reads with a snapshot or a copy after each: the last of 10,000 beside the first"),
    row("blob-parts", Blob, blob::parts, "A blob in 50,000 small parts got, and the same bytes put at once"),
    row("blob-pages", Blob, blob::pages, "Pages of 4 KiB written at random, alone and during reads of another blob"),
    row("blob-list", Blob, list::run, "Blobs among 10 thousand, 100 thousand and a million listed"),
    row("blob-delete", Blob, blob::delete, "Blobs among 10,000 deleted"),
    row("blob-uploads", Blob, blob::uploads, "Sixty-four uploads of 64 MiB at once, and the server's memory"),
];

const fn row(
    name: &'static str,
    service: Service,
    run: fn(&mut Bench) -> Outcome<()>,
    help: &'static str,
) -> Workload {
    Workload {
        name,
        help,
        service,
        run,
    }
}

/// The workloads that were requested by name or by service, in the order of the table; all of them
/// if none was.
pub(super) fn chosen(only: &[&Workload], services: &[Service]) -> Vec<&'static Workload> {
    let is_all = only.is_empty() && services.is_empty();
    let is_chosen = |workload: &&Workload| {
        is_all || only.contains(workload) || services.contains(&workload.service)
    };
    WORKLOADS.iter().filter(is_chosen).collect()
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        ptr::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_name_and_by_service() {
        assert_eq!(chosen(&[], &[]).len(), WORKLOADS.len());
        let put = WORKLOADS.iter().find(|known| known.name == "queue-put");
        let some = chosen(&[put.unwrap()], &[Table]);
        let has = |name| some.iter().any(|workload| workload.name == name);
        assert!(has("queue-put") && has("table-deep"));
        assert!(!has("blob-list") && !has("queue-deep"));
    }
}
