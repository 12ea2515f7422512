//! One stored version of a key: user key, sequence number, kind; and the order of versions.
//!
//! Everywhere in the engine versions are ordered by user key ascending, then by sequence number
//! descending, so that the newest version of a key comes first.

use bytes::Bytes;

/// Position of one change in the order of all writes of a `Db`. The first is 1; below 2^62.
pub(crate) type SequenceNumber = u64;

/// The first sequence number. Compaction also assigns it to versions whose age no longer matters.
pub(crate) const SEQUENCE_MIN: SequenceNumber = 1;

/// Greater than the sequence number of any write.
pub(crate) const SEQUENCE_MAX: SequenceNumber = (1 << 62) - 1;

/// The kinds of versions. The numbers are on disk: never reordered, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A deletion: the key is absent, and no value follows.
    Delete = 1,
    /// The value follows.
    Put = 2,
    /// A pointer into the value log follows.
    Large = 3,
}

impl Kind {
    pub(crate) fn decode(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Delete),
            2 => Some(Kind::Put),
            3 => Some(Kind::Large),
            _ => None,
        }
    }
}

/// One version of a key, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) sequence: SequenceNumber,
    pub(crate) kind: Kind,
    pub(crate) value: Bytes,
}

/// Whether `key` lies before `end`, the exclusive end of a span; `None` lies after every key.
pub(crate) fn is_before_end(key: &[u8], end: Option<&[u8]>) -> bool {
    end.is_none_or(|end| key < end)
}

/// The smallest key after `key`: the exclusive end of the span that holds `key` alone.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The later of two exclusive ends.
pub(crate) fn later_end<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    Some(a?.max(b?))
}

/// Number of leading bytes that two keys share.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let words = a[..length].chunks_exact(8).zip(b[..length].chunks_exact(8));
    let same = 8 * words.take_while(|(a, b)| a == b).count();
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Length of the head of a key, in bytes.
pub(crate) const HEAD_BYTES: usize = 8;

/// Returns the eight bytes of `key` after the first `skip`, as a number that sorts as these bytes
/// do. Missing bytes count as zeros.
pub(crate) fn head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Number of heads that each round of [`first_head_not_below`] compares. They divide the heads left
/// to search into `ROUND + 1` parts.
const ROUND: usize = 7;
const PARTS: usize = ROUND + 1;

/// Returns the index of the first of `count` ascending heads that is not below `wanted`. The
/// comparisons of a round do not depend on each other, so the processor fetches their heads at
/// once, and waits a third as often as in a binary search.
#[inline]
pub(crate) fn first_head_not_below(
    count: usize,
    wanted: u64,
    head_at: impl Fn(usize) -> u64,
) -> usize {
    let (mut start, mut length) = (0, count);
    while length > PARTS {
        let part = length / PARTS;
        let is_below = |&number: &usize| head_at(start + number * part - 1) < wanted;
        let below = (1..=ROUND).filter(is_below).count();
        start += below * part;
        length = match below {
            ROUND => length - ROUND * part,
            // The head after the part is not below `wanted`, so the search goes on inside the part.
            _ => part - 1,
        };
    }
    let is_below = |&index: &usize| head_at(index) < wanted;
    start + (start..start + length).filter(is_below).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_search_of_heads_finds_the_first_that_is_not_below(
            mut heads in proptest::collection::vec(0u64..400, 0..300),
            wanted in 0u64..401,
        ) {
            heads.sort_unstable();
            let found = first_head_not_below(heads.len(), wanted, |index| heads[index]);
            prop_assert_eq!(found, heads.partition_point(|&head| head < wanted));
        }

        #[test]
        fn the_shared_prefix_of_two_keys_is_counted(prefix: Vec<u8>, a: Vec<u8>, b: Vec<u8>) {
            let (a, b) = ([&prefix[..], &a].concat(), [&prefix[..], &b].concat());
            let expected = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(shared(&a, &b), expected);
        }
    }
}
