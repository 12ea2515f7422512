//! Reads a whole SSTable, and reports all damage in it.

use crate::base::key::SequenceNumber;
use crate::format::edit::FileMeta;
use crate::format::sstable::BlockHandle;
use crate::format::sstable::block::BlockCursor;
use crate::format::sstable::index::IndexBlock;
use crate::fs::directory::OpenFile;
use crate::tree::cache::Cache;
use crate::tree::sstable::{SstableReader, malformed};
use crate::{Error, Result};
use std::sync::Arc;

impl SstableReader {
    /// Reads every block, bypassing the cache, and checks every checksum, the order of the keys,
    /// and the counts. Returns the damage.
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

/// The state of the verification of an SSTable.
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
