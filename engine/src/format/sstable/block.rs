//! Data blocks: sorted entries with shared prefixes cut off, restart points with whole keys, and
//! the values apart from the keys, so that a search touches few cache lines.
//!
//! | bytes | field |
//! | --- | --- |
//! | varint | bytes of the key shared with the entry before; 0 at a restart point |
//! | varint + varint | bytes of the key that follow; bytes of the value |
//! | varint | sequence number x 4 + kind |
//! | n | rest of the key |
//! | … | more entries |
//! | n | the values, in the order of the entries |
//! | 8 each | heads of the restart points, every 16th entry |
//! | 4 + 4 each | of each restart point: its offset, and where its value is among the values |
//! | n | skip bytes, which all keys share |
//! | 4 | where the entries end |
//! | 4 | skip |
//! | 4 | how many restart points |
//!
//! The head of a key is the eight bytes after the first `skip`, as a number that sorts as these
//! bytes do. A search looks at one array of integers, and at keys only where heads are equal.

use crate::base::codec::Decoder;
use crate::base::codec::put_varint;
use crate::base::key::{Kind, SequenceNumber, head, shared};
use crate::format::sstable::heads::Heads;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Range;

const RESTART_INTERVAL: usize = 16;
const TAIL_BYTES: usize = 12;
const RESTART_BYTES: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    out: Vec<u8>,
    values: Vec<u8>,
    restarts: Vec<Restart>,
    restart_keys: Vec<u8>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Restart {
    offset: u32,
    value: u32,
    key_length: u32,
}

impl BlockBuilder {
    pub(crate) fn add(&mut self, key: &[u8], sequence: SequenceNumber, kind: Kind, value: &[u8]) {
        let same = if self.count.is_multiple_of(RESTART_INTERVAL) {
            self.restarts.push(Restart {
                offset: self.out.len() as u32,
                value: self.values.len() as u32,
                key_length: key.len() as u32,
            });
            self.restart_keys.extend_from_slice(key);
            0
        } else {
            shared(key, &self.last_key)
        };
        if self.count == 0 {
            self.first_key.extend_from_slice(key);
        }
        put_varint(&mut self.out, same as u64);
        put_varint(&mut self.out, (key.len() - same) as u64);
        put_varint(&mut self.out, value.len() as u64);
        put_varint(&mut self.out, sequence << 2 | kind as u64);
        self.out.extend_from_slice(&key[same..]);
        self.values.extend_from_slice(value);
        self.last_key.truncate(same);
        self.last_key.extend_from_slice(&key[same..]);
        self.count += 1;
    }

    /// Bytes of the block, without the prefix that all keys share.
    pub(crate) fn bytes(&self) -> usize {
        self.out.len() + self.values.len() + RESTART_BYTES * self.restarts.len() + TAIL_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends values, restart points and the tail. The block stays valid until
    /// [`BlockBuilder::clear`].
    pub(crate) fn finish(&mut self) -> &[u8] {
        let skip = shared(&self.first_key, &self.last_key);
        let entries_end = self.out.len() as u32;
        self.out.extend_from_slice(&self.values);
        let mut keys = &self.restart_keys[..];
        for restart in &self.restarts {
            let (key, rest) = keys.split_at(restart.key_length as usize);
            self.out.extend_from_slice(&head(key, skip).to_le_bytes());
            keys = rest;
        }
        for restart in &self.restarts {
            self.out.extend_from_slice(&restart.offset.to_le_bytes());
            self.out.extend_from_slice(&restart.value.to_le_bytes());
        }
        self.out.extend_from_slice(&self.first_key[..skip]);
        for number in [entries_end, skip as u32, self.restarts.len() as u32] {
            self.out.extend_from_slice(&number.to_le_bytes());
        }
        &self.out
    }

    /// Makes the builder empty again.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.values.clear();
        self.restarts.clear();
        self.restart_keys.clear();
        self.first_key.clear();
        self.last_key.clear();
        self.count = 0;
    }
}

/// The error for a block whose checksum matches, although no builder makes such a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// Where the parts of a block lie.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    entries_end: usize,
    values_end: usize,
    restarts: usize,
    skip: usize,
}

impl Layout {
    fn of(data: &[u8]) -> Result<Layout> {
        let tail = data.len().checked_sub(TAIL_BYTES).ok_or(Malformed)?;
        let mut decoder = Decoder::new(&data[tail..]);
        let mut number = || decoder.u32().map(|number| number as usize);
        let entries_end = number().ok_or(Malformed)?;
        let skip = number().ok_or(Malformed)?;
        let restarts = number().filter(|count| *count > 0).ok_or(Malformed)?;
        let arrays = restarts.checked_mul(RESTART_BYTES).ok_or(Malformed)?;
        let behind_values = arrays.checked_add(skip).ok_or(Malformed)?;
        let values_end = tail.checked_sub(behind_values).ok_or(Malformed)?;
        let fits = entries_end <= values_end;
        fits.then_some(Layout {
            entries_end,
            values_end,
            restarts,
            skip,
        })
        .ok_or(Malformed)
    }

