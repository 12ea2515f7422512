//! A log-structured key-value store.
//!
//! A [`Db`] is a directory. In it live named [`Keyspace`]s: ordered maps from byte keys to byte values, each an LSM tree of
//! its own, all on one write-ahead log, so that a [`Batch`] over several of them is atomic and one sync serves everyone.
//!
//! - A write appends the batch to the log, applies it to the memtables and is visible. Its [`Ticket`] completes when it has
//!   reached the durability level of the store.
//! - Full memtables become SSTables of level 0; compaction merges them downwards. A manifest lists the live files.
//! - Large values are streamed into the value log by a [`ValueWriter`] and read in parts by a [`ValueReader`].
//! - A [`Snapshot`] sees the store at one moment, for as long as it lives; a [`Scan`] walks a [`KeyRange`] of it either way.
//! - Everything outside comes through [`fs::Fs`] and [`fs::Clock`]; background work can be stepped. So tests can cut the
//!   power at every call, fail any call, and replay a run from its seed.
//!
//! Every byte on disk is described in `FORMAT.md`.

mod batch;
mod cache;
mod checkpoint;
mod codec;
mod commit;
mod compaction;
mod config;
mod db;
mod dump;
mod error;
mod files;
mod flush;
pub mod fs;
mod gaps;
mod health;
mod id;
mod iter;
mod key;
mod keyspace;
mod lock;
mod manifest;
mod memtable;
mod range_tombstones;
mod recovery;
mod replay;
mod room;
mod snapshot;
mod sstable;
mod stats;
mod store;
mod sync;
mod value_log;
mod verify;
mod version;
mod wal;
mod wal_segments;
mod wall_clock;

pub use batch::Batch;
pub use config::{
    BATCH_BYTES_MAX, Background, Config, Durability, Environment, KEY_BYTES_MAX, KeyspaceOptions,
};
pub use db::{Admission, Db, KeyRange};
pub use dump::dump_file;
pub use error::{Error, Result};
pub use id::{CountingIds, IdSource, RandomIds};
pub use iter::{Direction, Scan};
pub use keyspace::Keyspace;
pub use lock::{KeyGuard, KeyLocks};
pub use recovery::foreign_file;
pub use snapshot::Snapshot;
pub use sstable::Compression;
pub use stats::Stats;
pub use store::Job;
pub use sync::Ticket;
pub use value_log::{LargeValue, UnwrittenChunk, ValueReader, ValueWriter, WrittenChunk};
pub use verify::Verified;
pub use wall_clock::{ClockSteps, ManualWallClock, SystemWallClock, WallClock};
