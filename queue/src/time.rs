//! Ticks: the form in which the service stores and compares times.
//!
//! One tick is 100 ns, the resolution of the protocol. Ticks count from the beginning of the year
//! 1, so that every date of a policy fits an unsigned number, and byte order is time order.

use std::time::{Duration, SystemTime};

/// A time, in units of 100 ns since 0001-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticks(pub(crate) u64);

const PER_SECOND: u64 = 10_000_000;
const PER_MILLISECOND: u64 = 10_000;
const NANOSECONDS: u128 = 100;
/// 1970-01-01T00:00:00Z in ticks.
const UNIX: u64 = 62_135_596_800 * PER_SECOND;

impl Ticks {
    /// 9999-12-31T23:59:59Z: the expiry of a message that never expires.
    /// Source: Put Message, "Response body"; observed as the `ExpirationTime` of such messages.
    pub(crate) const NEVER: Ticks = Ticks(315_537_897_599 * PER_SECOND);

    /// Rounds down, so that no time computed from the result is later than one computed from
    /// `time`. Clamps to the years 1 to 9999.
    pub(crate) fn from_system(time: SystemTime) -> Ticks {
        let ticks = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => UNIX.saturating_add(ticks_of(after.as_nanos() / NANOSECONDS)),
            Err(before) => {
                UNIX.saturating_sub(ticks_of(before.duration().as_nanos().div_ceil(NANOSECONDS)))
            }
        };
        Ticks(ticks).min(Ticks::NEVER)
    }

    pub(crate) fn to_system(self) -> SystemTime {
        if self.0 >= UNIX {
            SystemTime::UNIX_EPOCH + duration_of(self.0 - UNIX)
        } else {
            SystemTime::UNIX_EPOCH - duration_of(UNIX - self.0)
        }
    }

    /// The time `seconds` later, at most [`Ticks::NEVER`].
    pub(crate) fn plus_seconds(self, seconds: u64) -> Ticks {
        let ticks = seconds.saturating_mul(PER_SECOND);
        Ticks(self.0.saturating_add(ticks)).min(Ticks::NEVER)
    }

    /// Whole milliseconds since 1970; 0 for earlier times.
    pub(crate) fn unix_milliseconds(self) -> u64 {
        self.0.saturating_sub(UNIX) / PER_MILLISECOND
    }
}

fn ticks_of(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn duration_of(ticks: u64) -> Duration {
    Duration::new(
        ticks / PER_SECOND,
        (ticks % PER_SECOND) as u32 * NANOSECONDS as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_round_trip_through_system_time() {
        for ticks in [0, 1, UNIX - 1, UNIX, UNIX + 17, Ticks::NEVER.0] {
            assert_eq!(Ticks::from_system(Ticks(ticks).to_system()), Ticks(ticks));
        }
    }

    #[test]
    fn fractions_of_a_tick_are_rounded_down_before_and_after_1970() {
        let nanosecond = Duration::from_nanos(1);
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(Ticks::from_system(epoch + nanosecond), Ticks(UNIX));
        assert_eq!(Ticks::from_system(epoch - nanosecond), Ticks(UNIX - 1));
    }

    #[test]
    fn never_is_the_last_second_of_the_year_9999() {
        let unix = Ticks::NEVER
            .to_system()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(unix.as_secs(), 253_402_300_799);
        assert_eq!(Ticks::NEVER.plus_seconds(u64::MAX), Ticks::NEVER);
    }
}