    fn heads<'a>(&self, data: &'a [u8]) -> Heads<'a> {
        Heads::new(&data[self.values_end..self.values_end + 8 * self.restarts])
    }

    /// The bytes that all keys share.
    fn common<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let start = self.values_end + RESTART_BYTES * self.restarts;
        &data[start..start + self.skip]
    }

    /// The place of a restart point. Checks both offsets against the bounds of the block.
    fn restart(&self, data: &[u8], index: usize) -> Result<Place> {
        let at = self.values_end + 8 * (self.restarts + index);
        let mut decoder = Decoder::new(&data[at..]);
        let mut number = || Some(decoder.u32()? as usize);
        let entry = number().filter(|offset| *offset < self.entries_end);
        let value = number().and_then(|offset| offset.checked_add(self.entries_end));
        Ok(Place {
            entry: entry.ok_or(Malformed)?,
            value: value
                .filter(|value| *value <= self.values_end)
                .ok_or(Malformed)?,
        })
    }

    /// The entry at a place, and the place of the next one.
    #[inline]
    fn entry<'a>(&self, data: &'a [u8], place: Place) -> Result<(RawEntry<'a>, Place)> {
        let keys = data.get(place.entry..self.entries_end).ok_or(Malformed)?;
        let mut decoder = Decoder::new(keys);
        let ([shared, rest, value_length], tag) = fields(&mut decoder).ok_or(Malformed)?;
        let suffix = decoder.take(rest).ok_or(Malformed)?;
        if value_length > self.values_end - place.value {
            return Err(Malformed);
        }
        let next = Place {
            entry: place.entry + decoder.position(),
            value: place.value + value_length,
        };
        let entry = RawEntry {
            shared,
            suffix,
            sequence: tag >> 2,
            kind: Kind::decode((tag & 3) as u8).ok_or(Malformed)?,
        };
        Ok((entry, next))
    }

    /// Returns where to begin the walk to the first entry at or after version `sequence` of `key`;
    /// `None` if all entries come before it.
    fn walk_start(
        &self,
        data: &[u8],
        key: &[u8],
        sequence: SequenceNumber,
    ) -> Result<Option<Place>> {
        match key[..key.len().min(self.skip)].cmp(self.common(data)) {
            Ordering::Less => return self.restart(data, 0).map(Some),
            Ordering::Greater => return Ok(None),
            Ordering::Equal => {}
        }
        let equal = self.heads(data).equal_to(head(key, self.skip));
        let mut low = equal.start;
        let mut high = equal.end;
        while low < high {
            let middle = (low + high) / 2;
            let (entry, _) = self.entry(data, self.restart(data, middle)?)?;
            match entry.suffix.cmp(key).then(sequence.cmp(&entry.sequence)) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        self.restart(data, low.saturating_sub(1)).map(Some)
    }
}

/// Reads an entry up to the rest of its key: three lengths and the tag.
#[inline]
fn fields(decoder: &mut Decoder<'_>) -> Option<([usize; 3], u64)> {
    // Nearly always, each of the four varints is a single byte.
    if let Some(&[a, b, c, tag]) = decoder.peek()
        && (a | b | c | tag) < 0x80
    {
        decoder.take(4)?;
        return Some(([a, b, c].map(usize::from), u64::from(tag)));
    }
    let lengths = [decoder.length()?, decoder.length()?, decoder.length()?];
    Some((lengths, decoder.varint()?))
}

/// Where an entry starts, and where its value does.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    entry: usize,
    value: usize,
}

/// An entry as stored: without the bytes that its key shares with the key before.
#[derive(Debug, Clone, Copy)]
struct RawEntry<'a> {
    shared: usize,
    suffix: &'a [u8],
    sequence: SequenceNumber,
    kind: Kind,
}

