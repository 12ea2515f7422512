//! Cache: blocks, indexes and filters of SSTables, small values of the value log, and open files.
//! One limit bounds the bytes, another the file handles. Memory is allocated when it is used. A
//! small value counts as a block.

use crate::Result;
use crate::base::mutex::lock;
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use bytes::Bytes;
use crossbeam_utils::CachePadded;
use quick_cache::Weighter;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of an entry besides its bytes.
const ENTRY_BYTES: u64 = 64;

#[derive(Debug, Clone)]
struct BlockBytes;

impl Weighter<(u64, u64), Bytes> for BlockBytes {
    fn weight(&self, _: &(u64, u64), block: &Bytes) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

/// The block cache, and the SSTables that are open.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: Directory,
    store: u128,
    bytes_max: u64,
    blocks: quick_cache::sync::Cache<(u64, u64), Bytes, BlockBytes>,
    files: quick_cache::sync::Cache<u64, OpenFile>,
    /// Bytes of indexes and filters that stay in memory while their SSTable is live. Blocks have
    /// the rest of `bytes_max`.
    pinned: AtomicU64,
    /// Maximum number of pinned bytes; 0 if the SSTables belong to another cache.
    pinned_max: u64,
    reads: CachePadded<AtomicU64>,
    /// SSTables without references, to be removed by background work: a removal takes milliseconds,
    /// and the last reference may be a reader's.
    obsolete: Mutex<Vec<u64>>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.remove_obsolete();
    }
}

/// The usual size of a block, for an estimate of how many there will be.
const BLOCK_BYTES_EXPECTED: usize = 4096;

/// The block cache is resized in steps of 1/32 of its memory; up to three steps may stay unused.
const STEPS: u64 = 32;
const UNUSED_STEPS_MAX: u64 = 3;

/// A merge reads each block once, so it has a cache of its own and evicts no blocks of readers.
const MERGE_BYTES: usize = 256 << 10;
const MERGE_FILES: usize = 16;

impl Cache {
    pub(crate) fn new(
        directory: Directory,
        store: u128,
        bytes_max: usize,
        files_max: usize,
    ) -> Cache {
        let blocks_expected = (bytes_max / BLOCK_BYTES_EXPECTED).max(16);
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
            reads: CachePadded::new(AtomicU64::new(0)),
            obsolete: Mutex::default(),
        }
    }

    /// A small cache of the same files, for a merge.
    pub(crate) fn for_merge(&self) -> Cache {
        let directory = self.directory.clone();
        let mut cache = Cache::new(directory, self.store, MERGE_BYTES, MERGE_FILES);
        cache.pinned_max = 0;
        cache
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

    /// The block at `offset` of file `number`, if the cache has it.
    pub(crate) fn present(&self, number: u64, offset: u64) -> Option<Bytes> {
        self.blocks.get(&(number, offset))
    }

    /// Adds a block that was read from a file, and counts the read.
    pub(crate) fn insert(&self, number: u64, offset: u64, block: Bytes) {
        self.blocks.insert((number, offset), block);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The open SSTable, which is opened if the cache does not have it.
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

    /// Closes an unreferenced SSTable; [`Cache::remove_obsolete`] will remove its file.
    pub(crate) fn discard(&self, number: u64) {
        self.files.remove(&number);
        lock(&self.obsolete).push(number);
    }

    /// Removes the files of the discarded SSTables.
    pub(crate) fn remove_obsolete(&self) {
        let obsolete = std::mem::take(&mut *lock(&self.obsolete));
        for number in obsolete {
            // A file that cannot be removed now is an orphan that the next open removes.
            let name = FileName::Numbered(FileKind::Sstable, number);
            let _ = self.directory.remove(name);
        }
    }

    /// Reserves `bytes` for an index or a filter that stays in memory. Returns `false` if that
    /// would leave less than half of the cache for blocks.
    pub(crate) fn pin(&self, bytes: u64) -> bool {
        let fits = |pinned: u64| Some(pinned + bytes).filter(|sum| *sum <= self.pinned_max);
        let pinned = self
            .pinned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if let Ok(before) = pinned {
            self.make_room(before + bytes);
        }
        pinned.is_ok()
    }

    pub(crate) fn unpin(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.pinned.fetch_sub(bytes, Ordering::Relaxed);
            self.make_room(before - bytes);
        }
    }

    /// Resizes the block cache to the memory that is not pinned. This is done rarely, because it
    /// discards the ghost entries of `quick_cache`, and without them a full cache admits nothing
    /// new. No benchmark shows the difference, but a test of `tests/shape.rs` does.
    fn make_room(&self, pinned: u64) {
        let step = (self.bytes_max / STEPS).max(1);
        let room = self.blocks.capacity();
        let most = self.bytes_max - pinned;
        if room > most || most - room > UNUSED_STEPS_MAX * step {
            self.blocks.set_capacity(most / step * step);
        }
    }

    /// Bytes in the cache, and the number of blocks read because the cache did not have them.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let bytes = self.blocks.weight() + self.pinned.load(Ordering::Relaxed);
        (bytes, self.reads.load(Ordering::Relaxed))
    }
}
