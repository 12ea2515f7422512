//! The protocol's dates: RFC 1123 in headers and XML; ISO 8601 in signatures, policies, error
//! messages and pages for people.
//!
//! Instants are [`SystemTime`]s. Texts outside the years 0001 to 9999 are refused; instants outside
//! them are shown with the first or last day of these years. The calendar is that of the `time`
//! crate, whose formats and parsers do not fit the protocol's.

use lazurite_base::ticks::Ticks;
use std::time::SystemTime;
use time::{Date, Month};

/// `Fri, 01 Mar 2024 12:34:56 GMT`: whole seconds, rounded down.
pub fn rfc1123(time: SystemTime) -> String {
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let time = Ticks::from_system(time);
    let date = time.date();
    let (year, month, day) = date.to_calendar_date();
    let [hour, minute, second] = time.clock().map(|number| number as i64);
    let (year, day) = (i64::from(year), i64::from(day));
    let weekday = WEEKDAYS[usize::from(date.weekday().number_days_from_monday())];
    let month = MONTHS[usize::from(u8::from(month)) - 1];
    // Patched into a template: faster than formatting, and listings have thousands of dates.
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(weekday.as_bytes());
    text[8..11].copy_from_slice(month.as_bytes());
    for (at, number) in [
        (5, day),
        (12, year / 100),
        (14, year),
        (17, hour),
        (20, minute),
        (23, second),
    ] {
        text[at] = b'0' + (number / 10 % 10) as u8;
        text[at + 1] = b'0' + (number % 10) as u8;
    }
    str::from_utf8(&text).unwrap_or_default().to_owned()
}

/// Parses the three date formats of HTTP, in the years 0001 to 9999; `None` for any other text, and
/// for a weekday that is not the date's. The only parser of HTTP dates.
pub fn parse_http(text: &str) -> Option<SystemTime> {
    let later = || before_1970(text.trim());
    httpdate::parse_http_date(text).ok().or_else(later)
}

/// Parses a date before 1970, which the library refuses: as the same day 2000 years later. The
/// calendar repeats with its weekdays every 400 years.
fn before_1970(text: &str) -> Option<SystemTime> {
    const DAYS_OF_2000_YEARS: u64 = 5 * 146_097;
    // The year of `Wed, 31 Dec 1969 23:59:59 GMT`, and of `Wed Dec 31 23:59:59 1969`.
    [12, 20].into_iter().find_map(|at| {
        let year = year(text.get(at..at + 4)?.as_bytes())?;
        if !(1..1970).contains(&year) {
            return None;
        }
        let text = format!("{}{}{}", &text[..at], year + 2000, &text[at + 4..]);
        let time = Ticks::from_system(httpdate::parse_http_date(&text).ok()?);
        let ticks = time.0.checked_sub(DAYS_OF_2000_YEARS * Ticks::PER_DAY)?;
        Some(Ticks(ticks).to_system())
    })
}

/// `2024-03-01T12:34:56.1234567Z`: always seven digits after the point, rounded down.
pub fn iso8601(time: SystemTime) -> String {
    Ticks::from_system(time).to_text().to_string()
}

/// `2024-03-01T12:34:56Z`: whole seconds, rounded down.
pub fn iso8601_seconds(time: SystemTime) -> String {
    Ticks::from_system(time).to_text().to_seconds().to_string()
}

/// Reads `YYYY-MM-DD` and `YYYY-MM-DDThh:mm[:ss[.f{1,7}]]Z`, both UTC; `None` for anything else.
/// Source: Create a service SAS, "Specify the signature validity interval".
pub fn parse_iso8601(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.as_bytes().split_at_checked(10)?;
    let of_day = match rest {
        [] => 0,
        [b'T', clock @ .., b'Z'] => parse_clock(clock)?,
        _ => return None,
    };
    Some(Ticks(parse_date(date)?.0 + of_day).to_system())
}

/// Whether `text` is a day of the calendar as `YYYY-MM-DD`.
pub fn is_date(text: &str) -> bool {
    parse_date(text.as_bytes()).is_some()
}

