//! Merges the sources of a keyspace, newest source first, into the live rows of a range.
//!
//! The merge relies on two facts: for one key, all versions of a newer source are newer than all of
//! an older source, and a range tombstone hides every version of its span in older sources. So of
//! several rows with one key the newest source's row wins, and older sources can seek past a
//! covered span instead of walking it.

use crate::Direction;
use crate::Result;
use crate::base::key::{Kind, SequenceNumber, is_before_end};
use crate::format::fragment::Cover;
use crate::tree::cache::Cache;
use crate::tree::empty_spans::{EmptySpans, HIDDEN_ROWS_MIN};
use crate::tree::iter::scan_range::ScanRange;
use crate::tree::iter::visible::{MemtableRows, RunRows, Source};
use crate::tree::keyspace::{Tree, View};
use crate::tree::memtable::Memtable;
use crate::tree::version::overlapping;
use std::borrow::Cow;
use std::sync::Arc;

/// The live rows of a range.
pub(crate) struct Rows {
    sources: Vec<Source>,
    scan: Arc<ScanRange>,
    /// Where the next `advance` goes first: inclusive forward, exclusive backward; the inner `None`
    /// is the end of all keys.
    pending_seek: Option<Option<Vec<u8>>>,
    /// True if the pending seek moves only forward from the current positions.
    goes_on: bool,
    /// The source of the current row; `None` if there is no row.
    current: Option<usize>,
    /// Indices of the sources that are on a row, in the order of their rows; of equal keys the
    /// newest source first. Valid if `is_ordered`.
    order: Vec<usize>,
    is_ordered: bool,
    has_range_tombstones: bool,
    empty_spans: Arc<EmptySpans>,
    at: SequenceNumber,
    passed: u64,
    /// Number of seeks, the one at the beginning of the scan included.
    seeks: u64,
    /// The search that began at the last seek, until it finds a live row.
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
        let scan = Arc::new(scan);
        let mut sources = Vec::new();
        add_sources(&mut sources, &tree.view(), &cache, at, &scan);
        let start = match scan.direction {
            Direction::Forward => Some(scan.range.start.clone()),
            Direction::Backward => scan.range.end.clone(),
        };
        Rows {
            has_range_tombstones: sources.iter().any(Source::has_range_tombstones),
            sources,
            scan,
            pending_seek: Some(start),
            goes_on: false,
            current: None,
            order: Vec::new(),
            is_ordered: false,
            empty_spans: tree.empty_spans.clone(),
            at,
            passed: 0,
            seeks: 0,
            search: None,
        }
    }

    /// The source that is on the current row.
    #[inline]
    pub(crate) fn source(&self) -> Option<&Source> {
        self.current.map(|current| &self.sources[current])
    }

    /// Moves to the end of the range.
    fn end(&mut self) {
        self.end_search(None);
        (self.current, self.pending_seek) = (None, None);
        self.sources.iter_mut().for_each(Source::exhaust);
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.end_search(None);
        let here = self.source().and_then(Source::key);
        let is_forward = self.scan.direction == Direction::Forward;
        self.goes_on = is_forward && here.is_some_and(|here| here <= key);
        let range = &self.scan.range;
        self.current = None;
        self.pending_seek = Some(match self.scan.direction {
            Direction::Forward => Some(key.max(&range.start).to_vec()),
            Direction::Backward if is_before_end(key, range.end.as_deref()) => {
                Some(crate::base::key::successor(key))
            }
            Direction::Backward => range.end.clone(),
        });
    }

    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let stepped = match self.alone() {
            Some(only) => self.step_alone(only),
            None => self.step(),
        };
        match stepped {
            // A new value: copying `stepped` would stall until its parts are stored.
            Ok(true) => Ok(true),
            ended => {
                self.end();
                ended
            }
        }
    }

    /// Returns the source of the current row if no other source has rows left and only its own
    /// deletions can hide its rows. Most scans reach this state.
    #[inline]
    fn alone(&self) -> Option<usize> {
        match self.order[..] {
            [only] if !self.has_range_tombstones && self.pending_seek.is_none() => {
                self.current.filter(|current| *current == only)
            }
            _ => None,
        }
    }

    /// Like `step`, without the work that a single source does not need.
    #[inline]
    fn step_alone(&mut self, only: usize) -> Result<bool> {
        let source = &mut self.sources[only];
        source.next()?;
        if source.key().is_some() {
            if source.kind() != Kind::Delete && self.is_in_range(only) {
                self.passed += 1;
                return Ok(true);
            }
        } else {
            self.order.clear();
        }
        self.current = None;
        self.find_live()
    }

    fn step(&mut self) -> Result<bool> {
        match (self.pending_seek.take(), self.current.take()) {
            (Some(bound), _) => self.begin(bound)?,
            (None, Some(_)) => self.pass()?,
            (None, None) => return Ok(false),
        }
        self.find_live()
    }

    /// Moves from the positions of the sources to the first live row.
    fn find_live(&mut self) -> Result<bool> {
        while let Some(first) = self.first() {
            self.passed += 1;
            if !self.is_in_range(first) {
                break;
            }
            match self.cover(first)? {
                Some((by, cover)) => {
                    self.note_hidden();
                    self.skip(first, by, &cover)?;
                }
                None if self.sources[first].kind() == Kind::Delete => {
                    self.note_hidden();
                    self.pass()?;
                }
                None => {
                    self.current = Some(first);
                    if self.search.is_some() {
                        self.end_search_here(first);
                    }
                    return Ok(true);
                }
            }
        }
        let scan = self.scan.clone();
        self.end_search(scan.range.end.as_deref());
        Ok(false)
    }

    fn begin(&mut self, bound: Option<Vec<u8>>) -> Result<()> {
        self.is_ordered = false;
        let bound = match self.scan.direction {
            Direction::Forward => Some(self.begin_search(bound.unwrap_or_default())),
            Direction::Backward => bound,
        };
        self.seek_sources(bound.as_deref())?;
        if let (Direction::Forward, Some(start)) = (self.scan.direction, bound) {
            self.search = Some(Search {
                start,
                hidden: 0,
                exploration: None,
            });
        }
        Ok(())
    }

    /// Moves each source to the bound, or past the span there that newer sources have deleted.
    fn seek_sources(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let looks_ahead = self.has_range_tombstones && self.scan.direction == Direction::Forward;
        let goes_on = std::mem::take(&mut self.goes_on);
        self.seeks += 1;
        let mut bound = bound.map(Cow::Borrowed);
        for index in 0..self.sources.len() {
            let source = &mut self.sources[index];
            // A source whose key is at or after the bound need not move.
            if !goes_on
                || source
                    .key()
                    .is_none_or(|here| Some(here) < bound.as_deref())
            {
                source.seek(bound.as_deref())?;
            }
            while looks_ahead
                && let Some(cover) = source.cover(bound.as_deref().unwrap_or_default())?
            {
                let Some(end) = cover.end else {
                    self.sources[index + 1..]
                        .iter_mut()
                        .for_each(Source::exhaust);
                    return Ok(());
                };
                bound = Some(Cow::Owned(end.into()));
            }
        }
        Ok(())
    }

    /// The beginning of a walk from `start`: after the empty span around `start`, if one is known.
    fn begin_search(&self, start: Vec<u8>) -> Vec<u8> {
        self.empty_spans
            .end_around(&start, self.at)
            .unwrap_or(start)
    }

    fn note_hidden(&mut self) {
        if let Some(search) = &mut self.search {
            search.hidden += 1;
            if search.hidden == HIDDEN_ROWS_MIN {
                search.exploration = self.empty_spans.explore(&search.start, self.at);
            }
        }
    }

    /// Ends the search: the walk found no live row before `end`. `None`: the walk was broken off.
    fn end_search(&mut self, end: Option<&[u8]>) {
        let search = self.search.take();
        if let Some(id) = search.and_then(|search| search.exploration) {
            self.empty_spans.settle(id, end);
        }
    }

    /// Ends the search: the walk has come to the row of source `first`, which is live.
    fn end_search_here(&mut self, first: usize) {
        let search = self.search.take();
        if let Some(id) = search.and_then(|search| search.exploration) {
            self.empty_spans.settle(id, self.sources[first].key());
        }
    }

    #[inline]
    fn is_in_range(&self, first: usize) -> bool {
        let source = &self.sources[first];
        let Some(key) = source.key() else {
            return false;
        };
        match self.scan.direction {
            Direction::Forward if source.ends_with_the_scan() => true,
            Direction::Forward => is_before_end(key, self.scan.range.end.as_deref()),
            Direction::Backward => *key >= self.scan.range.start[..],
        }
    }

    /// Whether the row of source `a` comes before that of source `b`.
    fn precedes(&self, a: usize, b: usize) -> bool {
        let (left, right) = (self.sources[a].key(), self.sources[b].key());
        let order = match self.scan.direction {
            Direction::Forward => left.cmp(&right),
            Direction::Backward => right.cmp(&left),
        };
        order.then(a.cmp(&b)).is_lt()
    }

    /// The source with the first row; for equal keys the newest source.
    fn first(&mut self) -> Option<usize> {
        if !self.is_ordered {
            self.is_ordered = true;
            self.order.clear();
            for source in (0..self.sources.len()).rev() {
                if self.sources[source].key().is_some() {
                    self.order.insert(0, source);
                    self.sift_down(0);
                }
            }
        }
        self.order.first().copied()
    }

    /// Moves the source at `place` behind all sources whose rows come before its own. The sources
    /// after `place` must be in order.
    fn sift_down(&mut self, mut place: usize) {
        while place + 1 < self.order.len()
            && self.precedes(self.order[place + 1], self.order[place])
        {
            self.order.swap(place, place + 1);
            place += 1;
        }
    }

    /// Moves every source that is on the first key beyond it.
    fn pass(&mut self) -> Result<()> {
        let key = self.sources[self.order[0]].key();
        let others = self.order[1..].iter();
        let same = 1 + others
            .take_while(|&&other| self.sources[other].key() == key)
            .count();
        for place in (0..same).rev() {
            let source = self.order[place];
            self.sources[source].next()?;
            match self.sources[source].key() {
                Some(_) => self.sift_down(place),
                None => {
                    self.order.remove(place);
                }
            }
        }
        Ok(())
    }

    /// Returns the newest deletion that hides the row of source `first`, and the index of its
    /// source. Looks at newer sources first, because their deletions are newer.
    fn cover(&self, first: usize) -> Result<Option<(usize, Cover)>> {
        if !self.has_range_tombstones {
            return Ok(None);
        }
        let source = &self.sources[first];
        let key = source.key().unwrap_or_default();
        for (by, other) in self.sources[..=first].iter().enumerate() {
            if let Some(cover) = other.cover(key)? {
                let hides = by < first || cover.sequence > source.sequence();
                return Ok(Some((by, cover)).filter(|_| hides));
            }
        }
        Ok(None)
    }

    /// Moves the sources older than `by` past the covered span, and `by` itself past the row of
    /// source `first`.
    fn skip(&mut self, first: usize, by: usize, cover: &Cover) -> Result<()> {
        self.is_ordered = false;
        let key = self.sources[first].key().unwrap_or_default().to_vec();
        for (index, source) in self.sources.iter_mut().enumerate().skip(by) {
            let Some(here) = source.key() else { continue };
            if index == by {
                if *here == key[..] {
                    source.next()?;
                }
                continue;
            }
            match self.scan.direction {
                Direction::Forward if !is_before_end(here, cover.end.as_deref()) => {}
                Direction::Forward => match cover.end.as_deref() {
                    Some(end) => source.seek(Some(end))?,
                    None => source.exhaust(),
                },
                Direction::Backward if *here < cover.start[..] => {}
                Direction::Backward => source.seek(Some(&cover.start))?,
            }
        }
        Ok(())
    }
}

