//! Snapshot: a pinned sequence number; the oldest one that compaction must respect.

use crate::base::key::SequenceNumber;
use crate::tree::iter::{Rows, ScanRange};
use crate::values::ValueReader;
use crate::work::store::Store;
use crate::{Direction, KeyRange, Keyspace, Result, Scan};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sequence numbers at which someone reads.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    published: AtomicU64,
    held: Mutex<BTreeMap<SequenceNumber, usize>>,
}

impl Snapshots {
    fn held(&self) -> MutexGuard<'_, BTreeMap<SequenceNumber, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last sequence number that readers see.
    pub(crate) fn published(&self) -> SequenceNumber {
        self.published.load(Ordering::Acquire)
    }

    /// Makes everything up to `sequence` visible.
    pub(crate) fn publish(&self, sequence: SequenceNumber) {
        let before = self.published.swap(sequence, Ordering::AcqRel);
        assert!(
            before <= sequence,
            "sequence numbers are published in order"
        );
    }

    /// The oldest sequence number at which anyone reads or will read.
    pub(crate) fn floor(&self) -> SequenceNumber {
        let held = self.held();
        held.keys()
            .next()
            .copied()
            .unwrap_or_else(|| self.published())
    }

    /// All sequence numbers at which anyone reads, and the one at which the next reader will, ascending.
    pub(crate) fn boundaries(&self) -> Vec<SequenceNumber> {
        let held = self.held();
        let mut boundaries: Vec<_> = held.keys().copied().collect();
        boundaries.push(self.published());
        boundaries.dedup();
        boundaries
    }

    fn hold(&self) -> SequenceNumber {
        let mut held = self.held();
        let sequence = self.published();
        *held.entry(sequence).or_default() += 1;
        sequence
    }

    fn release(&self, sequence: SequenceNumber) {
        let mut held = self.held();
        let count = held
            .get_mut(&sequence)
            .expect("a snapshot is released once");
        *count -= 1;
        if *count == 0 {
            held.remove(&sequence);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.held().values().sum()
    }
}

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
