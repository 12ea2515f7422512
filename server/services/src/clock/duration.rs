//! Durations as text: of ISO 8601 (`PT30S`, `P1DT2H`) or a number with a unit (`30s`, `250ms`,
//! `1.5h`).

use std::time::Duration;

/// The units of ISO 8601 before the `T`, in seconds and in their required order.
const DATE_UNITS: [(char, f64); 2] = [('W', 604_800.0), ('D', 86_400.0)];
/// The units of ISO 8601 after the `T`, in seconds and in their required order.
const TIME_UNITS: [(char, f64); 3] = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
/// The unit suffixes in seconds. `ms` comes before `s`, because `s` is also a suffix of `ms`.
const UNITS: [(&str, f64); 5] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Parses either form; `None` if malformed. Months and years count as malformed: their length
/// varies.
pub fn parse(text: &str) -> Option<Duration> {
    let seconds = match text.strip_prefix('P') {
        Some(rest) => iso8601(rest)?,
        None => {
            let (number, unit) = UNITS
                .iter()
                .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
            number_of(number)? * unit
        }
    };
    from_seconds(seconds)
}

/// A duration in seconds; `None` if the number is negative, not finite or too large.
pub fn from_seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn iso8601(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once('T') {
        // `T` must be followed by a time.
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    Some(sum(date, &DATE_UNITS)? + sum(time, &TIME_UNITS)?)
}

fn sum(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut sum = 0.0;
    for (unit, seconds) in units {
        if let Some((number, rest)) = text.split_once(*unit) {
            sum += number_of(number)? * seconds;
            text = rest;
        }
    }
    text.is_empty().then_some(sum)
}

/// A decimal number without sign or exponent; `None` if it is not one.
fn number_of(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_both_forms() {
        for (text, milliseconds) in [
            ("PT30S", 30_000),
            ("PT0.5S", 500),
            ("PT1H30M", 5_400_000),
            ("P1DT2H", 93_600_000),
            ("P7D", 604_800_000),
            ("P1W", 604_800_000),
            ("30s", 30_000),
            ("250ms", 250),
            ("5m", 300_000),
            ("1.5h", 5_400_000),
            ("7d", 604_800_000),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse(text), Some(duration), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in [
            "",
            "P",
            "PT",
            "P1DT",
            "30",
            "s",
            "-30s",
            "PT-30S",
            "P1M",
            "P1Y",
            "PTS",
            "PT1M1H",
            "1e9s",
            "inf s",
            "nans",
            "30 s",
            "30S",
            "PT30S ",
            "99999999999999999999d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
