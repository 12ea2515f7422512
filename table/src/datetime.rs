//! `DateTime`: an instant of the protocol, counted in its own ticks, and the text forms it has on the wire.
//!
//! The text forms live here and not in the server because `$filter`, ETags and JSON share them. Every value lies within
//! the protocol's range, so formatting cannot fail.

use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Ticks of 100 ns in a second.
pub(crate) const TICKS_PER_SECOND: u64 = 10_000_000;
const TICKS_PER_DAY: u64 = 24 * 60 * 60 * TICKS_PER_SECOND;
/// Ticks between 1601-01-01 and 1970-01-01.
const UNIX_EPOCH_TICKS: u64 = 134_774 * TICKS_PER_DAY;
/// Years that repeat the calendar, and the days in them.
const CYCLE_DAYS: u64 = 400 * 365 + 97;

/// An instant in UTC, to 100 ns, from 1601-01-01T00:00:00Z to 9999-12-31T23:59:59.9999999Z. Later instants are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(u64);

/// Why a text is not a [`DateTime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateTimeError {
    /// Not of the form `2013-08-22T01:12:06.2608595Z`, or no such day or time of day.
    Malformed,
    /// An instant, but before 1601 or after 9999.
    OutOfRange,
}

impl DateTime {
    /// 1601-01-01T00:00:00Z, the first instant that can be stored.
    pub const MIN: DateTime = DateTime(0);
    /// 9999-12-31T23:59:59.9999999Z, the last instant that can be stored.
    pub const MAX: DateTime = DateTime(3_067_671 * TICKS_PER_DAY - 1);

    /// The instant so many ticks of 100 ns after 1601-01-01T00:00:00Z; `None` past [`DateTime::MAX`].
    pub fn from_ticks(ticks: u64) -> Option<DateTime> {
        (ticks <= Self::MAX.0).then_some(DateTime(ticks))
    }

    /// Ticks of 100 ns since 1601-01-01T00:00:00Z.
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// The tick that follows. Stays at [`DateTime::MAX`].
    pub fn next_tick(self) -> DateTime {
        DateTime(Self::MAX.0.min(self.0 + 1))
    }

    /// The same instant for the standard library.
    pub fn to_system_time(self) -> SystemTime {
        let seconds = Duration::from_secs(self.0 / TICKS_PER_SECOND);
        let rest = Duration::from_nanos(self.0 % TICKS_PER_SECOND * 100);
        let since_1601 = seconds + rest;
        let epoch = Duration::from_secs(UNIX_EPOCH_TICKS / TICKS_PER_SECOND);
        match since_1601.checked_sub(epoch) {
            Some(after) => UNIX_EPOCH + after,
            None => UNIX_EPOCH - (epoch - since_1601),
        }
    }

    /// Reads `YYYY-MM-DDThh:mm:ss.fffffffZ`. Seconds, the time of day and the fraction may be missing; digits of a
    /// fraction beyond the seventh are dropped; an offset such as `+02:00` is converted; no zone at all means UTC.
    pub fn parse(text: &str) -> Result<DateTime, DateTimeError> {
        Reader(text.as_bytes())
            .date_time()
            .unwrap_or(Err(DateTimeError::Malformed))
    }

    /// The form of Timestamps and ETags: always seven digits of fraction.
    pub fn to_full_text(self) -> DateTimeText {
        let mut text = DateTimeText {
            bytes: *b"0000-00-00T00:00:00.0000000Z",
            length: FULL_TEXT_BYTES,
        };
        let (year, month, day) = civil(self.0 / TICKS_PER_DAY);
        let time = self.0 % TICKS_PER_DAY;
        let second = time / TICKS_PER_SECOND;
        for (end, count, number) in [
            (4, 4, year),
            (7, 2, month),
            (10, 2, day),
            (13, 2, second / 3600),
            (16, 2, second / 60 % 60),
            (19, 2, second % 60),
            (27, 7, time % TICKS_PER_SECOND),
        ] {
            put_digits(&mut text.bytes[end - count..end], number);
        }
        text
    }

