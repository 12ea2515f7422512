//! The rows of one source (a memtable, or a run of SSTables) as of a sequence number: the newest
//! version of each key, in either direction. Tombstones are rows too: the merge needs them to hide
//! rows of older sources.

use crate::base::key::{Entry, Kind, SequenceNumber, is_before_end};
use crate::format::fragment::Cover;
use crate::tree::cache::Cache;
use crate::tree::iter::scan_range::ScanRange;
use crate::tree::live_file::LiveFile;
use crate::tree::memtable::{From, Memtable, PinnedRows};
use crate::tree::sstable::SstableCursor;
use crate::tree::version::{Version, first_ending_behind};
use crate::{Direction, Result};
use bytes::Bytes;
use std::sync::Arc;

/// One source, on a row or at its end. Key, sequence number, kind and value may be read only on a
/// row.
#[allow(
    clippy::large_enum_variant,
    reason = "most sources are runs, and a box for each would cost every scan an allocation"
)]
pub(crate) enum Source {
    Memtable(MemtableRows),
    Run(RunRows),
}

impl Source {
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self {
            Source::Memtable(rows) => rows.key(),
            Source::Run(rows) => rows.key(),
        }
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        match self {
            Source::Memtable(rows) => rows.fetched.sequence(rows.index),
            Source::Run(rows) => rows.sequence(),
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Source::Memtable(rows) => rows.fetched.kind(rows.index),
            Source::Run(rows) => rows.kind(),
        }
    }

    pub(crate) fn value(&self) -> Bytes {
        match self {
            Source::Memtable(rows) => rows.fetched.pin_value(rows.index),
            Source::Run(rows) => rows.value(),
        }
    }

    #[inline]
    pub(crate) fn value_slice(&self) -> &[u8] {
        match self {
            Source::Memtable(rows) => rows.fetched.value(rows.index),
            Source::Run(rows) => rows.value_slice(),
        }
    }

    /// Moves to the first row at or beyond `bound` in the direction of the scan; for a backward
    /// scan, `bound` is exclusive.
    pub(crate) fn seek(&mut self, bound: Option<&[u8]>) -> Result<()> {
        match self {
            Source::Memtable(rows) => rows.seek(bound),
            Source::Run(rows) => return rows.seek(bound),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        match self {
            Source::Memtable(rows) => rows.next(),
            Source::Run(rows) => return rows.next(),
        }
        Ok(())
    }

    /// Whether `cover` may find anything in this source.
    pub(crate) fn has_range_tombstones(&self) -> bool {
        match self {
            Source::Memtable(rows) => rows.memtable.has_range_tombstones(),
            Source::Run(rows) => rows.has_range_tombstones,
        }
    }

    /// The newest visible deletion of a span of this source that holds `key`.
    pub(crate) fn cover(&self, key: &[u8]) -> Result<Option<Cover>> {
        match self {
            Source::Memtable(rows) => Ok(rows.memtable.cover(key, rows.at)),
            Source::Run(rows) => rows.cover(key),
        }
    }

    /// True if the source ends its rows at the end of a forward scan's range, so that the merge
    /// need not compare each row with that end.
    pub(crate) fn ends_with_the_scan(&self) -> bool {
        matches!(self, Source::Memtable(_))
    }

    /// The memtable that the source reads; `None` for a run.
    pub(crate) fn memtable(&self) -> Option<&Memtable> {
        match self {
            Source::Memtable(rows) => Some(&rows.memtable),
            Source::Run(_) => None,
        }
    }

    /// Moves to the end of the source.
    pub(crate) fn exhaust(&mut self) {
        match self {
            Source::Memtable(rows) => rows.exhaust(),
            Source::Run(rows) => rows.exhaust(),
        }
    }
}

/// Reads a memtable in groups of rows, the first ones small and the later ones larger, so that
/// short scans are cheap and long ones seldom take the lock.
pub(crate) struct MemtableRows {
    memtable: Arc<Memtable>,
    at: SequenceNumber,
    scan: Arc<ScanRange>,
    fetched: PinnedRows,
    /// Index of the current row among the fetched ones; the number of these if there is no row.
    index: usize,
    fetch: usize,
    done: bool,
    /// Memory for the last key of a fetch. The next fetch begins after that key.
    last: Vec<u8>,
}

const FETCH_MIN: usize = 4;
const FETCH_MAX: usize = 256;

