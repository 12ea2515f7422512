//! Parts: the parts of an open store, below background work. Each part guards its own fields; this
//! struct only holds them together.

use crate::base::health::Health;
use crate::base::key::{Kind, SequenceNumber};
use crate::catalog::Catalog;
use crate::catalog::recovered::Recovered;
use crate::format::pointer::ValuePointer;
use crate::fs::Clock;
use crate::fs::directory::Directory;
use crate::fs::reserve::SpaceReserve;
use crate::tree::cache::Cache;
use crate::tree::keyspace::Tree;
use crate::tree::snapshots::Snapshots;
use crate::tree::trees::Trees;
use crate::values::{ValueLog, ValueReader};
use crate::write::commit::CommitLog;
use crate::write::key_locks::KeyLocks;
use crate::{Background, Config, Durability, Error, Result};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) config: Arc<Config>,
    pub(crate) background: Background,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) directory: Directory,
    pub(crate) store_id: u128,
    pub(crate) cache: Arc<Cache>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) value_log: Arc<ValueLog>,
    pub(crate) trees: Arc<Trees>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) log: Arc<CommitLog>,
    pub(crate) key_locks: KeyLocks,
    pub(crate) reserve: Arc<SpaceReserve>,
    pub(crate) health: Arc<Health>,
    /// The batches that the opening replayed, and the records that it cut off.
    pub(crate) recovered: Recovered,
}

impl Parts {
    pub(crate) fn is_in_memory(&self) -> bool {
        self.config.durability == Durability::Memory
    }

    /// Returns a reader over the value that `pointer` points to; `None` if the value was moved
    /// after the pointer was read.
    pub(crate) fn open_large(&self, pointer: &[u8]) -> Result<Option<ValueReader>> {
        let pointer = self.decode_pointer(pointer)?;
        Ok(ValueReader::try_open(self.value_log.clone(), pointer))
    }

    fn decode_pointer(&self, pointer: &[u8]) -> Result<ValuePointer> {
        let decoded = ValuePointer::decode(pointer);
        decoded.ok_or_else(|| {
            Error::corrupt(self.directory.path(), 0, "a value pointer does not decode")
        })
    }

    /// Returns a reader over the value of `key` at a sequence number that a snapshot holds. If a
    /// collection moves the value between the lookup and the opening, the key is looked up again.
    pub(crate) fn open_value(
        &self,
        tree: &Tree,
        key: &[u8],
        at: SequenceNumber,
    ) -> Result<Option<ValueReader>> {
        let mut moved = Bytes::new();
        loop {
            let Some(entry) = tree.find(&self.cache, key, || at)? else {
                return Ok(None);
            };
            match entry.kind {
                Kind::Delete => return Ok(None),
                Kind::Put => return Ok(Some(ValueReader::inline(entry.value))),
                Kind::Large if entry.value == moved => {
                    let pointer = self.decode_pointer(&moved)?;
                    return ValueReader::open(self.value_log.clone(), pointer).map(Some);
                }
                Kind::Large => match self.open_large(&entry.value)? {
                    Some(reader) => return Ok(Some(reader)),
                    None => moved = entry.value,
                },
            }
        }
    }
}
