//! Snapshot: the store at one sequence number.

use crate::base::key::SequenceNumber;
use crate::tree::iter::{Rows, ScanRange};
use crate::values::ValueReader;
use crate::work::store::Store;
use crate::{Direction, KeyRange, Keyspace, Result, Scan};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
struct Held {
    store: Arc<Store>,
    sequence: SequenceNumber,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.store.snapshots.release(self.sequence);
    }
}

/// The store at one sequence number. Cheap to clone; old ones pin disk space.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    pub(crate) fn new(store: Arc<Store>) -> Snapshot {
        let sequence = store.snapshots.hold();
        Snapshot(Arc::new(Held { store, sequence }))
    }

    /// The value of `key` as of this snapshot.
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        match self.open_value(keyspace, key)? {
            Some(reader) => reader.read_all().map(Some),
            None => Ok(None),
        }
    }

    /// A reader over the value of `key`, large or small, without reading it. It keeps the value's bytes on disk for as
    /// long as it lives, whatever happens to the key.
    pub fn open_value(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<ValueReader>> {
        let store = &self.0.store;
        store.check_open()?;
        store.check_keyspace(keyspace.tree())?;
        store.open_value(keyspace.tree(), key, self.0.sequence)
    }

    /// Walks the keys of `range`. Cheap to make; reads as it advances.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        let store = &self.0.store;
        let range = ScanRange { range, direction };
        let rows = Rows::new(keyspace.tree(), store.cache.clone(), self.0.sequence, range);
        Scan::new(self.clone(), keyspace.clone(), rows)
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.0.store
    }
}
