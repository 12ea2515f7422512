//! Store: what every part of an open `Db` shares, and the background work as jobs.
//!
//! Locks are taken in this order: `compacting`, then `flushing`, then the log of `commit.rs`, then the segments of the value
//! log, then the manifest, then the list of trees, then the view of one. None is held by readers across I/O.

use crate::base::health::{Health, Wakes};
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::catalog::parts::Parts;
use crate::write::durability::Due;
use crate::{Background, Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a thread waits before it tries again what failed for lack of space, or looks at the clock.
const RETRY: Duration = Duration::from_millis(1000);

/// Over what time it is measured how much is written, and below how many changes in it the store is at rest.
const REST: Duration = Duration::from_millis(250);
const REST_CHANGES_MAX: u64 = 100;

/// The background work of an open store.
#[derive(Debug)]
pub(crate) struct Work {
    pub(super) parts: Arc<Parts>,
    pub(super) flushing: Mutex<()>,
    pub(super) compacting: Mutex<()>,
    pub(super) compactions: AtomicUsize,
    pub(super) counters: Counters,
    /// By [`Job`]: why it failed for lack of space, until it succeeds.
    shortages: Mutex<[Option<Error>; JOBS]>,
    signal: Arc<Signal>,
    pace: Mutex<Pace>,
}

/// Counted since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
}

/// How fast changes come.
#[derive(Debug, Default)]
struct Pace {
    since: Duration,
    sequence: SequenceNumber,
    is_slow: bool,
}

/// Wakes whoever waits for work, or for work to be done.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    round: Mutex<u64>,
    changed: Condvar,
}

impl Wakes for Signal {
    fn wake_everyone(&self) {
        self.notify();
    }
}

impl Signal {
    pub(crate) fn notify(&self) {
        *lock(&self.round) += 1;
        self.changed.notify_all();
    }

    fn round(&self) -> u64 {
        *lock(&self.round)
    }

