//! Index blocks: separators and the handles of the blocks they lead to, laid out so that a search
//! decodes nothing.
//!
//! | bytes | field |
//! | --- | --- |
//! | 8 each | heads of the separators |
//! | 12 each | offset (8) and length (4) of the block that each leads to |
//! | 4 each | where each separator ends among the separators |
//! | n | the separators, without the first `skip` bytes |
//! | n | those bytes, which all separators share |
//! | 4, 4 | skip; how many separators |
//!
//! A separator is at or after the last key of its block, and before the first key of the next
//! block, unless both are versions of one key.

use crate::base::codec::Decoder;
use crate::base::key::{head, shared};
use crate::format::sstable::BlockHandle;
use crate::format::sstable::block::Malformed;
use crate::format::sstable::heads::Heads;
use bytes::Bytes;
use std::cmp::Ordering;

const TAIL_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;

type Result<T> = std::result::Result<T, Malformed>;

#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    separators: Vec<u8>,
    ends: Vec<u32>,
    handles: Vec<BlockHandle>,
}

impl IndexBuilder {
    pub(crate) fn add(&mut self, separator: &[u8], handle: BlockHandle) {
        self.separators.extend_from_slice(separator);
        self.ends.push(self.separators.len() as u32);
        self.handles.push(handle);
    }

    /// Upper bound for the bytes of the block.
    pub(crate) fn bytes(&self) -> usize {
        self.separators.len() + ENTRY_BYTES * self.ends.len() + TAIL_BYTES
    }

    fn separator(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.separators[start as usize..self.ends[index] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of entries at which to cut a full index block: in its second half, where
    /// neighbouring separators share the shortest prefix. The separators within a block then share
    /// a longer prefix, which heads leave out: so heads differ more often.
    pub(crate) fn best_length(&self) -> usize {
        let in_common =
            |&length: &usize| shared(self.separator(length - 1), self.separator(length));
        let lengths = self.len().div_ceil(2)..self.len();
        lengths.rev().min_by_key(in_common).unwrap_or(self.len())
    }

    /// Returns the block of the first `count` entries, at least one, and its last separator. The
    /// builder keeps the rest.
    pub(crate) fn finish(&mut self, count: usize) -> (Vec<u8>, Vec<u8>) {
        let last = self.separator(count - 1).to_vec();
        let skip = shared(self.separator(0), &last);
        let mut out = Vec::with_capacity(self.bytes());
        for index in 0..count {
            out.extend_from_slice(&head(self.separator(index), skip).to_le_bytes());
        }
        for handle in &self.handles[..count] {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&(handle.length as u32).to_le_bytes());
        }
        let mut end = 0;
        for index in 0..count {
            end += (self.separator(index).len() - skip) as u32;
            out.extend_from_slice(&end.to_le_bytes());
        }
        for index in 0..count {
            out.extend_from_slice(&self.separator(index)[skip..]);
        }
        out.extend_from_slice(&self.separator(0)[..skip]);
        out.extend_from_slice(&(skip as u32).to_le_bytes());
        out.extend_from_slice(&(count as u32).to_le_bytes());
        self.keep_from(count);
        (out, last)
    }

    fn keep_from(&mut self, count: usize) {
        let start = self.ends[count - 1];
        self.separators.drain(..start as usize);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= start);
        self.handles.drain(..count);
    }
}

/// A block of the index.
#[derive(Debug, Clone)]
pub(crate) struct IndexBlock {
    data: Bytes,
    skip: usize,
    count: usize,
}

impl IndexBlock {
    pub(crate) fn new(data: Bytes) -> Result<IndexBlock> {
        let tail = data.len().checked_sub(TAIL_BYTES).ok_or(Malformed)?;
        let mut decoder = Decoder::new(&data[tail..]);
        let mut number = || decoder.u32().map(|number| number as usize);
        let (skip, count) = (number().ok_or(Malformed)?, number().ok_or(Malformed)?);
        let fixed = count.checked_mul(ENTRY_BYTES).ok_or(Malformed)?;
        let used = fixed.checked_add(skip).ok_or(Malformed)?;
        if count == 0 || used > tail {
            return Err(Malformed);
        }
        Ok(IndexBlock { data, skip, count })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn heads(&self) -> Heads<'_> {
        Heads::new(&self.data[..8 * self.count])
    }

    fn end(&self, index: usize) -> usize {
        let at = 20 * self.count + 4 * index;
        let bytes = self.data[at..at + 4].try_into().expect("a slice of four");
        u32::from_le_bytes(bytes) as usize
    }

    /// The separator at `index`, without the prefix that all separators share.
    fn rest(&self, index: usize) -> Result<&[u8]> {
        let separators =
            &self.data[ENTRY_BYTES * self.count..self.data.len() - TAIL_BYTES - self.skip];
        let start = index.checked_sub(1).map_or(0, |before| self.end(before));
        separators.get(start..self.end(index)).ok_or(Malformed)
    }

