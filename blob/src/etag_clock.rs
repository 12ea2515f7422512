//! EtagClock: makes ETags that do not repeat, even if the clock is set back by up to a minute over
//! a restart.

use crate::error::Result;
use crate::etag::{ETag, ticks};
use lazurite_base::locks::lock;
use lazurite_base::ticks::Ticks;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Issues ETags: the time in ticks, moved forward where two writes share one tick or the clock was
/// set back.
///
/// The store has an upper bound of the issued ETags. When an ETag passes the bound, the bound is
/// moved to a second after that ETag. The next process continues from the bound, so that a blob
/// that is deleted and created again gets no earlier ETag.
#[derive(Debug, Default)]
pub(crate) struct EtagClock {
    last: AtomicU64,
    /// The bound of ETags that the store has recorded.
    recorded: AtomicU64,
    recording: Mutex<()>,
}

/// How far the bound may be ahead of the wall clock at the start, in ticks. A bound further ahead
/// was stored while the clock was wrong, and is ignored.
const LEAD_TICKS_MAX: u64 = 60 * Ticks::PER_SECOND;

impl EtagClock {
    /// The clock of a store whose bound is `recorded`.
    pub(crate) fn open(recorded: Option<u64>, now: SystemTime) -> EtagClock {
        let recorded = recorded.filter(|bound| bound.saturating_sub(ticks(now)) <= LEAD_TICKS_MAX);
        EtagClock {
            last: recorded.unwrap_or(0).into(),
            recorded: recorded.unwrap_or(0).into(),
            recording: Mutex::default(),
        }
    }

    /// Makes later ETags greater than every ETag of `before`, the clock of the store that this one
    /// replaces. As at the start, a bound far ahead of the wall clock is ignored.
    pub(crate) fn follow(&self, before: &EtagClock, now: SystemTime) {
        let bound = before.recorded.load(Ordering::SeqCst);
        if bound.saturating_sub(ticks(now)) <= LEAD_TICKS_MAX {
            self.last.fetch_max(bound, Ordering::SeqCst);
        }
    }

    /// Stores a new bound with `write` if greater ETags were issued. Call it before writing a
    /// record with such an ETag, because the log keeps the order.
    pub(crate) fn record(&self, write: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let is_recorded =
            || self.last.load(Ordering::SeqCst) <= self.recorded.load(Ordering::SeqCst);
        if is_recorded() {
            return Ok(());
        }
        let _guard = lock(&self.recording);
        if !is_recorded() {
            let bound = self
                .last
                .load(Ordering::SeqCst)
                .saturating_add(Ticks::PER_SECOND);
            write(bound)?;
            self.recorded.store(bound, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Returns an ETag greater than all that this clock has issued, and greater than `previous`,
    /// which an earlier process may have issued.
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

    #[test]
    fn a_store_that_takes_the_place_of_another_repeats_none_of_its_etags() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mut before = EtagClock::default();
        let mut last = ETag(0);
        for _ in 0..3 {
            // Each clock is as a restore leaves it: without the bound of the store before.
            let clock = EtagClock::open(None, now);
            clock.follow(&before, now);
            for _ in 0..3 {
                let next = clock.next(now, None);
                assert!(next > last);
                last = next;
                clock.record(|_| Ok(())).unwrap();
            }
            before = clock;
        }
        let earlier = now - Duration::from_secs(3600);
        let clock = EtagClock::open(None, earlier);
        clock.follow(&before, earlier);
        assert_eq!(clock.next(earlier, None), ETag(ticks(earlier)));
    }
}
