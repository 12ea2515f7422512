//! Snapshot: the store at one sequence number; Scan: a walk through a range of its keys.

use crate::base::key::{Kind, SequenceNumber};
use crate::catalog::parts::Parts;
use crate::tree::iter::{Rows, ScanRange, Source};
use crate::values::ValueReader;
use crate::{Direction, KeyRange, Keyspace, Result};
use bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
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

    /// Returns a reader over the value of `key`, large or small, without reading the value. Its
    /// bytes stay on disk while the reader exists, even if the key is overwritten or deleted.
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

/// A position in a range of keys. Starts before the first entry.
pub struct Scan {
    snapshot: Snapshot,
    keyspace: Keyspace,
    rows: Rows,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn new(snapshot: Snapshot, keyspace: Keyspace, rows: Rows) -> Scan {
        Scan {
            snapshot,
            keyspace,
            rows,
        }
    }

    /// Moves to the next entry in the scan's direction. Returns `false` at the end of the range,
    /// and from then on. An error ends the scan.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        let parts = self.snapshot.parts();
        parts.health.check_open()?;
        parts.trees.check(self.keyspace.tree())?;
        self.rows.advance()
    }

    /// Makes the next `advance` go to the first entry at or beyond `key` in the scan's direction,
    /// within the range.
    pub fn seek(&mut self, key: &[u8]) {
        self.rows.seek(key);
    }

    #[inline]
    fn source(&self) -> &Source {
        self.rows.source().expect("the scan stands on an entry")
    }

    /// The key at the position. Panics unless the last `advance` returned `true`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.source().key().expect("the scan stands on an entry")
    }

    /// Returns the value at the position; reads it now if it is large. Panics unless the last
    /// `advance` returned `true`.
    pub fn value(&self) -> Result<Bytes> {
        match self.source().kind() {
            Kind::Large => self.open_value()?.read_all(),
            _ => Ok(self.source().value()),
        }
    }

    /// Returns the value at the position, borrowed until the scan moves on; reads it now if it is
    /// large. Cheaper than [`Scan::value`], whose result outlives the move. Panics unless the last
    /// `advance` returned `true`.
    #[inline]
    pub fn value_in_place(&self) -> Result<Cow<'_, [u8]>> {
        match self.source().kind() {
            Kind::Large => Ok(Cow::Owned(self.open_value()?.read_all()?.into())),
            _ => Ok(Cow::Borrowed(self.source().value_slice())),
        }
    }

    /// Returns the value at the position, borrowed until the scan moves on; `None` for a large one,
    /// which [`Scan::open_value`] reads. Panics unless the last `advance` returned `true`.
    #[inline]
    pub fn small_value(&self) -> Option<&[u8]> {
        let source = self.source();
        (source.kind() != Kind::Large).then(|| source.value_slice())
    }

    /// Returns a reader over the value at the position, without reading the value. Panics unless
    /// the last `advance` returned `true`.
    pub fn open_value(&self) -> Result<ValueReader> {
        let source = self.source();
        if source.kind() != Kind::Large {
            return Ok(ValueReader::inline(source.value()));
        }
        if let Some(reader) = self.snapshot.parts().open_large(&source.value())? {
            return Ok(reader);
        }
        // A collection has moved the value since the scan read the row.
        let moved = self.snapshot.open_value(&self.keyspace, self.key())?;
        Ok(moved.expect("a snapshot keeps its rows"))
    }

    /// Returns how many rows of all its sources the scan has passed so far, deleted and hidden ones
    /// included: its cost.
    pub fn rows_passed(&self) -> u64 {
        self.rows.passed()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.source().kind()
    }

    /// Reads the whole value, a chunk at a time. Returns its length.
    pub(crate) fn verify_value(&self) -> Result<u64> {
        self.open_value()?.read_through()
    }
}