impl MemtableRows {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        at: SequenceNumber,
        scan: Arc<ScanRange>,
    ) -> MemtableRows {
        MemtableRows {
            memtable,
            at,
            scan,
            fetched: PinnedRows::default(),
            index: 0,
            fetch: FETCH_MIN,
            done: true,
            last: Vec::new(),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        (self.index < self.fetched.len()).then(|| self.fetched.key(self.index))
    }

    fn exhaust(&mut self) {
        self.fetched.clear();
        self.index = 0;
        self.done = true;
    }

    fn seek(&mut self, bound: Option<&[u8]>) {
        self.fetch = FETCH_MIN;
        self.fill(bound.map_or(From::Edge, From::Key));
    }

    #[inline]
    fn next(&mut self) {
        self.index += 1;
        if self.index == self.fetched.len() && !self.done {
            self.fetch_more();
        }
    }

    fn fetch_more(&mut self) {
        let mut last = std::mem::take(&mut self.last);
        last.clear();
        last.extend_from_slice(self.fetched.key(self.index - 1));
        self.fetch = (self.fetch * 4).min(FETCH_MAX);
        self.fill(From::Behind(&last));
        self.last = last;
    }

    fn fill(&mut self, from: From<'_>) {
        let direction = self.scan.direction;
        self.fetched.clear();
        self.index = 0;
        self.memtable
            .fetch(from, direction, self.at, self.fetch, &mut self.fetched);
        self.done = self.fetched.len() < self.fetch;
        if direction == Direction::Forward {
            self.end_with_the_scan();
        }
    }

    /// Drops the rows beyond the end of the scan.
    fn end_with_the_scan(&mut self) {
        let end = self.scan.range.end.as_deref();
        let is_inside = |index: usize| is_before_end(self.fetched.key(index), end);
        let mut count = self.fetched.len();
        while count > 0 && !is_inside(count - 1) {
            count -= 1;
        }
        if count < self.fetched.len() {
            self.fetched.truncate(count);
            self.done = true;
        }
    }
}

/// Walks SSTables that do not overlap: one file of level 0, or a whole deeper level. Files are
/// opened when reached.
pub(crate) struct RunRows {
    cache: Arc<Cache>,
    version: Arc<Version>,
    level: usize,
    /// The files of the level that belong to the run.
    files: std::ops::Range<usize>,
    has_range_tombstones: bool,
    at: SequenceNumber,
    direction: Direction,
    /// Index of the file under the cursor.
    file: usize,
    /// In a forward scan, the cursor is on the current row.
    cursor: Option<SstableCursor>,
    /// Whether the cursor is on a version in the file; else the run has ended.
    in_file: bool,
    /// In a backward scan, a copy of the current row, because the newest version of a key comes
    /// last.
    row: Option<(Vec<u8>, Entry)>,
}

impl RunRows {
    pub(crate) fn new(
        cache: Arc<Cache>,
        version: Arc<Version>,
        level: usize,
        files: std::ops::Range<usize>,
        at: SequenceNumber,
        direction: Direction,
    ) -> RunRows {
        let has_range_tombstones = version.levels[level][files.clone()]
            .iter()
            .any(|file| file.meta.range_tombstones > 0);
        RunRows {
            cache,
            version,
            level,
            file: files.start,
            files,
            has_range_tombstones,
            at,
            direction,
            cursor: None,
            in_file: false,
            row: None,
        }
    }

    fn files(&self) -> &[Arc<LiveFile>] {
        &self.version.levels[self.level][self.files.clone()]
    }

    fn key(&self) -> Option<&[u8]> {
        match self.direction {
            Direction::Forward if self.in_file => self.cursor.as_ref()?.key(),
            Direction::Forward => None,
            Direction::Backward => self.row.as_ref().map(|(key, _)| &key[..]),
        }
    }

    fn cursor(&self) -> &SstableCursor {
        self.cursor.as_ref().expect("the source is on a row")
    }

    fn backward_entry(&self) -> &Entry {
        &self.row.as_ref().expect("the source is on a row").1
    }

    fn sequence(&self) -> SequenceNumber {
        match self.direction {
            Direction::Forward => self.cursor().sequence(),
            Direction::Backward => self.backward_entry().sequence,
        }
    }

    fn kind(&self) -> Kind {
        match self.direction {
            Direction::Forward => self.cursor().kind(),
            Direction::Backward => self.backward_entry().kind,
        }
    }