    /// Returns the index of the first separator at or after `key`, or `len()`. The first key at or
    /// after `key` is in the block of this separator, or it is the first key after that block.
    pub(crate) fn seek(&self, key: &[u8]) -> Result<usize> {
        let end = self.data.len() - TAIL_BYTES;
        let common = &self.data[end - self.skip..end];
        match key[..key.len().min(self.skip)].cmp(common) {
            Ordering::Less => return Ok(0),
            Ordering::Greater => return Ok(self.count),
            Ordering::Equal => {}
        }
        let equal = self.heads().equal_to(head(key, self.skip));
        let mut low = equal.start;
        let mut high = equal.end;
        while low < high {
            let middle = (low + high) / 2;
            if self.rest(middle)? < &key[self.skip..] {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The separator at `index`, which is below `len()`.
    pub(crate) fn separator(&self, index: usize) -> Result<Vec<u8>> {
        let end = self.data.len() - TAIL_BYTES;
        Ok([&self.data[end - self.skip..end], self.rest(index)?].concat())
    }

    /// The handle at `index`, which is below `len()`.
    pub(crate) fn handle(&self, index: usize) -> BlockHandle {
        let at = 8 * self.count + 12 * index;
        let (offset, length) = self.data[at..at + 12].split_at(8);
        BlockHandle {
            offset: u64::from_le_bytes(offset.try_into().expect("a slice of eight")),
            length: u32::from_le_bytes(length.try_into().expect("a slice of four")).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_ends_between_partitions() {
        for (rows, length) in [(100, 90), (61, 60), (60, 30), (29, 20), (9, 8), (1, 1)] {
            let mut builder = IndexBuilder::default();
            for row in 0..rows {
                let key = format!("table/p{:06}/r{row:012}", row / 30);
                builder.add(key.as_bytes(), BlockHandle::default());
            }
            assert_eq!(builder.best_length(), length, "of {rows}");
        }
    }

    proptest! {
        #[test]
        fn an_index_finds_the_first_separator_at_or_behind_a_key(
            prefix in proptest::collection::vec(0u8..3, 0..10),
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..12), 1..80),
            probe in proptest::collection::vec(0u8..4, 0..12),
            bare: bool,
        ) {
            let keys: Vec<_> = keys.iter().map(|key| [&prefix[..], key].concat()).collect();
            let mut builder = IndexBuilder::default();
            for (i, key) in keys.iter().enumerate() {
                builder.add(key, BlockHandle { offset: i as u64 * 10, length: i as u64 });
            }
            let bytes = builder.bytes();
            let block = IndexBlock::new(builder.finish(keys.len()).0.into()).unwrap();
            prop_assert!(block.data.len() <= bytes);
            let probe = if bare { probe } else { [&prefix[..], &probe].concat() };
            let expected = keys.partition_point(|key| *key < probe);
            prop_assert_eq!(block.seek(&probe), Ok(expected));
            for (i, key) in keys.iter().enumerate() {
                prop_assert_eq!(block.seek(key), Ok(i));
                prop_assert_eq!(block.handle(i), BlockHandle { offset: i as u64 * 10, length: i as u64 });
            }
        }

        #[test]
        fn blocks_of_half_the_entries_and_more_make_up_the_index(
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..3, 0..9), 1..120),
            entries_max in 1..30usize,
        ) {
            let mut builder = IndexBuilder::default();
            let mut blocks = Vec::new();
            for (i, key) in keys.iter().enumerate() {
                builder.add(key, BlockHandle { offset: i as u64, length: 1 });
                if builder.len() >= entries_max {
                    let length = builder.best_length();
                    prop_assert!(2 * length >= builder.len());
                    blocks.push(builder.finish(length));
                }
            }
            if builder.len() > 0 {
                blocks.push(builder.finish(builder.len()));
            }
            let mut keys = keys.iter().enumerate();
            for (bytes, last) in blocks {
                let block = IndexBlock::new(bytes.into()).unwrap();
                let own: Vec<_> = keys.by_ref().take(block.len()).collect();
                prop_assert_eq!(own.last().map(|(_, key)| *key), Some(&last));
                for (at, (i, key)) in own.into_iter().enumerate() {
                    prop_assert_eq!(block.seek(key), Ok(at));
                    prop_assert_eq!(block.handle(at).offset, i as u64);
                }
            }
            prop_assert!(keys.next().is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, key: Vec<u8>) {
            if let Ok(block) = IndexBlock::new(bytes.into()) {
                let _ = block.seek(&key);
                (0..block.len()).for_each(|index| assert!(block.handle(index).length <= u64::from(u32::MAX)));
            }
        }
    }
}
