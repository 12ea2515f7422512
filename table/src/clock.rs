//! Clock: hands out Timestamps, no two of them equal.
//!
//! Clients use the ETag, which is the Timestamp, as a version: two writes of one entity must never share it, also when
//! the entity was deleted in between.

use crate::datetime::DateTime;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// How far Timestamps may run ahead of the caller's clock, in ticks of 100 ns: one second. Writes that come faster than one
/// per tick run ahead; a clock that was set back by more than this is followed.
const LEAD_TICKS_MAX: u64 = 10_000_000;

/// The last Timestamp handed out, in ticks.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// The Timestamp of a write at `now` over a row last written at `previous`: later than that, and not handed out before.
    pub(crate) fn timestamp(&self, now: SystemTime, previous: Option<DateTime>) -> DateTime {
        let now = DateTime::from(now);
        let advance = |last| Some(next(last, now).ticks());
        let (Ok(last) | Err(last)) = self.0.fetch_update(Relaxed, Relaxed, advance);
        let after_previous = previous.map_or(DateTime::MIN, DateTime::next_tick);
        next(last, now).max(after_previous)
    }
}

/// What to hand out at `now`, after `last` ticks.
fn next(last: u64, now: DateTime) -> DateTime {
    let followed = last.saturating_sub(now.ticks()) < LEAD_TICKS_MAX;
    let after_last = DateTime::from_ticks(last + 1).filter(|_| followed);
    after_last.map_or(now, |after_last| now.max(after_last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn timestamps_advance_by_a_tick_while_the_clock_stands_still() {
        let clock = Clock::default();
        let first = clock.timestamp(NOW, None);
        assert_eq!(first, DateTime::from(NOW));
        assert_eq!(clock.timestamp(NOW, None), first.next_tick());
        let later = DateTime::from(NOW + Duration::from_secs(60));
        assert_eq!(
            clock.timestamp(NOW, Some(later)),
            later.next_tick(),
            "of a row from the future"
        );
        let third = first.next_tick().next_tick().next_tick();
        assert_eq!(clock.timestamp(NOW, None), third, "of another row");
    }

    #[test]
    fn clock_set_back_is_followed() {
        let clock = Clock::default();
        clock.timestamp(NOW + Duration::from_secs(3600), None);
        assert_eq!(clock.timestamp(NOW, None), DateTime::from(NOW));
    }
}
