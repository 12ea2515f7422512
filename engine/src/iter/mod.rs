//! Reading in order: `visible.rs` gives the rows of one source as of a sequence number, `merge.rs` merges the sources and
//! steps over what range tombstones cover. [`Scan`] is what callers see.

mod merge;
mod visible;

pub(crate) use merge::{Rows, ScanRange};

use crate::key::Kind;
use crate::{Result, Snapshot};
use bytes::Bytes;
use std::fmt;

/// Which way a scan walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Backward,
}

/// A position in a range of keys. Starts before the first entry.
pub struct Scan {
    snapshot: Snapshot,
    rows: Rows,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn new(snapshot: Snapshot, rows: Rows) -> Scan {
        Scan { snapshot, rows }
    }

    /// Moves to the next entry in the scan's direction; `false` at the end of the range, and from then on. After an error
    /// the scan stands at the end.
    pub fn advance(&mut self) -> Result<bool> {
        self.snapshot.store().check_open()?;
        self.rows.advance()
    }

    /// The next `advance` goes to the first entry at or beyond `key` in the scan's direction, within the range.
    pub fn seek(&mut self, key: &[u8]) {
        self.rows.seek(key);
    }

    /// The key at the position. Panics unless the last `advance` answered `true`.
    pub fn key(&self) -> &[u8] {
        &self.rows.row().expect("the scan stands on an entry").key
    }

    /// The value at the position; a large one is read now. Panics unless the last `advance` answered `true`.
    pub fn value(&self) -> Result<Bytes> {
        let row = self.rows.row().expect("the scan stands on an entry");
        match row.entry.kind {
            Kind::Large => self
                .snapshot
                .store()
                .open_large(&row.entry.value)?
                .read_all(),
            Kind::Put | Kind::Delete => Ok(row.entry.value.clone()),
        }
    }
}
