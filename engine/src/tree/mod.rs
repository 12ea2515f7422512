//! One LSM tree: memtables, SSTables, the version that lists them, and reading in order.

pub(crate) mod cache;
pub(crate) mod empty_spans;
pub(crate) mod iter;
pub(crate) mod keyspace;
pub(crate) mod live_file;
pub(crate) mod memtable;
pub(crate) mod range_tombstones;
pub(crate) mod retention;
pub(crate) mod snapshots;
pub(crate) mod sstable;
pub(crate) mod trees;
pub(crate) mod version;
