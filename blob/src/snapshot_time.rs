//! SnapshotTime: the time that identifies a snapshot or a version of a blob, to 100 ns.

use crate::etag::{ticks, time_of_ticks};
use std::fmt;
use std::time::SystemTime;

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// The time that identifies a snapshot or a version: unique and increasing among those of one blob.
///
/// Displayed as on the wire: `2011-03-09T01:42:34.9360000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTime(pub(crate) u64);

impl SnapshotTime {
    /// The moment at `time`, cut to 100 ns.
    pub fn at(time: SystemTime) -> SnapshotTime {
        SnapshotTime(ticks(time))
    }

    /// The time it stands for.
    pub fn time(self) -> SystemTime {
        time_of_ticks(self.0)
    }

    /// Parses the displayed form, with one to seven digits of the second's fraction. `None` for other text.
    pub fn parse(text: &str) -> Option<SnapshotTime> {
        let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let digits = fraction.len();
        if !(1..=7).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(7 - digits as u32);
        let in_range = (1..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1;
        if !in_range || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_before(year, month) + day - 1;
        if civil(days) != (year, month, day) {
            return None;
        }
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
        Some(SnapshotTime(seconds * TICKS_PER_SECOND + fraction))
    }

    /// The next moment after this one.
    pub(crate) fn next(self) -> SnapshotTime {
        SnapshotTime(self.0.saturating_add(1))
    }
}

impl fmt::Display for SnapshotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0 / TICKS_PER_SECOND, self.0 % TICKS_PER_SECOND);
        let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
        let second = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z"
        )
    }
}

fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(separator);
    let mut found = [0; N];
    for (number, width) in found.iter_mut().zip(widths) {
        let part = parts.next()?;
        let digits = part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = digits.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from the first day of year 1 to the first day of the month.
fn days_before(year: u64, month: u64) -> u64 {
    const BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let years = year - 1;
    let leap_day = u64::from(month > 2 && is_leap(year));
    years * 365 + years / 4 - years / 100
        + years / 400
        + BEFORE_MONTH[month as usize - 1]
        + leap_day
}

/// Year, month and day of the day that is `days` after the first of year 1.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = days / 366 + 1;
    while days >= days_before(year + 1, 1) {
        year += 1;
    }
    let month = (1..=12)
        .rev()
        .find(|&month| days >= days_before(year, month))
        .unwrap_or(1);
    (year, month, days - days_before(year, month) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn moment_has_the_form_of_the_wire() {
        let moment = SnapshotTime::at(UNIX_EPOCH + Duration::new(1_299_634_954, 936_000_000));
        assert_eq!(moment.to_string(), "2011-03-09T01:42:34.9360000Z");
        assert_eq!(
            SnapshotTime::parse("2011-03-09T01:42:34.936Z"),
            Some(moment)
        );
        assert_eq!(
            SnapshotTime::at(UNIX_EPOCH).to_string(),
            "1970-01-01T00:00:00.0000000Z"
        );
        assert!(SnapshotTime::parse("2024-02-29T00:00:00Z").is_some());
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for bad in [
            "",
            "2011-03-09",
            "2011-03-09T01:42:34.9360000",
            "2011-3-09T01:42:34Z",
            "2011-02-29T01:42:34Z",
            "2011-13-01T01:42:34Z",
            "2011-03-09T24:42:34Z",
            "2011-03-09T01:42:34.12345678Z",
            "2011-03-09T01:42:34.Z",
            "0000-03-09T01:42:34Z",
            "2011-03-09T01:42:34.+12Z",
        ] {
            assert_eq!(SnapshotTime::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn moments_come_back(ticks in 0u64..3_155_378_975_999_999_999) {
            let moment = SnapshotTime(ticks);
            prop_assert_eq!(SnapshotTime::parse(&moment.to_string()), Some(moment));
        }
    }
}
