//! Timestamps of statements: ISO 8601, date arithmetic and formats. The calendar is that of the
//! `time` crate. Source: Query acceleration SQL language reference, "Date functions"; W3C, Date and
//! Time Formats.

use ::time::{Date, Month};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Milliseconds in a day.
pub const DAY: i64 = 24 * HOUR;
/// The years that timestamps can have.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;
/// The Julian day number of 1970-01-01.
const JULIAN_DAY_1970: i32 = 2_440_588;
const EPOCH: Timestamp = Timestamp {
    milliseconds: 0,
    offset_minutes: 0,
};
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// An instant, exact to the millisecond, with the zone of its text. Its year is in `YEARS` both in
/// UTC and in its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// Milliseconds since 1970, in UTC.
    pub milliseconds: i64,
    offset_minutes: i64,
}

/// A part of a timestamp that can be added, counted or extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    TimezoneHour,
    TimezoneMinute,
}

impl DatePart {
    /// Looks up a name, in any case.
    pub fn of(word: &str) -> Option<DatePart> {
        Some(match word.to_ascii_lowercase().as_str() {
            "year" => DatePart::Year,
            "month" => DatePart::Month,
            "day" => DatePart::Day,
            "hour" => DatePart::Hour,
            "minute" => DatePart::Minute,
            "second" => DatePart::Second,
            "timezone_hour" => DatePart::TimezoneHour,
            "timezone_minute" => DatePart::TimezoneMinute,
            _ => return None,
        })
    }

    /// Whether only EXTRACT supports the part.
    pub fn is_of_zone(self) -> bool {
        matches!(self, DatePart::TimezoneHour | DatePart::TimezoneMinute)
    }

    /// The length of the part in milliseconds; `None` if it varies.
    fn milliseconds(self) -> Option<i64> {
        match self {
            DatePart::Day => Some(DAY),
            DatePart::Hour => Some(HOUR),
            DatePart::Minute => Some(MINUTE),
            DatePart::Second => Some(SECOND),
            _ => None,
        }
    }
}

/// The local date and time of a timestamp.
struct Civil {
    date: Date,
    /// Milliseconds since midnight.
    milliseconds: i64,
}

impl Civil {
    /// Months since the year 0.
    fn months(&self) -> i64 {
        i64::from(self.date.year()) * 12 + i64::from(u8::from(self.date.month())) - 1
    }
}

impl Timestamp {
    /// Converts a time to a timestamp in UTC. Times before 1970 or after 9999 become 1970.
    pub fn of(time: SystemTime) -> Timestamp {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = i64::try_from(since.as_millis()).ok();
        let timestamp = milliseconds.and_then(Timestamp::of_milliseconds);
        timestamp.unwrap_or(EPOCH)
    }

    /// The instant `milliseconds` after 1970, in UTC.
    pub fn of_milliseconds(milliseconds: i64) -> Option<Timestamp> {
        Timestamp::local(milliseconds, 0)
    }

