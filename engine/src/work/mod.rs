//! Background work: scheduling, flushes, compactions, collection, pacing of writers.
//!
//! Locks are taken in this order: `compacting`, then `flushing`, then `removing`, then the log of
//! `write/commit.rs`, then the segments of the value log, then the manifest, then the list of
//! trees, then the view of one tree. Readers hold none of them during I/O.

mod collect;
mod compaction;
mod flush;
pub(crate) mod job;
mod pace;
mod pacing;
mod scheduler;
pub(crate) mod signal;
mod throttle;

use crate::base::fair_mutex::FairMutex;
use crate::base::health::Health;
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::catalog::parts::Parts;
use crate::tree::keyspace::Tree;
use crate::{Durability, Error, Result};
use compaction::picker;
use job::{JOBS, Job};
use pace::Pace;
use signal::Signal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use throttle::Throttle;

/// How long a thread waits before it repeats work that failed for lack of space, or checks the time
/// again.
const RETRY: Duration = Duration::from_millis(1000);

/// The background work of an open store.
#[derive(Debug)]
pub(crate) struct Work {
    parts: Arc<Parts>,
    flushing: FairMutex,
    compacting: FairMutex,
    /// Held while files that the manifest listed are removed, except log segments, which flushes
    /// remove.
    removing: Mutex<()>,
    compactions: AtomicUsize,
    counters: Counters,
    /// For each [`Job`], the lack of space or of file handles that made it fail, until it succeeds.
    shortages: Mutex<[Option<Error>; JOBS]>,
    signal: Arc<Signal>,
    pace: Mutex<Pace>,
    throttle: Mutex<Throttle>,
    /// How full the fullest level below level 0 is, in thousandths; 0 if none is over its limit.
    fullness_below: AtomicU64,
    /// Whether writers are slowed down.
    is_throttled: AtomicBool,
    /// The queue of the writers that are slowed down. The first one holds it and waits.
    waiting: FairMutex,
    /// The highest number of an SSTable that was there when the store was opened.
    inherited_through: u64,
    /// The time from which a segment may be rewritten for little garbage while writes go on.
    next_rewrite: Mutex<Duration>,
}

/// Counters of background work since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
}

impl Work {
    /// Creates the background work of a store. `signal` is the one that the parts wake.
    pub(crate) fn new(parts: Arc<Parts>, signal: Arc<Signal>) -> Work {
        Work {
            inherited_through: last_sstable(&parts),
            parts,
            flushing: FairMutex::default(),
            compacting: FairMutex::default(),
            removing: Mutex::default(),
            compactions: AtomicUsize::new(0),
            counters: Counters::default(),
            shortages: Mutex::default(),
            signal,
            pace: Mutex::default(),
            throttle: Mutex::default(),
            fullness_below: AtomicU64::new(0),
            is_throttled: AtomicBool::new(false),
            waiting: FairMutex::default(),
            next_rewrite: Mutex::default(),
        }
    }

    pub(crate) fn health(&self) -> &Health {
        &self.parts.health
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Refuses writes, and makes the background threads end.
    pub(crate) fn close(&self) {
        self.parts.health.close();
        self.notify();
        self.parts.log.sync().close();
    }

    /// Waits for jobs that callers of the store run themselves. None of them begins to change files
    /// after the close.
    pub(crate) fn await_jobs(&self) {
        let _compacting = self.compacting.lock();
        let _flushing = self.flushing.lock();
    }

    pub(crate) fn notify(&self) {
        self.signal.notify();
    }

    /// Makes a checkpoint in the directory at `path`, for a store of this durability. Flushes wait
    /// meanwhile; a compaction may run but removes no file.
    pub(crate) fn checkpoint(&self, path: &Path, durability: Durability) -> Result<()> {
        let target = self.parts.checkpoint_target(path, durability)?;
        // `compacting` is not locked, because a merge may take seconds.
        let _flushing = self.flushing.lock();
        let _removing = lock(&self.removing);
        let flushed = self.flush_without_log()?;
        self.parts.checkpoint(&target, flushed)
    }

    /// Flushes a store that has no log, and returns the last sequence number of the batches that
    /// its SSTables hold whole. `None` for a store with a log, which needs no flush.
    ///
    /// The caller must hold `flushing`, because a memtable that is sealed later, and flushed before
    /// the checkpoint, would put a part of a batch into the copy. It must hold `removing`, because
    /// the copy does not know the new places of values that are moved.
    fn flush_without_log(&self) -> Result<Option<SequenceNumber>> {
        if !self.parts.is_in_memory() {
            return Ok(None);
        }
        let last = self.parts.log.seal_all();
        while self.is_unflushed(last) {
            self.note(Job::Flush, self.flush_one())?;
        }
        Ok(Some(last))
    }

    /// Whether a sealed memtable has a change numbered `last` or lower.
    pub(crate) fn is_unflushed(&self, last: SequenceNumber) -> bool {
        let trees = self.parts.trees.all();
        trees.iter().any(|tree| tree.is_unflushed(last))
    }

    /// Removes the SSTables that no version and no reader needs any more.
    fn remove_obsolete(&self) {
        let _removing = lock(&self.removing);
        self.parts.cache.remove_obsolete();
    }

    pub(crate) fn signals(&self) -> u64 {
        self.signal.round()
    }

    /// Updates figures that depend on the versions, and requests a collection. Call it after every
    /// change of versions.
    pub(crate) fn note_versions(&self) {
        self.parts.trees.count_level0();
        let fullness =
            |tree: &Arc<Tree>| picker::fullness_below(&tree.view().version, &self.parts.config);
        let fullest = self.parts.trees.all().iter().map(fullness).max();
        let fullest = u64::try_from(fullest.unwrap_or(0)).unwrap_or(u64::MAX);
        self.fullness_below.store(fullest, Ordering::Relaxed);
        self.parts.value_log.request_collection();
    }
}

/// The highest number of an SSTable that a version lists; 0 if there is none.
fn last_sstable(parts: &Parts) -> u64 {
    let last_of = |tree: &Arc<Tree>| {
        let view = tree.view();
        let numbers = view.version.files().map(|(_, file)| file.meta.number);
        numbers.max()
    };
    parts
        .trees
        .all()
        .iter()
        .filter_map(last_of)
        .max()
        .unwrap_or(0)
}