    /// The form of stored values: as many digits of fraction as there are, none for a whole second.
    pub fn to_text(self) -> DateTimeText {
        let mut text = self.to_full_text();
        let mut end = FULL_TEXT_BYTES - 1;
        while text.bytes[end - 1] == b'0' && end > WHOLE_SECOND_BYTES {
            end -= 1;
        }
        if text.bytes[end - 1] == b'.' {
            end -= 1;
        }
        text.bytes[end] = b'Z';
        text.length = end + 1;
        text
    }
}

/// Bytes of the text with all digits of the fraction.
const FULL_TEXT_BYTES: usize = 28;
/// Bytes of the text down to the second and the point after it.
const WHOLE_SECOND_BYTES: usize = 20;

fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The text of an instant. Made without allocation: every row that is read shows one or two.
#[derive(Debug, Clone, Copy)]
pub struct DateTimeText {
    bytes: [u8; FULL_TEXT_BYTES],
    length: usize,
}

impl Deref for DateTimeText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("digits and signs are ASCII")
    }
}

/// The nearest tick at or before the instant, clamped to the protocol's range.
impl From<DateTime> for SystemTime {
    fn from(instant: DateTime) -> SystemTime {
        instant.to_system_time()
    }
}

impl From<SystemTime> for DateTime {
    fn from(time: SystemTime) -> DateTime {
        let ticks = |duration: Duration| duration.as_nanos() / 100;
        let epoch = u128::from(UNIX_EPOCH_TICKS);
        let since_1601 = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => epoch + ticks(after),
            Err(before) => epoch.saturating_sub(ticks(before.duration())),
        };
        DateTime(u64::try_from(since_1601).map_or(Self::MAX.0, |ticks| ticks.min(Self::MAX.0)))
    }
}

/// The form of stored values, as [`DateTime::to_text`] has it.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Days from 1601-01-01 to the first of January of `year`. 1601 begins a cycle of 400 years, so plain divisions count the
/// leap days before it.
fn days_before(year: u64) -> u64 {
    let years = year - 1601;
    years * 365 + years / 4 - years / 100 + years / 400
}

