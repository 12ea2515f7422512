//! Writes one SSTable, front to back. In memory are the blocks in the making, up to 256 KiB of
//! finished ones, the hash of each key (eight bytes), and the last key of each index block.

use crate::base::codec::{checksum, hash};
use crate::base::config::Compression;
use crate::base::key::{Kind, SEQUENCE_MAX, SequenceNumber, later_end, successor};
use crate::format::edit::FileMeta;
use crate::format::fragment;
use crate::format::fragment::Fragment;
use crate::format::header::encode_header;
use crate::format::pointer::ValuePointer;
use crate::format::sstable::block::BlockBuilder;
use crate::format::sstable::compress::compress;
use crate::format::sstable::footer::Footer;
use crate::format::sstable::index::IndexBuilder;
use crate::format::sstable::{BlockHandle, TRAILER_BYTES, filter};
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use crate::{KeyRange, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of one write, which begins at a multiple of this number: the file system may then store
/// the bytes contiguously, which speeds up reads.
const BUFFER_BYTES: usize = 256 << 10;

/// Options for writing an SSTable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SstableOptions {
    pub(crate) block_bytes: usize,
    pub(crate) compression: Compression,
}

pub(crate) struct SstableWriter {
    options: SstableOptions,
    number: u64,
    file: OpenFile,
    buffer: Vec<u8>,
    written: u64,
    whole: Xxh3,
    data: BlockBuilder,
    /// The finished data block whose separator waits for the key that follows it.
    pending: Option<(Vec<u8>, BlockHandle)>,
    index: IndexBuilder,
    /// Memory for compressed blocks, used again for each.
    packed: Vec<u8>,
    partitions: Vec<(Vec<u8>, BlockHandle)>,
    hashes: Vec<u64>,
    first_key: Option<Vec<u8>>,
    last_key: Vec<u8>,
    sequences: (SequenceNumber, SequenceNumber),
    entries: u64,
    tombstones: u64,
    references: BTreeMap<u64, u64>,
}

impl SstableWriter {
    pub(crate) fn create(
        directory: &Directory,
        store: u128,
        number: u64,
        options: SstableOptions,
    ) -> Result<SstableWriter> {
        let file = directory.create(FileName::Numbered(FileKind::Sstable, number))?;
        let mut writer = SstableWriter {
            options,
            number,
            file,
            buffer: Vec::new(),
            written: 0,
            whole: Xxh3::new(),
            data: BlockBuilder::default(),
            pending: None,
            index: IndexBuilder::default(),
            packed: Vec::new(),
            partitions: Vec::new(),
            hashes: Vec::new(),
            first_key: None,
            last_key: Vec::new(),
            sequences: (SEQUENCE_MAX, 0),
            entries: 0,
            tombstones: 0,
            references: BTreeMap::new(),
        };
        writer.append(&encode_header(FileKind::Sstable, store, number))?;
        Ok(writer)
    }

