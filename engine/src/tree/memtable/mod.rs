//! Memtable: a sorted map of the newest writes; active, then sealed, then flushed.
//!
//! `arena.rs` holds rows and bytes, `index.rs` the order of the keys. One writer (the leader of a
//! commit) applies changes; readers hold the lock for a lookup or for a bounded number of rows. The
//! versions of a key are linked newest first. A version is unlinked once no reader can see it, that
//! is, once a newer one exists at or below `floor`, the lowest sequence number at which a reader
//! reads.

mod arena;
mod index;

use crate::base::key::{Entry, Kind, SequenceNumber, is_before_end};
use crate::format::change::Change;
use crate::format::fragment::{Cover, Fragment};
use crate::format::pointer::ValuePointer;
use crate::tree::range_tombstones::RangeTombstones;
use crate::{Direction, Result};
pub(crate) use arena::PinnedRows;
use arena::{Arena, NO_ROW, ROW_BYTES, Row, RowId};
use bytes::Bytes;
use crossbeam_utils::CachePadded;
use index::{INDEX_BYTES_PER_ROW, Index, Position};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Memory of one version besides its bytes.
const ENTRY_BYTES: usize = ROW_BYTES + INDEX_BYTES_PER_ROW;

/// Number of rows covered by a range deletion from which the memtable is to be sealed first: a scan
/// can seek past a span of an older memtable, but must visit each row in the memtable that holds
/// the tombstone.
const COVERED_ROWS_MAX: usize = 256;

/// Maximum number of rows, older versions included, that a reader visits under one hold of the
/// lock, while the writer waits. Without a limit, a reader at an old snapshot could pass many rows
/// that it does not see.
const VISITED_MAX: usize = 1024;

/// Maximum number of versions of a key that a write examines to find those that no reader sees any
/// more. In a longer chain, a later write unlinks the rest, or the flush leaves it out.
const UNLINK_STEPS_MAX: usize = 64;

/// Number of rows that a walk over all rows prefetches before it visits them. Neighbours in key
/// order are scattered in memory; prefetched, they are loaded all at once, not one after the other.
const TOUCHED_ROWS: usize = 16;

#[derive(Debug)]
pub(crate) struct Memtable {
    rows: CachePadded<RwLock<Rows>>,
    bytes: CachePadded<AtomicUsize>,
    has_range_tombstones: AtomicBool,
    created: Duration,
    /// Number of seeks of scans that read this memtable as well as SSTables.
    scan_merges: AtomicU64,
}

#[derive(Debug, Default)]
struct Rows {
    index: Index,
    arena: Arena,
    range_tombstones: RangeTombstones,
    first_sequence: Option<SequenceNumber>,
    last_sequence: SequenceNumber,
    /// Versions that only readers before this sequence number could see may have been unlinked.
    floor: SequenceNumber,
    deletions: u64,
    /// For each value-log segment, the bytes that versions here refer to.
    references: HashMap<u64, u64>,
    /// Bytes of all values that versions here have ever referred to.
    value_bytes: u64,
}

/// The state of a key in a memtable at a sequence number.
#[derive(Debug, Default)]
pub(crate) struct NewestVersion {
    pub(crate) entry: Option<Entry>,
    pub(crate) deleted: SequenceNumber,
}

/// Counts that decide when a memtable is flushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) first_sequence: Option<SequenceNumber>,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) deletions: u64,
    pub(crate) value_bytes: u64,
    pub(crate) created: Duration,
}

/// One version, borrowed from the memtable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) kind: Kind,
    pub(crate) value: &'a [u8],
}

