//! Windows: the pages of one file, as of any of its epochs.
//!
//! A file of pages is divided into windows of 128 KiB. A row has all extents that begin in one window, as of one epoch, and is
//! valid until the row of a later epoch. An epoch ends when a second record names the file: rows of that epoch stay as they are,
//! and the record that still writes does so in the next epoch. So the pages of a snapshot are found with one seek per window,
//! however many snapshots there are. The first write to a window in an epoch copies one row, and both rows then refer to the same
//! contents.

use crate::codec;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::keys::{self, File};
use crate::keyspaces::Keyspaces;
use crate::model::{Extent, Pages, WINDOW_BYTES};
use crate::segment::{Segment, Stored, Written};
use lazurite_engine::{Direction, KeyRange, Scan, Snapshot};
use std::collections::BTreeSet;
use std::ops::Range;

/// Most bytes of an extent with content, and so the most that it extends into the next window.
pub(crate) const EXTENT_BYTES_MAX: u64 = 64 << 10;
const _: () = assert!(EXTENT_BYTES_MAX <= WINDOW_BYTES);
/// Changed windows that a comparison holds in memory at a time.
const WINDOWS_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// The window of an extent that begins at this offset.
pub(crate) fn window_of(offset: u64) -> u64 {
    offset / WINDOW_BYTES
}

/// The first window with extents that may reach `offset`.
pub(crate) fn first_window(offset: u64) -> u64 {
    window_of(offset.saturating_sub(EXTENT_BYTES_MAX - 1))
}

/// A window as of an epoch.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) number: u64,
    /// The epoch of the row.
    pub(crate) epoch: u64,
    pub(crate) extents: Vec<Extent>,
}

/// A walk over the windows of a file as of an epoch. Rows of later epochs are mostly skipped by seeks.
#[derive(Debug)]
pub(crate) struct Windows {
    file: File,
    epoch: u64,
    rows: Scan,
    next: u64,
}

