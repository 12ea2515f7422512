//! Pacing: measures how fast changes come, and makes writers wait before they take any lock.

use crate::base::mutex::lock;
use crate::work::job::Job;
use crate::work::throttle::{DEBT_MAX, Debt, Debts, Lag};
use crate::work::{RETRY, Work};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time without any change after which a store is idle.
const IDLE: Duration = Duration::from_secs(5);

/// Fullness of a level below level 0, in thousandths of its limit. Above the start of this range,
/// writers with a debt are slowed down; at its end, most of all. The reason: each merge of level 0
/// writes most of level 1 again.
const BELOW_FULL: Range<u64> = 2000..6000;

impl Work {
    /// True if the write rate is at most 100 changes per 250 ms: then work may run that benefits
    /// only readers.
    pub(crate) fn is_at_rest(&self) -> bool {
        let mut pace = lock(&self.pace);
        let now = self.parts.clock.now();
        if pace.measure(now, self.parts.snapshots.published()) {
            // At rest, segments with less garbage are collected too.
            self.parts.value_log.request_collection();
        }
        pace.is_slow()
    }

    /// True if nothing was written for a while: then work may run that benefits only checkpoints
    /// and the next start.
    pub(crate) fn is_idle(&self) -> bool {
        let is_at_rest = self.is_at_rest();
        let changed_at = lock(&self.pace).changed_at();
        is_at_rest && self.parts.clock.now().saturating_sub(changed_at) >= IDLE
    }

    /// Makes a writer wait while flushes or compactions lag behind (or, with stepped work, run
    /// jobs), then for an overdue log segment, then for a late sync. The sync comes last, because
    /// the other waits take time. The writer must not hold a lock. For `deletes` see
    /// [`Work::throttle`].
    pub(crate) fn admit(&self, deletes: bool) -> Result<()> {
        self.parts.health.check_writable()?;
        self.throttle(deletes)?;
        self.parts.log.await_segment()?;
        self.parts.log.sync().await_late_sync()
    }

    /// Makes a writer wait (or, with stepped work, run jobs) while flushes or compactions lag
    /// behind. A writer that `deletes` is admitted even if background work fails for lack of space,
    /// while memtables take at most twice the memory at which other writers stop.
    pub(crate) fn throttle(&self, deletes: bool) -> Result<()> {
        let debt = self.most_debt();
        if debt == 0 && !self.is_throttled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let began = self.parts.clock.now();
        let throttled = match self.wait_for_room() {
            Err(Error::NoSpace { .. }) if deletes && !self.is_over_all_limits() => Ok(()),
            waited => waited,
        };
        let has_waited = self.wait_for_turn()?;
        if debt >= DEBT_MAX || has_waited {
            self.parts.log.sync().count_stall(began);
        }
        throttled
    }

    /// Waits while the memtables or level 0 are over the limits at which writers stop.
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
                // The threads try again later. With stepped work, the writer tries the job itself,
                // below.
                if !self.parts.background.is_stepped() {
                    return Err(error);
                }
            }
            self.parts.log.seal_largest();
            if !self.parts.background.is_stepped() {
                self.signal.wait(seen, RETRY);
            } else if self.step()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Waits as the throttle demands for the bytes of earlier writers. Returns whether it did.
    ///
    /// The writers that have to wait form a queue, and the first one asks until it may write. If
    /// each waited by itself, and only once, sixty writers would bring at least sixty batches in
    /// each longest wait, whatever the debt.
    fn wait_for_turn(&self) -> Result<bool> {
        if self.parts.background.is_stepped() || self.turn_after().is_zero() {
            return Ok(false);
        }
        let _first = self.waiting.lock();
        loop {
            self.parts.health.check_writable()?;
            let wait = self.turn_after();
            if wait.is_zero() {
                return Ok(true);
            }
            // A signal ends the wait, because the debt may have changed. Unpaid bytes stay owed.
            self.signal.wait(self.signal.round(), wait);
        }
    }

    /// How long a writer must wait before it asks again; zero if it may write.
    fn turn_after(&self) -> Duration {
        let debts = self.debts();
        let mut throttle = lock(&self.throttle);
        let wait = throttle.wait(&debts, self.parts.clock.now());
        let is_throttled = most(&debts) > 0 || throttle.is_pressed();
        drop(throttle);
        self.is_throttled.store(is_throttled, Ordering::Relaxed);
        if !wait.is_zero() && debts[Lag::Flush as usize].amount > 0 {
            // Many small memtables may fill the memory although none of them is full.
            self.parts.log.seal_largest();
            self.notify();
        }
        wait
    }

    /// Charges a writer for the bytes that it puts.
    #[inline]
    pub(crate) fn charge(&self, bytes: u64) {
        if self.is_throttled.load(Ordering::Relaxed) {
            lock(&self.throttle).charge(bytes);
        }
    }

    /// Notes how long a flush took, and how many bytes of writers it flushed.
    pub(crate) fn note_flush(&self, bytes: u64, took: Duration) {
        lock(&self.throttle).note_flush(bytes, took);
    }

    /// Notes how long a merge took, and how many bytes of SSTables it took off level 0.
    pub(crate) fn note_merge(&self, level0_bytes: u64, took: Duration) {
        let counters = self.parts.log.counters();
        let charged = counters.batch_bytes.load(Ordering::Relaxed);
        let flushed = self.counters.flushed_bytes.load(Ordering::Relaxed).max(1);
        let put = u128::from(level0_bytes) * u128::from(charged) / u128::from(flushed);
        lock(&self.throttle).note_merge(u64::try_from(put).unwrap_or(u64::MAX), took);
    }

    /// The debt of each kind of work.
    pub(in crate::work) fn debts(&self) -> Debts {
        let config = &self.parts.config;
        let bytes = self.parts.reserve.memtable_bytes.load(Ordering::Relaxed) as u64;
        let bytes_max = config.memory_bytes_max as u64;
        let files_max = config.level0_files_stop as u64;
        // Where inherited files are left alone, they are merged once level 0 has more than three
        // quarters of the files that stop writers.
        let files_min = if config.merges_inherited {
            config.level0_files_max as u64
        } else {
            files_max / 4 * 3
        };
        let flush = share(bytes, bytes_max / 4 * 3, bytes_max);
        let merge = self.merge_debt(1000 * files_min, 1000 * files_max);
        let fullness = self.fullness_below.load(Ordering::Relaxed);
        let below = share(fullness, BELOW_FULL.start, BELOW_FULL.end);
        let strain = if merge > 0 { merge.max(below) } else { 0 };
        let debt = |amount, strain| Debt { amount, strain };
        [debt(flush, flush), debt(merge, strain)]
    }

    /// The debt of merges of level 0. A merge takes all files that there are when it begins, and
    /// writers bring as many more until it ends. So the number of files swings between one half of
    /// the most and the most, and writers follow the files that are not merged yet: these stay the
    /// same while writers are as fast as the merge. The number of all files counts when it comes
    /// close to the one at which writers stop.
    fn merge_debt(&self, min: u64, stop: u64) -> u64 {
        let trees = &self.parts.trees;
        let unmerged = share(trees.level0_unmerged_most(), min, min.midpoint(stop));
        let all = share(1000 * self.level0_files_most() as u64, stop / 6 * 5, stop);
        unmerged.max(all)
    }

    fn most_debt(&self) -> u64 {
        most(&self.debts())
    }

    /// True if even operations that free space are refused while space is short.
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

    /// Whether writers are slowed down, or will be.
    pub(crate) fn is_near_limit(&self) -> bool {
        self.most_debt() > 0 || self.is_throttled.load(Ordering::Relaxed)
    }

    /// Yields the processor to waiting threads, unless compaction lags behind: then writers may be
    /// waiting for compaction.
    pub(crate) fn yield_cpu(&self) {
        if self.level0_files_most() <= self.parts.config.level0_files_max {
            std::thread::yield_now();
        }
    }

    fn level0_files_most(&self) -> usize {
        self.parts.trees.level0_files_most()
    }
}

