//! The rows of one source (a memtable, or a run of SSTables) as of a sequence number: the newest version of each key, in
//! either direction. Tombstones are rows too: the merge needs them to hide what older sources hold.

use super::Direction;
use crate::Result;
use crate::cache::Cache;
use crate::key::{Entry, SequenceNumber};
use crate::memtable::{Fetched, From, Memtable};
use crate::range_tombstones::Cover;
use crate::sstable::SstableCursor;
use crate::version::{LiveFile, Version, first_ending_behind};
use bytes::Bytes;
use std::sync::Arc;

/// A key and its newest visible version.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) key: Bytes,
    pub(crate) entry: Entry,
}

/// One source, positioned on a row or at its end.
pub(crate) enum Source {
    Memtable(MemtableRows),
    Run(Box<RunRows>),
}

impl Source {
    pub(crate) fn row(&self) -> Option<&Row> {
        match self {
            Source::Memtable(rows) => rows.row.as_ref(),
            Source::Run(rows) => rows.row.as_ref(),
        }
    }

    /// To the first row at or beyond `bound` in the direction of the scan; a backward `bound` is exclusive.
    pub(crate) fn seek(&mut self, bound: Option<&[u8]>) -> Result<()> {
        match self {
            Source::Memtable(rows) => rows.seek(bound),
            Source::Run(rows) => return rows.seek(bound),
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        match self {
            Source::Memtable(rows) => rows.next(),
            Source::Run(rows) => return rows.next(),
        }
        Ok(())
    }

    /// The newest visible deletion of a span of this source that holds `key`.
    pub(crate) fn cover(&self, key: &[u8]) -> Result<Option<Cover>> {
        match self {
            Source::Memtable(rows) => Ok(rows.memtable.cover(key, rows.at)),
            Source::Run(rows) => rows.cover(key),
        }
    }

    /// To the end of the source.
    pub(crate) fn exhaust(&mut self) {
        match self {
            Source::Memtable(rows) => {
                rows.fetched.clear();
                rows.done = true;
                rows.row = None;
            }
            Source::Run(rows) => {
                rows.cursor = None;
                rows.row = None;
            }
        }
    }
}

/// Reads a memtable a few rows at a time, more each time, so that short scans are cheap and long ones seldom take the lock.
pub(crate) struct MemtableRows {
    memtable: Arc<Memtable>,
    at: SequenceNumber,
    direction: Direction,
    fetched: Fetched,
    /// Index of the current row among the fetched ones.
    index: usize,
    fetch: usize,
    done: bool,
    row: Option<Row>,
}

const FETCH_MIN: usize = 4;
const FETCH_MAX: usize = 256;

impl MemtableRows {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        at: SequenceNumber,
        direction: Direction,
    ) -> MemtableRows {
        MemtableRows {
            memtable,
            at,
            direction,
            fetched: Fetched::default(),
            index: 0,
            fetch: FETCH_MIN,
            done: true,
            row: None,
        }
    }

    fn seek(&mut self, bound: Option<&[u8]>) {
        self.fetch = FETCH_MIN;
        self.fill(bound.map_or(From::Edge, From::Key));
        self.take();
    }

    fn next(&mut self) {
        self.index += 1;
        if self.index >= self.fetched.len() && !self.done {
            let last = self.row.take().map(|row| row.key);
            let last = last.expect("a source that is not done stands on a row");
            self.fetch = (self.fetch * 4).min(FETCH_MAX);
            self.fill(From::Behind(&last));
        }
        self.take();
    }

    fn fill(&mut self, from: From<'_>) {
        self.fetched.clear();
        self.index = 0;
        self.memtable
            .fetch(from, self.direction, self.at, self.fetch, &mut self.fetched);
        self.done = self.fetched.len() < self.fetch;
    }

    fn take(&mut self) {
        let found = self.index < self.fetched.len();
        self.row = found.then(|| Row {
            key: Bytes::copy_from_slice(self.fetched.key(self.index)),
            entry: self.fetched.entry(self.index).clone(),
        });
    }
}