/// Adds the memtables and runs of a view that may have rows of the scan, newest first.
fn add_sources(
    sources: &mut Vec<Source>,
    view: &View,
    cache: &Arc<Cache>,
    at: SequenceNumber,
    scan: &Arc<ScanRange>,
) {
    let memtables = std::iter::once(&view.active).chain(&view.immutable);
    let memtables = memtables.filter(|memtable| !memtable.is_empty());
    let rows = |memtable: &Arc<Memtable>| MemtableRows::new(memtable.clone(), at, scan.clone());
    sources.extend(memtables.map(|memtable| Source::Memtable(rows(memtable))));
    let version = &view.version;
    let mut add = |level, files| {
        let (cache, version) = (cache.clone(), version.clone());
        let run = RunRows::new(cache, version, level, files, at, scan.direction);
        sources.push(Source::Run(run));
    };
    for (index, file) in version.levels[0].iter().enumerate() {
        if file.meta.overlaps(&scan.range) {
            add(0, index..index + 1);
        }
    }
    for (level, files) in version.levels.iter().enumerate().skip(1) {
        let overlapping = overlapping(files, &scan.range);
        if !overlapping.is_empty() {
            add(level, overlapping);
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.end_search(None);
        // Counts how often a memtable was a source besides SSTables: see `is_read_across`.
        if let [first, .., last] = &self.sources[..]
            && let (Some(memtable), None) = (first.memtable(), last.memtable())
        {
            memtable.add_scan_merges(self.seeks);
        }
    }
}