fn most(debts: &Debts) -> u64 {
    let amounts = debts.iter().map(|debt| debt.amount);
    amounts.max().unwrap_or(0)
}

/// Where `value` lies between two bounds, in parts of [`DEBT_MAX`].
fn share(value: u64, from: u64, to: u64) -> u64 {
    let over = value.saturating_sub(from).saturating_mul(DEBT_MAX);
    (over / to.saturating_sub(from).max(1)).min(DEBT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemoryFs;
    use crate::{Background, Batch, Config, Db, Durability, Environment, KeyspaceOptions};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn callers_that_must_not_block_hear_of_writers_that_are_slowed_after_a_debt() {
        let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        assert!(!db.makes_writers_wait());
        db.work().is_throttled.store(true, Ordering::Relaxed);
        assert!(db.makes_writers_wait());
    }

    #[test]
    fn many_writers_are_as_slow_together_as_one() {
        let config = Config {
            durability: Durability::Memory,
            level0_files_max: 2,
            level0_files_stop: 20,
            ..Config::default()
        };
        let environment = Environment {
            background: Background::Threads,
            ..Environment::system(Durability::Memory)
        };
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let put = |bytes: usize| {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", &vec![7; bytes]);
            drop(db.write(batch).unwrap());
        };
        let _no_merges = db.work().compacting.lock();
        for _ in 0..9 {
            put(1);
            db.flush(&keyspace).unwrap();
        }
        lock(&db.work().throttle).note_merge(1 << 20, Duration::from_secs(1));
        let written = AtomicU64::new(0);
        let began = db.parts().clock.now();
        let is_over = || db.parts().clock.now() - began > Duration::from_secs(1);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while !is_over() {
                        put(16 << 10);
                        written.fetch_add(16 << 10, Ordering::Relaxed);
                    }
                });
            }
        });
        // About 1 MiB is due, and each writer may write once more. By themselves, writers would
        // bring 12 MiB.
        let written = written.into_inner() >> 10;
        assert!(written < 3 << 10, "{written} KiB");
    }

    #[test]
    fn merges_are_measured_in_the_bytes_that_writers_are_charged_with() {
        for durability in [Durability::Memory, Durability::Process] {
            let config = Config {
                durability,
                level0_files_max: 2,
                ..Config::default()
            };
            let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
            let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
            let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
            let mut charged = 0;
            for _ in 0..2 {
                // The rows are so short that the heads of their records would count.
                for row in 0..100_000u32 {
                    let mut batch = Batch::new();
                    batch.put(&keyspace, &row.to_be_bytes(), b"value");
                    charged += batch.payload.len() as u64;
                    drop(db.write(batch).unwrap());
                }
                let mut batch = Batch::new();
                batch.put(&keyspace, b"large", &[1; 8 << 20]);
                drop(db.write(batch).unwrap());
                db.flush(&keyspace).unwrap();
            }
            assert_eq!(db.step().unwrap(), Some(Job::Compaction));
            // Time stands still, so the merge counts as if it took a microsecond.
            let measured = lock(&db.work().throttle).merge_rate() / 1_000_000;
            let bounds = charged - charged / 100..charged + charged / 100;
            assert!(
                bounds.contains(&measured),
                "{durability:?}: {measured} of {charged}"
            );
        }
    }
}
