//! Clock: hands out Timestamps, each later than all before it.
//!
//! Clients use the ETag, which is the Timestamp, as a version: two writes of one entity must never share it, also when
//! the entity was deleted in between. A caller takes a Timestamp while it holds the lock of the entity, so Timestamps are in the
//! order of the writes that the lock orders.
//!
//! Within a process the wall clock never goes back, but it may have been set back between two runs. So the store has a record of
//! a time that no Timestamp is later than, which is moved ahead by a second whenever Timestamps come to it. The next process
//! goes on from there, and stays ahead of the wall clock until that has caught up.
//!
//! A record that is far ahead of the wall clock was made while that was wrong, and is not followed: Timestamps are those of the
//! wall clock again, and rows may be ahead of them. A write then has to read the row that it replaces. So there are two records:
//! one of the Timestamps that follow the wall clock, which begins anew then, and one of the rows.

use crate::codec;
use crate::datetime::{DateTime, TICKS_PER_SECOND};
use crate::error::Result;
use crate::keys;
use lazurite_engine::{Admission, Batch, Db, Keyspace, WallClock};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// How far the record may be ahead of the wall clock at the start and still be followed, in ticks.
const LEAD_TICKS_MAX: u64 = 60 * TICKS_PER_SECOND;
/// How far the record is moved ahead at a time, in ticks. More saves writes of the record; less leaves Timestamps less far ahead
/// of the wall clock after a restart.
const RECORDED_AHEAD: u64 = TICKS_PER_SECOND;

#[derive(Debug)]
pub(crate) struct Clock {
    wall: Arc<dyn WallClock>,
    db: Db,
    catalog: Keyspace,
    /// The last Timestamp that followed the wall clock, in ticks.
    last: AtomicU64,
    /// Rows may have Timestamps up to here although they are later than `last`.
    rows_ahead: AtomicU64,
    /// What the store says: no Timestamp that followed the wall clock is later.
    recorded: AtomicU64,
    /// What the store says: no row has a later Timestamp.
    recorded_rows: AtomicU64,
    recording: Mutex<()>,
}

impl Clock {
    /// The clock of a store. One without a record is taken for one that has no rows.
    pub(crate) fn open(db: &Db, catalog: &Keyspace, wall: Arc<dyn WallClock>) -> Result<Clock> {
        let record = |key| -> Result<Option<u64>> {
            let bytes = db.get(catalog, key)?;
            let number = |bytes: &[u8]| codec::decode_number("bound of Timestamps", bytes);
            bytes.as_deref().map(number).transpose()
        };
        let recorded_rows = record(keys::TIMESTAMP_BOUND)?.unwrap_or(0);
        // Earlier releases made one record.
        let recorded = record(keys::FOLLOWING_BOUND)?.unwrap_or(recorded_rows);
        let lead = recorded.saturating_sub(DateTime::from(wall.now()).ticks());
        let recorded = if lead <= LEAD_TICKS_MAX { recorded } else { 0 };
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
            recorded: recorded.into(),
            recorded_rows: recorded_rows.into(),
            recording: Mutex::default(),
        })
    }

    /// Whether a row may have a later Timestamp than the next one, so that a write has to read the row it replaces. The answer holds
    /// for any row while the caller holds its lock.
    pub(crate) fn rows_may_be_ahead(&self) -> bool {
        self.last.load(SeqCst) < self.rows_ahead.load(SeqCst)
    }

    /// The Timestamp of a write over a row last written at `previous`, if the caller knows it: later than that.
    pub(crate) fn timestamp(
        &self,
        previous: Option<DateTime>,
        admission: &Admission,
    ) -> Result<DateTime> {
        let next = self.next();
        let after_previous = previous.map_or(DateTime::MIN, DateTime::next_tick);
        if after_previous > next {
            self.rows_ahead.fetch_max(after_previous.ticks(), SeqCst);
        }
        self.record(next, next.max(after_previous), admission)
    }

    fn next(&self) -> DateTime {
        let now = DateTime::from(self.wall.now());
        let after =
            |last: u64| DateTime::from_ticks(last).map_or(DateTime::MAX, DateTime::next_tick);
        let advance = |last| Some(now.max(after(last)).ticks());
        let (Ok(last) | Err(last)) = self.last.fetch_update(SeqCst, SeqCst, advance);
        now.max(after(last))
    }

    /// Sees to it that the store says so before a row can have this Timestamp: its log keeps the order of writes.
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
        let _guard = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !is_recorded() {
            let mut batch = Batch::new();
            let mut put = |key, bound: u64| batch.put(&self.catalog, key, &bound.to_le_bytes());
            let ahead = following.ticks() + RECORDED_AHEAD;
            let recorded = self.recorded.load(SeqCst).max(ahead);
            put(keys::FOLLOWING_BOUND, recorded);
            let ahead = timestamp.ticks() + RECORDED_AHEAD;
            let recorded_rows = self.recorded_rows.load(SeqCst).max(ahead);
            put(keys::TIMESTAMP_BOUND, recorded_rows);
            // Whoever waits for the row waits for this.
            let _ticket = self.db.write_admitted(batch, admission)?;
            self.recorded.store(recorded, SeqCst);
            self.recorded_rows.store(recorded_rows, SeqCst);
        }
        Ok(timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::{Config, KeyspaceOptions, ManualWallClock};
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
    fn the_next_process_hands_out_no_timestamp_again() {
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
    fn after_a_wrong_clock_too_the_next_process_hands_out_no_timestamp_again() {
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
    fn a_record_made_under_a_wrong_clock_is_not_followed_but_rows_are_looked_at() {
        with_db(|db| {
            let row = open(db, NOW + HOUR).0.stamp(None);
            let (clock, wall) = open(db, NOW);
            assert!(clock.rows_may_be_ahead());
            let timestamp = |previous| clock.stamp(previous);
            assert_eq!(timestamp(None), DateTime::from(NOW));
            assert_eq!(timestamp(Some(row)), row.next_tick());
            assert!(timestamp(None) < row, "of another row");
            wall.advance(HOUR);
            timestamp(None);
            assert!(clock.rows_may_be_ahead(), "the record is a second ahead");
            wall.advance(HOUR);
            assert!(timestamp(Some(row)) > row.next_tick());
            assert!(!clock.rows_may_be_ahead());
        });
    }
}
