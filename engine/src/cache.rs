//! Blocks and open files kept in memory, bounded in bytes and in handles. Nothing is allocated before it is used.

use crate::Result;
use crate::files::Directory;
use crate::sstable::SstableReader;
use crate::version::FileMeta;
use bytes::Bytes;
use quick_cache::Weighter;
use std::sync::Arc;

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
    blocks: quick_cache::sync::Cache<(u64, u64), Bytes, BlockBytes>,
    readers: quick_cache::sync::Cache<u64, Arc<SstableReader>>,
}

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
            blocks: quick_cache::sync::Cache::with_weighter(
                blocks_expected,
                bytes_max as u64,
                BlockBytes,
            ),
            readers: quick_cache::sync::Cache::new(files_max.max(1)),
        }
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
        self.blocks.insert((number, offset), block.clone());
        Ok(block)
    }

    /// The open SSTable, opened if it is not.
    pub(crate) fn reader(&self, meta: &FileMeta) -> Result<Arc<SstableReader>> {
        if let Some(reader) = self.readers.get(&meta.number) {
            return Ok(reader);
        }
        let reader = Arc::new(SstableReader::open(&self.directory, self.store, meta)?);
        self.readers.insert(meta.number, reader.clone());
        Ok(reader)
    }

    /// Closes a file that is about to go.
    pub(crate) fn forget(&self, number: u64) {
        self.readers.remove(&number);
    }
}
