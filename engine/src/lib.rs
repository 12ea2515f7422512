//! A log-structured key-value store.
//!
//! A [`Db`] is a directory with named [`Keyspace`]s: ordered maps from byte keys to byte values,
//! each an LSM tree of its own. All share one write-ahead log, so a [`Batch`] over several
//! keyspaces is atomic, and one sync serves all writers.
//!
//! - A write appends the batch to the log, applies it to the memtables and is then visible. Its
//!   [`Ticket`] completes when it has reached the durability level of the store.
//! - Full memtables become SSTables of level 0; compaction merges them downwards. A manifest lists
//!   the live files.
//! - Large values are streamed into the value log by a [`ValueWriter`] and read in parts by a
//!   [`ValueReader`].
//! - A [`Snapshot`] shows the store as of one moment; a [`Scan`] walks a [`KeyRange`] of the
//!   snapshot in either direction.
//! - Files and time come only from [`fs::Fs`] and [`fs::Clock`], and background work can be
//!   stepped. So tests can cut the power at every call, fail any call, and replay a run from its
//!   seed.
//!
//! Every byte on disk is described in `FORMAT.md`.

mod base;
mod catalog;
mod db;
mod dump;
mod format;
pub mod fs;
mod snapshot;
mod stats;
#[cfg(test)]
mod tests;
mod transaction;
mod tree;
mod values;
mod verify;
mod work;
mod write;

pub use base::config::{
    BATCH_BYTES_MAX, Background, Compression, Config, Durability, KEY_BYTES_MAX, KeyspaceOptions,
};
pub use base::error::{Error, Result};
pub use base::escape;
pub use base::range::{Direction, KeyRange};
pub use base::varint;
pub use catalog::closed::{clear_store, copy_store, remove_store};
pub use catalog::recovered::{CutOff, CutReason, Recovered};
pub use catalog::recovery::foreign_file;
pub use db::{Admission, Db};
pub use dump::dump_file;
pub use fs::environment::Environment;
pub use fs::ids::{IdSource, RandomIds};
#[cfg(any(test, feature = "testing"))]
pub use fs::testing::{Choices, CountingIds, test_seeds};
pub use snapshot::{Scan, Snapshot};
pub use stats::Stats;
pub use transaction::Transaction;
pub use tree::keyspace::Keyspace;
pub use values::{LargeValue, UnwrittenChunk, ValueReader, ValueWriter, WrittenChunk};
pub use verify::Verified;
#[cfg(any(test, feature = "testing"))]
pub use work::job::Job;
pub use write::batch::Batch;
pub use write::ticket::Ticket;
