//! Merges the sources of a keyspace, newest source first, into the live rows of a range.
//!
//! What makes it right: for one key, all versions of a newer source are newer than all of an older source, and a range
//! tombstone hides every version of its span in older sources. So of several rows with one key the newest source wins, and
//! older sources can seek past a covered span instead of walking it.

use super::Direction;
use super::visible::{MemtableRows, Row, RunRows, Source};
use crate::cache::Cache;
use crate::gaps::{Gaps, HIDDEN_ROWS_MIN};
use crate::key::{Kind, SequenceNumber, is_before_end};
use crate::keyspace::Tree;
use crate::range_tombstones::Cover;
use crate::{KeyRange, Result};
use std::sync::Arc;

/// Which keys a scan walks, and which way.
#[derive(Debug, Clone)]
pub(crate) struct ScanRange {
    pub(crate) range: KeyRange,
    pub(crate) direction: Direction,
}

/// The live rows of a range.
pub(crate) struct Rows {
    sources: Vec<Source>,
    scan: ScanRange,
    /// Where the next `advance` goes first: inclusive forward, exclusive backward; `None` inside is the end of all keys.
    pending_seek: Option<Option<Vec<u8>>>,
    row: Option<Row>,
    gaps: Arc<Gaps>,
    at: SequenceNumber,
    passed: u64,
    /// Since the last seek, until a live row is found.
    search: Option<Search>,
}

/// A forward walk that has found nothing live yet.
struct Search {
    start: Vec<u8>,
    hidden: usize,
    exploration: Option<u64>,
}

impl Rows {
    pub(crate) fn new(tree: &Tree, cache: Arc<Cache>, at: SequenceNumber, scan: ScanRange) -> Rows {
        let view = tree.view();
        let direction = scan.direction;
        let memtables = std::iter::once(&view.active).chain(&view.sealed);
        let memtables = memtables.filter(|memtable| !memtable.is_empty());
        let mut sources: Vec<Source> = memtables
            .map(|memtable| Source::Memtable(MemtableRows::new(memtable.clone(), at, direction)))
            .collect();
        let version = &view.version;
        let mut add = |level, files| {
            let run = RunRows::new(cache.clone(), version.clone(), level, files, at, direction);
            sources.push(Source::Run(Box::new(run)));
        };
        for (index, file) in version.levels[0].iter().enumerate() {
            if file.meta.overlaps(&scan.range) {
                add(0, index..index + 1);
            }
        }
        for (level, files) in version.levels.iter().enumerate().skip(1) {
            if !files.is_empty() {
                add(level, 0..files.len());
            }
        }
        let start = match direction {
            Direction::Forward => Some(scan.range.start.clone()),
            Direction::Backward => scan.range.end.clone(),
        };
        Rows {
            sources,
            scan,
            pending_seek: Some(start),
            row: None,
            gaps: tree.gaps.clone(),
            at,
            passed: 0,
            search: None,
        }
    }

