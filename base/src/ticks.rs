//! Ticks: the form in which the services store and compare times, and the text that the protocol
//! gives them. One tick is 100 ns, the resolution of the protocol. The calendar is that of the
//! `time` crate.

use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::Date;

/// A time, in units of 100 ns since 0001-01-01T00:00:00Z. Byte order is time order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

const NANOSECONDS: u128 = 100;
/// The Julian day number of 0001-01-01.
const FIRST_JULIAN_DAY: i32 = 1_721_426;

impl Ticks {
    /// Ticks in a second.
    pub const PER_SECOND: u64 = 10_000_000;
    /// Ticks in a day.
    pub const PER_DAY: u64 = 24 * 60 * 60 * Ticks::PER_SECOND;
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Ticks = Ticks(62_135_596_800 * Ticks::PER_SECOND);
    /// 9999-12-31T23:59:59Z: the expiry of a message that never expires.
    /// Source: Put Message, "Response body"; observed as the `ExpirationTime` of such messages.
    pub const NEVER: Ticks = Ticks(315_537_897_599 * Ticks::PER_SECOND);
    /// The last tick of the year 9999, the last that has a text.
    pub const LAST: Ticks = Ticks(Ticks::NEVER.0 + Ticks::PER_SECOND - 1);

    /// Rounds down, so that no time computed from the result is later than one computed from
    /// `time`. Clamps to the range of the number.
    pub fn from_system(time: SystemTime) -> Ticks {
        let number = |ticks: u128| u64::try_from(ticks).unwrap_or(u64::MAX);
        Ticks(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => {
                let after = number(after.as_nanos() / NANOSECONDS);
                Ticks::UNIX_EPOCH.0.saturating_add(after)
            }
            Err(before) => {
                let before = number(before.duration().as_nanos().div_ceil(NANOSECONDS));
                Ticks::UNIX_EPOCH.0.saturating_sub(before)
            }
        })
    }

    /// The time as a `SystemTime`. On a system whose clock begins in 1601 (Windows), an earlier
    /// time becomes the first one that the system has.
    pub fn to_system(self) -> SystemTime {
        let duration = |ticks: u64| {
            let rest = ticks % Ticks::PER_SECOND * NANOSECONDS as u64;
            Duration::new(ticks / Ticks::PER_SECOND, rest as u32)
        };
        match self.0.checked_sub(Ticks::UNIX_EPOCH.0) {
            Some(after) => UNIX_EPOCH + duration(after),
            None => {
                let before = duration(Ticks::UNIX_EPOCH.0 - self.0);
                let year_1601 = Duration::from_secs(11_644_473_600);
                let time = UNIX_EPOCH.checked_sub(before);
                time.unwrap_or_else(|| UNIX_EPOCH - year_1601)
            }
        }
    }

    /// The beginning of a day; `None` before the year 1.
    pub fn of_date(date: Date) -> Option<Ticks> {
        let days = u64::try_from(date.to_julian_day() - FIRST_JULIAN_DAY).ok()?;
        Some(Ticks(days * Ticks::PER_DAY))
    }

    /// The day; the last of the year 9999 for later times.
    pub fn date(self) -> Date {
        let days = (self.min(Ticks::LAST).0 / Ticks::PER_DAY) as i32;
        Date::from_julian_day(FIRST_JULIAN_DAY + days).expect("it is a day of the years 1 to 9999")
    }

    /// Hour, minute and second of the day.
    pub fn clock(self) -> [u64; 3] {
        let second = self.0 % Ticks::PER_DAY / Ticks::PER_SECOND;
        [second / 3600, second / 60 % 60, second % 60]
    }

    /// The time `seconds` later, at most [`Ticks::NEVER`].
    pub fn plus_seconds(self, seconds: u64) -> Ticks {
        let ticks = seconds.saturating_mul(Ticks::PER_SECOND);
        Ticks(self.0.saturating_add(ticks)).min(Ticks::NEVER)
    }

    /// The time without its fraction of a second.
    pub fn whole_seconds(self) -> Ticks {
        Ticks(self.0 - self.0 % Ticks::PER_SECOND)
    }

    /// Whole milliseconds since 1970; 0 for earlier times.
    pub fn unix_milliseconds(self) -> u64 {
        self.0.saturating_sub(Ticks::UNIX_EPOCH.0) / (Ticks::PER_SECOND / 1000)
    }

    /// `2024-03-01T12:34:56.1234567Z`, always with seven digits of fraction. Times after the year
    /// 9999 get its last day.
    pub fn to_text(self) -> TicksText {
        let mut text = *b"0000-00-00T00:00:00.0000000Z";
        let (year, month, day) = self.date().to_calendar_date();
        let [hour, minute, second] = self.clock();
        for (end, count, number) in [
            (4, 4, year.unsigned_abs().into()),
            (7, 2, u8::from(month).into()),
            (10, 2, day.into()),
            (13, 2, hour),
            (16, 2, minute),
            (19, 2, second),
            (27, 7, self.0 % Ticks::PER_SECOND),
        ] {
            put_digits(&mut text[end - count..end], number);
        }
        TicksText {
            bytes: text,
            length: TEXT_BYTES,
        }
    }
}

