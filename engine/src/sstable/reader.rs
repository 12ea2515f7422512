//! Reads one SSTable: a lookup by key, and a cursor over all versions in both directions.

use super::block::{self, BlockCursor, Lookup};
use super::index::IndexBlock;
use super::{
    BlockHandle, FOOTER_BYTES, FOOTER_MAGIC, Footer, TRAILER_BYTES, decompress, filter, malformed,
};
use crate::cache::Cache;
use crate::codec::{Decoder, checksum};
use crate::files::{FileKind, FileName, HEADER_BYTES, OpenFile, check_header};
use crate::key::{Entry, SequenceNumber};
use crate::range_tombstones::{self, Cover, Fragment};
use crate::version::FileMeta;
use crate::{Error, Result};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An SSTable that has been looked at. The index root and the range tombstones are in memory, and the filter and the index
/// partitions once they are used, if there is room; all else comes through the cache. The file itself is open only while the
/// cache keeps it open.
#[derive(Debug)]
pub(crate) struct SstableReader {
    number: u64,
    footer: Footer,
    index: Option<IndexBlock>,
    /// One for each entry of the root, if those lead to partitions.
    partitions: Box<[OnceLock<IndexBlock>]>,
    fragments: Vec<Fragment>,
    filter: OnceLock<Bytes>,
    pinned: AtomicU64,
}

/// A partition of the index: of a reader, or one that is not kept in memory.
#[derive(Debug)]
enum Partition<T> {
    Pinned(T),
    Loaded(IndexBlock),
}

impl SstableReader {
    /// Opens the file that the manifest describes, and checks that it is the one.
    pub(crate) fn open(cache: &Cache, meta: &FileMeta) -> Result<SstableReader> {
        let file = cache.file(meta.number)?;
        let length = file.length()?;
        if length != meta.size || length < HEADER_BYTES + FOOTER_BYTES as u64 {
            return Err(file.corrupt(
                0,
                format!("{length} bytes long, the manifest says {}", meta.size),
            ));
        }
        let header = file.read_exact(0, HEADER_BYTES as usize)?;
        let store = check_header(&header, FileKind::Sstable, meta.number, file.path())?;
        if store != cache.store() {
            return Err(file.corrupt(16, "the file belongs to another store"));
        }
        let footer = read_footer(&file, meta.number, length)?;
        let mut reader = SstableReader {
            number: meta.number,
            footer,
            index: None,
            partitions: Box::default(),
            fragments: Vec::new(),
            filter: OnceLock::new(),
            pinned: AtomicU64::new(0),
        };
        reader.load_index(&file)?;
        reader.load_fragments(&file, meta)?;
        reader.pin(cache, reader.footer.index.length);
        Ok(reader)
    }

    fn load_index(&mut self, file: &OpenFile) -> Result<()> {
        let handle = self.footer.index;
        if handle.length > 0 {
            let index = IndexBlock::new(self.read_block(file, handle)?);
            let index = index.map_err(malformed(file.path(), handle.offset))?;
            if self.footer.index_depth == 2 {
                self.partitions = (0..index.len()).map(|_| OnceLock::new()).collect();
            }
            self.index = Some(index);
        }
        Ok(())
    }

    fn load_fragments(&mut self, file: &OpenFile, meta: &FileMeta) -> Result<()> {
        let handle = self.footer.range_tombstones;
        if handle.length > 0 {
            let decoded = range_tombstones::decode(&self.read_block(file, handle)?);
            self.fragments = decoded
                .ok_or_else(|| file.corrupt(handle.offset, "the range tombstones do not decode"))?;
        }
        if self.fragments.len() as u64 != meta.range_tombstones
            || self.footer.entries != meta.entries
        {
            return Err(file.corrupt(0, "the counts differ from the manifest's"));
        }
        Ok(())
    }

