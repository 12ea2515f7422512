//! Clock: issues Timestamps, each later than every Timestamp before it, unless the wall clock was
//! wrong.
//!
//! Clients use the ETag, which is the Timestamp, as a version: two writes of one entity must never
//! share it, even if the entity was deleted in between. A caller takes a Timestamp while it holds
//! the lock of the entity, so Timestamps are in the order of the writes.
//!
//! Within a process the wall clock never goes back, but it may have been set back between two runs.
//! The store therefore records a bound that no Timestamp exceeds, and raises it by a second
//! whenever Timestamps reach it. The next process continues from the bound, and stays ahead of the
//! wall clock until the wall clock has caught up.
//!
//! A bound far ahead of the wall clock was recorded while the wall clock was wrong, and is not
//! followed: new Timestamps follow the wall clock, and stored rows may be ahead of them. A write
//! then has to read the row that it replaces, so that its Timestamp is later than the row's. The
//! store therefore holds two bounds: one for the Timestamps that follow the wall clock, which is
//! reset in this case, and one for all rows. A background scan
//! ([`TableService::sweep`](crate::TableService::sweep)) lowers the bound of the rows to the latest
//! Timestamp that is really stored.

use crate::codec;
use crate::datetime::DateTime;
use crate::error::Result;
use crate::keys;
use lazurite_base::locks::lock;
use lazurite_base::ticks::Ticks;
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{Admission, Batch, Db, Keyspace};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum lead of the recorded bound over the wall clock, in ticks, at which a starting clock
/// follows the bound.
const CLOCK_AHEAD_TICKS_MAX: u64 = 60 * Ticks::PER_SECOND;
/// How far each record raises a bound, in ticks. A higher value saves writes; a lower value keeps
/// Timestamps closer to the wall clock after a restart.
const RECORDED_AHEAD_TICKS: u64 = Ticks::PER_SECOND;

#[derive(Debug)]
pub(crate) struct Clock {
    wall: Arc<dyn WallClock>,
    db: Db,
    catalog: Keyspace,
    /// The last Timestamp that followed the wall clock, in ticks.
    last: AtomicU64,
    /// No stored Timestamp is later than the greatest of this, `ahead_since_scan` and `last`.
    rows_ahead: AtomicU64,
    /// The latest Timestamp since [`Clock::begin_scan`] that was derived from the replaced row, not
    /// from the wall clock.
    ahead_since_scan: AtomicU64,
    /// The recorded bound of the Timestamps that followed the wall clock.
    recorded: AtomicU64,
    /// The recorded bound of the Timestamps of all rows.
    recorded_rows: AtomicU64,
    recording: Mutex<()>,
}

impl Clock {
    /// The clock of a store. A store without recorded bounds has no rows.
    pub(crate) fn open(db: &Db, catalog: &Keyspace, wall: Arc<dyn WallClock>) -> Result<Clock> {
        let record = |key| -> Result<Option<u64>> {
            let bytes = db.get(catalog, key)?;
            let number = |bytes: &[u8]| codec::decode_number("bound of Timestamps", bytes);
            bytes.as_deref().map(number).transpose()
        };
        let recorded_rows = record(keys::TIMESTAMP_BOUND)?.unwrap_or(0);
        let recorded = record(keys::FOLLOWING_BOUND)?.unwrap_or(0);
        let ahead = recorded.saturating_sub(DateTime::from(wall.now()).ticks());
        let recorded = if ahead <= CLOCK_AHEAD_TICKS_MAX {
            recorded
        } else {
            0
        };
        let rows_ahead = if recorded < recorded_rows {
            recorded_rows
        } else {
            0
        };
        Ok(Clock {
            wall,
            db: db.clone(),
            catalog: catalog.clone(),
            last: recorded.into(),
            rows_ahead: rows_ahead.into(),
            ahead_since_scan: 0.into(),
            recorded: recorded.into(),
            recorded_rows: recorded_rows.into(),
            recording: Mutex::default(),
        })
    }

