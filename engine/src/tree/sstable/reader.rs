//! Reads one SSTable: opening, blocks, filter and index.

use crate::base::codec::checksum;
use crate::base::key::SequenceNumber;
use crate::format::edit::FileMeta;
use crate::format::fragment;
use crate::format::fragment::{Cover, Fragment};
use crate::format::header::{HEADER_BYTES, check_header};
use crate::format::sstable::block;
use crate::format::sstable::compress::decompress;
use crate::format::sstable::footer::{FOOTER_BYTES, Footer};
use crate::format::sstable::index::IndexBlock;
use crate::format::sstable::{BLOCK_BYTES_MAX, BlockHandle, TRAILER_BYTES, filter};
use crate::fs::directory::OpenFile;
use crate::fs::name::{FileKind, FileName};
use crate::tree::cache::Cache;
use crate::tree::range_tombstones;
use crate::tree::sstable::malformed;
use crate::{Error, Result};
use bytes::Bytes;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An SSTable that was opened at least once. The index root and the range tombstones are in memory,
/// and the filter and the index partitions once they are used, if there is room; everything else is
/// read through the cache. The file itself is open only while the cache keeps it open.
#[derive(Debug)]
pub(crate) struct SstableReader {
    pub(super) number: u64,
    length: u64,
    pub(super) footer: Footer,
    pub(super) index: Option<IndexBlock>,
    /// The pinned partitions, one for each entry of the root; empty if that leads to data blocks.
    pub(super) partitions: Box<[OnceLock<IndexBlock>]>,
    fragments: Vec<Fragment>,
    filter: OnceLock<Bytes>,
    pinned: AtomicU64,
}

/// A partition of the index: pinned by the reader, or loaded for one use.
#[derive(Debug)]
pub(super) enum Partition<T> {
    Pinned(T),
    Loaded(IndexBlock),
}