/// The newest version of `key` at or before `at`.
pub(crate) fn find(data: &[u8], key: &[u8], at: SequenceNumber) -> Result<Lookup<Range<usize>>> {
    let layout = Layout::of(data)?;
    let Some(mut place) = layout.walk_start(data, key, at)? else {
        return Ok(Lookup::Behind);
    };
    // Number of leading bytes that the previous key, which is smaller, shares with `key`.
    let mut matched = 0;
    while place.entry < layout.entries_end {
        let (entry, next) = layout.entry(data, place)?;
        let value = place.value..next.value;
        place = next;
        if entry.shared == 0 {
            // A restart point does not record how many bytes it shares with the entry before.
            matched = 0;
        }
        match entry.shared.cmp(&matched) {
            // This key still differs from `key` at the byte where the previous key did.
            Ordering::Greater => continue,
            // This key is greater than the previous one, at a byte where the previous one equals
            // `key`. So it is greater than `key`.
            Ordering::Less => return Ok(Lookup::Absent),
            Ordering::Equal => {}
        }
        let rest = &key[matched..];
        let same = shared(entry.suffix, rest);
        if same == rest.len() && same == entry.suffix.len() {
            if entry.sequence <= at {
                return Ok(Lookup::Found {
                    sequence: entry.sequence,
                    kind: entry.kind,
                    value,
                });
            }
        } else if entry.suffix[same..] > rest[same..] {
            return Ok(Lookup::Absent);
        }
        matched += same;
    }
    Ok(Lookup::Behind)
}

/// The result of [`find`]. `V` is the place of a value in the block, or the value.
#[derive(Debug)]
pub(crate) enum Lookup<V> {
    Found {
        sequence: SequenceNumber,
        kind: Kind,
        value: V,
    },
    /// The search met a later key first.
    Absent,
    /// All entries come before the key.
    Behind,
}

impl Lookup<Range<usize>> {
    /// Turns the place of a value into the value.
    pub(crate) fn keep(self, keep: impl FnOnce(Range<usize>) -> Bytes) -> Lookup<Bytes> {
        match self {
            Lookup::Found {
                sequence,
                kind,
                value,
            } => Lookup::Found {
                sequence,
                kind,
                value: keep(value),
            },
            Lookup::Absent => Lookup::Absent,
            Lookup::Behind => Lookup::Behind,
        }
    }
}

/// A position in a block: on an entry, or on none.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    data: Bytes,
    layout: Layout,
    /// Offsets of the current entry and of the next one.
    here: Place,
    next: Place,
    key: Vec<u8>,
    sequence: SequenceNumber,
    kind: Kind,
    on_entry: bool,
    repeats: bool,
}

impl BlockCursor {
    /// A cursor on no block.
    pub(crate) fn new() -> BlockCursor {
        BlockCursor {
            data: Bytes::new(),
            layout: Layout::default(),
            here: Place::default(),
            next: Place::default(),
            key: Vec::with_capacity(64),
            sequence: 0,
            kind: Kind::Delete,
            on_entry: false,
            repeats: false,
        }
    }

    /// Moves the cursor to another block, on no entry.
    pub(crate) fn load(&mut self, data: Bytes) -> Result<()> {
        self.on_entry = false;
        self.layout = Layout::of(&data)?;
        self.data = data;
        Ok(())
    }

    /// Releases the block.
    pub(crate) fn unload(&mut self) {
        self.on_entry = false;
        self.data = Bytes::new();
    }

    pub(crate) fn is_on_entry(&self) -> bool {
        self.on_entry
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the last `next` came to another version of the same key.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    pub(crate) fn value(&self) -> Bytes {
        self.data.slice(self.here.value..self.next.value)
    }

    #[inline]
    pub(crate) fn value_slice(&self) -> &[u8] {
        &self.data[self.here.value..self.next.value]
    }

    fn go_to_restart(&mut self, index: usize) -> Result<()> {
        self.next = self.layout.restart(&self.data, index)?;
        self.next()
    }

    /// Moves to the first entry.
    pub(crate) fn first(&mut self) -> Result<()> {
        self.go_to_restart(0)
    }

    /// Moves to the next entry; past the last, to none.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.here = self.next;
        self.on_entry = self.here.entry < self.layout.entries_end;
        if !self.on_entry {
            return Ok(());
        }
        let (entry, next) = self.layout.entry(&self.data, self.here)?;
        let old = self.key.get(entry.shared..).ok_or(Malformed)?;
        // The suffix of another version is the whole key at a restart point, and empty elsewhere.
        self.repeats = old.len() == entry.suffix.len() && old == entry.suffix;
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.sequence = entry.sequence;
        self.kind = entry.kind;
        self.next = next;
        Ok(())
    }

