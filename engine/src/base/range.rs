//! Ranges of keys, and the direction in which they are walked.

/// Keys from `start` (inclusive) to `end` (exclusive; `None` is the end of the keyspace), in byte
/// order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// The first key covered.
    pub start: Vec<u8>,
    /// The first key no longer covered.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key of the keyspace.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < 0xff {
                *last += 1;
                return KeyRange {
                    start: prefix.to_vec(),
                    end: Some(end),
                };
            }
            end.pop();
        }
        KeyRange {
            start: prefix.to_vec(),
            end: None,
        }
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The order in which a scan visits keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Backward,
}