    /// Parses ISO 8601, from a year alone to a fraction of a second. Without a zone the text is in
    /// UTC.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let text = text.trim();
        let (date, clock) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
        let days = parse_date(date)?;
        let zone_at = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
        let (clock, zone) = clock.split_at(zone_at);
        let offset_minutes = parse_zone(zone)?;
        let local = days * DAY + parse_clock(clock)?;
        Timestamp::local(local, offset_minutes)
    }

    /// A timestamp from milliseconds since 1970 in local time; `None` outside of `YEARS`.
    fn local(local: i64, offset_minutes: i64) -> Option<Timestamp> {
        let milliseconds = local.checked_sub(offset_minutes * MINUTE)?;
        date_of(local).and(date_of(milliseconds))?;
        Some(Timestamp {
            milliseconds,
            offset_minutes,
        })
    }

    fn civil(self) -> Civil {
        let local = self.milliseconds + self.offset_minutes * MINUTE;
        Civil {
            date: date_of(local).expect("a timestamp is within `YEARS`"),
            milliseconds: local.rem_euclid(DAY),
        }
    }

    /// Adds `quantity` parts. In a month that is too short the day is the last one. `None` outside
    /// of `YEARS`.
    pub fn plus(self, part: DatePart, quantity: i64) -> Option<Timestamp> {
        if let Some(length) = part.milliseconds() {
            return self.plus_milliseconds(quantity.checked_mul(length)?);
        }
        let months = match part {
            DatePart::Year => quantity.checked_mul(12)?,
            DatePart::Month => quantity,
            _ => return None,
        };
        let civil = self.civil();
        let month = civil.months().checked_add(months)?;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let year = i32::try_from(year).ok()?;
        let month = month_of(month)?;
        let day = civil.date.day().min(month.length(year));
        let date = Date::from_calendar_date(year, month, day).ok()?;
        let local = days_since_1970(date) * DAY + civil.milliseconds;
        Timestamp::local(local, self.offset_minutes)
    }

    /// Adds milliseconds. `None` outside of `YEARS`.
    pub fn plus_milliseconds(self, milliseconds: i64) -> Option<Timestamp> {
        let local = self.milliseconds + self.offset_minutes * MINUTE;
        Timestamp::local(local.checked_add(milliseconds)?, self.offset_minutes)
    }

    /// The number of boundaries of the part between this instant and `later`, in UTC. Source:
    /// DATEDIFF (Transact-SQL).
    pub fn until(self, later: Timestamp, part: DatePart) -> Option<i64> {
        let utc = |time: Timestamp| Timestamp {
            offset_minutes: 0,
            ..time
        };
        let (from, to) = (utc(self).civil(), utc(later).civil());
        if let Some(length) = part.milliseconds() {
            return Some(
                later.milliseconds.div_euclid(length) - self.milliseconds.div_euclid(length),
            );
        }
        match part {
            DatePart::Year => Some(i64::from(to.date.year() - from.date.year())),
            DatePart::Month => Some(to.months() - from.months()),
            _ => None,
        }
    }

    /// Extracts a part of the local time.
    pub fn part(self, part: DatePart) -> i64 {
        let civil = self.civil();
        match part {
            DatePart::Year => i64::from(civil.date.year()),
            DatePart::Month => i64::from(u8::from(civil.date.month())),
            DatePart::Day => i64::from(civil.date.day()),
            DatePart::Hour => civil.milliseconds / HOUR,
            DatePart::Minute => civil.milliseconds % HOUR / MINUTE,
            DatePart::Second => civil.milliseconds % MINUTE / SECOND,
            DatePart::TimezoneHour => self.offset_minutes / 60,
            DatePart::TimezoneMinute => self.offset_minutes % 60,
        }
    }

    /// Formats the local time; unknown characters are copied. Source: Query acceleration SQL
    /// language reference, "TO_STRING".
    pub fn format(self, format: &str) -> String {
        let mut out = String::new();
        let mut rest = format;
        while let Some(first) = rest.chars().next() {
            let length = rest.len() - rest.trim_start_matches(first).len();
            let (run, after) = rest.split_at(length);
            self.format_run(&mut out, run);
            rest = after;
        }
        out
    }

    /// Appends the field for a pattern `run` of one repeated character.
    fn format_run(self, out: &mut String, run: &str) {
        let civil = self.civil();
        let (hour, millisecond) = (civil.milliseconds / HOUR, civil.milliseconds % SECOND);
        let clock_hour = (hour + 11) % 12 + 1;
        let month = MONTHS[usize::from(u8::from(civil.date.month())) - 1];
        let mut number = |number: i64, width: usize| out.push_str(&format!("{number:0width$}"));
        match run {
            "yy" => number(self.part(DatePart::Year) % 100, 2),
            "y" => number(self.part(DatePart::Year), 1),
            "yyyy" => number(self.part(DatePart::Year), 4),
            "M" | "MM" => number(self.part(DatePart::Month), run.len()),
            "MMM" => out.push_str(&month[..3]),
            "MMMM" => out.push_str(month),
            "d" | "dd" => number(self.part(DatePart::Day), run.len()),
            "a" => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            "h" | "hh" => number(clock_hour, run.len()),
            "H" | "HH" => number(hour, run.len()),
            "m" | "mm" => number(self.part(DatePart::Minute), run.len()),
            "s" | "ss" => number(self.part(DatePart::Second), run.len()),
            "S" => number(millisecond / 100, 1),
            "SS" => number(millisecond / 10, 2),
            "SSS" => number(millisecond, 3),
            "X" | "XX" | "XXX" | "XXXX" | "XXXXX" if self.offset_minutes == 0 => out.push('Z'),
            "X" | "x" => self.format_zone(out, "", false),
            "XX" | "XXXX" | "xx" | "xxxx" => self.format_zone(out, "", true),
            "XXX" | "XXXXX" | "xxx" | "xxxxx" => self.format_zone(out, ":", true),
            other => out.push_str(other),
        }
    }

    fn format_zone(self, out: &mut String, separator: &str, with_minutes: bool) {
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let minutes = self.offset_minutes.abs();
        out.push_str(&format!("{sign}{:02}", minutes / 60));
        if with_minutes {
            out.push_str(&format!("{separator}{:02}", minutes % 60));
        }
    }
}

/// ISO 8601, with milliseconds unless they are 0.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = self.milliseconds.rem_euclid(SECOND) != 0;
        let clock = if fraction { "HH:mm:ss.SSS" } else { "HH:mm:ss" };
        let (date, clock) = (self.format("yyyy-MM-dd"), self.format(clock));
        write!(f, "{date}T{clock}{}", self.format("XXX"))
    }
}

