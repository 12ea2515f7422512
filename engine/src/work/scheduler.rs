//! The scheduler: background work as jobs, the loops of the threads that run them, and their
//! reaction to a lack of space.

use crate::base::mutex::lock;
use crate::work::job::Job;
use crate::work::pace::REST;
use crate::work::{RETRY, Work};
use crate::write::sync_schedule::Due;
use crate::{Error, Result};
use std::time::Duration;

impl Work {
    /// Runs one pending flush. Returns whether there was one.
    pub(crate) fn run_flush(&self) -> Result<bool> {
        let _guard = self.flushing.lock();
        self.seal_aged();
        let flushed = match self.flush_one() {
            Ok(false) => self.release_log().map(|()| false),
            flushed => flushed,
        };
        let ran = self.note(Job::Flush, flushed);
        // Notify only after a change: a round without work would wake the threads for another one.
        if matches!(ran, Ok(true)) {
            self.notify();
        }
        ran
    }

    /// Runs one pending compaction and one pending collection. Returns the job that there was; the
    /// compaction if there were both.
    ///
    /// A collection follows each compaction: under a steady load of overwrites there is always
    /// something to merge, and segments whose values the merges have dropped would wait for the end
    /// of the load. If there is no space to merge, the collection may free some.
    pub(crate) fn run_maintenance(&self) -> Result<Option<Job>> {
        let _guard = self.compacting.lock();
        let compacted = self.compact_one();
        self.remove_obsolete();
        let compacted = self.note(Job::Compaction, compacted);
        let mut collected = false;
        if compacted.as_ref().err().is_none_or(Error::is_passing) {
            collected = self.note(Job::Collection, self.collect())?;
        }
        match compacted {
            Err(_) if collected => Ok(Some(Job::Collection)),
            Err(error) => Err(error),
            Ok(true) => {
                self.notify();
                Ok(Some(Job::Compaction))
            }
            Ok(false) => Ok(collected.then_some(Job::Collection)),
        }
    }

    /// Runs one job that is pending, if any.
    pub(crate) fn step(&self) -> Result<Option<Job>> {
        self.parts.health.check_writable()?;
        if self.run_flush()? {
            return Ok(Some(Job::Flush));
        }
        self.run_maintenance()
    }

    /// Notes the outcome of a job. A lack of space or of file handles passes; any other failure of
    /// background work stops writing.
    pub(super) fn note<T>(&self, job: Job, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => lock(&self.shortages)[job as usize] = None,
            Err(error) if error.is_passing() => {
                lock(&self.shortages)[job as usize] = Some(error.clone());
                self.notify();
            }
            Err(Error::Closed) => {}
            Err(error) => self.parts.health.fail(error),
        }
        result
    }

    /// The lack of space or of file handles that made a job fail, if the job has not succeeded
    /// since.
    pub(crate) fn shortage(&self) -> Option<Error> {
        lock(&self.shortages).iter().flatten().next().cloned()
    }

    /// The loop of the flush thread.
    pub(crate) fn flush_loop(&self) {
        self.work_loop(|| self.run_flush(), || RETRY);
    }

    /// The loop of the compaction thread.
    pub(crate) fn maintenance_loop(&self) {
        crate::format::sstable::compress::prepare();
        let idle = || if self.is_at_rest() { RETRY } else { REST };
        self.work_loop(|| Ok(self.run_maintenance()?.is_some()), idle);
    }

    /// The loop of the thread that flushes, compacts and collects.
    pub(crate) fn flush_and_maintenance_loop(&self) {
        crate::format::sstable::compress::prepare();
        let idle = || if self.is_at_rest() { RETRY } else { REST };
        let run = || {
            let flushed = self.run_flush();
            // If there is no space to flush, maintenance may make some.
            let maintained = self.run_maintenance();
            Ok(flushed? | maintained?.is_some())
        };
        self.work_loop(run, idle);
    }

    /// Runs the pending jobs, and waits for more, at most for the time that `idle` returns.
    fn work_loop(&self, run: impl Fn() -> Result<bool>, idle: impl Fn() -> Duration) {
        while !self.parts.health.is_closed() && self.parts.health.failure().is_none() {
            let seen = self.signal.round();
            match run() {
                Ok(true) => {}
                Ok(false) => self.signal.wait(seen, idle()),
                // A signal does not mean that there is space, so it does not end the pause.
                Err(_) => self.pause(seen, RETRY),
            }
        }
    }

    /// The loop of the thread that syncs the value log.
    pub(crate) fn value_sync_loop(&self) {
        self.parts.log.sync().value_sync_loop();
    }

    /// The loop of the sync thread. It prepares log segments, and syncs a change when it is as old
    /// as the configured interval, or at `Disk` as soon as a task awaits it. When the store comes
    /// to rest, it removes spare log segments and records that the log is durable. The loop ends
    /// when the store is closed, or a failure makes it read-only.
    pub(crate) fn sync_loop(&self) {
        while let Some(due) = self.parts.log.sync().wait_for_due() {
            match due {
                // If this fails for lack of space, the commit that needs the segment tries again
                // and returns the error.
                Due::Segment => {
                    let log = &self.parts.log;
                    let _ = log
                        .prepare_segment()
                        .inspect_err(|error| self.parts.health.note(error));
                }
                Due::Sync => {
                    let _ = self.parts.log.sync().sync_all();
                }
                Due::Rest => {
                    self.parts.log.segments().remove_spare_wals();
                    // Without space for the mark the log is as it was; the next rest tries again.
                    let _ = self.parts.log.sync_and_mark();
                }
            }
        }
    }

    /// Waits until the interval has passed or the store closes. Other signals do not end the wait.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    use crate::{Batch, Config, Db, Environment, KeyspaceOptions};
    use std::io::ErrorKind;
    use std::sync::Arc;

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
        // Makes a value-log segment that nothing refers to.
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
