//! Snapshot: the store at one sequence number.

use crate::base::key::SequenceNumber;
use crate::catalog::parts::Parts;
use crate::tree::iter::{Rows, ScanRange};
use crate::values::ValueReader;
use crate::{Direction, KeyRange, Keyspace, Result, Scan};
use bytes::Bytes;
use std::sync::Arc;

#[derive(Debug)]
struct Held {
    parts: Arc<Parts>,
    sequence: SequenceNumber,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.parts.snapshots.release(self.sequence);
    }
}

/// The store at one sequence number. Cheap to clone; old ones pin disk space.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    pub(crate) fn new(parts: Arc<Parts>) -> Snapshot {
        let sequence = parts.snapshots.hold();
        Snapshot(Arc::new(Held { parts, sequence }))
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
        let parts = &self.0.parts;
        parts.health.check_open()?;
        parts.trees.check(keyspace.tree())?;
        parts.open_value(keyspace.tree(), key, self.0.sequence)
    }

    /// Walks the keys of `range`. Cheap to make; reads as it advances.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Scan {
        let parts = &self.0.parts;
        let range = ScanRange { range, direction };
        let rows = Rows::new(keyspace.tree(), parts.cache.clone(), self.0.sequence, range);
        Scan::new(self.clone(), keyspace.clone(), rows)
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0.parts
    }
}
