//! The table of the workloads.

mod blob;
mod blob_loads;
mod filling;
mod flights;
mod history;
mod lake;
mod list;
mod pages;
mod queue;
mod queue_loads;
mod soak;
mod space;
mod start;
mod state;
mod synced;
mod table;
mod table_loads;

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;
use crate::runner::workload::Group::{self, Blob, Queue, Server, Space, Table};
use crate::runner::workload::Workload;

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
    row("blob-history", Blob, history::run, "Appends, page writes and reads with a snapshot or a copy after each: the last of 10,000 beside the first"),
    row("blob-parts", Blob, blob::parts, "A blob in 50,000 small parts got, and the same bytes put at once"),
    row("blob-pages", Blob, blob::pages, "Pages of 4 KiB written at random, alone and during reads of another blob"),
    row("blob-list", Blob, list::run, "Blobs among 10 thousand, 100 thousand and a million listed"),
    row("blob-delete", Blob, blob::delete, "Blobs among 10,000 deleted"),
    row("blob-uploads", Blob, blob::uploads, "Sixty-four uploads of 64 MiB at once, and the server's memory"),
    row("lake", Blob, lake::run, "Files of Data Lake Storage created, written, read, listed, renamed and deleted, beside blobs"),
    row("flights", Server, flights::run, "336,776 flights as entities: loaded while the server is killed, scanned, read, filtered"),
    row("soak", Server, soak::run, "All services for ten minutes on a disk and a clock that misbehave, with a ledger of what was acknowledged"),
    row("start", Server, start::run, "The time until the server listens, beside that of a program that does nothing; its memory when idle"),
    row("state", Server, state::run, "Snapshot, fork, restore and reset of a large store beside an empty one; a thousand forks at once"),
    row("pages", Server, pages::run, "Pages of the console over a million blobs, a million entities and 100,000 messages"),
    row("space-deletion", Space, space::deletion, "The data directory after 90 % of 5 GB were deleted under load"),
    row("space-snapshot", Space, space::snapshot, "The same while a snapshot holds it, which is then deleted"),
    row("space-fork", Space, space::fork, "The same while a fork holds it, which is then released"),
    row("space-reset", Space, space::reset, "The same after a reset of the whole store"),
];

const fn row(
    name: &'static str,
    group: Group,
    run: fn(&mut Bench) -> Outcome<()>,
    help: &'static str,
) -> Workload {
    Workload {
        name,
        group,
        run,
        help,
    }
}