    fn value(&self) -> Bytes {
        match self.direction {
            Direction::Forward => self.cursor().value(),
            Direction::Backward => self.backward_entry().value.clone(),
        }
    }

    fn value_slice(&self) -> &[u8] {
        match self.direction {
            Direction::Forward => self.cursor().value_slice(),
            Direction::Backward => &self.backward_entry().value,
        }
    }

    fn exhaust(&mut self) {
        self.in_file = false;
        self.row = None;
    }

    /// Moves the cursor to file `index` of the run, on no version; returns `false` if there is no
    /// such file.
    fn open(&mut self, index: Option<usize>) -> Result<bool> {
        self.in_file = false;
        let files = &self.version.levels[self.level][self.files.clone()];
        let Some((index, file)) = index.and_then(|index| Some((index, files.get(index)?))) else {
            return Ok(false);
        };
        let reader = file.reader()?.clone();
        self.file = index;
        match &mut self.cursor {
            Some(cursor) => cursor.switch(reader),
            None => self.cursor = Some(SstableCursor::new(reader)),
        }
        self.in_file = true;
        Ok(true)
    }

    /// Calls `step` on the cursor; does nothing and returns `false` if the run has ended.
    fn step(
        &mut self,
        step: impl FnOnce(&mut SstableCursor, &Cache) -> Result<()>,
    ) -> Result<bool> {
        match &mut self.cursor {
            Some(cursor) if self.in_file => step(cursor, &self.cache).map(|()| true),
            _ => Ok(false),
        }
    }

    fn seek(&mut self, bound: Option<&[u8]>) -> Result<()> {
        match self.direction {
            Direction::Forward => {
                let key = bound.unwrap_or_default();
                let index = first_ending_behind(self.files(), key);
                if !self.in_file || index != self.file {
                    self.open(Some(index))?;
                }
                self.step(|cursor, cache| cursor.seek(cache, key, SequenceNumber::MAX))?;
                self.settle_forward()
            }
            Direction::Backward => {
                let starting_before = match bound {
                    Some(key) => self
                        .files()
                        .partition_point(|file| file.meta.range.start[..] < *key),
                    None => self.files().len(),
                };
                self.open(starting_before.checked_sub(1))?;
                self.step(|cursor, cache| cursor.seek_before(cache, bound))?;
                self.settle_backward()
            }
        }
    }

    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            return self.settle_backward();
        }
        self.step(|cursor, cache| {
            cursor.next(cache)?;
            while cursor.key().is_some() && cursor.repeats() {
                cursor.next(cache)?;
            }
            Ok(())
        })?;
        self.settle_forward()
    }

    /// Moves the cursor from its place to the first version visible to the scan.
    fn settle_forward(&mut self) -> Result<()> {
        while self.in_file {
            let cursor = self.cursor();
            match cursor.key() {
                None => {
                    self.open(Some(self.file + 1))?;
                    self.step(|cursor, cache| cursor.seek(cache, &[], SequenceNumber::MAX))?;
                }
                Some(_) if cursor.sequence() > self.at => {
                    self.step(SstableCursor::next)?;
                }
                Some(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Walks backward, from the oldest version of a key to its newest one, until a key has a
    /// visible version. Remembers the newest visible version of that key.
    fn settle_backward(&mut self) -> Result<()> {
        let mut key = self.row.take().map_or_else(Vec::new, |(key, _)| key);
        while self.in_file {
            let Some(here) = self.cursor().key() else {
                self.open(self.file.checked_sub(1))?;
                self.step(|cursor, cache| cursor.seek_before(cache, None))?;
                continue;
            };
            key.clear();
            key.extend_from_slice(here);
            let mut newest = None;
            while self.cursor().key() == Some(&key[..]) {
                if self.cursor().sequence() <= self.at {
                    newest = Some(self.cursor().entry());
                }
                self.step(SstableCursor::prev)?;
            }
            if let Some(entry) = newest {
                self.row = Some((key, entry));
                return Ok(());
            }
        }
        Ok(())
    }

    fn cover(&self, key: &[u8]) -> Result<Option<Cover>> {
        let files = self.files();
        let file = files.get(first_ending_behind(files, key));
        let Some(file) =
            file.filter(|file| file.meta.range_tombstones > 0 && file.meta.contains(key))
        else {
            return Ok(None);
        };
        Ok(file.reader()?.cover(key, self.at))
    }
}
