//! Formats counts, sizes and durations for readers.

use std::time::Duration;

/// A number with separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 blob`, `2 blobs`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A size such as `12.3 MB`, in units of 1,000 as disks are sold.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.95 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// A duration such as `3 d 4 h`, `5 min 2 s` or `0 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 86400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts
        .iter()
        .position(|(number, _)| *number > 0)
        .unwrap_or(3);
    let shown = parts[first..]
        .iter()
        .take(2)
        .filter(|(number, unit)| *number > 0 || *unit == "s");
    shown
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sizes_and_durations_are_written_for_people() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 999, 1000, 999_999, 12_345_678].map(size),
            ["0 B", "999 B", "1.0 kB", "1.0 MB", "12.3 MB"]
        );
        let shown =
            [0, 59, 60, 3600, 100_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "1 h", "1 d 3 h"]);
        assert_eq!(counted(1, "blob") + &counted(0, "blob"), "1 blob0 blobs");
    }
}
