//! `DateTime`: an instant of the protocol, counted in its own ticks, and the text forms it has on
//! the wire.
//!
//! The text forms are here and not in the server because `$filter`, ETags and JSON share them.
//! Every value lies in the range of the protocol, so formatting cannot fail. The parser of the
//! `time` crate is not used, because the protocol's texts may lack the time, the seconds or the
//! zone.

use lazurite_base::ticks::{Ticks, TicksText};
use std::fmt;
use std::time::SystemTime;
use time::{Date, Month};

/// 1601-01-01T00:00:00Z.
pub(crate) const FIRST: Ticks = Ticks(584_388 * Ticks::PER_DAY);

/// An instant in UTC, to 100 ns, from 1601-01-01T00:00:00Z to 9999-12-31T23:59:59.9999999Z. Later
/// instants are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(u64);

/// Why a text is not a [`DateTime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateTimeError {
    /// The text does not have a form that [`DateTime::parse`] reads, or there is no such day or
    /// time of day.
    Malformed,
    /// The instant is before 1601 or after 9999.
    OutOfRange,
}

impl DateTime {
    /// 1601-01-01T00:00:00Z, the first instant that can be stored.
    pub const MIN: DateTime = DateTime(0);
    /// 9999-12-31T23:59:59.9999999Z, the last instant that can be stored.
    pub const MAX: DateTime = DateTime(3_067_671 * Ticks::PER_DAY - 1);

    /// The instant `ticks` of 100 ns after 1601-01-01T00:00:00Z; `None` after [`DateTime::MAX`].
    pub fn from_ticks(ticks: u64) -> Option<DateTime> {
        (ticks <= Self::MAX.0).then_some(DateTime(ticks))
    }

    /// Ticks of 100 ns since 1601-01-01T00:00:00Z.
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// The next tick, or [`DateTime::MAX`] again.
    pub fn next_tick(self) -> DateTime {
        DateTime(Self::MAX.0.min(self.0 + 1))
    }

    fn since_year_1(self) -> Ticks {
        Ticks(FIRST.0 + self.0)
    }

    /// The instant as a `SystemTime`.
    pub fn to_system_time(self) -> SystemTime {
        self.since_year_1().to_system()
    }

    /// Parses `YYYY-MM-DDThh:mm:ss.fffffffZ`. The time of day, the seconds and the fraction are
    /// optional. Digits of the fraction after the seventh are ignored. An offset such as `+02:00`
    /// is converted; a text without a zone is in UTC.
    pub fn parse(text: &str) -> Result<DateTime, DateTimeError> {
        Reader(text.as_bytes())
            .date_time()
            .unwrap_or(Err(DateTimeError::Malformed))
    }

    /// The form of Timestamps and ETags, always with seven digits of fraction.
    pub fn to_full_text(self) -> TicksText {
        self.since_year_1().to_text()
    }

    /// Returns the text form of stored values: the fraction without trailing zeros, and no fraction
    /// for a whole second.
    pub fn to_text(self) -> TicksText {
        self.to_full_text().shortened()
    }
}

impl From<DateTime> for SystemTime {
    fn from(instant: DateTime) -> SystemTime {
        instant.to_system_time()
    }
}

/// Rounds down to a tick, and clamps to the range of the protocol.
impl From<SystemTime> for DateTime {
    fn from(time: SystemTime) -> DateTime {
        let ticks = Ticks::from_system(time).0.saturating_sub(FIRST.0);
        DateTime(ticks.min(Self::MAX.0))
    }
}

/// The form of stored values: see [`DateTime::to_text`].
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// The rest of a text. Every method returns `None` if the text does not match.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn date_time(&mut self) -> Option<Result<DateTime, DateTimeError>> {
        let date = self.date()?;
        let (time_ticks, offset_ticks) = match self.skip(b"Tt") {
            Some(()) => (self.time()?, self.zone()?),
            None => (0, self.zone()?),
        };
        if !self.0.is_empty() {
            return None;
        }
        // An offset does not bring a local date before 1601 into range.
        let day = Ticks::of_date(date).filter(|day| *day >= FIRST);
        let local = day.map(|day| day.0 - FIRST.0 + time_ticks);
        let ticks = local.and_then(|local| local.checked_add_signed(-offset_ticks));
        let instant = ticks.and_then(DateTime::from_ticks);
        Some(instant.ok_or(DateTimeError::OutOfRange))
    }

    fn date(&mut self) -> Option<Date> {
        let year = self.digits(4)?;
        self.skip(b"-")?;
        let month = Month::try_from(self.digits(2)? as u8).ok()?;
        self.skip(b"-")?;
        let day = self.digits(2)?;
        Date::from_calendar_date(year as i32, month, day as u8).ok()
    }

    /// Parses a time of day into ticks since midnight.
    fn time(&mut self) -> Option<u64> {
        let hour = self.digits(2)?;
        self.skip(b":")?;
        let minute = self.digits(2)?;
        let (second, fraction) = match self.skip(b":") {
            Some(()) => (self.digits(2)?, self.fraction()?),
            None => (0, 0),
        };
        let valid = hour < 24 && minute < 60 && second < 60;
        valid.then_some(((hour * 60 + minute) * 60 + second) * Ticks::PER_SECOND + fraction)
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

    /// Parses the offset of a local time from UTC, in ticks.
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
        valid.then_some(sign * (hours * 60 + minutes) as i64 * 60 * Ticks::PER_SECOND as i64)
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
    fn text_forms_of_the_protocol_are_parsed_and_trimmed() {
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
            ("2013-08-22T01:12:06-14:00", "2013-08-22T15:12:06Z"),
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
    fn malformed_texts_and_instants_out_of_range_have_different_errors() {
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
            "2013-08-22T01:00:00+01:60",
            "2013-08-22T01:00:00-15:00",
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
        fn instants_round_trip_through_text(ticks in 0..=DateTime::MAX.0) {
            let instant = DateTime(ticks);
            prop_assert_eq!(DateTime::parse(&instant.to_string()), Ok(instant));
            prop_assert_eq!(DateTime::parse(&instant.to_full_text()), Ok(instant));
            prop_assert_eq!(DateTime::from(instant.to_system_time()), instant);
        }

        #[test]
        fn parsing_never_panics(text in ".{0,40}", digits in "[0-9TZ:.+-]{0,40}") {
            let _ = DateTime::parse(&text);
            let _ = DateTime::parse(&digits);
        }
    }
}
