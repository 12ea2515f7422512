//! The lookup of a key in one SSTable.

use crate::Result;
use crate::base::key::{Entry, SequenceNumber};
use crate::format::sstable::BlockHandle;
use crate::format::sstable::block::{self, Lookup};
use crate::tree::cache::Cache;
use crate::tree::sstable::cursor::SstableCursor;
use crate::tree::sstable::reader::SstableReader;
use bytes::Bytes;
use std::sync::Arc;

impl SstableReader {
    /// The newest version of `key`, whose hash is `hash`, at or before `at`.
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
        match self.find_in_block(cache, handle, key, at)? {
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

    /// Looks for the newest version of `key` at or before `at` in a block, which is taken from the
    /// cache if it is there.
    fn find_in_block(
        &self,
        cache: &Cache,
        handle: BlockHandle,
        key: &[u8],
        at: SequenceNumber,
    ) -> Result<Lookup<Bytes>> {
        let data = self.block(cache, handle)?;
        let found = block::find(&data, key, at);
        let found = found.map_err(|error| self.malformed(cache, handle, error))?;
        Ok(found.keep(|value| data.slice(value)))
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
}