    /// Moves to the previous entry; before the first, to none.
    pub(crate) fn prev(&mut self) -> Result<()> {
        let here = self.here.entry;
        let mut low = 0;
        let mut high = self.layout.restarts;
        while low < high {
            let middle = (low + high) / 2;
            if self.layout.restart(&self.data, middle)?.entry < here {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == 0 {
            self.on_entry = false;
            return Ok(());
        }
        self.go_to_restart(low - 1)?;
        while self.next.entry < here {
            self.next()?;
        }
        Ok(())
    }

    /// Moves to the last entry.
    pub(crate) fn last(&mut self) -> Result<()> {
        self.go_behind();
        self.prev()
    }

    /// Moves past the last entry.
    fn go_behind(&mut self) {
        self.here = Place {
            entry: self.layout.entries_end,
            value: self.layout.values_end,
        };
        self.next = self.here;
        self.on_entry = false;
    }

    /// Moves to the first entry at or after version `sequence` of `key`; on none if all come before
    /// it.
    pub(crate) fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let Some(start) = self.layout.walk_start(&self.data, key, sequence)? else {
            self.go_behind();
            return Ok(());
        };
        self.next = start;
        self.next()?;
        while self.on_entry && self.is_before(key, sequence) {
            self.next()?;
        }
        Ok(())
    }

    fn is_before(&self, key: &[u8], sequence: SequenceNumber) -> bool {
        self.key[..].cmp(key).then(sequence.cmp(&self.sequence)) == Ordering::Less
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_answers_like_a_sorted_list(
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..6), 1..80),
            probe in proptest::collection::vec(0u8..4, 0..6),
        ) {
            let keys: Vec<_> = keys.into_iter().collect();
            let mut builder = BlockBuilder::default();
            for (i, key) in keys.iter().enumerate() {
                builder.add(key, i as u64 + 1, Kind::Put, &[i as u8; 3]);
            }
            let block = Bytes::copy_from_slice(builder.finish());
            let mut cursor = BlockCursor::new();
            cursor.load(block.clone()).unwrap();
            cursor.first().unwrap();
            for (i, key) in keys.iter().enumerate() {
                prop_assert_eq!((cursor.key(), cursor.sequence()), (&key[..], i as u64 + 1));
                prop_assert_eq!(&cursor.value()[..], &[i as u8; 3]);
                cursor.next().unwrap();
            }
            prop_assert!(!cursor.is_on_entry());
            for key in keys.iter().rev() {
                cursor.prev().unwrap();
                prop_assert_eq!(cursor.key(), &key[..]);
            }
            cursor.prev().unwrap();
            prop_assert!(!cursor.is_on_entry());
            // A search moves the cursor off its entry, whatever the search finds.
            cursor.first().unwrap();
            cursor.seek(&probe, u64::MAX).unwrap();
            let expected = keys.iter().find(|key| **key >= probe);
            let found = find(&block, &probe, u64::MAX).unwrap();
            match keys.iter().position(|key| *key == probe) {
                Some(i) => {
                    let right = matches!(found, Lookup::Found { sequence, .. } if sequence == i as u64 + 1);
                    prop_assert!(right, "{:?}", found);
                }
                None => prop_assert_eq!(matches!(found, Lookup::Absent), expected.is_some()),
            }
            prop_assert_eq!(cursor.is_on_entry().then(|| cursor.key().to_vec()), expected.cloned());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let bytes = Bytes::from(bytes);
            let _ = find(&bytes, b"ab", 3);
            let mut cursor = BlockCursor::new();
            if cursor.load(bytes).is_ok() {
                let _ = (cursor.seek(b"a", 3), cursor.last(), cursor.prev(), cursor.first());
                while cursor.next().is_ok() && cursor.is_on_entry() {}
            }
        }
    }

    proptest! {
        #[test]
        fn versions_of_one_key_are_distinct(
            versions in proptest::collection::btree_map(
                proptest::collection::vec(0u8..3, 0..4),
                proptest::collection::btree_set(1u64..60, 1..30),
                1..12,
            ),
            probe in proptest::collection::vec(0u8..3, 0..4),
            at in 0u64..62,
        ) {
            let mut builder = BlockBuilder::default();
            for (key, sequences) in &versions {
                for &sequence in sequences.iter().rev() {
                    builder.add(key, sequence, Kind::Put, &sequence.to_le_bytes());
                }
            }
            let block = Bytes::copy_from_slice(builder.finish());
            let expected = versions.get(&probe).and_then(|all| all.range(..=at).next_back());
            match (find(&block, &probe, at).unwrap(), expected) {
                (Lookup::Found { sequence, value, .. }, Some(&expected)) => {
                    prop_assert_eq!(sequence, expected);
                    prop_assert_eq!(&block[value], &expected.to_le_bytes());
                }
                (Lookup::Absent | Lookup::Behind, None) => {}
                (found, expected) => prop_assert!(false, "{:?} instead of {:?}", found, expected),
            }
            let mut cursor = BlockCursor::new();
            cursor.load(block).unwrap();
            cursor.first().unwrap();
            for (key, sequences) in &versions {
                for (nth, &sequence) in sequences.iter().rev().enumerate() {
                    prop_assert_eq!((cursor.key(), cursor.sequence()), (&key[..], sequence));
                    prop_assert!(cursor.repeats() == (nth > 0) || cursor.key().is_empty());
                    cursor.next().unwrap();
                }
            }
        }
    }
}
