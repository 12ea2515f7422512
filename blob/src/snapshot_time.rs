//! SnapshotTime: the time that identifies a snapshot or a version of a blob, to 100 ns.

use crate::etag::{ticks, time_of_ticks};
use lazurite_base::ticks::Ticks;
use std::fmt;
use std::time::SystemTime;
use time::{Date, Month};

/// The time that identifies a snapshot or a version: unique and increasing among those of one blob.
///
/// Displayed as on the wire: `2011-03-09T01:42:34.9360000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTime(pub(crate) u64);

impl SnapshotTime {
    /// Rounds `time` down to 100 ns.
    pub fn at(time: SystemTime) -> SnapshotTime {
        SnapshotTime(ticks(time))
    }

    /// The moment as a `SystemTime`.
    pub fn time(self) -> SystemTime {
        time_of_ticks(self.0)
    }

    /// Parses the displayed form, with one to seven digits of the second's fraction, or without the
    /// fraction. `None` for other text.
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
        let month = Month::try_from(month as u8).ok()?;
        let date = Date::from_calendar_date(year as i32, month, day as u8).ok()?;
        let day = Ticks::of_date(date)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let second = hour * 3600 + minute * 60 + second;
        Some(SnapshotTime(day.0 + second * Ticks::PER_SECOND + fraction))
    }

    /// The next moment, 100 ns later.
    pub(crate) fn next(self) -> SnapshotTime {
        SnapshotTime(self.0.saturating_add(1))
    }
}

impl fmt::Display for SnapshotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Ticks(self.0).to_text())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn snapshot_times_are_formatted_as_on_the_wire() {
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
    fn malformed_snapshot_times_are_refused() {
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

    /// The expected dates come from counting days.
    #[test]
    fn first_and_last_day_of_every_month_are_formatted_and_parsed() {
        let mut days = 0;
        for (year, month) in (1..=9999).flat_map(|year| (1..=12).map(move |month| (year, month))) {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            for day in [1, length] {
                let moment = SnapshotTime((days + day - 1) * Ticks::PER_DAY);
                let text = format!("{year:04}-{month:02}-{day:02}T00:00:00.0000000Z");
                assert_eq!(moment.to_string(), text);
                assert_eq!(SnapshotTime::parse(&text), Some(moment));
            }
            days += length;
        }
        assert_eq!(days, 3_652_059);
    }

    proptest! {
        #[test]
        fn snapshot_times_round_trip(ticks in 0u64..3_155_378_975_999_999_999) {
            let moment = SnapshotTime(ticks);
            prop_assert_eq!(SnapshotTime::parse(&moment.to_string()), Some(moment));
        }
    }
}
