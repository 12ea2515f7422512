//! Reads one SSTable: a lookup by key, and a cursor over all versions in both directions.

use super::block::{self, BlockCursor};
use super::{
    BlockHandle, FOOTER_BYTES, FOOTER_MAGIC, Footer, TRAILER_BYTES, decompress, filter, malformed,
};
use crate::Result;
use crate::cache::Cache;
use crate::codec::{Decoder, checksum};
use crate::files::{Directory, FileKind, FileName, HEADER_BYTES, OpenFile, check_header};
use crate::key::{Entry, Kind, SequenceNumber};
use crate::range_tombstones::{self, Cover, Fragment};
use crate::version::FileMeta;
use bytes::Bytes;
use std::sync::Arc;

/// An open SSTable. The index root and the range tombstones are in memory, all else comes through the cache.
#[derive(Debug)]
pub(crate) struct SstableReader {
    file: OpenFile,
    number: u64,
    footer: Footer,
    index: Option<BlockCursor>,
    fragments: Vec<Fragment>,
}

impl SstableReader {
    /// Opens the file that the manifest describes, and checks that it is the one.
    pub(crate) fn open(
        directory: &Directory,
        store: u128,
        meta: &FileMeta,
    ) -> Result<SstableReader> {
        let file = directory.open(FileName::Numbered(FileKind::Sstable, meta.number))?;
        let length = file.length()?;
        if length != meta.size || length < HEADER_BYTES + FOOTER_BYTES as u64 {
            return Err(file.corrupt(
                0,
                format!("{length} bytes long, the manifest says {}", meta.size),
            ));
        }
        let header = file.read_exact(0, HEADER_BYTES as usize)?;
        if check_header(&header, FileKind::Sstable, meta.number, file.path())? != store {
            return Err(file.corrupt(16, "the file belongs to another store"));
        }
        let footer = read_footer(&file, meta.number, length)?;
        let mut reader = SstableReader {
            file,
            number: meta.number,
            footer,
            index: None,
            fragments: Vec::new(),
        };
        reader.load_index()?;
        reader.load_fragments(meta)?;
        Ok(reader)
    }

    fn load_index(&mut self) -> Result<()> {
        let handle = self.footer.index;
        if handle.length > 0 {
            let cursor = BlockCursor::new(self.read_block(handle)?);
            self.index = Some(cursor.map_err(malformed(self.file.path(), handle.offset))?);
        }
        Ok(())
    }

    fn load_fragments(&mut self, meta: &FileMeta) -> Result<()> {
        let handle = self.footer.range_tombstones;
        if handle.length > 0 {
            let decoded = range_tombstones::decode(&self.read_block(handle)?);
            self.fragments = decoded.ok_or_else(|| {
                self.file
                    .corrupt(handle.offset, "the range tombstones do not decode")
            })?;
        }
        if self.fragments.len() as u64 != meta.range_tombstones
            || self.footer.entries != meta.entries
        {
            return Err(self
                .file
                .corrupt(0, "the counts differ from the manifest's"));
        }
        Ok(())
    }

    /// Reads a block from the file and verifies it.
    pub(crate) fn read_block(&self, handle: BlockHandle) -> Result<Bytes> {
        let corrupt = |reason| self.file.corrupt(handle.offset, reason);
        let with_trailer = handle.length.checked_add(TRAILER_BYTES as u64);
        let with_trailer =
            with_trailer.filter(|length| handle.offset.checked_add(*length).is_some());
        let length = with_trailer.filter(|length| *length <= u64::from(super::BLOCK_BYTES_MAX));
        let length = length.ok_or_else(|| corrupt("the length of the block is out of bounds"))?;
        let mut bytes = Bytes::from(self.file.read_exact(handle.offset, length as usize)?);
        let trailer = bytes.split_off(handle.length as usize);
        let sum = u64::from_le_bytes(trailer[5..].try_into().expect("eight bytes follow"));
        if sum != checksum(self.number, handle.offset, &[&bytes, &trailer[..5]]) {
            return Err(corrupt("the checksum of the block does not match"));
        }
        let unpacked = u32::from_le_bytes(trailer[1..5].try_into().expect("four bytes follow"));
        decompress(bytes, trailer[0], unpacked).map_err(corrupt)
    }

    fn block(&self, cache: &Cache, handle: BlockHandle) -> Result<Bytes> {
        cache.block(self.number, handle.offset, || self.read_block(handle))
    }