/// The date of an instant in milliseconds since 1970; `None` outside of `YEARS`.
fn date_of(milliseconds: i64) -> Option<Date> {
    let days = milliseconds.div_euclid(DAY) + i64::from(JULIAN_DAY_1970);
    let date = Date::from_julian_day(i32::try_from(days).ok()?).ok()?;
    YEARS.contains(&date.year()).then_some(date)
}

fn days_since_1970(date: Date) -> i64 {
    i64::from(date.to_julian_day() - JULIAN_DAY_1970)
}

fn month_of(number: i64) -> Option<Month> {
    Month::try_from(u8::try_from(number).ok()?).ok()
}

/// Parses `2010`, `2010-01` or `2010-01-31` as days since 1970.
fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = i32::try_from(digits(parts.next()?, 4)?).ok()?;
    let mut two = || parts.next().map_or(Some(1), |part| digits(part, 2));
    let month = month_of(two()?)?;
    let day = u8::try_from(two()?).ok()?;
    let date = Date::from_calendar_date(year, month, day).ok()?;
    let is_date = YEARS.contains(&year) && parts.next().is_none();
    is_date.then(|| days_since_1970(date))
}

/// Parses an empty text, `20:18`, `20:18:04` or `20:18:04.5` as milliseconds since midnight.
fn parse_clock(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = text.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |part| digits(part, 2))?;
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_clock = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    if !is_clock || !is_fraction {
        return None;
    }
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    Some(hour * HOUR + minute * MINUTE + second * SECOND + digits(&thousandths, 3)?)
}

/// Parses an empty text, `Z`, `+05:30` or `-08:00` as minutes.
fn parse_zone(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first() {
        None => return Some(0),
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        Some(_) => return (text.len() == 1).then_some(0),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn all_forms_of_the_profile_are_parsed() {
        for (text, read) in [
            ("2007T", "2007-01-01T00:00:00Z"),
            ("2010-02", "2010-02-01T00:00:00Z"),
            ("2010-01-01T", "2010-01-01T00:00:00Z"),
            ("1969-07-20T20:18Z", "1969-07-20T20:18:00Z"),
            ("2017-01-02T03:04:05.006Z", "2017-01-02T03:04:05.006Z"),
            ("2018-11-09T00:00+05:30", "2018-11-09T00:00:00+05:30"),
            (
                "2018-11-09 01:00:23.5-08:00",
                "2018-11-09T01:00:23.500-08:00",
            ),
        ] {
            assert_eq!(at(text).to_string(), read);
        }
        for text in [
            "",
            "x",
            "207",
            "2010-13",
            "2010-02-30",
            "2010-01-01T1",
            "2010-01-01T24:00",
            "2010T10:00+5",
            "0000",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn date_arithmetic_adds_and_counts_parts() {
        let moved =
            |text: &str, part, quantity| at(text).plus(part, quantity).map(|it| it.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(
            moved("2017-01-02T03:04:05.006Z", DatePart::Minute, 1),
            is("2017-01-02T03:05:05.006Z")
        );
        assert_eq!(
            moved("2020-01-31", DatePart::Month, 1),
            is("2020-02-29T00:00:00Z")
        );
        assert_eq!(
            moved("2020-02-29", DatePart::Year, -1),
            is("2019-02-28T00:00:00Z")
        );
        for quantity in [i64::MAX, i64::MIN, 99_999_999] {
            assert_eq!(moved("2020", DatePart::Day, quantity), None);
            assert_eq!(moved("2020", DatePart::Year, quantity), None);
        }
        let between = |from: &str, to: &str, part| at(from).until(at(to), part).unwrap();
        let (from, to) = ("2018-11-09T00:00+05:30", "2018-11-09T01:00:23-08:00");
        assert_eq!(between(from, to, DatePart::Hour), 15);
        assert_eq!(between("2019-12-31", "2020-01-01", DatePart::Year), 1);
        assert_eq!(between("2020-03-01", "2020-01-31", DatePart::Month), -2);
    }

    #[test]
    fn formats_follow_the_reference() {
        let time = at("1969-07-20T20:18:04.250-07:00");
        for (format, text) in [
            ("MMMM d, y", "July 20, 1969"),
            ("yy MM MMM dd", "69 07 Jul 20"),
            ("h:mm a, hh HH:ss", "8:18 PM, 08 20:04"),
            ("S SS SSS", "2 25 250"),
            ("X XX XXX x xx xxx", "-07 -0700 -07:00 -07 -0700 -07:00"),
            ("yyyy'é", "1969'é"),
        ] {
            assert_eq!(time.format(format), text, "{format}");
        }
        assert_eq!(at("2020").format("XXX xxx"), "Z +00:00");
        assert_eq!(time.part(DatePart::TimezoneHour), -7);
    }
}