/// The beginning of the day `YYYY-MM-DD`.
fn parse_date(text: &[u8]) -> Option<Ticks> {
    let &[a, b, c, d, b'-', e, f, b'-', g, h] = text else {
        return None;
    };
    let month = Month::try_from(pair(e, f)?).ok()?;
    let date = Date::from_calendar_date(year(&[a, b, c, d])?.into(), month, pair(g, h)?).ok()?;
    Ticks::of_date(date)
}

/// Parses the time of a day, `hh:mm[:ss[.f{1,7}]]`, as ticks.
fn parse_clock(text: &[u8]) -> Option<u64> {
    let &[a, b, b':', c, d, ref rest @ ..] = text else {
        return None;
    };
    let (hour, minute) = (pair(a, b)?, pair(c, d)?);
    let (second, fraction) = match *rest {
        [] => (0, &[][..]),
        [b':', e, f] => (pair(e, f)?, &[][..]),
        [b':', e, f, b'.', ref fraction @ ..] if !fraction.is_empty() => (pair(e, f)?, fraction),
        _ => return None,
    };
    let missing_digits = 7_usize.checked_sub(fraction.len())?;
    let mut ticks = 0;
    for &byte in fraction {
        ticks = 10 * ticks + u64::from(digit(byte)?);
    }
    let is_valid = hour < 24 && minute < 60 && second < 60;
    let seconds = u64::from(hour) * 3600 + u64::from(minute) * 60 + u64::from(second);
    is_valid.then_some(seconds * Ticks::PER_SECOND + ticks * 10_u64.pow(missing_digits as u32))
}

