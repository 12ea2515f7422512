//! Clock: hands out Timestamps, no two of them equal.
//!
//! Clients use the ETag, which is the Timestamp, as a version: two writes of one entity must never share it, also when
//! the entity was deleted in between.
//!
//! The clock of the machine may be set back, while the process runs or between two runs of it. So the store has a record
//! of a time that no Timestamp is later than, which is moved a minute ahead whenever Timestamps come to it. One that is later
//! than the record was at the start, and later than all that a clock since set back had led to, is later than that of every
//! row: a write that takes one need not look at the row it replaces. So writes look for up to a minute after a restart.

use crate::codec;
use crate::datetime::{DateTime, TICKS_PER_SECOND};
use crate::error::Result;
use crate::keys;
use lazurite_engine::{Batch, Db, Keyspace};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// How far Timestamps may run ahead of the caller's clock, in ticks. Writes that come faster than one per tick run ahead; a
/// clock that was set back by more than this is followed.
const LEAD_TICKS_MAX: u64 = TICKS_PER_SECOND;
/// How far the record is moved ahead at a time, in ticks.
const RECORDED_AHEAD: u64 = 60 * TICKS_PER_SECOND;

#[derive(Debug)]
pub(crate) struct Clock {
    db: Db,
    catalog: Keyspace,
    /// The last Timestamp handed out, in ticks.
    last: AtomicU64,
    /// Timestamps up to here may have been handed out although they are later than `last`.
    doubtful: AtomicU64,
    /// What the store says: no Timestamp is later.
    recorded: AtomicU64,
    recording: Mutex<()>,
}

impl Clock {
    /// The clock of a store. One without a record is taken for one whose clock was never set back.
    pub(crate) fn open(db: &Db, catalog: &Keyspace) -> Result<Clock> {
        let record = db.get(catalog, keys::TIMESTAMP_BOUND)?;
        let recorded = record.map_or(Ok(0), |bytes| {
            codec::decode_number("bound of Timestamps", &bytes)
        })?;
        Ok(Clock {
            db: db.clone(),
            catalog: catalog.clone(),
            last: AtomicU64::default(),
            doubtful: recorded.into(),
            recorded: recorded.into(),
            recording: Mutex::default(),
        })
    }

    /// The Timestamp of a write at `now` over a row last written at `previous`: later than that, and not handed out before.
    pub(crate) fn timestamp(
        &self,
        now: SystemTime,
        previous: Option<DateTime>,
    ) -> Result<DateTime> {
        let next = self.next(DateTime::from(now));
        let after_previous = previous.map_or(DateTime::MIN, DateTime::next_tick);
        if after_previous > next {
            self.doubtful.fetch_max(after_previous.ticks(), SeqCst);
        }
        self.record(next.max(after_previous))
    }

    /// The Timestamp of a write at `now` over any row, later than all before; `None` if that takes a look at the row.
    pub(crate) fn latest(&self, now: SystemTime) -> Result<Option<DateTime>> {
        let next = self.next(DateTime::from(now));
        let is_latest = next.ticks() > self.doubtful.load(SeqCst);
        is_latest.then(|| self.record(next)).transpose()
    }

    fn next(&self, now: DateTime) -> DateTime {
        let advance = |last| {
            let next = next_after(last, now).ticks();
            if next <= last {
                // Before anybody sees that `last` went back.
                self.doubtful.fetch_max(last, SeqCst);
            }
            Some(next)
        };
        let (Ok(last) | Err(last)) = self.last.fetch_update(SeqCst, SeqCst, advance);
        next_after(last, now)
    }

    /// Sees to it that the store says so before a row can have this Timestamp: its log keeps the order of writes.
    fn record(&self, timestamp: DateTime) -> Result<DateTime> {
        let is_recorded = || timestamp.ticks() <= self.recorded.load(SeqCst);
        if is_recorded() {
            return Ok(timestamp);
        }
        let _guard = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !is_recorded() {
            let ahead = timestamp.ticks() + RECORDED_AHEAD;
            let mut batch = Batch::new();
            batch.put(&self.catalog, keys::TIMESTAMP_BOUND, &ahead.to_le_bytes());
            // Whoever waits for the row waits for this.
            let _ticket = self.db.write(batch)?;
            self.recorded.store(ahead, SeqCst);
        }
        Ok(timestamp)
    }
}

/// What to hand out at `now`, after `last` ticks.
fn next_after(last: u64, now: DateTime) -> DateTime {
    let followed = last.saturating_sub(now.ticks()) < LEAD_TICKS_MAX;
    let after_last = DateTime::from_ticks(last + 1).filter(|_| followed);
    after_last.map_or(now, |after_last| now.max(after_last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::{Config, KeyspaceOptions};
    use std::time::Duration;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const HOUR: Duration = Duration::from_secs(3600);

    fn open(db: &Db) -> Clock {
        let catalog = db.keyspace("catalog", KeyspaceOptions::default()).unwrap();
        Clock::open(db, &catalog).unwrap()
    }

    fn with_clock(test: impl FnOnce(&Db, Clock)) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let clock = open(&db);
        test(&db, clock);
    }

    #[test]
    fn timestamps_advance_by_a_tick_while_the_clock_stands_still() {
        with_clock(|_, clock| {
            let timestamp = |previous| clock.timestamp(NOW, previous).unwrap();
            let first = timestamp(None);
            assert_eq!(first, DateTime::from(NOW));
            assert_eq!(timestamp(None), first.next_tick());
            let later = DateTime::from(NOW + HOUR);
            let after_later = timestamp(Some(later));
            assert_eq!(after_later, later.next_tick(), "of a row from the future");
            let third = first.next_tick().next_tick().next_tick();
            assert_eq!(timestamp(None), third, "of another row");
        });
    }

    #[test]
    fn clock_set_back_is_followed() {
        with_clock(|_, clock| {
            clock.timestamp(NOW + HOUR, None).unwrap();
            assert_eq!(clock.timestamp(NOW, None).unwrap(), DateTime::from(NOW));
        });
    }

    #[test]
    fn what_a_clock_since_set_back_led_to_is_not_handed_out_unseen() {
        with_clock(|_, clock| {
            let latest = |now| clock.latest(now).unwrap();
            assert_eq!(latest(NOW + HOUR), Some(DateTime::from(NOW + HOUR)));
            assert_eq!(latest(NOW), None, "the clock was set back");
            assert_eq!(latest(NOW + HOUR - Duration::from_secs(1)), None);
            assert_eq!(latest(NOW + HOUR), None, "this very one was handed out");
            assert!(latest(NOW + 2 * HOUR).is_some());
            let row = clock.timestamp(NOW + 2 * HOUR, Some(DateTime::from(NOW + 4 * HOUR)));
            assert_eq!(latest(NOW + 3 * HOUR), None, "a row is ahead of the clock");
            assert!(latest(NOW + 5 * HOUR) > row.ok());
        });
    }

    #[test]
    fn the_next_process_knows_what_this_one_may_have_handed_out() {
        with_clock(|db, clock| {
            assert!(clock.latest(NOW + HOUR).unwrap().is_some());
            let clock = open(db);
            assert_eq!(clock.latest(NOW).unwrap(), None);
            assert_eq!(clock.latest(NOW + HOUR).unwrap(), None);
            assert!(clock.latest(NOW + 2 * HOUR).unwrap().is_some());
        });
    }
}