    /// Waits until notified since `seen`, at most `limit`.
    fn wait(&self, seen: u64, limit: Duration) {
        let round = lock(&self.round);
        let waited = self
            .changed
            .wait_timeout_while(round, limit, |round| *round == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Work {
    /// `signal` is what the parts were told to wake.
    pub(crate) fn new(parts: Arc<Parts>, signal: Arc<Signal>) -> Work {
        Work {
            parts,
            flushing: Mutex::default(),
            compacting: Mutex::default(),
            compactions: AtomicUsize::new(0),
            counters: Counters::default(),
            shortages: Mutex::default(),
            signal,
            pace: Mutex::default(),
        }
    }

    pub(crate) fn health(&self) -> &Health {
        &self.parts.health
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends the loops of the threads.
    pub(crate) fn close(&self) {
        self.parts.health.close();
        self.notify();
        self.parts.log.sync_state().close();
    }

    pub(crate) fn notify(&self) {
        self.signal.notify();
    }

    /// Makes a checkpoint in the directory at `path`. Background work waits meanwhile.
    pub(crate) fn checkpoint(&self, path: &Path) -> Result<()> {
        let target = self.parts.checkpoint_target(path)?;
        // A merge may take seconds, and flushes are not to wait for it.
        let _compacting = lock(&self.compacting);
        let _flushing = lock(&self.flushing);
        self.parts.checkpoint(&target)
    }

    /// Whether hardly anything was written lately: time to do what only readers gain by.
    pub(crate) fn is_at_rest(&self) -> bool {
        let mut pace = lock(&self.pace);
        let (now, sequence) = (self.parts.clock.now(), self.parts.snapshots.published());
        let elapsed = now.saturating_sub(pace.since);
        if elapsed >= REST {
            let changes = u128::from(sequence - pace.sequence);
            let is_slow =
                changes * REST.as_micros() <= u128::from(REST_CHANGES_MAX) * elapsed.as_micros();
            if is_slow && !pace.is_slow {
                // More is worth collecting now.
                self.parts.value_log.request_collection();
            }
            *pace = Pace {
                since: now,
                sequence,
                is_slow,
            };
        }
        pace.is_slow
    }

    pub(crate) fn signals(&self) -> u64 {
        self.signal.round()
    }
}

/// A piece of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A sealed memtable becomes an SSTable of level 0.
    Flush,
    /// SSTables are merged downwards.
    Compaction,
    /// Value-log segments that nothing refers to are removed.
    Collection,
}

/// How many kinds of [`Job`] there are.
const JOBS: usize = 3;

impl Work {
    /// Runs one pending flush. Answers whether there was one.
    pub(crate) fn run_flush(&self) -> Result<bool> {
        let _guard = lock(&self.flushing);
        self.seal_aged();
        let ran = self.note(Job::Flush, self.flush_one());
        // Only what changed something is told: a round without work would wake the threads for another one.
        if matches!(ran, Ok(true)) {
            self.notify();
        }
        ran
    }

    /// Runs one pending compaction or collection. Answers which.
    pub(crate) fn run_maintenance(&self) -> Result<Option<Job>> {
        let _guard = lock(&self.compacting);
        let compacted = self.compact_one();
        self.parts.cache.remove_obsolete();
        let compacted = self.note(Job::Compaction, compacted);
        if matches!(compacted, Ok(false) | Err(Error::NoSpace { .. })) {
            // Where there is no space to merge, collecting may make some.
            let collected = self.note(Job::Collection, self.collect())?;
            if collected {
                return Ok(Some(Job::Collection));
            }
        }
        let compacted = compacted?;
        if compacted {
            self.notify();
        }
        Ok(compacted.then_some(Job::Compaction))
    }

    /// Runs one job that is pending, if any.
    pub(crate) fn step(&self) -> Result<Option<Job>> {
        self.parts.health.check_writable()?;
        if self.run_flush()? {
            return Ok(Some(Job::Flush));
        }
        self.run_maintenance()
    }

    /// A lack of space passes; any other failure of background work stops writing.
    fn note<T>(&self, job: Job, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => lock(&self.shortages)[job as usize] = None,
            Err(error @ Error::NoSpace { .. }) => {
                lock(&self.shortages)[job as usize] = Some(error.clone());
                self.notify();
            }
            Err(Error::Closed) => {}
            Err(error) => self.parts.health.fail(error),
        }
        result
    }

    /// Why background work last failed for lack of space, if it still does.
    pub(crate) fn shortage(&self) -> Option<Error> {
        lock(&self.shortages).iter().flatten().next().cloned()
    }

    /// Removes value-log segments that nothing refers to.
    fn collect(&self) -> Result<bool> {
        if !self.parts.value_log.take_collection_request() {
            return Ok(false);
        }
        let collected = self.collect_requested();
        if collected.is_err() {
            self.parts.value_log.request_collection();
        }
        collected
    }

    fn collect_requested(&self) -> Result<bool> {
        let sealed = self.parts.value_log.seal_retired()?;
        let unpinned = self.parts.value_log.unpinned();
        let references = self.parts.trees.value_references();
        self.parts
            .value_log
            .retire_wasteful(&references, self.garbage_percent_max());
        let dead: Vec<u64> = unpinned
            .into_iter()
            .filter(|number| !references.contains_key(number))
            .collect();
        if dead.is_empty() {
            return Ok(sealed);
        }
        // What hides the values in these segments may be in the log only: it must not be lost after they are gone.
        self.parts.log.sync_all()?;
        let removed = self.parts.value_log.remove(&dead)?;
        tracing::info!(
            segments = removed,
            "removed value-log segments that nothing refers to"
        );
        Ok(sealed || removed > 0)
    }

    /// The loop of the flush thread.
    pub(crate) fn flush_loop(&self) {
        self.work_loop(|| self.run_flush(), || RETRY);
    }

    /// The loop of the compaction thread.
    pub(crate) fn maintenance_loop(&self) {
        crate::tree::sstable::prepare();
        let idle = || if self.is_at_rest() { RETRY } else { REST };
        self.work_loop(|| Ok(self.run_maintenance()?.is_some()), idle);
    }

    /// Runs what there is to do, and waits for more, as long as `idle` says at most.
    fn work_loop(&self, run: impl Fn() -> Result<bool>, idle: impl Fn() -> Duration) {
        while !self.parts.health.is_closed() && self.parts.health.failure().is_none() {
            let seen = self.signal.round();
            match run() {
                Ok(true) => {}
                Ok(false) => self.signal.wait(seen, idle()),
                // Whatever is signalled meanwhile does not make space.
                Err(_) => self.pause(seen, RETRY),
            }
        }
    }

    /// The loop of the thread that syncs the value log.
    pub(crate) fn value_sync_loop(&self) {
        self.parts.log.value_sync_loop();
    }

    /// The loop of the sync thread. It makes log segments ready, syncs a change when it is as old as the configured interval, or
    /// at `Disk` as soon as a task awaits it, and notes when the store comes to rest. A failure makes the store read-only, and
    /// ends this loop.
    pub(crate) fn sync_loop(&self) {
        while !self.parts.health.is_closed() && self.parts.health.failure().is_none() {
            match self.parts.log.wait_for_due() {
                // If it fails for lack of space the commit that needs the segment tries again, and tells its caller.
                Due::Segment => {
                    let log = &self.parts.log;
                    let _ = log
                        .prepare_wal()
                        .inspect_err(|error| self.parts.health.note(error));
                }
                Due::Sync => {
                    let _ = self.parts.log.sync_all();
                }
                Due::Rest => {
                    self.parts.log.remove_spare_wals();
                    // Without space for the mark the log is as it was; the next rest tries again.
                    let _ = self.parts.log.sync_and_mark();
                }
            }
        }
    }

    /// Waits for the interval to pass, whatever else is signalled, unless the store closes.
    fn pause(&self, mut seen: u64, interval: Duration) {
        let end = self.parts.clock.now() + interval;
        while let Some(left) = end
            .checked_sub(self.parts.clock.now())
            .filter(|left| !left.is_zero())
            && !self.parts.health.is_closed()
        {
            self.signal.wait(seen, left);
            seen = self.signal.round();
        }
    }

    /// Makes a writer wait, or work, before it takes any lock: while flushes or compactions lag behind, for a log segment, and for
    /// a late sync; for that last, because the others take time. One who `deletes` does not wait for space.
    pub(crate) fn admit(&self, deletes: bool) -> Result<()> {
        self.parts.health.check_writable()?;
        self.throttle(deletes)?;
        self.parts.log.await_segment()?;
        self.parts.log.await_late_sync()
    }

    /// Makes a writer wait, or work, while flushes or compactions lag behind. One who `deletes` does not wait for space.
    pub(crate) fn throttle(&self, deletes: bool) -> Result<()> {
        if !self.is_near_limit() {
            return Ok(());
        }
        let began = self.parts.clock.now();
        let throttled = match self.wait_for_room() {
            Err(Error::NoSpace { .. }) if deletes && !self.is_over_all_limits() => Ok(()),
            waited => waited,
        };
        self.parts.log.count_stall(began);
        throttled
    }

    fn wait_for_room(&self) -> Result<()> {
        while self.is_over_limit() {
            self.parts.health.check_writable()?;
            let seen = self.signal.round();
            if !self.is_over_limit() {
                break;
            }
            let awaited = if self.is_over_memory_limit() {
                Job::Flush
            } else {
                Job::Compaction
            };
            if let Some(error) = lock(&self.shortages)[awaited as usize].clone() {
                // In production the threads try again; who steps the jobs finds out by trying.
                if self.parts.background == Background::Threads {
                    return Err(error);
                }
            }
            match self.parts.background {
                Background::Stepped => {
                    self.parts.log.seal_largest();
                    if self.step()?.is_none() {
                        break;
                    }
                }
                Background::Threads => {
                    self.parts.log.seal_largest();
                    self.signal.wait(seen, RETRY);
                }
            }
        }
        if self.is_near_limit() && self.parts.background == Background::Threads {
            self.signal
                .wait(self.signal.round(), Duration::from_micros(500));
        }
        Ok(())
    }

    /// Whether even what makes room has to wait for some.
    fn is_over_all_limits(&self) -> bool {
        let bytes = self.parts.reserve.memtable_bytes.load(Ordering::Relaxed);
        bytes > self.parts.config.memory_bytes_max.saturating_mul(2)
    }

    fn is_over_limit(&self) -> bool {
        self.is_over_memory_limit()
            || self.level0_files_most() >= self.parts.config.level0_files_stop
    }

    fn is_over_memory_limit(&self) -> bool {
        self.parts.reserve.memtable_bytes.load(Ordering::Relaxed)
            > self.parts.config.memory_bytes_max
    }

    pub(crate) fn is_near_limit(&self) -> bool {
        self.parts.reserve.memtable_bytes.load(Ordering::Relaxed)
            > self.parts.config.memory_bytes_max / 4 * 3
            || self.level0_files_most() > self.parts.config.level0_files_stop.saturating_mul(3) / 4
    }

    /// Lets threads run that wait for this processor, unless compaction lags behind: then they would wait for it the longer.
    pub(crate) fn give_way(&self) {
        if self.level0_files_most() <= self.parts.config.level0_files_max {
            std::thread::yield_now();
        }
    }

    fn level0_files_most(&self) -> usize {
        self.parts.trees.level0_files_most()
    }

    /// After every change of versions.
    pub(crate) fn note_versions(&self) {
        self.parts.trees.count_level0();
        self.parts.value_log.request_collection();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    use crate::{Batch, Config, Db, Environment, KeyspaceOptions};
    use std::io::ErrorKind;

    #[test]
    fn writers_hear_that_compaction_lacks_space_though_collection_lacks_it_too() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let config = Config {
            level0_files_max: 2,
            level0_files_stop: 3,
            ..Config::default()
        };
        let environment = Environment::stepped(Arc::new(disk.clone()));
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        // A value-log segment that nothing refers to.
        drop(db.write_value(&[1; 1 << 10]).unwrap());
        db.parts().value_log.retire();
        for _ in 0..2 {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            drop(db.write(batch).unwrap());
            db.flush(&keyspace).unwrap();
        }
        db.parts().value_log.request_collection();
        disk.set(Some(Fault {
            operation: Some(Operation::Write),
            path: String::new(),
            nth: 1,
            failure: Failure::Error(ErrorKind::StorageFull),
            sticky: true,
        }));
        let failed = db.work().run_maintenance();
        assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
        let shortages = lock(&db.work().shortages);
        assert!(
            shortages[Job::Compaction as usize].is_some(),
            "{shortages:?}"
        );
        assert!(
            shortages[Job::Collection as usize].is_some(),
            "{shortages:?}"
        );
    }

    #[test]
    fn a_flush_with_nothing_to_do_does_not_hide_that_compaction_lacks_space() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let config = Config {
            level0_files_max: 2,
            ..Config::default()
        };
        let environment = Environment::stepped(Arc::new(disk.clone()));
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        for _ in 0..2 {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            drop(db.write(batch).unwrap());
            db.flush(&keyspace).unwrap();
        }
        disk.set(Some(Fault {
            operation: Some(Operation::Create),
            path: ".sst".into(),
            nth: 1,
            failure: Failure::Error(ErrorKind::StorageFull),
            sticky: true,
        }));
        assert!(db.work().run_maintenance().is_err());
        assert!(db.space_failure().is_some());
        assert!(!db.work().run_flush().unwrap());
        assert!(db.space_failure().is_some(), "it lacks space still");
        disk.set(None);
        assert_eq!(db.step().unwrap(), Some(Job::Compaction));
        assert!(db.space_failure().is_none());
    }
}
