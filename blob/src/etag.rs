//! ETags, and ticks of 100 ns, the unit of times in records.

use lazurite_base::ticks::Ticks;
use std::fmt;
use std::time::SystemTime;

/// The version of a container or blob: different after every write to its content, properties or
/// metadata.
///
/// Displayed as `0x8DE2A5B1C3D4E5F`, without the quotes that the ETag header needs: see
/// [`ETag::quoted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ETag(pub(crate) u64);

impl ETag {
    /// The form of the ETag header: `"0x8DE2A5B1C3D4E5F"`, quotes included.
    pub fn quoted(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        // The digits are filled in instead of formatted, for speed: every response has an ETag.
        let count = match self.0 >> 60 {
            0 => 15,
            _ => 16,
        };
        let mut text = String::with_capacity(r#""0x0123456789ABCDEF""#.len());
        text.push_str("\"0x");
        for digit in (0..count).rev() {
            let digit = (self.0 >> (4 * digit)) & 15;
            text.push(char::from(DIGITS[digit as usize]));
        }
        text.push('"');
        text
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:015X}", self.0)
    }
}

/// `time` in [`Ticks`].
pub(crate) fn ticks(time: SystemTime) -> u64 {
    Ticks::from_system(time).0
}

/// The time with this number of [`Ticks`].
pub(crate) fn time_of_ticks(ticks: u64) -> SystemTime {
    Ticks(ticks).to_system()
}

/// Returns `time` without its fraction of a second, as in an HTTP date: clients send back the date
/// that they received.
pub(crate) fn whole_seconds(time: SystemTime) -> SystemTime {
    Ticks::from_system(time).whole_seconds().to_system()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn etag_has_the_form_tools_match() {
        let etag = ETag(ticks(UNIX_EPOCH + Duration::from_secs(1_800_000_000)));
        assert_eq!(etag.to_string(), "0x8DF72DD8DAA8000");
        for value in [etag.0, 0, 0xA, (1 << 60) - 1, 1 << 60, u64::MAX] {
            let etag = ETag(value);
            assert_eq!(etag.quoted(), format!("\"{etag}\""));
        }
    }

    #[test]
    fn ticks_and_times_are_inverse_at_100_ns() {
        let late = UNIX_EPOCH + Duration::new(1_800_000_000, 123_456_700);
        let early = UNIX_EPOCH - Duration::new(1_000, 100);
        for time in [late, early, UNIX_EPOCH] {
            assert_eq!(time_of_ticks(ticks(time)), time);
        }
        assert_eq!(
            whole_seconds(late),
            UNIX_EPOCH + Duration::from_secs(1_800_000_000)
        );
        assert_eq!(ticks(time_of_ticks(u64::MAX)), u64::MAX);
    }
}