    fn cursor_of(&self, cache: &Cache, handle: BlockHandle) -> Result<BlockCursor> {
        let cursor = BlockCursor::new(self.block(cache, handle)?);
        cursor.map_err(malformed(self.file.path(), handle.offset))
    }

    /// The newest deletion of a span that holds `key`, at or before `at`.
    pub(crate) fn cover(&self, key: &[u8], at: SequenceNumber) -> Option<Cover> {
        range_tombstones::cover(&self.fragments, key, at)
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The newest version of `key` at or before `at`, of which `hash` is the hash.
    pub(crate) fn get(
        self: &Arc<Self>,
        cache: &Cache,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
    ) -> Result<Option<Entry>> {
        let handle = self.footer.filter;
        if self.index.is_none() {
            return Ok(None);
        }
        if handle.length > 0 && !filter::may_contain(&self.block(cache, handle)?, hash) {
            return Ok(None);
        }
        let mut cursor = SstableCursor::new(self.clone());
        cursor.seek(cache, key, at)?;
        Ok(cursor
            .key()
            .is_some_and(|found| found == key)
            .then(|| cursor.entry()))
    }

    /// Reads every block and checks every checksum. Answers the number of entries.
    pub(crate) fn verify(self: &Arc<Self>, cache: &Cache, meta: &FileMeta) -> Result<u64> {
        let mut whole = xxhash_rust::xxh3::Xxh3::new();
        let mut offset = 0;
        while offset < meta.size {
            let length = (meta.size - offset).min(1 << 20);
            whole.update(&self.file.read_exact(offset, length as usize)?);
            offset += length;
        }
        if whole.digest() != meta.checksum {
            return Err(self
                .file
                .corrupt(0, "the checksum of the file differs from the manifest's"));
        }
        let mut cursor = SstableCursor::new(self.clone());
        cursor.seek(cache, &[], SequenceNumber::MAX)?;
        let mut entries = 0;
        while cursor.key().is_some() {
            entries += 1;
            cursor.next(cache)?;
        }
        Ok(entries)
    }
}

fn read_footer(file: &OpenFile, number: u64, length: u64) -> Result<Footer> {
    let offset = length - FOOTER_BYTES as u64;
    let bytes = file.read_exact(offset, FOOTER_BYTES)?;
    let summed = FOOTER_BYTES - 16;
    let sum = u64::from_le_bytes(
        bytes[summed..summed + 8]
            .try_into()
            .expect("eight bytes follow"),
    );
    if bytes[summed + 8..] != *FOOTER_MAGIC || sum != checksum(number, offset, &[&bytes[..summed]])
    {
        return Err(file.corrupt(offset, "the checksum of the footer does not match"));
    }
    let footer = decode_footer(&bytes).filter(|footer| matches!(footer.index_depth, 1 | 2));
    footer.ok_or_else(|| file.corrupt(offset, "the footer does not decode"))
}

fn decode_footer(bytes: &[u8]) -> Option<Footer> {
    let mut decoder = Decoder::new(bytes);
    let mut handle = || {
        Some(BlockHandle {
            offset: decoder.u64()?,
            length: decoder.u64()?,
        })
    };
    let (index, filter, range_tombstones) = (handle()?, handle()?, handle()?);
    let (entries, tombstones) = (decoder.u64()?, decoder.u64()?);
    let _sequences = (decoder.u64()?, decoder.u64()?);
    let index_depth = decoder.u32()?;
    Some(Footer {
        index,
        filter,
        range_tombstones,
        index_depth,
        entries,
        tombstones,
    })
}

/// A position among all versions of an SSTable: on one, or on none.
#[derive(Debug)]
pub(crate) struct SstableCursor {
    reader: Arc<SstableReader>,
    root: Option<BlockCursor>,
    partition: Option<BlockCursor>,
    data: Option<BlockCursor>,
}

impl SstableCursor {
    pub(crate) fn new(reader: Arc<SstableReader>) -> SstableCursor {
        SstableCursor {
            root: reader.index.clone(),
            partition: None,
            data: None,
            reader,
        }
    }

    /// The user key at the position; `None` when on none.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.data.as_ref().map(BlockCursor::key)
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.data.as_ref().map_or(0, BlockCursor::sequence)
    }

    /// The version at the position.
    pub(crate) fn entry(&self) -> Entry {
        let data = self.data.as_ref();
        Entry {
            sequence: self.sequence(),
            kind: data.map_or(Kind::Delete, BlockCursor::kind),
            value: data.map_or_else(Bytes::new, BlockCursor::value),
        }
    }

