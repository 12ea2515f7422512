//! EtagClock: hands out ETags that never come back, whatever the clock and restarts do.

use crate::error::Result;
use crate::etag::{ETag, TICKS_PER_SECOND, ticks};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Hands out ETags: the time in ticks, pushed forward where two writes meet in one tick or the clock was set back.
///
/// The store has a record of an ETag that none handed out is greater than, which is moved ahead by a second whenever ETags come to it. The
/// next process goes on from there: no ETag comes back with a blob that is deleted and made again.
#[derive(Debug, Default)]
pub(crate) struct EtagClock {
    last: AtomicU64,
    /// What the store says.
    recorded: AtomicU64,
    recording: Mutex<()>,
}

/// How far the record may be ahead of the wall clock at the start and still be followed. One that is further ahead was made while the clock
/// was wrong.
const LEAD_TICKS_MAX: u64 = 60 * TICKS_PER_SECOND;

impl EtagClock {
    /// The clock of a store whose record is `recorded`.
    pub(crate) fn open(recorded: Option<u64>, now: SystemTime) -> EtagClock {
        let recorded = recorded.filter(|bound| bound.saturating_sub(ticks(now)) <= LEAD_TICKS_MAX);
        EtagClock {
            last: recorded.unwrap_or(0).into(),
            recorded: recorded.unwrap_or(0).into(),
            recording: Mutex::default(),
        }
    }

    /// Has `write` store a new record if ETags were handed out that are greater than the last one. To be called before a record with such an
    /// ETag is written: the log keeps the order.
    pub(crate) fn record(&self, write: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let is_recorded =
            || self.last.load(Ordering::SeqCst) <= self.recorded.load(Ordering::SeqCst);
        if is_recorded() {
            return Ok(());
        }
        let _guard = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !is_recorded() {
            let bound = self
                .last
                .load(Ordering::SeqCst)
                .saturating_add(TICKS_PER_SECOND);
            write(bound)?;
            self.recorded.store(bound, Ordering::SeqCst);
        }
        Ok(())
    }

    /// An ETag greater than every one handed out before by this clock, and than `previous`, which may be older than it.
    pub(crate) fn next(&self, now: SystemTime, previous: Option<ETag>) -> ETag {
        let least = ticks(now).max(previous.map_or(0, |etag| etag.0.saturating_add(1)));
        let advance = |last: u64| Some(least.max(last.saturating_add(1)));
        let last = self
            .last
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance)
            .expect("advance is always Some");
        ETag(least.max(last.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn etags_increase_within_one_tick_and_when_the_clock_goes_back() {
        let clock = EtagClock::default();
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let first = clock.next(now, None);
        let second = clock.next(now, None);
        let third = clock.next(now - Duration::from_secs(60), None);
        assert!(first < second && second < third);
        assert!(EtagClock::default().next(now - Duration::from_secs(60), Some(third)) > third);
    }
}
