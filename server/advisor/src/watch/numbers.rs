//! Numbers at the end of keys, and whether all have the same length.

use crate::rules::NUMERIC_KEYS;

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The text before the number.
    prefix: Option<String>,
    numeric: u64,
    other: u64,
    /// A number of the least and of the greatest length.
    shortest: Option<String>,
    longest: Option<String>,
}

impl Numbers {
    pub(crate) fn see(&mut self, key: &str, weight: u64) {
        let prefix = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = &key[prefix.len()..];
        let expected = self.prefix.get_or_insert_with(|| prefix.to_owned());
        if number.is_empty() || prefix != expected {
            self.other += weight;
            return;
        }
        self.numeric += weight;
        let length = |text: &Option<String>| text.as_ref().map(String::len);
        if length(&self.shortest).is_none_or(|least| number.len() < least) {
            self.shortest = Some(number.to_owned());
        }
        if length(&self.longest).is_none_or(|most| number.len() > most) {
            self.longest = Some(number.to_owned());
        }
    }

    /// A short and a long number, if numbers have different lengths and nearly all keys have one.
    pub(crate) fn unpadded(&self) -> Option<(&str, &str)> {
        let (shortest, longest) = (self.shortest.as_deref()?, self.longest.as_deref()?);
        let is_pattern = self.numeric >= NUMERIC_KEYS && self.other * 10 <= self.numeric;
        (is_pattern && shortest.len() < longest.len()).then_some((shortest, longest))
    }
}
