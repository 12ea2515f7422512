//! Blocks: sorted entries with shared prefixes cut off, and restart points where a whole key stands.
//!
//! | bytes | field |
//! | --- | --- |
//! | varint | bytes of the key shared with the entry before; 0 at a restart point |
//! | varint + varint | bytes of the key that follow; bytes of the value |
//! | varint | sequence number x 4 + kind |
//! | n, n | rest of the key, value |
//! | … | more entries |
//! | 4 each | offsets of the restart points, every 16th entry |
//! | 4 | how many |
//!
//! Index blocks are blocks too: key = a separator at or behind the last key of a block, value = its handle.

use super::BlockHandle;
use crate::codec::{Decoder, put_varint};
use crate::key::{Kind, SequenceNumber};
use bytes::Bytes;
use std::cmp::Ordering;

const RESTART_INTERVAL: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    out: Vec<u8>,
    restarts: Vec<u32>,
    last_key: Vec<u8>,
    count: usize,
}

impl BlockBuilder {
    pub(crate) fn add(&mut self, key: &[u8], sequence: SequenceNumber, kind: Kind, value: &[u8]) {
        let shared = if self.count.is_multiple_of(RESTART_INTERVAL) {
            self.restarts.push(self.out.len() as u32);
            0
        } else {
            let pairs = key.iter().zip(&self.last_key);
            pairs.take_while(|(a, b)| a == b).count()
        };
        put_varint(&mut self.out, shared as u64);
        put_varint(&mut self.out, (key.len() - shared) as u64);
        put_varint(&mut self.out, value.len() as u64);
        put_varint(&mut self.out, sequence << 2 | kind as u64);
        self.out.extend_from_slice(&key[shared..]);
        self.out.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.count += 1;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.out.len() + 4 * self.restarts.len() + 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The finished block; the builder is empty again.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        for restart in self.restarts.drain(..) {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        let restarts = self.count.div_ceil(RESTART_INTERVAL) as u32;
        out.extend_from_slice(&restarts.to_le_bytes());
        self.last_key.clear();
        self.count = 0;
        out
    }
}

/// The block is not one that a builder made, although its checksum matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// A position in a block: on an entry, or on none.
#[derive(Debug, Clone)]
pub(crate) struct BlockCursor {
    data: Bytes,
    entries_end: usize,
    restart_count: usize,
    /// Where the current entry starts and where the next one does.
    start: usize,
    next: usize,
    key: Vec<u8>,
    sequence: SequenceNumber,
    kind: Kind,
    value: (usize, usize),
    on_entry: bool,
}

impl BlockCursor {
    pub(crate) fn new(data: Bytes) -> Result<BlockCursor> {
        let tail = data.len().checked_sub(4).ok_or(Malformed)?;
        let count = Decoder::new(&data[tail..]).u32().ok_or(Malformed)? as usize;
        let restarts = count.checked_mul(4).ok_or(Malformed)?;
        let entries_end = tail.checked_sub(restarts).ok_or(Malformed)?;
        if count == 0 {
            return Err(Malformed);
        }
        Ok(BlockCursor {
            data,
            entries_end,
            restart_count: count,
            start: 0,
            next: 0,
            key: Vec::new(),
            sequence: 0,
            kind: Kind::Delete,
            value: (0, 0),
            on_entry: false,
        })
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

    pub(crate) fn value(&self) -> Bytes {
        self.data.slice(self.value.0..self.value.1)
    }

    /// The handle that an entry of an index block holds.
    pub(crate) fn handle(&self) -> Result<BlockHandle> {
        let value = &self.data[self.value.0..self.value.1];
        BlockHandle::decode(&mut Decoder::new(value)).ok_or(Malformed)
    }

    fn restart(&self, index: usize) -> Result<usize> {
        let at = self.entries_end + 4 * index;
        let offset = Decoder::new(&self.data[at..]).u32().ok_or(Malformed)? as usize;
        (offset < self.entries_end)
            .then_some(offset)
            .ok_or(Malformed)
    }

    fn go_to_restart(&mut self, index: usize) -> Result<()> {
        self.next = self.restart(index)?;
        self.key.clear();
        self.next()
    }

    /// To the first entry.
    pub(crate) fn first(&mut self) -> Result<()> {
        self.go_to_restart(0)
    }

    /// To the entry after; on none at the end of the block.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.start = self.next;
        self.on_entry = self.next < self.entries_end;
        if !self.on_entry {
            return Ok(());
        }
        let mut decoder = Decoder::new(&self.data[self.next..self.entries_end]);
        let mut fields = || {
            let lengths = (decoder.length()?, decoder.length()?, decoder.length()?);
            let tag = decoder.varint()?;
            let suffix = decoder.take(lengths.1)?;
            decoder.take(lengths.2)?;
            Some((lengths.0, suffix, lengths.2, tag, decoder.position()))
        };
        let (shared, suffix, value_length, tag, used) = fields().ok_or(Malformed)?;
        if shared > self.key.len() {
            return Err(Malformed);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.sequence = tag >> 2;
        self.kind = Kind::decode((tag & 3) as u8).ok_or(Malformed)?;
        self.next += used;
        self.value = (self.next - value_length, self.next);
        Ok(())
    }

    /// To the entry before; on none before the first.
    pub(crate) fn prev(&mut self) -> Result<()> {
        let here = self.start;
        let mut low = 0;
        let mut high = self.restart_count;
        while low < high {
            let middle = (low + high) / 2;
            match self.restart(middle)? < here {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if low == 0 {
            self.on_entry = false;
            return Ok(());
        }
        self.go_to_restart(low - 1)?;
        while self.next < here {
            self.next()?;
        }
        Ok(())
    }

    /// To the last entry.
    pub(crate) fn last(&mut self) -> Result<()> {
        self.start = self.entries_end;
        self.prev()
    }

    /// To the first entry at or behind version `sequence` of `key`; on none if all stand before it.
    pub(crate) fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let mut low = 0;
        let mut high = self.restart_count;
        while low < high {
            let middle = (low + high) / 2;
            self.go_to_restart(middle)?;
            match self.compare(key, sequence) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        self.go_to_restart(low.saturating_sub(1))?;
        while self.on_entry && self.compare(key, sequence) == Ordering::Less {
            self.next()?;
        }
        Ok(())
    }

    fn compare(&self, key: &[u8], sequence: SequenceNumber) -> Ordering {
        self.key[..].cmp(key).then(sequence.cmp(&self.sequence))
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
            let mut cursor = BlockCursor::new(builder.finish().into()).unwrap();
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
            cursor.seek(&probe, u64::MAX).unwrap();
            let expected = keys.iter().find(|key| **key >= probe);
            prop_assert_eq!(cursor.is_on_entry().then(|| cursor.key().to_vec()), expected.cloned());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok(mut cursor) = BlockCursor::new(bytes.into()) {
                let _ = (cursor.seek(b"a", 3), cursor.last(), cursor.prev(), cursor.first());
                while cursor.next().is_ok() && cursor.is_on_entry() {}
            }
        }
    }
}
