//! A cursor over all versions of one SSTable, in both directions.

use crate::base::key::{Entry, SequenceNumber};
use crate::format::sstable::block::{self, BlockCursor};
use crate::format::sstable::index::IndexBlock;
use crate::tree::cache::Cache;
use crate::tree::sstable::reader::{Partition, SstableReader};
use crate::{Error, Result};
use bytes::Bytes;
use std::sync::Arc;

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

    /// Moves to another SSTable, on none of its versions.
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

    pub(crate) fn kind(&self) -> crate::base::key::Kind {
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

    /// The version at the position, which must be on one.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            sequence: self.data.sequence(),
            kind: self.data.kind(),
            value: self.data.value(),
        }
    }

    /// Moves to the first version at or after version `at` of `key`.
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
        // A shortened separator may lie after all versions of its block, and a key's versions may
        // fill several blocks.
        if !self.data.is_on_entry() {
            self.next_block(cache)?;
        }
        while self.key() == Some(key) && self.sequence() > at {
            self.next(cache)?;
        }
        Ok(())
    }

    /// Moves to the last version of the last key before `key`; to the last version of all if
    /// `None`.
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
        if self.data.is_on_entry() {
            Ok(())
        } else {
            self.next_block(cache)
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

    /// Moves to the first version of the next block that has one; on none after the last.
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

    /// Moves to the beginning of the partition below entry `at_root` of the root, if the index has
    /// partitions.
    fn enter_partition(&mut self, cache: &Cache) -> Result<()> {
        let partition = self.reader.partition(cache, self.at_root)?;
        self.partition = partition.map(|partition| match partition {
            Partition::Pinned(_) => Partition::Pinned(()),
            Partition::Loaded(partition) => Partition::Loaded(partition),
        });
        self.at_partition = 0;
        Ok(())
    }

    /// Moves to the last version below entry `at_root` of the root.
    fn enter_partition_at_end(&mut self, cache: &Cache, at_root: usize) -> Result<()> {
        self.at_root = at_root;
        self.enter_partition(cache)?;
        if let Some(partition) = self.partition() {
            self.at_partition = partition.len() - 1;
        }
        self.load(cache, &mut BlockCursor::last)
    }

    /// Loads the data block at the current index positions, and moves in it as `step` says.
    fn load(&mut self, cache: &Cache, step: Step<'_>) -> Result<()> {
        let handle = match (self.partition(), &self.reader.index) {
            (Some(partition), _) if self.at_partition < partition.len() => {
                partition.handle(self.at_partition)
            }
            (None, Some(root)) => root.handle(self.at_root),
            // The root lists a separator beyond the end of its partition.
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
