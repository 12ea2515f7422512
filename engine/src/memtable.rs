//! Memtable: a sorted map of the newest writes; active, then sealed, then flushed.
//!
//! One writer (the leader of a commit) applies changes; readers hold the lock for a lookup or for a handful of rows.
//! Per key the versions stand newest first. A version is dropped as soon as no reader can see it any more: when a newer
//! one exists at or below `floor`, the oldest sequence number at which anyone reads.

use crate::batch::Change;
use crate::key::{Entry, Kind, SequenceNumber};
use crate::range_tombstones::{Cover, Fragment, RangeTombstones};
use crate::value_log::ValuePointer;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Memory of one version beside its bytes: map node, version, share of the payload's bookkeeping.
const ENTRY_BYTES: usize = 128;

/// Rows covered by a range deletion above which the memtable is better sealed first: a scan can seek past a span of an
/// older memtable, but has to visit the rows of the memtable that holds the tombstone.
const COVERED_ROWS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Memtable {
    rows: RwLock<Rows>,
    bytes: AtomicUsize,
    has_range_tombstones: AtomicBool,
    created: Duration,
}

#[derive(Debug, Default)]
struct Rows {
    map: BTreeMap<Bytes, Versions>,
    range_tombstones: RangeTombstones,
    first_sequence: Option<SequenceNumber>,
    last_sequence: SequenceNumber,
    deletions: u64,
    /// Bytes of each value-log segment that versions here refer to.
    references: HashMap<u64, u64>,
    /// Bytes of all values ever referred to from here.
    value_bytes: u64,
}

#[derive(Debug)]
struct Versions {
    newest: Entry,
    older: Vec<Entry>,
}

/// What a memtable knows of a key at a sequence number.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entry: Option<Entry>,
    pub(crate) deleted: SequenceNumber,
}

/// Counts for deciding when to flush, and what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) first_sequence: Option<SequenceNumber>,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) deletions: u64,
    pub(crate) value_bytes: u64,
    pub(crate) created: Duration,
}

impl Versions {
    /// The newest version at or before `at`.
    fn at(&self, at: SequenceNumber) -> Option<&Entry> {
        if self.newest.sequence <= at {
            return Some(&self.newest);
        }
        self.older.iter().find(|entry| entry.sequence <= at)
    }
}