fn month_days(year: u64) -> [u64; 12] {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    [
        31,
        28 + u64::from(leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ]
}

/// Year, month and day of the so-many-th day since 1601-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // The average year is 365.2425 days long; the estimate is never late and at most one year early.
    let mut year = 1601 + days * 400 / CYCLE_DAYS;
    while days_before(year) > days {
        year -= 1;
    }
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let mut month = 1;
    for length in month_days(year) {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

/// What is left of a text being read; every method answers `None` when the text does not fit.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn date_time(&mut self) -> Option<Result<DateTime, DateTimeError>> {
        let (year, month, day) = self.date()?;
        let (time_ticks, offset_ticks) = match self.skip(b"Tt") {
            Some(()) => (self.time()?, self.zone()?),
            None => (0, self.zone()?),
        };
        if !self.0.is_empty() {
            return None;
        }
        if year < 1601 {
            return Some(Err(DateTimeError::OutOfRange));
        }
        let months: u64 = month_days(year)[..month as usize - 1].iter().sum();
        let days = days_before(year) + months + day - 1;
        let local = i128::from(days * TICKS_PER_DAY + time_ticks);
        let ticks = u64::try_from(local - i128::from(offset_ticks)).ok();
        Some(
            ticks
                .and_then(DateTime::from_ticks)
                .ok_or(DateTimeError::OutOfRange),
        )
    }

    fn date(&mut self) -> Option<(u64, u64, u64)> {
        let year = self.digits(4)?;
        self.skip(b"-")?;
        let month = self.digits(2)?;
        self.skip(b"-")?;
        let day = self.digits(2)?;
        let length = *month_days(year).get(month.checked_sub(1)? as usize)?;
        (1..=length).contains(&day).then_some((year, month, day))
    }

    /// Ticks since midnight.
    fn time(&mut self) -> Option<u64> {
        let hour = self.digits(2)?;
        self.skip(b":")?;
        let minute = self.digits(2)?;
        let (second, fraction) = match self.skip(b":") {
            Some(()) => (self.digits(2)?, self.fraction()?),
            None => (0, 0),
        };
        let valid = hour < 24 && minute < 60 && second < 60;
        valid.then_some(((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND + fraction)
    }

    fn fraction(&mut self) -> Option<u64> {
        if self.skip(b".").is_none() {
            return Some(0);
        }
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(7);
        (count > 0).then(|| padded.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    }

    /// Ticks by which the local time is ahead of UTC.
    fn zone(&mut self) -> Option<i64> {
        let sign = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => {
                let _ = self.skip(b"Zz");
                return Some(0);
            }
        };
        self.0 = &self.0[1..];
        let hours = self.digits(2)?;
        self.skip(b":")?;
        let minutes = self.digits(2)?;
        let valid = hours <= 14 && minutes < 60;
        valid.then_some(sign * (hours * 60 + minutes) as i64 * 60 * TICKS_PER_SECOND as i64)
    }

    fn digits(&mut self, count: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u64::from(digit - b'0'))
        })
    }

    fn skip(&mut self, any_of: &[u8]) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        self.0 = any_of.contains(first).then_some(rest)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        DateTime::parse(text).unwrap().to_string()
    }

    #[test]
    fn text_forms_of_the_protocol_are_read_and_trimmed() {
        for (text, expected) in [
            (
                "2013-08-22T01:12:06.2608595Z",
                "2013-08-22T01:12:06.2608595Z",
            ),
            ("2013-08-22T01:12:06.000000Z", "2013-08-22T01:12:06Z"),
            (
                "2013-08-22T01:12:06.39852500Z",
                "2013-08-22T01:12:06.398525Z",
            ),
            ("2013-08-22T01:12:06", "2013-08-22T01:12:06Z"),
            ("2013-08-22T01:12Z", "2013-08-22T01:12:00Z"),
            ("2013-08-22", "2013-08-22T00:00:00Z"),
            ("2013-08-22T01:12:06+02:00", "2013-08-21T23:12:06Z"),
            ("2013-08-21T23:12:06-05:30", "2013-08-22T04:42:06Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
            ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
            (
                "9999-12-31T23:59:59.9999999Z",
                "9999-12-31T23:59:59.9999999Z",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert_eq!(
            &*DateTime::MIN.to_full_text(),
            "1601-01-01T00:00:00.0000000Z"
        );
    }

    #[test]
    fn what_is_no_instant_is_malformed_and_what_is_too_early_out_of_range() {
        for text in [
            "",
            "x",
            "2013",
            "2013-13-01",
            "2013-00-01",
            "2013-01-00",
            "1900-02-29",
            "2013-08-22T",
            "2013-08-22T24:00:00Z",
            "2013-08-22T01:60:00Z",
            "2013-08-22T01:00:60Z",
            "2013-08-22T01:00:00.Z",
            "2013-08-22T01:00:00Zx",
            "2013-08-22T01:00:00+2",
            "2013-08-22 01:00:00",
            "+013-08-22T01:00:00Z",
            "２013-08-22",
        ] {
            assert_eq!(
                DateTime::parse(text),
                Err(DateTimeError::Malformed),
                "{text}"
            );
        }
        for text in [
            "1600-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "0000-01-01",
            "1601-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
        ] {
            assert_eq!(
                DateTime::parse(text),
                Err(DateTimeError::OutOfRange),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_instant_survives_its_text(ticks in 0..=DateTime::MAX.0) {
            let instant = DateTime(ticks);
            prop_assert_eq!(DateTime::parse(&instant.to_string()), Ok(instant));
            prop_assert_eq!(DateTime::parse(&instant.to_full_text()), Ok(instant));
            prop_assert_eq!(DateTime::from(instant.to_system_time()), instant);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}", digits in "[0-9TZ:.+-]{0,40}") {
            let _ = DateTime::parse(&text);
            let _ = DateTime::parse(&digits);
        }
    }
}