    /// Bytes of the file so far, those still in memory included.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + (self.buffer.len() + self.data.bytes()) as u64
    }

    /// Adds a version. Keys must ascend, and the versions of one key must come newest first.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        kind: Kind,
        value: &[u8],
    ) -> Result<()> {
        if let Some((last, handle)) = self.pending.take() {
            self.add_to_index(&separator(&last, key), handle)?;
        }
        let order = self.last_key[..].cmp(key);
        assert!(
            self.entries == 0 || order.is_le(),
            "versions are added in order"
        );
        if self.entries == 0 || order.is_ne() {
            self.hashes.push(hash(key));
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.first_key.get_or_insert_with(|| key.to_vec());
        self.count(sequence, kind, value);
        self.data.add(key, sequence, kind, value);
        if self.data.bytes() >= self.options.block_bytes {
            self.finish_data_block()?;
        }
        Ok(())
    }

    fn count(&mut self, sequence: SequenceNumber, kind: Kind, value: &[u8]) {
        self.entries += 1;
        self.tombstones += u64::from(kind == Kind::Delete);
        self.sequences.0 = self.sequences.0.min(sequence);
        self.sequences.1 = self.sequences.1.max(sequence);
        if kind == Kind::Large
            && let Some(pointer) = ValuePointer::decode(value)
        {
            for (segment, bytes) in pointer.references() {
                *self.references.entry(segment).or_default() += bytes;
            }
        }
    }

    fn finish_data_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let mut data = std::mem::take(&mut self.data);
        let last = data.last_key().to_vec();
        let handle = self.append_block(data.finish(), self.options.compression);
        data.clear();
        self.data = data;
        self.pending = Some((last, handle?));
        Ok(())
    }

    fn add_to_index(&mut self, separator: &[u8], handle: BlockHandle) -> Result<()> {
        self.index.add(separator, handle);
        if self.index.bytes() >= self.options.block_bytes {
            self.finish_partition(self.index.best_length())?;
        }
        Ok(())
    }

    fn finish_partition(&mut self, length: usize) -> Result<()> {
        let (block, last) = self.index.finish(length);
        let handle = self.append_block(&block, Compression::None)?;
        self.partitions.push((last, handle));
        Ok(())
    }

    /// Writes the rest of the index. Returns its root and its depth.
    fn finish_index(&mut self) -> Result<(BlockHandle, u32)> {
        if self.index.len() > 0 {
            self.finish_partition(self.index.len())?;
        }
        match &self.partitions[..] {
            [] => Ok((BlockHandle::default(), 1)),
            [(_, only)] => Ok((*only, 1)),
            partitions => {
                let mut root = IndexBuilder::default();
                for (last, handle) in partitions {
                    root.add(last, *handle);
                }
                let (block, _) = root.finish(root.len());
                Ok((self.append_block(&block, Compression::None)?, 2))
            }
        }
    }

    fn append_block(&mut self, payload: &[u8], compression: Compression) -> Result<BlockHandle> {
        let offset = self.written + self.buffer.len() as u64;
        let mut memory = std::mem::take(&mut self.packed);
        let (compression, packed) = compress(payload, compression, &mut memory);
        let mut trailer = [0; TRAILER_BYTES];
        trailer[0] = compression as u8;
        trailer[1..5].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let sum = checksum(self.number, offset, &[packed, &trailer[..5]]);
        trailer[5..].copy_from_slice(&sum.to_le_bytes());
        let length = packed.len() as u64;
        self.buffer.extend_from_slice(packed);
        self.packed = memory;
        self.append(&trailer)?;
        Ok(BlockHandle { offset, length })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() / BUFFER_BYTES {
            0 => Ok(()),
            full => self.flush(full * BUFFER_BYTES),
        }
    }

    /// Writes the first `length` buffered bytes.
    fn flush(&mut self, length: usize) -> Result<()> {
        let bytes = &self.buffer[..length];
        self.file.write(bytes, self.written)?;
        self.whole.update(bytes);
        self.written += length as u64;
        self.buffer.drain(..length);
        Ok(())
    }

    /// Ends the file with the deleted spans of its key range and makes it durable. The name is
    /// durable once the directory is synced, which the caller does once for several files.
    pub(crate) fn finish(mut self, fragments: &[Fragment]) -> Result<FileMeta> {
        self.finish_data_block()?;
        if let Some((last, handle)) = self.pending.take() {
            self.add_to_index(&last, handle)?;
        }
        let (index, index_depth) = self.finish_index()?;
        let mut filter = BlockHandle::default();
        if !self.hashes.is_empty() {
            filter = self.append_block(&filter::build(&self.hashes), Compression::None)?;
        }
        let mut spans = BlockHandle::default();
        if !fragments.is_empty() {
            spans = self.append_block(&fragment::encode(fragments), self.options.compression)?;
        }
        let footer = Footer {
            index,
            filter,
            range_tombstones: spans,
            index_depth,
            entries: self.entries,
            tombstones: self.tombstones,
            sequences: self.sequences,
        };
        let offset = self.written + self.buffer.len() as u64;
        self.append(&footer.encode(self.number, offset))?;
        self.flush(self.buffer.len())?;
        self.file.sync()?;
        Ok(self.meta(fragments))
    }

    fn meta(&self, fragments: &[Fragment]) -> FileMeta {
        let spans = fragments.iter().flat_map(|fragment| &fragment.sequences);
        let (low, high) = spans.fold(self.sequences, |(low, high), &sequence| {
            (low.min(sequence), high.max(sequence))
        });
        FileMeta {
            number: self.number,
            size: self.written,
            checksum: self.whole.digest(),
            range: self.range(fragments),
            sequence_min: low,
            sequence_max: high,
            entries: self.entries,
            tombstones: self.tombstones,
            range_tombstones: fragments.len() as u64,
            references: self
                .references
                .iter()
                .map(|(&segment, &bytes)| (segment, bytes))
                .collect(),
        }
    }

    fn range(&self, fragments: &[Fragment]) -> KeyRange {
        let span_start = fragments.first().map(|fragment| &fragment.start[..]);
        let span_end = fragments.last().map(|fragment| fragment.end.as_deref());
        let point_end = successor(&self.last_key);
        let start = match (&self.first_key, span_start) {
            (Some(first), Some(span)) => span.min(first),
            (Some(first), None) => first,
            (None, span) => span.unwrap_or_default(),
        };
        let end = match (&self.first_key, span_end) {
            (Some(_), Some(end)) => later_end(Some(&point_end), end),
            (Some(_), None) => Some(&point_end[..]),
            (None, end) => end.flatten(),
        };
        KeyRange {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        }
    }
}

/// Returns a short key at or after `last` and before `next`, or `last` itself if they are versions
/// of one key.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    let mut short = last[..shared.min(last.len())].to_vec();
    if let (Some(&a), Some(&b)) = (last.get(shared), next.get(shared))
        && a + 1 < b
    {
        short.push(a + 1);
        return short;
    }
    last.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_separator_lies_between_its_neighbours(a: Vec<u8>, b: Vec<u8>) {
            let (last, next) = if a <= b { (a, b) } else { (b, a) };
            let separator = separator(&last, &next);
            prop_assert!(separator >= last && (separator < next || last == next));
        }
    }

    /// Index blocks hold one separator for each data block.
    #[test]
    fn a_separator_is_as_short_as_its_neighbours_allow() {
        for (last, next, expected) in [
            (&b"abcdef"[..], &b"abzz"[..], &b"abd"[..]),
            (b"abcdef", b"x", b"b"),
            (b"abcdef", b"abd", b"abcdef"),
            (b"abc", b"abcdef", b"abc"),
            (b"abc", b"abc", b"abc"),
            (b"a\xffx", b"b", b"a\xffx"),
        ] {
            assert_eq!(separator(last, next), expected, "{last:?} {next:?}");
        }
    }
}