/// Length of the text with all digits of the fraction.
const TEXT_BYTES: usize = 28;
/// Length of the text up to and including the point after the seconds.
const WHOLE_SECOND_BYTES: usize = 20;

fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The text of a time. Made without an allocation, since every row in a response has at least one.
#[derive(Debug, Clone, Copy)]
pub struct TicksText {
    bytes: [u8; TEXT_BYTES],
    length: usize,
}

impl TicksText {
    /// The fraction without trailing zeros, and no fraction for a whole second.
    pub fn shortened(mut self) -> TicksText {
        let mut end = self.length - 1;
        while self.bytes[end - 1] == b'0' && end > WHOLE_SECOND_BYTES {
            end -= 1;
        }
        if self.bytes[end - 1] == b'.' {
            end -= 1;
        }
        self.bytes[end] = b'Z';
        self.length = end + 1;
        self
    }

    /// Without a fraction.
    pub fn to_seconds(mut self) -> TicksText {
        self.bytes[WHOLE_SECOND_BYTES - 1] = b'Z';
        self.length = WHOLE_SECOND_BYTES;
        self
    }
}

impl Deref for TicksText {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).expect("digits and separators are ASCII")
    }
}

impl fmt::Display for TicksText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: u64 = Ticks::UNIX_EPOCH.0;

    #[test]
    fn ticks_round_trip_through_system_time() {
        for ticks in [0, 1, UNIX - 1, UNIX, UNIX + 17, Ticks::NEVER.0, u64::MAX] {
            assert_eq!(Ticks::from_system(Ticks(ticks).to_system()), Ticks(ticks));
        }
    }

    #[test]
    fn fractions_of_a_tick_are_rounded_down_before_and_after_1970() {
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(
            Ticks::from_system(UNIX_EPOCH + nanosecond),
            Ticks::UNIX_EPOCH
        );
        assert_eq!(Ticks::from_system(UNIX_EPOCH - nanosecond), Ticks(UNIX - 1));
    }

    #[test]
    fn never_is_the_last_second_of_the_year_9999() {
        assert_eq!(&*Ticks::NEVER.to_text(), "9999-12-31T23:59:59.0000000Z");
        assert_eq!(&*Ticks::LAST.to_text(), "9999-12-31T23:59:59.9999999Z");
        assert_eq!(Ticks::NEVER.plus_seconds(u64::MAX), Ticks::NEVER);
        assert_eq!(Ticks(u64::MAX).date(), Ticks::NEVER.date());
    }

    #[test]
    fn texts_have_the_digits_that_were_asked_for() {
        let half = Ticks(UNIX + Ticks::PER_SECOND / 2);
        assert_eq!(&*half.to_text(), "1970-01-01T00:00:00.5000000Z");
        assert_eq!(&*half.to_text().shortened(), "1970-01-01T00:00:00.5Z");
        assert_eq!(&*half.to_text().to_seconds(), "1970-01-01T00:00:00Z");
        let whole = half.whole_seconds().to_text();
        assert_eq!(&*whole.shortened(), "1970-01-01T00:00:00Z");
        assert_eq!(&*Ticks(0).to_text(), "0001-01-01T00:00:00.0000000Z");
    }

    #[test]
    fn days_begin_at_midnight() {
        for day in [0, 1, 719_162, 3_652_058] {
            let midnight = Ticks(day * Ticks::PER_DAY);
            assert_eq!(Ticks::of_date(midnight.date()), Some(midnight));
            assert_eq!(midnight.clock(), [0, 0, 0]);
        }
        assert_eq!(Ticks::of_date(Date::MIN), None);
    }
}