    /// Makes later Timestamps greater than every Timestamp of `before`, the clock of the store that
    /// this one replaces. As at the start, a bound far ahead of the wall clock is not followed.
    pub(crate) fn follow(&self, before: &Clock) {
        let issued = before.recorded.load(SeqCst);
        if issued.saturating_sub(self.now().ticks()) <= CLOCK_AHEAD_TICKS_MAX {
            self.last.fetch_max(issued, SeqCst);
        }
    }

    /// The time of the wall clock.
    pub(crate) fn now(&self) -> DateTime {
        DateTime::from(self.wall.now())
    }

    /// True if a row may have a later Timestamp than the next one issued, so that a write has to
    /// read the row that it replaces. For one row, the result stays valid while the caller holds
    /// the row's lock.
    pub(crate) fn rows_may_be_ahead(&self) -> bool {
        let last = self.last.load(SeqCst);
        last < self.rows_ahead.load(SeqCst) || last < self.ahead_since_scan.load(SeqCst)
    }

    /// Returns the Timestamp of a write. It is later than `previous`, the Timestamp of the replaced
    /// row; `None` if the caller has not read that row.
    pub(crate) fn timestamp(
        &self,
        previous: Option<DateTime>,
        admission: &Admission,
    ) -> Result<DateTime> {
        let next = self.next();
        let after_previous = previous.map_or(DateTime::MIN, DateTime::next_tick);
        if after_previous > next {
            let ahead = after_previous.ticks();
            // `ahead_since_scan` must be raised before `rows_ahead` (for `begin_scan`), and before
            // `record` reads the recorded bound (for `lower_rows_bound`).
            self.ahead_since_scan.fetch_max(ahead, SeqCst);
            self.rows_ahead.fetch_max(ahead, SeqCst);
        }
        self.record(next, next.max(after_previous), admission)
    }

    fn next(&self) -> DateTime {
        let now = self.now();
        let after =
            |last: u64| DateTime::from_ticks(last).map_or(DateTime::MAX, DateTime::next_tick);
        let advance = |last| Some(now.max(after(last)).ticks());
        let (Ok(last) | Err(last)) = self.last.fetch_update(SeqCst, SeqCst, advance);
        now.max(after(last))
    }

    /// Raises the recorded bounds to `timestamp` if necessary, and returns `timestamp`. The row is
    /// written after the bounds, so by the order of the log it is not durable without them.
    fn record(
        &self,
        following: DateTime,
        timestamp: DateTime,
        admission: &Admission,
    ) -> Result<DateTime> {
        let is_recorded = || {
            following.ticks() <= self.recorded.load(SeqCst)
                && timestamp.ticks() <= self.recorded_rows.load(SeqCst)
        };
        if is_recorded() {
            return Ok(timestamp);
        }
        let _guard = self.lock_recording();
        if !is_recorded() {
            let ahead = following.ticks() + RECORDED_AHEAD_TICKS;
            let recorded = self.recorded.load(SeqCst).max(ahead);
            let ahead = timestamp.ticks() + RECORDED_AHEAD_TICKS;
            let recorded_rows = self.recorded_rows.load(SeqCst).max(ahead);
            self.put_bounds(recorded, recorded_rows, admission)?;
            self.recorded.store(recorded, SeqCst);
            self.recorded_rows.store(recorded_rows, SeqCst);
        }
        Ok(timestamp)
    }

    /// Writes both bounds. The caller holds `recording`.
    fn put_bounds(&self, recorded: u64, rows: u64, admission: &Admission) -> Result<()> {
        let mut batch = Batch::new();
        let mut put = |key, bound: u64| batch.put(&self.catalog, key, &bound.to_le_bytes());
        put(keys::FOLLOWING_BOUND, recorded);
        put(keys::TIMESTAMP_BOUND, rows);
        // The ticket of the row's own write covers this one.
        let _ticket = self.db.write_admitted(batch, admission)?;
        Ok(())
    }