/// The place where a fetch begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From<'a> {
    /// The first row in the direction of the fetch.
    Edge,
    /// Forward: at or after the key. Backward: before it.
    Key(&'a [u8]),
    /// After the key, in the direction of the fetch.
    Behind(&'a [u8]),
}

/// The state of a walk through the versions of one key, from newer to older ones.
#[derive(Debug, Clone, Copy)]
enum Walk<'a> {
    /// The newest version that is visible.
    Visible(&'a Row),
    /// No version is visible.
    Absent,
    /// The walk has visited as many versions as allowed; this one is next.
    Next(RowId),
}

/// Where a fetch paused because it had visited enough under one hold of the lock.
#[derive(Debug)]
struct Pause {
    key: Vec<u8>,
    /// The next version of the key; `None` if all its versions were visited.
    version: Option<RowId>,
}

impl Memtable {
    pub(crate) fn new(created: Duration) -> Memtable {
        Memtable {
            rows: CachePadded::default(),
            bytes: CachePadded::new(AtomicUsize::new(0)),
            has_range_tombstones: AtomicBool::new(false),
            created,
            scan_merges: AtomicU64::new(0),
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
        self.bytes.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Counts seeks of scans that read this memtable as well as SSTables.
    pub(crate) fn add_scan_merges(&self, count: u64) {
        self.scan_merges.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn scan_merges(&self) -> u64 {
        self.scan_merges.load(Ordering::Relaxed)
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

    /// Whether a deletion of the span would make scans step over many rows of this memtable.
    pub(crate) fn covers_many(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let rows = self.read();
        let (mut position, _) = rows.index.locate(start, &rows.arena);
        for _ in 0..COVERED_ROWS_MAX {
            match rows.index.row(position) {
                Some(row) if is_before_end(rows.arena.key(row), end) => {}
                _ => return false,
            }
            position = rows.index.after(position);
        }
        true
    }

    /// Applies changes with ascending sequence numbers. Returns the memory that they took.
    pub(crate) fn apply<'a>(
        &self,
        changes: impl Iterator<Item = (SequenceNumber, Change<'a>)>,
        floor: SequenceNumber,
    ) -> usize {
        let mut rows = self.write();
        let mut bytes = 0;
        for (sequence, change) in changes {
            rows.first_sequence.get_or_insert(sequence);
            assert!(
                rows.last_sequence < sequence,
                "changes are applied in order"
            );
            rows.last_sequence = sequence;
            bytes += ENTRY_BYTES + rows.apply(sequence, &change, floor);
        }
        if !rows.range_tombstones.is_empty() {
            self.has_range_tombstones.store(true, Ordering::Release);
        }
        self.bytes.fetch_add(bytes, Ordering::Release);
        bytes
    }

    /// Looks up `key` at the sequence number that `at` returns under the lock.
    pub(crate) fn find(&self, key: &[u8], at: impl Fn() -> SequenceNumber) -> NewestVersion {
        loop {
            if let Some(found) = self.try_find(key, &at) {
                return found;
            }
        }
    }

    /// Like `find`, but `None` if the lookup released the lock to the writer, and the writer may
    /// have unlinked the versions that are left. That happens only if no snapshot keeps them.
    fn try_find(&self, key: &[u8], at: impl Fn() -> SequenceNumber) -> Option<NewestVersion> {
        let mut rows = self.read();
        let at = at();
        let deleted = rows.deleted(key, at);
        let mut walk = match rows.index.find(key, &rows.arena) {
            Some(newest) => rows.walk(newest, at, &mut 0),
            None => Walk::Absent,
        };
        while let Walk::Next(version) = walk {
            drop(rows);
            rows = self.read();
            if rows.floor > at {
                return None;
            }
            walk = rows.walk(version, at, &mut 0);
        }
        let entry = match walk {
            Walk::Visible(row) => Some(rows.entry(row)),
            Walk::Absent | Walk::Next(_) => None,
        };
        Some(NewestVersion { entry, deleted })
    }

    pub(crate) fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones.load(Ordering::Acquire)
    }

    pub(crate) fn cover(&self, key: &[u8], at: SequenceNumber) -> Option<Cover> {
        if !self.has_range_tombstones() {
            return None;
        }
        self.read().range_tombstones.cover(key, at)
    }

    pub(crate) fn fragments(&self) -> Vec<Fragment> {
        self.read().range_tombstones.fragments()
    }

    /// Adds to `out` up to `count` rows that are visible at `at`, which a snapshot holds.
    pub(crate) fn fetch(
        &self,
        from: From<'_>,
        direction: Direction,
        at: SequenceNumber,
        count: usize,
        out: &mut PinnedRows,
    ) {
        let mut pause = self.fetch_some(from, None, direction, at, count, out);
        while let Some(Pause { key, version }) = pause {
            let from = From::Behind(&key);
            pause = self.fetch_some(from, version, direction, at, count, out);
        }
    }

    /// Like `fetch`, but visits a bounded number of rows, beginning with `version` if given.
    /// Returns where it paused if the bound was reached first.
    fn fetch_some(
        &self,
        from: From<'_>,
        version: Option<RowId>,
        direction: Direction,
        at: SequenceNumber,
        count: usize,
        out: &mut PinnedRows,
    ) -> Option<Pause> {
        let rows = self.read();
        let mut visited = 0;
        let mut position = rows.begin(from, direction);
        let mut few = [NO_ROW; TOUCHED_ROWS];
        few[0] = version.unwrap_or(NO_ROW);
        let mut found = usize::from(version.is_some());
        while out.len() < count {
            let wanted = few.len().min(count - out.len());
            if found < wanted {
                found += rows.take_newest(&mut position, direction, &mut few[found..wanted]);
            }
            if found == 0 {
                return None;
            }
            let few = &few[..std::mem::take(&mut found)];
            if let Some((newest, version)) = rows.pin_visible(few, at, &mut visited, out) {
                return Some(rows.pause(newest, Some(version)));
            }
            if visited >= VISITED_MAX && out.len() < count {
                return Some(rows.pause(few[few.len() - 1], None));
            }
        }
        None
    }

    /// Calls `visit` for every key, in order, with all its versions, newest first. Holds the lock,
    /// so it is for sealed memtables, which have no writers.
    pub(crate) fn for_each(
        &self,
        mut visit: impl FnMut(&[u8], &[Version<'_>]) -> Result<()>,
    ) -> Result<()> {
        let rows = self.read();
        let mut versions = Vec::new();
        let mut position = rows.index.first();
        let mut few = Vec::with_capacity(TOUCHED_ROWS);
        loop {
            few.clear();
            while few.len() < TOUCHED_ROWS
                && let Some(newest) = rows.index.row(position)
            {
                few.push(newest);
                position = rows.index.after(position);
            }
            if few.is_empty() {
                return Ok(());
            }
            few.iter().for_each(|&newest| rows.arena.touch(newest));
            for &newest in &few {
                versions.clear();
                versions.extend(rows.versions(newest));
                visit(rows.arena.key(newest), &versions)?;
            }
        }
    }
}

impl Rows {
    /// Fills `rows` with the newest row of each key from `position` on, and moves `position` past
    /// them. Returns their number.
    fn take_newest(
        &self,
        position: &mut Option<Position>,
        direction: Direction,
        rows: &mut [RowId],
    ) -> usize {
        let mut taken = 0;
        while taken < rows.len()
            && let Some(here) = *position
            && let Some(newest) = self.index.row(here)
        {
            rows[taken] = newest;
            taken += 1;
            *position = match direction {
                Direction::Forward => Some(self.index.after(here)),
                Direction::Backward => self.index.before(here),
            };
        }
        taken
    }

    /// Appends to `out` the visible version of each key in `few`, which lists the newest row of
    /// each. Stops at a key with more versions than may be visited, and returns its newest row and
    /// the next version.
    fn pin_visible(
        &self,
        few: &[RowId],
        at: SequenceNumber,
        visited: &mut usize,
        out: &mut PinnedRows,
    ) -> Option<(RowId, RowId)> {
        few.iter().for_each(|&row| self.arena.touch_start(row));
        for &newest in few {
            match self.walk(newest, at, visited) {
                Walk::Visible(row) => self.arena.pin(row, out),
                Walk::Absent => {}
                Walk::Next(version) => return Some((newest, version)),
            }
        }
        None
    }

    fn pause(&self, newest: RowId, version: Option<RowId>) -> Pause {
        let key = self.arena.key(newest).to_vec();
        Pause { key, version }
    }

    /// The row and the older versions of its key.
    fn versions(&self, newest: RowId) -> impl Iterator<Item = Version<'_>> {
        let mut next = newest;
        std::iter::from_fn(move || {
            let row = (next != NO_ROW).then(|| self.arena.row(next))?;
            next = row.older;
            Some(Version {
                sequence: row.sequence,
                kind: row.kind,
                value: self.arena.value(row),
            })
        })
    }

    fn entry(&self, row: &Row) -> Entry {
        Entry {
            sequence: row.sequence,
            kind: row.kind,
            value: self.arena.pin_value(row),
        }
    }

    /// Looks for the newest version at or before `at` among `version` and older versions, until
    /// `VISITED_MAX` are visited.
    fn walk(&self, version: RowId, at: SequenceNumber, visited: &mut usize) -> Walk<'_> {
        let mut id = version;
        while id != NO_ROW {
            let row = self.arena.row(id);
            *visited += 1;
            if row.sequence <= at {
                return Walk::Visible(row);
            }
            id = row.older;
            if *visited >= VISITED_MAX && id != NO_ROW {
                return Walk::Next(id);
            }
        }
        Walk::Absent
    }

    fn deleted(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        if self.range_tombstones.is_empty() {
            return 0;
        }
        let cover = self.range_tombstones.cover(key, at);
        cover.map_or(0, |cover| cover.sequence)
    }

    fn begin(&self, from: From<'_>, direction: Direction) -> Option<Position> {
        let index = &self.index;
        let locate = |key| index.locate(key, &self.arena);
        match (direction, from) {
            (Direction::Forward, From::Edge) => Some(index.first()),
            (Direction::Forward, From::Key(key)) => Some(locate(key).0),
            (Direction::Forward, From::Behind(key)) => Some(match locate(key) {
                (position, true) => index.after(position),
                (position, false) => position,
            }),
            (Direction::Backward, From::Edge) => index.before(index.end()),
            (Direction::Backward, From::Key(key) | From::Behind(key)) => {
                index.before(locate(key).0)
            }
        }
    }

    fn apply(
        &mut self,
        sequence: SequenceNumber,
        change: &Change<'_>,
        floor: SequenceNumber,
    ) -> usize {
        match *change {
            Change::Set {
                key, kind, value, ..
            } => {
                self.set(key, sequence, kind, value, floor);
                key.len() + value.len()
            }
            Change::DeleteRange { start, end, .. } => {
                self.deletions += 1;
                let start = Bytes::copy_from_slice(start);
                let end = end.map(Bytes::copy_from_slice);
                self.range_tombstones
                    .insert(&start, end.as_ref(), sequence, floor);
                start.len() + end.as_ref().map_or(0, Bytes::len)
            }
        }
    }

    fn set(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        kind: Kind,
        value: &[u8],
        floor: SequenceNumber,
    ) {
        self.deletions += u64::from(kind == Kind::Delete);
        if kind == Kind::Large {
            self.refer(value);
        }
        let row = self.arena.add(key, sequence, kind, value);
        let previous = self.index.set(key, row, &self.arena);
        if let Some(previous) = previous {
            self.arena.link_older(row, previous);
            // In a replay `floor` may exceed `sequence`: no version before this change is kept.
            self.floor = self.floor.max(floor.min(sequence));
            self.unlink_unseen(previous, floor);
        }
    }

    /// Unlinks the versions after `newest` that no reader at or after `floor` can see. Gives up if
    /// they are more than [`UNLINK_STEPS_MAX`] steps away.
    fn unlink_unseen(&mut self, newest: RowId, floor: SequenceNumber) {
        let mut id = newest;
        let mut steps = 0;
        while id != NO_ROW && self.arena.row(id).sequence > floor {
            id = self.arena.row(id).older;
            steps += 1;
            if steps == UNLINK_STEPS_MAX {
                return;
            }
        }
        if id == NO_ROW {
            return;
        }
        let mut unseen = self.arena.row(id).older;
        self.arena.link_older(id, NO_ROW);
        while unseen != NO_ROW {
            let row = *self.arena.row(unseen);
            if row.kind == Kind::Large {
                self.forget(&row);
            }
            unseen = row.older;
        }
    }

    fn refer(&mut self, pointer: &[u8]) {
        for (segment, bytes) in references(pointer) {
            *self.references.entry(segment).or_default() += bytes;
            self.value_bytes += bytes;
        }
    }

    fn forget(&mut self, row: &Row) {
        for (segment, bytes) in references(self.arena.value(row)) {
            if let Some(total) = self.references.get_mut(&segment) {
                *total = total.saturating_sub(bytes);
                if *total == 0 {
                    self.references.remove(&segment);
                }
            }
        }
    }
}

/// For each value-log segment that a pointer leads to, the bytes that the value takes there.
fn references(pointer: &[u8]) -> Vec<(u64, u64)> {
    let decoded = ValuePointer::decode(pointer);
    decoded.map_or_else(Vec::new, |pointer| pointer.references().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(memtable: &Memtable, sequence: u64, kind: Kind) {
        let (key, value): (&[u8], &[u8]) = (&key(sequence), b"value");
        let change = Change::Set {
            keyspace: 0,
            key,
            kind,
            value,
        };
        memtable.apply(std::iter::once((sequence, change)), 0);
    }

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    #[test]
    fn a_fetch_for_an_old_snapshot_does_not_hold_the_lock_over_all_newer_rows() {
        let memtable = Memtable::new(Duration::ZERO);
        let last = 10 * VISITED_MAX as u64;
        set(&memtable, 1, Kind::Put);
        (2..last).for_each(|sequence| set(&memtable, sequence, Kind::Put));
        for (direction, from) in [
            (Direction::Forward, key(2)),
            (Direction::Backward, key(last)),
        ] {
            let mut out = PinnedRows::default();
            let from = From::Key(&from);
            let pause = memtable.fetch_some(from, None, direction, 1, 10, &mut out);
            let visited = u64::from_be_bytes(pause.unwrap().key.try_into().unwrap());
            let count = match direction {
                Direction::Forward => visited - 1,
                Direction::Backward => last - visited,
            };
            assert!(count < 2 * VISITED_MAX as u64 && out.len() == 0, "{count}");
            memtable.fetch(from, direction, 1, 10, &mut out);
            let found = if direction == Direction::Forward {
                0
            } else {
                1
            };
            assert_eq!(out.len(), found);
        }
    }

    #[test]
    fn a_reader_of_a_key_with_many_newer_versions_lets_the_writer_have_the_lock() {
        let memtable = Memtable::new(Duration::ZERO);
        let hot = |sequence: u64| {
            let value = &key(sequence);
            let change = Change::Set {
                keyspace: 0,
                key: b"hot",
                kind: Kind::Put,
                value,
            };
            // A snapshot reads at 1: the writer must not search all versions for one to unlink.
            memtable.apply(std::iter::once((sequence, change)), 1);
        };
        (1..=300_000).for_each(hot);
        let mut out = PinnedRows::default();
        let from = From::Edge;
        let pause = memtable.fetch_some(from, None, Direction::Forward, 1, 10, &mut out);
        assert!(pause.unwrap().version.is_some() && out.len() == 0);
        memtable.fetch(from, Direction::Forward, 1, 10, &mut out);
        assert_eq!(out.len(), 1);
        let find = |at: u64| memtable.try_find(b"hot", || at);
        let found = |at: u64| find(at).unwrap().entry.map(|entry| entry.sequence);
        assert_eq!(found(1), Some(1));
        assert_eq!(found(150_000), Some(150_000));
        // No snapshot reads the old versions any more, and the first step finds the newest one.
        let change = Change::Set {
            keyspace: 0,
            key: b"hot",
            kind: Kind::Put,
            value: b"",
        };
        memtable.apply(std::iter::once((300_001, change)), 300_000);
        let now = memtable.find(b"hot", || 300_000);
        assert_eq!(now.entry.unwrap().sequence, 300_000);
    }

    #[test]
    fn a_grown_memtable_finds_every_version_that_someone_reads() {
        let memtable = Memtable::new(Duration::ZERO);
        let keys = 8192;
        for sequence in 1..=3 * keys {
            let change = Change::Set {
                keyspace: 0,
                key: &key(sequence % keys),
                kind: Kind::Put,
                value: &key(sequence),
            };
            memtable.apply(std::iter::once((sequence, change)), keys);
        }
        let find = |number: u64, at: u64| {
            let found = memtable.find(&key(number), || at);
            found.entry.map(|entry| entry.sequence)
        };
        for number in 0..keys {
            let first = if number == 0 { keys } else { number };
            for sequence in [first, first + keys, first + 2 * keys] {
                assert_eq!(find(number, sequence), Some(sequence));
            }
            assert_eq!(find(number, first - 1), None);
        }
        assert_eq!(find(keys, 3 * keys), None);
    }
}