    /// Sets memory of the cache aside, which [`SstableReader::pinned_bytes`] tells to give back.
    fn pin(&self, cache: &Cache, bytes: u64) -> bool {
        let pinned = cache.pin(bytes);
        if pinned {
            self.pinned.fetch_add(bytes, Ordering::Relaxed);
        }
        pinned
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Reads a block from the file and verifies it.
    fn read_block(&self, file: &OpenFile, handle: BlockHandle) -> Result<Bytes> {
        let corrupt = |reason| file.corrupt(handle.offset, reason);
        let with_trailer = handle.length.checked_add(TRAILER_BYTES as u64);
        let with_trailer =
            with_trailer.filter(|length| handle.offset.checked_add(*length).is_some());
        let length = with_trailer.filter(|length| *length <= u64::from(super::BLOCK_BYTES_MAX));
        let length = length.ok_or_else(|| corrupt("the length of the block is out of bounds"))?;
        let mut bytes = Bytes::from(file.read_exact(handle.offset, length as usize)?);
        let summed = &bytes[..bytes.len() - 8];
        let right = checksum(self.number, handle.offset, &[summed]);
        let trailer = bytes.split_off(handle.length as usize);
        let sum = u64::from_le_bytes(trailer[5..].try_into().expect("eight bytes follow"));
        if sum != right {
            return Err(corrupt("the checksum of the block does not match"));
        }
        let unpacked = u32::from_le_bytes(trailer[1..5].try_into().expect("four bytes follow"));
        decompress(bytes, trailer[0], unpacked).map_err(corrupt)
    }

    fn block(&self, cache: &Cache, handle: BlockHandle) -> Result<Bytes> {
        cache.block(self.number, handle.offset, || {
            self.read_block(&cache.file(self.number)?, handle)
        })
    }

    /// The partition that entry `at` of the root leads to; `None` if its entries lead to data blocks.
    fn partition(&self, cache: &Cache, at: usize) -> Result<Option<Partition<&IndexBlock>>> {
        let (Some(slot), Some(root)) = (self.partitions.get(at), &self.index) else {
            return Ok(None);
        };
        if let Some(pinned) = slot.get() {
            return Ok(Some(Partition::Pinned(pinned)));
        }
        let handle = root.handle(at);
        let decode = |block| {
            let index = IndexBlock::new(block);
            index.map_err(|error| self.malformed(cache, handle, error))
        };
        Ok(Some(if self.pin(cache, handle.length) {
            let read = self.read_block(&cache.file(self.number)?, handle)?;
            let read = decode(read)?;
            Partition::Pinned(slot.get_or_init(|| read))
        } else {
            Partition::Loaded(decode(self.block(cache, handle)?)?)
        }))
    }

    /// Takes the index into memory, as far as there is room.
    pub(crate) fn warm(&self, cache: &Cache) {
        let is_pinned = |at| matches!(self.partition(cache, at), Ok(Some(Partition::Pinned(_))));
        (0..self.partitions.len()).all(is_pinned);
    }

    fn malformed(&self, cache: &Cache, handle: BlockHandle, error: block::Malformed) -> Error {
        let name = FileName::Numbered(FileKind::Sstable, self.number);
        malformed(&cache.directory().path_of(name), handle.offset)(error)
    }

    /// The newest deletion of a span that holds `key`, at or before `at`.
    pub(crate) fn cover(&self, key: &[u8], at: SequenceNumber) -> Option<Cover> {
        range_tombstones::cover(&self.fragments, key, at)
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// `false` only if the file has no version of a key with this hash.
    fn may_contain(&self, cache: &Cache, hash: u64) -> Result<bool> {
        let handle = self.footer.filter;
        if handle.length == 0 {
            return Ok(true);
        }
        if let Some(filter) = self.filter.get() {
            return Ok(filter::may_contain(filter, hash));
        }
        let filter = if self.pin(cache, handle.length) {
            let read = self.read_block(&cache.file(self.number)?, handle)?;
            self.filter.get_or_init(|| read).clone()
        } else {
            self.block(cache, handle)?
        };
        Ok(filter::may_contain(&filter, hash))
    }

    /// The newest version of `key` at or before `at`, of which `hash` is the hash.
    pub(crate) fn get(
        self: &Arc<Self>,
        cache: &Cache,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
    ) -> Result<Option<Entry>> {
        let Some(index) = &self.index else {
            return Ok(None);
        };
        if !self.may_contain(cache, hash)? {
            return Ok(None);
        }
        let Some(handle) = self.data_handle(cache, index, key)? else {
            return Ok(None);
        };
        let data = self.block(cache, handle)?;
        let found = block::find(&data, key, at);
        match found.map_err(|error| self.malformed(cache, handle, error))? {
            Lookup::Found {
                sequence,
                kind,
                value,
            } => Ok(Some(Entry {
                sequence,
                kind,
                value,
            })),
            Lookup::Absent => Ok(None),
            // The versions of one key may fill several blocks.
            Lookup::Behind => self.get_by_cursor(cache, key, at),
        }
    }

    /// The block in which the first version of `key` stands, if there is one.
    fn data_handle(
        &self,
        cache: &Cache,
        root: &IndexBlock,
        key: &[u8],
    ) -> Result<Option<BlockHandle>> {
        let seek = |index: &IndexBlock| {
            let found = index.seek(key);
            found.map_err(|error| self.malformed(cache, self.footer.index, error))
        };
        let found = seek(root)?;
        let partition = self.partition(cache, found)?;
        let (index, found) = match &partition {
            None => (root, found),
            Some(Partition::Pinned(index)) => (*index, seek(index)?),
            Some(Partition::Loaded(index)) => (index, seek(index)?),
        };
        Ok((found < index.len()).then(|| index.handle(found)))
    }

    fn get_by_cursor(
        self: &Arc<Self>,
        cache: &Cache,
        key: &[u8],
        at: SequenceNumber,
    ) -> Result<Option<Entry>> {
        let mut cursor = SstableCursor::new(self.clone());
        cursor.seek(cache, key, at)?;
        let found = cursor.key().is_some_and(|found| found == key);
        Ok(found.then(|| cursor.entry()))
    }

    /// Reads every block past the cache and checks every checksum, the order of the keys, and the counts. Answers all that is
    /// wrong.
    pub(crate) fn verify(self: &Arc<Self>, cache: &Cache, meta: &FileMeta) -> Result<Vec<Error>> {
        let file = cache.file(self.number)?;
        let mut verification = Verification {
            reader: self,
            file: &file,
            meta,
            found: Vec::new(),
            entries: 0,
            last: None,
        };
        verification.whole()?;
        verification.blocks();
        Ok(verification.found)
    }
}

/// What is known while an SSTable is verified.
struct Verification<'a> {
    reader: &'a SstableReader,
    file: &'a OpenFile,
    meta: &'a FileMeta,
    found: Vec<Error>,
    entries: u64,
    last: Option<(Vec<u8>, SequenceNumber)>,
}

impl Verification<'_> {
    fn whole(&mut self) -> Result<()> {
        let mut whole = xxhash_rust::xxh3::Xxh3::new();
        let mut offset = 0;
        while offset < self.meta.size {
            let length = (self.meta.size - offset).min(1 << 20);
            whole.update(&self.file.read_exact(offset, length as usize)?);
            offset += length;
        }
        if whole.digest() != self.meta.checksum {
            let reason = "the checksum of the file differs from the manifest's";
            self.found.push(self.file.corrupt(0, reason));
        }
        Ok(())
    }