impl Memtable {
    pub(crate) fn new(created: Duration) -> Memtable {
        Memtable {
            rows: RwLock::default(),
            bytes: AtomicUsize::new(0),
            has_range_tombstones: AtomicBool::new(false),
            created,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory used, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    pub(crate) fn summary(&self) -> Summary {
        let rows = self.read();
        Summary {
            first_sequence: rows.first_sequence,
            last_sequence: rows.last_sequence,
            deletions: rows.deletions,
            value_bytes: rows.value_bytes,
            created: self.created,
        }
    }

    /// Adds, for each value-log segment, the bytes that versions here refer to.
    pub(crate) fn add_references(&self, total: &mut HashMap<u64, u64>) {
        for (&segment, &bytes) in &self.read().references {
            *total.entry(segment).or_default() += bytes;
        }
    }

    /// Whether deleting the span here would leave scans with many rows to step over.
    pub(crate) fn covers_many(&self, start: &Bytes, end: Option<&Bytes>) -> bool {
        let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.read();
        if end.is_some_and(|end| end <= start) {
            return false;
        }
        let range = rows.map.range::<Bytes, _>((Bound::Included(start), upper));
        range.take(COVERED_ROWS_MAX).count() == COVERED_ROWS_MAX
    }

    /// Applies changes of consecutive sequence numbers from `first` on. Answers the memory they took.
    pub(crate) fn apply(
        &self,
        changes: &[(SequenceNumber, Change)],
        floor: SequenceNumber,
    ) -> usize {
        let mut rows = self.write();
        let mut bytes = 0;
        for (sequence, change) in changes {
            rows.first_sequence.get_or_insert(*sequence);
            debug_assert!(
                rows.last_sequence < *sequence,
                "changes are applied in order"
            );
            rows.last_sequence = *sequence;
            bytes += ENTRY_BYTES + rows.apply(*sequence, change, floor);
        }
        if !rows.range_tombstones.is_empty() {
            self.has_range_tombstones.store(true, Ordering::Release);
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// What is known of `key` at the sequence number that `at` answers under the lock.
    pub(crate) fn find(&self, key: &[u8], at: impl Fn() -> SequenceNumber) -> Found {
        let rows = self.read();
        let at = at();
        let cover = rows.range_tombstones.cover(key, at);
        Found {
            entry: rows
                .map
                .get(key)
                .and_then(|versions| versions.at(at))
                .cloned(),
            deleted: cover.map_or(0, |cover| cover.sequence),
        }
    }

    pub(crate) fn cover(&self, key: &[u8], at: SequenceNumber) -> Option<Cover> {
        if !self.has_range_tombstones.load(Ordering::Acquire) {
            return None;
        }
        self.read().range_tombstones.cover(key, at)
    }

    pub(crate) fn fragments(&self) -> Vec<Fragment> {
        self.read().range_tombstones.fragments()
    }

    /// Up to `count` rows visible at `at` from `from` on, upwards.
    pub(crate) fn rows_forward(
        &self,
        from: Bound<&[u8]>,
        at: SequenceNumber,
        count: usize,
        out: &mut Vec<(Bytes, Entry)>,
    ) {
        let rows = self.read();
        let range = rows.map.range::<[u8], _>((from, Bound::Unbounded));
        out.extend(visible(range, at).take(count));
    }

    /// Up to `count` rows visible at `at` before `until`, downwards.
    pub(crate) fn rows_backward(
        &self,
        until: Bound<&[u8]>,
        at: SequenceNumber,
        count: usize,
        out: &mut Vec<(Bytes, Entry)>,
    ) {
        let rows = self.read();
        let range = rows.map.range::<[u8], _>((Bound::Unbounded, until));
        out.extend(visible(range.rev(), at).take(count));
    }

    /// Up to `count` keys behind `after`, each with all its versions, newest first.
    pub(crate) fn versions(&self, after: Option<&Bytes>, count: usize) -> Vec<(Bytes, Vec<Entry>)> {
        let rows = self.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = rows.map.range::<Bytes, _>((from, Bound::Unbounded));
        let all = |(key, versions): (&Bytes, &Versions)| {
            let entries = std::iter::once(&versions.newest).chain(&versions.older);
            (key.clone(), entries.cloned().collect())
        };
        range.take(count).map(all).collect()
    }
}

fn visible<'a>(
    range: impl Iterator<Item = (&'a Bytes, &'a Versions)>,
    at: SequenceNumber,
) -> impl Iterator<Item = (Bytes, Entry)> {
    range.filter_map(move |(key, versions)| Some((key.clone(), versions.at(at)?.clone())))
}

impl Rows {
    fn apply(&mut self, sequence: SequenceNumber, change: &Change, floor: SequenceNumber) -> usize {
        match change {
            Change::Set {
                key, kind, value, ..
            } => {
                let entry = Entry {
                    sequence,
                    kind: *kind,
                    value: value.clone(),
                };
                self.set(key, entry, floor);
                key.len() + value.len()
            }
            Change::DeleteRange { start, end, .. } => {
                self.deletions += 1;
                self.range_tombstones
                    .insert(start, end.as_ref(), sequence, floor);
                start.len() + end.as_ref().map_or(0, Bytes::len)
            }
        }
    }

    fn set(&mut self, key: &Bytes, entry: Entry, floor: SequenceNumber) {
        self.deletions += u64::from(entry.kind == Kind::Delete);
        refer(&entry, &mut |segment, bytes| {
            *self.references.entry(segment).or_default() += bytes;
            self.value_bytes += bytes;
        });
        let Some(versions) = self.map.get_mut(key) else {
            let older = Vec::new();
            self.map.insert(
                key.clone(),
                Versions {
                    newest: entry,
                    older,
                },
            );
            return;
        };
        let previous = std::mem::replace(&mut versions.newest, entry);
        versions.older.insert(0, previous);
        let seen_by_all = versions
            .older
            .iter()
            .position(|older| older.sequence <= floor);
        if let Some(last) = seen_by_all {
            for dropped in versions.older.drain(last + 1..) {
                forget(&mut self.references, &dropped);
            }
        }
    }
}

fn forget(references: &mut HashMap<u64, u64>, dropped: &Entry) {
    refer(dropped, &mut |segment, bytes| {
        if let Some(total) = references.get_mut(&segment) {
            *total = total.saturating_sub(bytes);
            if *total == 0 {
                references.remove(&segment);
            }
        }
    });
}

fn refer(entry: &Entry, found: &mut impl FnMut(u64, u64)) {
    if entry.kind == Kind::Large
        && let Some(pointer) = ValuePointer::decode(&entry.value)
    {
        pointer
            .references()
            .for_each(|(segment, bytes)| found(segment, bytes));
    }
}