    /// To the first version at or behind version `at` of `key`.
    pub(crate) fn seek(&mut self, cache: &Cache, key: &[u8], at: SequenceNumber) -> Result<()> {
        self.data = None;
        self.on_index(|index| index.seek(key, SequenceNumber::MAX))?;
        self.enter(
            cache,
            |block| block.seek(key, SequenceNumber::MAX),
            |block| block.seek(key, at),
        )?;
        // A shortened separator may lie behind all versions of its block, and a key's versions may fill several blocks.
        if self.data.as_ref().is_some_and(|data| !data.is_on_entry()) {
            self.next_block(cache)?;
        }
        while self.key() == Some(key) && self.sequence() > at {
            self.next(cache)?;
        }
        Ok(())
    }

    /// To the last version of the last key before `key`; to the last of all when `None`.
    pub(crate) fn seek_before(&mut self, cache: &Cache, key: Option<&[u8]>) -> Result<()> {
        match key {
            Some(key) => self.seek(cache, key, SequenceNumber::MAX)?,
            None => self.data = None,
        }
        if self.data.is_some() {
            return self.prev(cache);
        }
        self.on_index(BlockCursor::last)?;
        self.enter(cache, BlockCursor::last, BlockCursor::last)
    }

    pub(crate) fn next(&mut self, cache: &Cache) -> Result<()> {
        if self.on_data(BlockCursor::next)? {
            return Ok(());
        }
        self.next_block(cache)
    }

    pub(crate) fn prev(&mut self, cache: &Cache) -> Result<()> {
        if self.on_data(BlockCursor::prev)? {
            return Ok(());
        }
        if !self.on_partition(BlockCursor::prev)? {
            self.on_index(BlockCursor::prev)?;
            return self.enter(cache, BlockCursor::last, BlockCursor::last);
        }
        self.enter_data(cache, BlockCursor::last)
    }

    fn next_block(&mut self, cache: &Cache) -> Result<()> {
        if !self.on_partition(BlockCursor::next)? {
            self.on_index(BlockCursor::next)?;
            return self.enter(cache, BlockCursor::first, BlockCursor::first);
        }
        self.enter_data(cache, BlockCursor::first)
    }

    fn malformed(&self, _: block::Malformed) -> crate::Error {
        self.reader
            .file
            .corrupt(self.reader.footer.index.offset, "a block does not decode")
    }

    fn on_index(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
    ) -> Result<()> {
        let stepped = self.root.as_mut().map_or(Ok(()), step);
        stepped.map_err(|error| self.malformed(error))
    }

    /// Steps in the partition of a two-level index; `false` when there is none or it ends.
    fn on_partition(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
    ) -> Result<bool> {
        let Some(partition) = &mut self.partition else {
            return Ok(false);
        };
        let stepped = step(partition).map(|()| partition.is_on_entry());
        stepped.map_err(|error| self.malformed(error))
    }

    fn on_data(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
    ) -> Result<bool> {
        let Some(data) = &mut self.data else {
            return Ok(false);
        };
        let stepped = step(data).map(|()| data.is_on_entry());
        stepped.map_err(|error| self.malformed(error))
    }

    /// Goes down from where the root stands.
    fn enter(
        &mut self,
        cache: &Cache,
        in_partition: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
        in_data: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
    ) -> Result<()> {
        self.data = None;
        self.partition = None;
        let Some(root) = self.root.as_ref().filter(|root| root.is_on_entry()) else {
            return Ok(());
        };
        if self.reader.footer.index_depth == 2 {
            let handle = root.handle().map_err(|error| self.malformed(error))?;
            self.partition = Some(self.reader.cursor_of(cache, handle)?);
            self.on_partition(in_partition)?;
        }
        self.enter_data(cache, in_data)
    }

    fn enter_data(
        &mut self,
        cache: &Cache,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<(), block::Malformed>,
    ) -> Result<()> {
        self.data = None;
        let index = self.partition.as_ref().or(self.root.as_ref());
        let Some(index) = index.filter(|index| index.is_on_entry()) else {
            return Ok(());
        };
        let handle = index.handle().map_err(|error| self.malformed(error))?;
        self.data = Some(self.reader.cursor_of(cache, handle)?);
        self.on_data(step).map(|_| ())
    }
}
