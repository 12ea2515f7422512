//! RangeTombstones: deleted spans of keys, cut into fragments that do not overlap.
//!
//! A fragment lists, newest first, the sequence numbers at which its span was deleted. Invariant:
//! fragments are ordered, do not overlap, and none is empty.

use crate::base::key::{SequenceNumber, is_before_end};
use crate::format::fragment::{Cover, Fragment};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A growing set of deleted spans.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    fragments: BTreeMap<Bytes, (Option<Bytes>, Vec<SequenceNumber>)>,
}

impl RangeTombstones {
    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Adds a deletion. Of the deletions of one fragment at or below `floor`, only the newest is
    /// kept, because all readers see it.
    pub(crate) fn insert(
        &mut self,
        start: &Bytes,
        end: Option<&Bytes>,
        sequence: SequenceNumber,
        floor: SequenceNumber,
    ) {
        if !is_before_end(start, end.map(|end| &end[..])) {
            return;
        }
        self.split_at(start);
        if let Some(end) = end {
            self.split_at(end);
        }
        let mut uncovered = Some(start.clone());
        let mut gaps = Vec::new();
        let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
        for (at, (until, sequences)) in self
            .fragments
            .range_mut::<Bytes, _>((Bound::Included(start), upper))
        {
            if let Some(from) = uncovered.filter(|from| from < at) {
                gaps.push((from, Some(at.clone())));
            }
            add(sequences, sequence, floor);
            uncovered = until.clone();
        }
        if let Some(from) = uncovered.filter(|from| end.is_none_or(|end| from < end)) {
            gaps.push((from, end.cloned()));
        }
        for (from, until) in gaps {
            self.fragments.insert(from, (until, vec![sequence]));
        }
    }

    fn split_at(&mut self, key: &Bytes) {
        let before = (Bound::Unbounded, Bound::Excluded(key));
        let Some((_, (end, sequences))) = self.fragments.range_mut::<Bytes, _>(before).next_back()
        else {
            return;
        };
        if is_before_end(key, end.as_deref()) {
            let rest = (end.replace(key.clone()), sequences.clone());
            self.fragments.insert(key.clone(), rest);
        }
    }

    /// The newest deletion of `key` at or before `at`.
    pub(crate) fn cover(&self, key: &[u8], at: SequenceNumber) -> Option<Cover> {
        let until = (Bound::Unbounded, Bound::Included(key));
        let (start, (end, sequences)) = self.fragments.range::<[u8], _>(until).next_back()?;
        if !is_before_end(key, end.as_deref()) {
            return None;
        }
        let sequence = sequences.iter().copied().find(|&found| found <= at)?;
        let (start, end) = (start.clone(), end.clone());
        Some(Cover {
            sequence,
            start,
            end,
        })
    }

    /// All fragments in order.
    pub(crate) fn fragments(&self) -> Vec<Fragment> {
        let fragment = |(start, (end, sequences)): (&Bytes, &(Option<Bytes>, Vec<u64>))| Fragment {
            start: start.clone(),
            end: end.clone(),
            sequences: sequences.clone(),
        };
        self.fragments.iter().map(fragment).collect()
    }
}

fn add(sequences: &mut Vec<SequenceNumber>, sequence: SequenceNumber, floor: SequenceNumber) {
    let at = sequences.partition_point(|&found| found > sequence);
    if sequences.get(at) != Some(&sequence) {
        sequences.insert(at, sequence);
    }
    let above = sequences.partition_point(|&found| found > floor);
    sequences.truncate(above + 1);
}

/// The newest deletion of `key` at or before `at` among fragments in order.
pub(crate) fn cover(fragments: &[Fragment], key: &[u8], at: SequenceNumber) -> Option<Cover> {
    let behind = fragments.partition_point(|fragment| fragment.start[..] <= *key);
    let fragment = &fragments[behind.checked_sub(1)?];
    is_before_end(key, fragment.end.as_deref()).then(|| fragment.cover(at))?
}

/// The parts of `fragments` at or after `start` and before `end`.
pub(crate) fn clip(fragments: &[Fragment], start: &[u8], end: Option<&[u8]>) -> Vec<Fragment> {
    let mut clipped = Vec::new();
    for fragment in fragments {
        let mut part = fragment.clone();
        if part.start[..] < *start {
            part.start = Bytes::copy_from_slice(start);
        }
        if let Some(end) = end.filter(|end| is_before_end(end, part.end.as_deref())) {
            part.end = Some(Bytes::copy_from_slice(end));
        }
        if is_before_end(&part.start, part.end.as_deref()) {
            clipped.push(part);
        }
    }
    clipped
}

/// Finds the fragment that holds a key, for keys that come in order.
pub(crate) struct Covering<'a> {
    fragments: &'a [Fragment],
}

impl<'a> Covering<'a> {
    pub(crate) fn new(fragments: &'a [Fragment]) -> Covering<'a> {
        Covering { fragments }
    }

    pub(crate) fn of(&mut self, key: &[u8]) -> Option<&'a Fragment> {
        while let Some((first, rest)) = self.fragments.split_first() {
            if is_before_end(key, first.end.as_deref()) {
                return (first.start[..] <= *key).then_some(first);
            }
            self.fragments = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fragment::{decode, encode};
    use proptest::prelude::*;

    fn key(byte: u8) -> Bytes {
        Bytes::copy_from_slice(&[byte])
    }

    proptest! {
        #[test]
        fn fragments_cover_the_inserted_spans(
            spans in proptest::collection::vec((0u8..30, proptest::option::of(0u8..30)), 0..20),
        ) {
            let mut tombstones = RangeTombstones::default();
            for (i, (start, end)) in spans.iter().enumerate() {
                tombstones.insert(&key(*start), end.map(key).as_ref(), i as u64 + 1, 0);
            }
            let fragments = tombstones.fragments();
            prop_assert_eq!(decode(&encode(&fragments)), Some(fragments.clone()));
            for probe in 0..30u8 {
                for at in 0..=spans.len() as u64 {
                    let expected = spans.iter().zip(1u64..).filter(|((start, end), sequence)| {
                        *sequence <= at && *start <= probe && end.is_none_or(|end| probe < end)
                    }).map(|(_, sequence)| sequence).max();
                    let found = tombstones.cover(&[probe], at).map(|cover| cover.sequence);
                    prop_assert_eq!(found, expected);
                    prop_assert_eq!(cover(&fragments, &[probe], at).map(|cover| cover.sequence), expected);
                    let clipped = clip(&fragments, &[10], Some(&[20]));
                    let inside = expected.filter(|_| (10..20).contains(&probe));
                    prop_assert_eq!(cover(&clipped, &[probe], at).map(|cover| cover.sequence), inside);
                }
            }
        }
    }
}
