//! The headers of a request. An operation looks up some thirty names, and a request has a dozen. A
//! filter recognises most absent names without a look-up in the map, which would hash the name
//! first.

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use std::ops::Deref;

/// A header map with a filter that recognises most absent names.
#[derive(Debug, Clone, Default)]
pub struct RequestHeaders {
    map: HeaderMap,
    /// The marks of all names in the map, and perhaps of others.
    names: u128,
}

/// One bit for a name, whatever its case. Inlined, so that it is a constant for a literal name.
#[inline]
fn mark(name: &str) -> u128 {
    let bytes = name.as_bytes();
    let byte = |index: usize| u32::from(bytes.get(index).copied().unwrap_or(0) | 0x20);
    let length = bytes.len();
    let mixed = length as u32 * 23 + byte(length.wrapping_sub(1)) * 5 + byte(length / 2) * 11;
    1 << (mixed % u128::BITS)
}

impl From<HeaderMap> for RequestHeaders {
    fn from(map: HeaderMap) -> RequestHeaders {
        let names = map
            .keys()
            .fold(0, |names, name| names | mark(name.as_str()));
        RequestHeaders { map, names }
    }
}

/// For the methods of `HeaderMap` that the filter does not make faster.
impl Deref for RequestHeaders {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.map
    }
}

impl RequestHeaders {
    /// The first value of the header, whose name may be in any case.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&HeaderValue> {
        if self.names & mark(name) == 0 {
            return None;
        }
        self.find(name)
    }

    /// Like [`RequestHeaders::get`], and faster for a header that most requests have.
    pub fn get_hashed(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.map.get(name)
    }

    fn find(&self, name: &str) -> Option<&HeaderValue> {
        // Among a dozen names, a linear search is faster than hashing.
        let mut headers = self.map.iter();
        let found = headers.find(|(other, _)| other.as_str().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Whether the header is present, even with an empty value.
    #[inline]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Removes the headers with this name, or with this prefix if it ends in a hyphen.
    pub fn remove_all(&mut self, name: &str) {
        if !name.ends_with('-') {
            self.map.remove(name);
            return;
        }
        let is_one = |other: &&HeaderName| other.as_str().starts_with(name);
        while let Some(other) = self.map.keys().find(is_one).cloned() {
            self.map.remove(other);
        }
    }

    /// Sets the only value of a header, or removes the header if `value` is `None`.
    pub fn set(&mut self, name: HeaderName, value: Option<HeaderValue>) {
        self.names |= mark(name.as_str());
        match value {
            Some(value) => self.map.insert(name, value),
            None => self.map.remove(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_others_are_not() {
        let names = ["host", "x-ms-date", "x-ms-version", "accept", "if-match"];
        let mut map = HeaderMap::new();
        for name in names {
            map.insert(name, HeaderValue::from_static("1"));
        }
        let mut headers = RequestHeaders::from(map);
        for name in names {
            assert!(headers.contains_key(name) && headers.contains_key(&name.to_uppercase()));
        }
        for absent in [
            "",
            "x",
            "date",
            "if-none-match",
            "x-ms-dat",
            "content-length",
        ] {
            assert!(!headers.contains_key(absent), "{absent}");
        }
        headers.set(
            HeaderName::from_static("range"),
            Some(HeaderValue::from_static("2")),
        );
        assert_eq!(headers.get("range").unwrap(), "2");
        headers.set(HeaderName::from_static("range"), None);
        assert!(!headers.contains_key("range"));
        headers.remove_all("x-ms");
        assert!(headers.contains_key("x-ms-date"));
        headers.remove_all("if-match");
        headers.remove_all("x-ms-");
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["host", "accept"]);
    }
}