    fn lock_recording(&self) -> MutexGuard<'_, ()> {
        lock(&self.recording)
    }

    /// Called before a scan of all rows. The result of the scan goes to
    /// [`Clock::lower_rows_bound`].
    pub(crate) fn begin_scan(&self) {
        let ahead = self.ahead_since_scan.load(SeqCst);
        self.rows_ahead.fetch_max(ahead, SeqCst);
        // A Timestamp that is counted between these lines is added to `rows_ahead` by its writer.
        self.ahead_since_scan.store(0, SeqCst);
    }

    /// Lowers the bound of the rows after a scan of all rows that found no Timestamp later than
    /// `latest`.
    ///
    /// The scan may have missed two kinds of rows that are ahead of the wall clock. Rows of the
    /// first kind got their Timestamp before the scan began and were written after the scan had
    /// passed their key: the scan saw the replaced row, which is one tick earlier. Rows of the
    /// second kind got their Timestamp after the scan began, and are counted in `ahead_since_scan`.
    pub(crate) fn lower_rows_bound(
        &self,
        latest: Option<DateTime>,
        admission: &Admission,
    ) -> Result<()> {
        let found = latest.map_or(0, |latest| latest.next_tick().ticks());
        let _guard = self.lock_recording();
        let recorded = self.recorded.load(SeqCst);
        let before = self.recorded_rows.load(SeqCst);
        let lowered = found.max(recorded);
        if lowered >= before {
            return Ok(());
        }
        self.recorded_rows.store(lowered, SeqCst);
        // A writer that saw the higher bound has counted its Timestamp by now; any other writer
        // waits for `recording`.
        let ahead = self.ahead_since_scan.load(SeqCst);
        let rows = lowered.max(ahead);
        self.recorded_rows.store(rows, SeqCst);
        let written = self.put_bounds(recorded, rows, admission);
        if written.is_ok() {
            self.rows_ahead.store(found, SeqCst);
        } else {
            self.recorded_rows.store(before, SeqCst);
        }
        written
    }
}

/// The progress of the sweep.
#[derive(Debug, Default)]
pub(crate) struct SweepState {
    /// When the next scan begins; `None` before the first call that finds rows ahead of the clock.
    pub(crate) next_scan_at: Option<DateTime>,
    pub(crate) scan: Option<TimestampScan>,
}

/// A scan of all rows for their latest Timestamp.
#[derive(Debug, Default)]
pub(crate) struct TimestampScan {
    /// The first key that has not been read yet.
    pub(crate) start: Vec<u8>,
    pub(crate) latest: Option<DateTime>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_base::wall_clock::ManualWallClock;
    use lazurite_engine::{Config, KeyspaceOptions};
    use std::time::{Duration, SystemTime};

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    impl Clock {
        fn stamp(&self, previous: Option<DateTime>) -> DateTime {
            let admission = self.db.admit().unwrap();
            self.timestamp(previous, &admission).unwrap()
        }
    }

    fn with_db(test: impl FnOnce(&Db)) {
        let directory = tempfile::tempdir().unwrap();
        test(&Db::open(directory.path(), Config::default()).unwrap());
    }

    fn open(db: &Db, now: SystemTime) -> (Clock, Arc<ManualWallClock>) {
        let catalog = db.keyspace("catalog", KeyspaceOptions::default()).unwrap();
        let wall = Arc::new(ManualWallClock::new(now));
        (Clock::open(db, &catalog, wall.clone()).unwrap(), wall)
    }

    #[test]
    fn timestamps_follow_the_wall_clock_and_advance_by_a_tick_while_it_stands_still() {
        with_db(|db| {
            let (clock, wall) = open(db, NOW);
            let timestamp = || clock.stamp(None);
            let first = timestamp();
            assert_eq!(first, DateTime::from(NOW));
            assert_eq!(timestamp(), first.next_tick());
            wall.advance(HOUR);
            assert_eq!(timestamp(), DateTime::from(NOW + HOUR));
            assert!(!clock.rows_may_be_ahead());
        });
    }