    fn blocks(&mut self) {
        let filter = self.reader.footer.filter;
        if filter.length > 0 {
            let read = self.reader.read_block(self.file, filter);
            self.found.extend(read.err());
        }
        let Some(root) = &self.reader.index else {
            return;
        };
        let depth = self.reader.footer.index_depth;
        for handle in (0..root.len()).map(|index| root.handle(index)) {
            match depth {
                2 => self.partition(handle),
                _ => self.data(handle),
            }
        }
        if self.entries != self.meta.entries && self.found.is_empty() {
            let reason = "the counts differ from the manifest's";
            self.found.push(self.file.corrupt(0, reason));
        }
    }

    fn partition(&mut self, handle: BlockHandle) {
        let block = self.reader.read_block(self.file, handle);
        let bad = malformed(self.file.path(), handle.offset);
        match block.and_then(|block| IndexBlock::new(block).map_err(bad)) {
            Ok(index) => (0..index.len()).for_each(|at| self.data(index.handle(at))),
            Err(error) => self.found.push(error),
        }
    }

    fn data(&mut self, handle: BlockHandle) {
        if let Err(error) = self.try_data(handle) {
            self.found.push(error);
        }
    }

    fn try_data(&mut self, handle: BlockHandle) -> Result<()> {
        let bad = malformed(self.file.path(), handle.offset);
        let mut cursor = BlockCursor::new();
        let block = self.reader.read_block(self.file, handle)?;
        cursor.load(block).map_err(&bad)?;
        cursor.first().map_err(&bad)?;
        while cursor.is_on_entry() {
            let (key, sequence) = (cursor.key(), cursor.sequence());
            let in_order = self.last.as_ref().is_none_or(|(last, before)| {
                last[..] < *key || (last[..] == *key && *before > sequence)
            });
            if !in_order || !self.meta.contains(key) {
                let reason = "the keys are not in order";
                return Err(self.file.corrupt(handle.offset, reason));
            }
            self.last = Some((key.to_vec(), sequence));
            self.entries += 1;
            cursor.next().map_err(&bad)?;
        }
        Ok(())
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
    at_root: usize,
    partition: Option<Partition<()>>,
    at_partition: usize,
    data: BlockCursor,
}

type Step<'a> = &'a mut dyn FnMut(&mut BlockCursor) -> std::result::Result<(), block::Malformed>;

impl SstableCursor {
    pub(crate) fn new(reader: Arc<SstableReader>) -> SstableCursor {
        SstableCursor {
            reader,
            at_root: 0,
            partition: None,
            at_partition: 0,
            data: BlockCursor::new(),
        }
    }

