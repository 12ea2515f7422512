//! Fragment: a deleted span of keys, as SSTables hold it.
//!
//! A fragment lists, newest first, the sequence numbers at which its span was deleted. Invariant:
//! fragments are ordered, do not overlap, and none is empty.

use crate::base::codec::{Decoder, put_bytes, put_optional, put_varint};
use crate::base::key::{SequenceNumber, is_before_end};
use bytes::Bytes;

/// A span of keys, and the sequence numbers of its deletions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) start: Bytes,
    /// Exclusive; `None` is the end of the keyspace.
    pub(crate) end: Option<Bytes>,
    pub(crate) sequences: Vec<SequenceNumber>,
}

/// The newest deletion of a key that a reader sees, with the deleted span that the key lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) sequence: SequenceNumber,
    pub(crate) start: Bytes,
    pub(crate) end: Option<Bytes>,
}

impl Fragment {
    pub(crate) fn cover(&self, at: SequenceNumber) -> Option<Cover> {
        let sequence = self.newest(at)?;
        Some(Cover {
            sequence,
            start: self.start.clone(),
            end: self.end.clone(),
        })
    }

    /// The newest deletion at or before `at`.
    pub(crate) fn newest(&self, at: SequenceNumber) -> Option<SequenceNumber> {
        self.sequences.iter().copied().find(|&found| found <= at)
    }
}

/// Encodes the count of fragments; for each one its start, its end, the count of its sequence
/// numbers, and the numbers.
pub(crate) fn encode(fragments: &[Fragment]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, fragments.len() as u64);
    for fragment in fragments {
        put_bytes(&mut out, &fragment.start);
        put_optional(&mut out, fragment.end.as_deref());
        put_varint(&mut out, fragment.sequences.len() as u64);
        for &sequence in &fragment.sequences {
            put_varint(&mut out, sequence);
        }
    }
    out
}

/// Decodes fragments; `None` if the bytes are not fragments in order.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Fragment>> {
    let mut decoder = Decoder::new(bytes);
    let count = decoder.length()?;
    let mut fragments: Vec<Fragment> = Vec::new();
    for _ in 0..count {
        let start = Bytes::copy_from_slice(decoder.bytes()?);
        let end = decoder.optional()?.map(Bytes::copy_from_slice);
        let mut sequences = Vec::new();
        for _ in 0..decoder.length()? {
            sequences.push(decoder.varint()?);
        }
        let ordered = fragments
            .last()
            .is_none_or(|last| last.end.as_ref().is_some_and(|end| *end <= start));
        if !ordered || !is_before_end(&start, end.as_deref()) || sequences.is_empty() {
            return None;
        }
        fragments.push(Fragment {
            start,
            end,
            sequences,
        });
    }
    decoder.is_empty().then_some(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(start: &'static str, end: Option<&'static str>, sequences: &[u64]) -> Fragment {
        Fragment {
            start: Bytes::from(start),
            end: end.map(Bytes::from),
            sequences: sequences.to_vec(),
        }
    }

    #[test]
    fn fragments_that_are_out_of_order_or_empty_do_not_decode() {
        let (first, last) = (fragment("b", Some("d"), &[7, 3]), fragment("d", None, &[5]));
        let good = [first.clone(), last.clone()];
        assert_eq!(decode(&encode(&good)).as_deref(), Some(&good[..]));
        for wrong in [
            vec![last.clone(), first.clone()],
            vec![first.clone(), fragment("c", None, &[5])],
            vec![last, fragment("e", None, &[5])],
            vec![fragment("b", Some("b"), &[5])],
            vec![fragment("c", Some("b"), &[5])],
            vec![fragment("b", Some("d"), &[])],
        ] {
            assert_eq!(decode(&encode(&wrong)), None, "{wrong:?}");
        }
        let mut longer = encode(&[first]);
        longer.push(0);
        assert_eq!(decode(&longer), None);
    }
}