/// Walks SSTables that do not overlap: one file of level 0, or a whole deeper level. Files are opened when reached.
pub(crate) struct RunRows {
    cache: Arc<Cache>,
    version: Arc<Version>,
    level: usize,
    /// The files of the level that belong to the run.
    files: std::ops::Range<usize>,
    at: SequenceNumber,
    direction: Direction,
    /// Index of the file under the cursor.
    file: usize,
    cursor: Option<SstableCursor>,
    row: Option<Row>,
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
        RunRows {
            cache,
            version,
            level,
            file: files.start,
            files,
            at,
            direction,
            cursor: None,
            row: None,
        }
    }

    fn files(&self) -> &[Arc<LiveFile>] {
        &self.version.levels[self.level][self.files.clone()]
    }

    /// Puts the cursor into file `index` of the run; nowhere if there is none.
    fn open(&mut self, index: Option<usize>) -> Result<bool> {
        self.cursor = None;
        let Some(index) = index else {
            return Ok(false);
        };
        let Some(file) = self.files().get(index) else {
            return Ok(false);
        };
        let reader = self.cache.reader(&file.meta)?;
        self.file = index;
        self.cursor = Some(SstableCursor::new(reader));
        Ok(true)
    }

    fn seek(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.row = None;
        match self.direction {
            Direction::Forward => {
                let key = bound.unwrap_or_default();
                let index = first_ending_behind(self.files(), key);
                if self.open(Some(index))?
                    && let Some(cursor) = &mut self.cursor
                {
                    cursor.seek(&self.cache, key, SequenceNumber::MAX)?;
                }
                self.settle_forward()
            }
            Direction::Backward => {
                let starting_before = match bound {
                    Some(key) => self
                        .files()
                        .partition_point(|file| file.meta.range.start[..] < *key),
                    None => self.files().len(),
                };
                if self.open(starting_before.checked_sub(1))?
                    && let Some(cursor) = &mut self.cursor
                {
                    cursor.seek_before(&self.cache, bound)?;
                }
                self.settle_backward()
            }
        }
    }

    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            return self.settle_backward();
        }
        if let (Some(row), Some(cursor)) = (&self.row, &mut self.cursor) {
            while cursor.key().is_some_and(|key| *key == row.key[..]) {
                cursor.next(&self.cache)?;
            }
        }
        self.settle_forward()
    }

    /// From where the cursor stands to the first visible version.
    fn settle_forward(&mut self) -> Result<()> {
        self.row = None;
        while let Some(cursor) = &mut self.cursor {
            match cursor.key() {
                None => {
                    let next = self.file + 1;
                    if self.open(Some(next))?
                        && let Some(cursor) = &mut self.cursor
                    {
                        cursor.seek(&self.cache, &[], SequenceNumber::MAX)?;
                    }
                }
                Some(_) if cursor.sequence() > self.at => cursor.next(&self.cache)?,
                Some(key) => {
                    let key = Bytes::copy_from_slice(key);
                    let entry = cursor.entry();
                    self.row = Some(Row { key, entry });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// From the oldest version of a key down to where the next key's versions begin, remembering the newest visible.
    fn settle_backward(&mut self) -> Result<()> {
        self.row = None;
        while let Some(cursor) = &mut self.cursor {
            let Some(key) = cursor.key().map(Bytes::copy_from_slice) else {
                let before = self.file.checked_sub(1);
                if self.open(before)?
                    && let Some(cursor) = &mut self.cursor
                {
                    cursor.seek_before(&self.cache, None)?;
                }
                continue;
            };
            let mut newest = None;
            while cursor.key().is_some_and(|other| *other == key[..]) {
                if cursor.sequence() <= self.at {
                    newest = Some(cursor.entry());
                }
                cursor.prev(&self.cache)?;
            }
            if let Some(entry) = newest {
                self.row = Some(Row { key, entry });
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
        Ok(self.cache.reader(&file.meta)?.cover(key, self.at))
    }
}
