//! What is kept in memory of the files: blocks, indexes and filters within one number of bytes, open files within one number
//! of handles. Nothing is allocated before it is used.

use crate::Result;
use crate::files::{Directory, FileKind, FileName, OpenFile};
use bytes::Bytes;
use quick_cache::Weighter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 64;

#[derive(Debug, Clone)]
struct BlockBytes;

impl Weighter<(u64, u64), Bytes> for BlockBytes {
    fn weight(&self, _: &(u64, u64), block: &Bytes) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

#[derive(Debug)]
pub(crate) struct Cache {
    directory: Directory,
    store: u128,
    bytes_max: u64,
    blocks: quick_cache::sync::Cache<(u64, u64), Bytes, BlockBytes>,
    files: quick_cache::sync::Cache<u64, OpenFile>,
    /// Bytes of indexes and filters that stay while their SSTable does; the blocks have the rest.
    pinned: AtomicU64,
    /// How many may be; none if the SSTables belong to another cache.
    pinned_max: u64,
    reads: AtomicU64,
}

/// A merge reads each block once: it must not push out what readers use.
const MERGE_BYTES: usize = 256 << 10;
const MERGE_FILES: usize = 16;

impl Cache {
    pub(crate) fn new(
        directory: Directory,
        store: u128,
        bytes_max: usize,
        files_max: usize,
    ) -> Cache {
        let blocks_expected = (bytes_max / 4096).max(16);
        Cache {
            directory,
            store,
            bytes_max: bytes_max as u64,
            blocks: quick_cache::sync::Cache::with_weighter(
                blocks_expected,
                bytes_max as u64,
                BlockBytes,
            ),
            files: quick_cache::sync::Cache::new(files_max.max(1)),
            pinned: AtomicU64::new(0),
            pinned_max: bytes_max as u64 / 2,
            reads: AtomicU64::new(0),
        }
    }

    /// A small one of the same files, for a merge.
    pub(crate) fn for_merge(&self) -> Cache {
        let directory = self.directory.clone();
        Cache {
            pinned_max: 0,
            ..Cache::new(directory, self.store, MERGE_BYTES, MERGE_FILES)
        }
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        self.directory
            .path_of(FileName::Numbered(FileKind::Sstable, number))
    }

    pub(crate) fn store(&self) -> u128 {
        self.store
    }

    /// The block at `offset` of file `number`, read by `read` if it is not here.
    pub(crate) fn block(
        &self,
        number: u64,
        offset: u64,
        read: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Bytes> {
        if let Some(block) = self.blocks.get(&(number, offset)) {
            return Ok(block);
        }
        let block = read()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.blocks.insert((number, offset), block.clone());
        Ok(block)
    }

    /// The open SSTable, opened if it is not.
    pub(crate) fn file(&self, number: u64) -> Result<OpenFile> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file);
        }
        let file = self
            .directory
            .open(FileName::Numbered(FileKind::Sstable, number))?;
        self.files.insert(number, file.clone());
        Ok(file)
    }

    /// Closes a file that is about to go.
    pub(crate) fn forget(&self, number: u64) {
        self.files.remove(&number);
    }

    /// Sets `bytes` aside for what shall stay in memory; `false` if that would leave less than half for blocks.
    pub(crate) fn pin(&self, bytes: u64) -> bool {
        let fits = |pinned: u64| Some(pinned + bytes).filter(|sum| *sum <= self.pinned_max);
        let pinned = self
            .pinned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if let Ok(before) = pinned {
            self.blocks.set_capacity(self.bytes_max - before - bytes);
        }
        pinned.is_ok()
    }

    pub(crate) fn unpin(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.pinned.fetch_sub(bytes, Ordering::Relaxed);
            self.blocks.set_capacity(self.bytes_max - before + bytes);
        }
    }

    /// Bytes in memory, and how many blocks were read because they were not.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let bytes = self.blocks.weight() + self.pinned.load(Ordering::Relaxed);
        (bytes, self.reads.load(Ordering::Relaxed))
    }
}