    pub(crate) fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.end_search(None);
        let range = &self.scan.range;
        self.row = None;
        self.pending_seek = Some(match self.scan.direction {
            Direction::Forward => Some(key.max(&range.start).to_vec()),
            Direction::Backward if is_before_end(key, range.end.as_deref()) => {
                Some(crate::key::successor(key))
            }
            Direction::Backward => range.end.clone(),
        });
    }

    pub(crate) fn advance(&mut self) -> Result<bool> {
        let stepped = self.step();
        if !matches!(stepped, Ok(true)) {
            self.end_search(None);
            self.row = None;
            self.sources.iter_mut().for_each(Source::exhaust);
        }
        stepped
    }

    fn step(&mut self) -> Result<bool> {
        match (self.pending_seek.take(), self.row.take()) {
            (Some(bound), _) => {
                let bound = self.begin_search(bound);
                for source in &mut self.sources {
                    source.seek(bound.as_deref())?;
                }
            }
            (None, Some(row)) => self.pass(&row.key)?,
            (None, None) => return Ok(false),
        }
        while let Some(first) = self.first() {
            self.passed += 1;
            let row = self.sources[first]
                .row()
                .expect("the first source has a row")
                .clone();
            if !self.is_in_range(&row.key) {
                let end = self.scan.range.end.clone();
                self.end_search(end.as_deref());
                return Ok(false);
            }
            match self.cover(&row.key)? {
                Some((by, cover))
                    if by < first || (by == first && cover.sequence > row.entry.sequence) =>
                {
                    self.note_hidden();
                    self.skip(&row.key, by, &cover)?;
                }
                _ if row.entry.kind == Kind::Delete => {
                    self.note_hidden();
                    self.pass(&row.key)?;
                }
                _ => {
                    self.end_search(Some(&row.key));
                    self.row = Some(row);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Where a walk that begins at `bound` may as well begin: behind the gap around it.
    fn begin_search(&mut self, bound: Option<Vec<u8>>) -> Option<Vec<u8>> {
        if self.scan.direction == Direction::Backward {
            return bound;
        }
        let start = bound.unwrap_or_default();
        let start = self.gaps.end_around(&start, self.at).unwrap_or(start);
        self.search = Some(Search {
            start: start.clone(),
            hidden: 0,
            exploration: None,
        });
        Some(start)
    }

    fn note_hidden(&mut self) {
        if let Some(search) = &mut self.search {
            search.hidden += 1;
            if search.hidden == HIDDEN_ROWS_MIN {
                search.exploration = self.gaps.explore(&search.start, self.at);
            }
        }
    }

    /// The walk has come to `end` without finding anything live before it; `None`: it was broken off.
    fn end_search(&mut self, end: Option<&[u8]>) {
        let search = self.search.take();
        if let Some(id) = search.and_then(|search| search.exploration) {
            self.gaps.settle(id, end);
        }
    }

    fn is_in_range(&self, key: &[u8]) -> bool {
        match self.scan.direction {
            Direction::Forward => is_before_end(key, self.scan.range.end.as_deref()),
            Direction::Backward => *key >= self.scan.range.start[..],
        }
    }

    /// The source whose row comes first; of several with one key the newest.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, &[u8])> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(row) = source.row() else { continue };
            let better = first.is_none_or(|(_, key)| match self.scan.direction {
                Direction::Forward => row.key[..] < *key,
                Direction::Backward => row.key[..] > *key,
            });
            if better {
                first = Some((index, &row.key));
            }
        }
        first.map(|(index, _)| index)
    }

    /// Moves every source that stands on `key` beyond it.
    fn pass(&mut self, key: &[u8]) -> Result<()> {
        for source in &mut self.sources {
            if source.row().is_some_and(|row| row.key[..] == *key) {
                source.next()?;
            }
        }
        Ok(())
    }

    /// The deletion of a span around `key` by the newest source that has one; newer sources' deletions are newer.
    fn cover(&self, key: &[u8]) -> Result<Option<(usize, Cover)>> {
        for (index, source) in self.sources.iter().enumerate() {
            if let Some(cover) = source.cover(key)? {
                return Ok(Some((index, cover)));
            }
        }
        Ok(None)
    }

    /// Moves the sources older than `by` past the covered span, and `by` itself past `key`.
    fn skip(&mut self, key: &[u8], by: usize, cover: &Cover) -> Result<()> {
        for (index, source) in self.sources.iter_mut().enumerate().skip(by) {
            let Some(row) = source.row() else { continue };
            if index == by {
                if row.key[..] == *key {
                    source.next()?;
                }
                continue;
            }
            match self.scan.direction {
                Direction::Forward if !is_before_end(&row.key, cover.end.as_deref()) => {}
                Direction::Forward => match cover.end.as_deref() {
                    Some(end) => source.seek(Some(end))?,
                    None => source.exhaust(),
                },
                Direction::Backward if row.key < cover.start => {}
                Direction::Backward => source.seek(Some(&cover.start))?,
            }
        }
        Ok(())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.end_search(None);
    }
}