impl Windows {
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        file: File,
        epoch: u64,
        first: u64,
    ) -> Windows {
        let range = KeyRange {
            start: file.window(first, epoch),
            ..file.windows(first..u64::MAX)
        };
        Windows {
            file,
            epoch,
            rows: snapshot.scan(&keyspaces.blocks, range, Direction::Forward),
            next: first,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Window>> {
        while self.rows.advance()? {
            let key = keys::window_and_epoch(self.rows.key());
            let (number, epoch) = key.ok_or_else(corrupt_record)?;
            if number >= self.next && epoch <= self.epoch {
                self.next = number.saturating_add(1);
                let extents = codec::decode_window(number, &self.rows.value()?)?;
                return Ok(Some(Window {
                    number,
                    epoch,
                    extents,
                }));
            }
            // An older row of the window before, or a newer one of the next.
            let number = number.max(self.next);
            self.rows.seek(&self.file.window(number, self.epoch));
        }
        Ok(None)
    }
}

/// The extents of the windows, one after another.
#[derive(Debug)]
pub(crate) struct WindowExtents {
    windows: Windows,
    window: u64,
    extents: std::vec::IntoIter<Extent>,
}

impl WindowExtents {
    pub(crate) fn new(windows: Windows) -> WindowExtents {
        WindowExtents {
            windows,
            window: 0,
            extents: Vec::new().into_iter(),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Range<u64>, Option<Stored>)>> {
        loop {
            if let Some(Extent { range, pages }) = self.extents.next() {
                let (file, window) = (self.windows.file, Some(self.window));
                let stored = |pages: Pages| Stored {
                    file,
                    window,
                    pages,
                };
                return Ok(Some((range, pages.map(stored))));
            }
            let Some(window) = self.windows.next()? else {
                return Ok(None);
            };
            self.window = window.number;
            self.extents = window.extents.into_iter();
        }
    }
}

/// The differences of a file between two epochs. Reads only windows that changed between them.
#[derive(Debug)]
pub(crate) struct Changes {
    keyspaces: Keyspaces,
    snapshot: Snapshot,
    file: File,
    before: u64,
    after: u64,
    windows: std::vec::IntoIter<u64>,
    /// Where to look for more changed windows; `None` if there are none.
    next_window: Option<u64>,
    /// Where the last comparison ended.
    compared: u64,
    comparison: Option<[Sequence; 2]>,
    /// Rows of changes that were read.
    #[cfg(test)]
    pub(crate) looked_at: usize,
}

/// One side of a comparison: the segments of a file as of an epoch, and the present one.
#[derive(Debug)]
struct Sequence {
    extents: WindowExtents,
    /// The extent that the rest begins in, or the next one.
    extent: Option<(Range<u64>, Option<Stored>)>,
    rest: Range<u64>,
    segment: Option<Segment>,
}

impl Changes {
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        file: File,
        epochs: [u64; 2],
        offset: u64,
    ) -> Changes {
        Changes {
            keyspaces: keyspaces.clone(),
            snapshot: snapshot.clone(),
            file,
            before: epochs[0],
            after: epochs[1],
            windows: Vec::new().into_iter(),
            next_window: Some(first_window(offset)),
            compared: 0,
            comparison: None,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Range<u64>, Option<Stored>)>> {
        loop {
            if let Some(sides) = &mut self.comparison {
                match next_difference(sides)? {
                    Some(difference) => return Ok(Some(difference)),
                    None => self.comparison = None,
                }
            }
            let Some(range) = self.next_range()? else {
                return Ok(None);
            };
            let sides = [self.before, self.after];
            self.comparison = Some(sides.map(|epoch| self.sequence(epoch, range.clone())));
        }
    }

    fn sequence(&self, epoch: u64, range: Range<u64>) -> Sequence {
        let first = first_window(range.start);
        let windows = Windows::new(&self.keyspaces, &self.snapshot, self.file, epoch, first);
        Sequence {
            extents: WindowExtents::new(windows),
            extent: None,
            rest: range,
            segment: None,
        }
    }

    /// The next stretch that may have changed: adjacent changed windows, and the bytes after them that their extents reach.
    fn next_range(&mut self) -> Result<Option<Range<u64>>> {
        if self.windows.len() == 0 && self.next_window.is_some() {
            self.find_windows()?;
        }
        let Some(first) = self.windows.next() else {
            return Ok(None);
        };
        let mut last = first;
        while let Some(&next) = self.windows.as_slice().first()
            && next - last == 1
        {
            last = next;
            self.windows.next();
        }
        let start = self.compared.max(first.saturating_mul(WINDOW_BYTES));
        let end = last.saturating_add(1).saturating_mul(WINDOW_BYTES);
        self.compared = end.saturating_add(EXTENT_BYTES_MAX);
        Ok(Some(start..self.compared))
    }

    /// Finds the next changed windows.
    fn find_windows(&mut self) -> Result<()> {
        let Some(from) = self.next_window.take() else {
            return Ok(());
        };
        let epochs = self
            .file
            .changes(self.before.saturating_add(1)..self.after.saturating_add(1));
        let blocks = &self.keyspaces.blocks;
        let mut rows = self.snapshot.scan(blocks, epochs, Direction::Forward);
        let mut windows = BTreeSet::new();
        while rows.advance()? {
            #[cfg(test)]
            {
                self.looked_at += 1;
            }
            let (epoch, window) = keys::epoch_and_window(rows.key()).ok_or_else(corrupt_record)?;
            // Windows ascend within an epoch: seeks over those outside the part.
            if window < from {
                rows.seek(&self.file.changed(epoch, from));
                continue;
            }
            if self.next_window.is_some_and(|next| window >= next) {
                rows.seek(&self.file.changed(epoch.saturating_add(1), from));
                continue;
            }
            windows.insert(window);
            if windows.len() > WINDOWS_MAX {
                windows.pop_last();
                self.next_window = windows.last().map(|last| last.saturating_add(1));
            }
        }
        self.windows = windows.into_iter().collect::<Vec<_>>().into_iter();
        Ok(())
    }
}

impl Sequence {
    /// The present segment; `None` at the end.
    fn load(&mut self) -> Result<Option<&mut Segment>> {
        if self
            .segment
            .as_ref()
            .is_none_or(|segment| segment.range.is_empty())
        {
            self.segment = self.next_segment()?;
        }
        Ok(self.segment.as_mut())
    }
}

impl Sequence {
    fn next_segment(&mut self) -> Result<Option<Segment>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let start = self.rest.start;
        let is_passed = |extent: &(Range<u64>, _)| extent.0.end <= start;
        while self.extent.as_ref().is_none_or(is_passed) {
            self.extent = self.extents.next()?;
            if self.extent.is_none() {
                break;
            }
        }
        let (end, what) = match &self.extent {
            None => (self.rest.end, Written::Never),
            Some((range, _)) if range.start > start => (range.start, Written::Never),
            Some((range, None)) => (range.end, Written::Cleared),
            Some((range, Some(stored))) => {
                let stored = stored.skip(start - range.start);
                (range.end, Written::Pages(stored))
            }
        };
        let end = end.min(self.rest.end);
        self.rest.start = end;
        Ok(Some(Segment {
            range: start..end,
            what,
        }))
    }
}

fn next_difference(sides: &mut [Sequence; 2]) -> Result<Option<(Range<u64>, Option<Stored>)>> {
    loop {
        let [before, after] = sides;
        let (Some(before), Some(after)) = (before.load()?, after.load()?) else {
            return Ok(None);
        };
        let end = before.range.end.min(after.range.end);
        let range = after.range.start..end;
        let (was, is) = (before.advance(end), after.advance(end));
        match (was, is) {
            // Pages that were copied to a content of their own keep their origin: they did not change.
            (Written::Pages(was), Written::Pages(is))
                if was.pages.counter() == is.pages.counter() => {}
            (_, Written::Pages(is)) => return Ok(Some((range, Some(is)))),
            (Written::Pages(_), _) | (Written::Never, Written::Cleared) => {
                return Ok(Some((range, None)));
            }
            (Written::Never | Written::Cleared, _) => {}
        }
    }
}