fn year(digits: &[u8]) -> Option<u16> {
    let &[a, b, c, d] = digits else {
        return None;
    };
    Some(100 * u16::from(pair(a, b)?) + u16::from(pair(c, d)?))
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

fn pair(tens: u8, ones: u8) -> Option<u8> {
    Some(10 * digit(tens)? + digit(ones)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn iso_forms_of_the_sas_page_are_read() {
        let midnight = UNIX_EPOCH + Duration::from_secs(1_709_251_200);
        assert_eq!(parse_iso8601("2024-03-01"), Some(midnight));
        assert_eq!(parse_iso8601("2024-03-01T00:00Z"), Some(midnight));
        assert_eq!(parse_iso8601("2024-03-01T00:00:00Z"), Some(midnight));
        assert_eq!(
            parse_iso8601("2024-03-01T00:00:00.5Z"),
            Some(midnight + Duration::from_millis(500))
        );
        assert_eq!(
            parse_iso8601("1601-01-01T00:00:00Z").map(iso8601).unwrap(),
            "1601-01-01T00:00:00.0000000Z"
        );
    }

    #[test]
    fn headers_hold_any_year_of_the_protocol() {
        let form = |text| rfc1123(parse_iso8601(text).unwrap());
        assert_eq!(form("0001-01-01"), "Mon, 01 Jan 0001 00:00:00 GMT");
        assert_eq!(form("1601-01-01"), "Mon, 01 Jan 1601 00:00:00 GMT");
        assert_eq!(
            form("2024-03-01T12:34:56.9Z"),
            "Fri, 01 Mar 2024 12:34:56 GMT"
        );
        assert_eq!(
            form("9999-12-31T23:59:59Z"),
            "Fri, 31 Dec 9999 23:59:59 GMT"
        );
        assert_eq!(
            parse_http(&form("2024-03-01T12:34:56Z")),
            parse_iso8601("2024-03-01T12:34:56Z")
        );
    }

    #[test]
    fn texts_that_are_no_http_dates_are_refused() {
        for text in [
            "",
            "0",
            "2024-03-01T12:34:56Z",
            "Sat, 01 Jan 0000 00:00:00 GMT",
            "Mon, 01 Jan 10000 00:00:00 GMT",
            "Mon, 30 Feb 1959 00:00:00 GMT",
            "Sun, 29 Feb 1900 00:00:00 GMT",
            "Mon, 01 Jan 1900 24:00:00 GMT",
            "Mon, 01 Jan 1900 00:00:00 UTC",
            "Mon, 01 Jan 19\u{e9}0 00:00:00 GMT",
        ] {
            assert_eq!(parse_http(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}", year in "[0-9]{4}", rest in "[ -~]{0,8}") {
            let _ = (parse_http(&text), parse_iso8601(&text));
            let _ = parse_http(&format!("Mon, 01 Jan {year} {rest}"));
            let _ = parse_http(&format!("Mon Jan  1 {rest:<8} {year}"));
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        let forms = [
            "",
            "2024-02-30",
            "2023-02-29",
            "2024-3-1",
            "0000-03-01",
            "2024-03-01-01",
            "2024-03-01T24:00Z",
            "2024-03-01T00:60Z",
            "2024-03-01T00:00:60Z",
            "2024-03-01T00:00",
            "2024-03-01T00:00:00.Z",
            "2024-03-01T00:00.5Z",
        ];
        for text in forms {
            assert_eq!(parse_iso8601(text), None, "{text}");
            assert!(!is_date(text), "{text}");
        }
        assert!(is_date("2024-02-29") && !is_date("2024-02-29T00:00Z"));
    }

    #[test]
    fn printing_inverts_reading_over_a_century() {
        for day in 0..36_525u64 {
            let time = UNIX_EPOCH
                + Duration::from_secs(day * 86_400 + 3661)
                + Duration::from_nanos(1_234_567 * 100);
            assert_eq!(parse_iso8601(&iso8601(time)), Some(time));
        }
    }

    /// An independent calendar. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms",
    /// `civil_from_days`.
    fn civil_from_days(days: i64) -> (i64, i64, i64) {
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year_of_era;
        if month < 10 {
            (year, month + 3, day)
        } else {
            (year + 1, month - 9, day)
        }
    }

    proptest::proptest! {
        #[test]
        fn dates_agree_with_an_independent_calendar(
            seconds in -62_135_596_800i64..253_402_300_800, ticks in 0u32..10_000_000,
        ) {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let start = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            let time = start + Duration::from_nanos(u64::from(ticks) * 100);
            let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
            let (year, month, day) = civil_from_days(days);
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            let date = format!("{year:04}-{month:02}-{day:02}");
            let text = format!("{date}T{hour:02}:{minute:02}:{second:02}.{ticks:07}Z");
            proptest::prop_assert_eq!(iso8601(time), &text[..]);
            proptest::prop_assert_eq!(parse_iso8601(&text), Some(time));
            let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
            let clock = format!("{year:04} {hour:02}:{minute:02}:{second:02} GMT");
            let (header, day) = (rfc1123(time), format!("{weekday}, {day:02} "));
            proptest::prop_assert!(header.starts_with(&day) && header.ends_with(&clock), "{header}");
            let whole = Some(parse_iso8601(&format!("{}Z", &text[..19])).unwrap());
            proptest::prop_assert_eq!(parse_http(&header), whole);
            let (month, clock) = (&header[8..11], &header[17..25]);
            let day = header[5..7].trim_start_matches('0');
            let asctime = format!("{weekday} {month} {day:>2} {clock} {year:04}");
            proptest::prop_assert_eq!(parse_http(&asctime), whole);
            let other = if weekday == "Mon" { "Tue" } else { "Mon" };
            proptest::prop_assert_eq!(parse_http(&header.replace(weekday, other)), None);
        }
    }

    #[test]
    fn instants_outside_the_years_1_to_9999_are_shown_with_their_first_or_last_day() {
        let year_10000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(iso8601(year_10000), "9999-12-31T00:00:00.0000000Z");
        assert_eq!(rfc1123(year_10000), "Fri, 31 Dec 9999 00:00:00 GMT");
        let year_0 = UNIX_EPOCH - Duration::from_secs(62_135_596_801);
        assert_eq!(iso8601(year_0), "0001-01-01T00:00:00.0000000Z");
        assert_eq!(iso8601_seconds(year_0), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn a_header_has_the_last_two_digits_of_any_year() {
        for year in [1601, 1999, 2000, 2010, 2099] {
            let header = rfc1123(parse_iso8601(&format!("{year}-06-15")).unwrap());
            assert_eq!(header[12..16], year.to_string(), "{header}");
            assert_eq!(parse_http(&header).map(rfc1123), Some(header));
        }
    }
}