    /// Goes to another SSTable, on none of its versions.
    pub(crate) fn switch(&mut self, reader: Arc<SstableReader>) {
        self.reader = reader;
        self.partition = None;
        self.data.unload();
    }

    /// The user key at the position; `None` when on none.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.data.is_on_entry().then(|| self.data.key())
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.data.sequence()
    }

    pub(crate) fn kind(&self) -> crate::key::Kind {
        self.data.kind()
    }

    pub(crate) fn value(&self) -> Bytes {
        self.data.value()
    }

    pub(crate) fn value_slice(&self) -> &[u8] {
        self.data.value_slice()
    }

    /// Whether `next` has come to another version of the same key.
    pub(crate) fn repeats(&self) -> bool {
        self.data.repeats()
    }

    /// The version at the position.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            sequence: self.data.sequence(),
            kind: self.data.kind(),
            value: self.data.value(),
        }
    }

    /// To the first version at or behind version `at` of `key`.
    pub(crate) fn seek(&mut self, cache: &Cache, key: &[u8], at: SequenceNumber) -> Result<()> {
        self.data.unload();
        self.partition = None;
        let bad = |error| self.malformed(cache, error);
        let Some(root) = &self.reader.index else {
            return Ok(());
        };
        self.at_root = root.seek(key).map_err(bad)?;
        if self.at_root == root.len() {
            return Ok(());
        }
        self.enter_partition(cache)?;
        if let Some(partition) = self.partition() {
            let found = partition.seek(key);
            self.at_partition = found.map_err(|error| self.malformed(cache, error))?;
        }
        self.load(cache, &mut |block| block.seek(key, at))?;
        // A shortened separator may lie behind all versions of its block, and a key's versions may fill several blocks.
        if !self.data.is_on_entry() {
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
            None => self.data.unload(),
        }
        if self.data.is_on_entry() {
            return self.prev(cache);
        }
        let last = self.reader.index.as_ref().map_or(0, IndexBlock::len);
        match last.checked_sub(1) {
            Some(last) => self.enter_partition_at_end(cache, last),
            None => Ok(()),
        }
    }

    pub(crate) fn next(&mut self, cache: &Cache) -> Result<()> {
        let stepped = self.data.next();
        stepped.map_err(|error| self.malformed(cache, error))?;
        match self.data.is_on_entry() {
            true => Ok(()),
            false => self.next_block(cache),
        }
    }

    pub(crate) fn prev(&mut self, cache: &Cache) -> Result<()> {
        let stepped = self.data.prev();
        stepped.map_err(|error| self.malformed(cache, error))?;
        if self.data.is_on_entry() {
            return Ok(());
        }
        if self.partition.is_some()
            && let Some(before) = self.at_partition.checked_sub(1)
        {
            self.at_partition = before;
            return self.load(cache, &mut BlockCursor::last);
        }
        match self.at_root.checked_sub(1) {
            Some(before) => self.enter_partition_at_end(cache, before),
            None => Ok(()),
        }
    }

    /// To the first version of the next block that has one; on none behind the last.
    fn next_block(&mut self, cache: &Cache) -> Result<()> {
        let Some(root) = &self.reader.index else {
            return Ok(());
        };
        if let Some(partition) = self.partition()
            && self.at_partition + 1 < partition.len()
        {
            self.at_partition += 1;
            return self.load(cache, &mut BlockCursor::first);
        }
        self.at_root += 1;
        if self.at_root >= root.len() {
            self.data.unload();
            return Ok(());
        }
        self.enter_partition(cache)?;
        self.load(cache, &mut BlockCursor::first)
    }

    /// The partition that the cursor is in.
    fn partition(&self) -> Option<&IndexBlock> {
        match self.partition.as_ref()? {
            Partition::Pinned(()) => self.reader.partitions[self.at_root].get(),
            Partition::Loaded(partition) => Some(partition),
        }
    }

    /// To the beginning of the partition that entry `at_root` of the root leads to, if it leads to one.
    fn enter_partition(&mut self, cache: &Cache) -> Result<()> {
        let partition = self.reader.partition(cache, self.at_root)?;
        self.partition = partition.map(|partition| match partition {
            Partition::Pinned(_) => Partition::Pinned(()),
            Partition::Loaded(partition) => Partition::Loaded(partition),
        });
        self.at_partition = 0;
        Ok(())
    }

    /// To the last version below entry `at_root` of the root.
    fn enter_partition_at_end(&mut self, cache: &Cache, at_root: usize) -> Result<()> {
        self.at_root = at_root;
        self.enter_partition(cache)?;
        if let Some(partition) = self.partition() {
            self.at_partition = partition.len() - 1;
        }
        self.load(cache, &mut BlockCursor::last)
    }

    /// Loads the data block that the index positions lead to, and steps in it.
    fn load(&mut self, cache: &Cache, step: Step<'_>) -> Result<()> {
        let handle = match (self.partition(), &self.reader.index) {
            (Some(partition), _) if self.at_partition < partition.len() => {
                partition.handle(self.at_partition)
            }
            (None, Some(root)) => root.handle(self.at_root),
            // A separator of the root that its partition does not reach.
            _ => return Err(self.malformed(cache, block::Malformed)),
        };
        let block = self.reader.block(cache, handle)?;
        let loaded = self.data.load(block);
        let stepped = loaded.and_then(|()| step(&mut self.data));
        stepped.map_err(|error| self.reader.malformed(cache, handle, error))
    }

    fn malformed(&self, cache: &Cache, error: block::Malformed) -> Error {
        let handle = self.reader.footer.index;
        self.reader.malformed(cache, handle, error)
    }
}