    #[test]
    fn next_process_never_repeats_a_timestamp() {
        with_db(|db| {
            let mut last = open(db, NOW).0.stamp(None);
            for step_back in [0, 1, 30] {
                let (clock, _) = open(db, NOW - step_back * SECOND);
                assert!(!clock.rows_may_be_ahead());
                let next = clock.stamp(None);
                assert!(next > last, "{step_back}");
                last = next;
            }
            let (clock, wall) = open(db, NOW);
            wall.advance(HOUR);
            let caught_up = clock.stamp(None);
            assert_eq!(caught_up, DateTime::from(NOW + HOUR));
        });
    }

    #[test]
    fn next_process_never_repeats_a_timestamp_after_a_wrong_clock() {
        with_db(|db| {
            let row = open(db, NOW + HOUR).0.stamp(None);
            let mut last = open(db, NOW).0.stamp(None);
            for step_back in [0, 0, 1, 30] {
                let (clock, _) = open(db, NOW - step_back * SECOND);
                let next = clock.stamp(None);
                assert!(next > last && next < row, "{step_back}");
                last = next;
                assert!(clock.rows_may_be_ahead());
                assert!(clock.stamp(Some(row)) > row);
            }
        });
    }

    #[test]
    fn a_store_that_takes_the_place_of_another_repeats_none_of_its_timestamps() {
        let mut last = None;
        let mut before: Option<Clock> = None;
        for _ in 0..3 {
            // Each store is as a restore leaves it: without the bound of the store before.
            with_db(|db| {
                let (clock, _) = open(db, NOW);
                before.iter().for_each(|before| clock.follow(before));
                for _ in 0..3 {
                    let next = clock.stamp(None);
                    assert!(Some(next) > last, "{next:?}");
                    last = Some(next);
                }
                before = Some(clock);
            });
        }
        with_db(|db| {
            let (earlier, _) = open(db, NOW - HOUR);
            before.iter().for_each(|before| earlier.follow(before));
            assert_eq!(earlier.stamp(None), DateTime::from(NOW - HOUR));
        });
    }

    #[test]
    fn a_scan_that_finds_no_row_ahead_lowers_the_bound_of_rows_stamped_before_it() {
        with_db(|db| {
            let row = open(db, NOW + HOUR).0.stamp(None);
            let (clock, _) = open(db, NOW);
            let admission = db.admit().unwrap();
            let scan = |during: Option<DateTime>| {
                clock.begin_scan();
                if let Some(previous) = during {
                    clock.stamp(Some(previous));
                }
                clock.lower_rows_bound(None, &admission).unwrap();
                let next_process = open(db, NOW).0;
                assert_eq!(next_process.rows_may_be_ahead(), during.is_some());
                clock.rows_may_be_ahead()
            };
            clock.stamp(Some(row));
            assert!(scan(Some(row)), "a row was stamped during the scan");
            assert!(!scan(None));
        });
    }

    #[test]
    fn bound_recorded_under_a_wrong_clock_is_not_followed_but_rows_are_read() {
        with_db(|db| {
            let row = open(db, NOW + HOUR).0.stamp(None);
            let (clock, wall) = open(db, NOW);
            assert!(clock.rows_may_be_ahead());
            let timestamp = |previous| clock.stamp(previous);
            assert_eq!(timestamp(None), DateTime::from(NOW));
            assert_eq!(timestamp(Some(row)), row.next_tick());
            assert!(timestamp(None) < row, "a write of another row");
            wall.advance(HOUR);
            timestamp(None);
            assert!(clock.rows_may_be_ahead(), "the bound is a second ahead");
            wall.advance(HOUR);
            assert!(timestamp(Some(row)) > row.next_tick());
            assert!(!clock.rows_may_be_ahead());
        });
    }
}