impl SstableReader {
    /// Opens the file that the manifest describes, and checks that its contents match.
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
        let mut reader = SstableReader::of_file(&file, meta.number, length)?;
        reader.load_index(&file)?;
        reader.load_fragments(&file, meta)?;
        reader.pin(cache, reader.footer.index.length);
        Ok(reader)
    }

    /// A reader of a file of `length` bytes; reads only the footer.
    pub(super) fn of_file(file: &OpenFile, number: u64, length: u64) -> Result<SstableReader> {
        if length < HEADER_BYTES + FOOTER_BYTES as u64 {
            return Err(file.corrupt(0, "the file ends inside its footer"));
        }
        Ok(SstableReader {
            number,
            length,
            footer: read_footer(file, number, length)?,
            index: None,
            partitions: Box::default(),
            fragments: Vec::new(),
            filter: OnceLock::new(),
            pinned: AtomicU64::new(0),
        })
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
            let decoded = fragment::decode(&self.read_block(file, handle)?);
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

    /// Reserves `bytes` of the cache for this reader; `false` if there is no room. The owner must
    /// release [`SstableReader::pinned_bytes`].
    fn pin(&self, cache: &Cache, bytes: u64) -> bool {
        let pinned = cache.pin(bytes);
        if pinned {
            self.pinned.fetch_add(bytes, Ordering::Relaxed);
        }
        pinned
    }

    fn unpin(&self, cache: &Cache, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
        cache.unpin(bytes);
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Reads a block from the file and verifies it.
    pub(super) fn read_block(&self, file: &OpenFile, handle: BlockHandle) -> Result<Bytes> {
        let corrupt = |reason| file.corrupt(handle.offset, reason);
        let length = self
            .stored_length(handle)
            .ok_or_else(|| corrupt("the length of the block is out of bounds"))?;
        let stored = file.read_exact(handle.offset, length as usize)?;
        let (summed, sum) = stored.split_at(stored.len() - 8);
        let sum = u64::from_le_bytes(sum.try_into().expect("eight bytes follow"));
        if sum != checksum(self.number, handle.offset, &[summed]) {
            return Err(corrupt("the checksum of the block does not match"));
        }
        let (payload, trailer) = summed.split_at(handle.length as usize);
        let length = u32::from_le_bytes(trailer[1..5].try_into().expect("four bytes follow"));
        let mut unpacked = Vec::new();
        let block = decompress(payload, trailer[0], length, &mut unpacked).map_err(corrupt)?;
        let length = block.len();
        Ok(if unpacked.is_empty() {
            Bytes::from(stored).slice(..length)
        } else {
            unpacked.into()
        })
    }

    /// Length of a block with its trailer. `None` if it exceeds the file or [`BLOCK_BYTES_MAX`], so
    /// that a damaged handle does not allocate memory.
    fn stored_length(&self, handle: BlockHandle) -> Option<u64> {
        let length = handle.length.checked_add(TRAILER_BYTES as u64)?;
        let end = handle.offset.checked_add(length)?;
        (end <= self.length && length <= u64::from(BLOCK_BYTES_MAX)).then_some(length)
    }

    pub(super) fn block(&self, cache: &Cache, handle: BlockHandle) -> Result<Bytes> {
        match cache.present(self.number, handle.offset) {
            Some(block) => Ok(block),
            None => self.read_and_cache(cache, handle),
        }
    }

    /// Reads a block that the cache does not have, and adds it to the cache.
    fn read_and_cache(&self, cache: &Cache, handle: BlockHandle) -> Result<Bytes> {
        let block = self.read_block(&cache.file(self.number)?, handle)?;
        cache.insert(self.number, handle.offset, block.clone());
        Ok(block)
    }

    /// Returns the partition below entry `at` of the root; `None` if the root's entries refer to
    /// data blocks.
    pub(super) fn partition(
        &self,
        cache: &Cache,
        at: usize,
    ) -> Result<Option<Partition<&IndexBlock>>> {
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

    /// Loads the index into memory, as far as there is room, and the first block into the cache.
    /// Only the first block, because rows of a queue are deleted from the front.
    pub(crate) fn warm(&self, cache: &Cache) {
        let is_pinned = |at| matches!(self.partition(cache, at), Ok(Some(Partition::Pinned(_))));
        (0..self.partitions.len()).all(is_pinned);
        if let Some(index) = &self.index
            && let Ok(Some(first)) = self.data_handle(cache, index, &[])
        {
            let _ = self.block(cache, first);
        }
    }

    /// Returns keys that divide the SSTable into stretches of about the same length; reads none of
    /// its data blocks.
    pub(crate) fn separators(&self, cache: &Cache) -> Result<Vec<Vec<u8>>> {
        let Some(root) = &self.index else {
            return Ok(Vec::new());
        };
        let separators = (0..root.len()).map(|at| root.separator(at));
        let separators: std::result::Result<_, _> = separators.collect();
        separators.map_err(|error| self.malformed(cache, self.footer.index, error))
    }

    pub(super) fn malformed(
        &self,
        cache: &Cache,
        handle: BlockHandle,
        error: block::Malformed,
    ) -> Error {
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
    pub(super) fn may_contain(&self, cache: &Cache, hash: u64) -> Result<bool> {
        let handle = self.footer.filter;
        if handle.length == 0 {
            return Ok(true);
        }
        if let Some(filter) = self.filter.get() {
            return Ok(filter::may_contain(filter, hash));
        }
        let filter = if self.pin(cache, handle.length) {
            let read = cache
                .file(self.number)
                .and_then(|file| self.read_block(&file, handle));
            let is_kept = matches!(&read, Ok(read) if self.filter.set(read.clone()).is_ok());
            if !is_kept {
                self.unpin(cache, handle.length);
            }
            read?
        } else {
            self.block(cache, handle)?
        };
        Ok(filter::may_contain(&filter, hash))
    }

    /// The block that holds the first version of `key`, if the file has one; `None` only if `key`
    /// is after all keys.
    pub(super) fn data_handle(
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
}

fn read_footer(file: &OpenFile, number: u64, length: u64) -> Result<Footer> {
    let offset = length - FOOTER_BYTES as u64;
    let bytes = file.read_exact(offset, FOOTER_BYTES)?;
    Footer::decode(&bytes, number, offset).map_err(|reason| file.corrupt(offset, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::directory::Directory;
    use crate::fs::{Fs, MemoryFs};
    use std::sync::Arc;

    #[test]
    fn blocks_behind_the_end_of_the_file_are_refused_before_memory_is_taken() {
        let fs = MemoryFs::volatile();
        let path = "/data".as_ref();
        fs.create_directory(path).unwrap();
        let directory = Directory::new(Arc::new(fs), path);
        let name = FileName::Numbered(FileKind::Sstable, 7);
        let file = directory.create(name).unwrap();
        let footer = Footer {
            index: BlockHandle::default(),
            filter: BlockHandle::default(),
            range_tombstones: BlockHandle::default(),
            index_depth: 1,
            entries: 0,
            tombstones: 0,
            sequences: (0, 0),
        };
        let bytes = [
            &[0; HEADER_BYTES as usize][..],
            &footer.encode(7, HEADER_BYTES),
        ]
        .concat();
        file.write(&bytes, 0).unwrap();
        let reader = SstableReader::of_file(&file, 7, bytes.len() as u64).unwrap();
        for (offset, length) in [(0, 1 << 29), (100, 100), (u64::MAX, 1), (0, u64::MAX)] {
            let read = reader.read_block(&file, BlockHandle { offset, length });
            let Err(Error::Corrupt { reason, .. }) = read else {
                panic!("{length} bytes from {offset}: {read:?}");
            };
            assert_eq!(reason, "the length of the block is out of bounds");
        }
    }
}
