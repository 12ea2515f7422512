//! Pages: the extents of a page blob, layer over layer, as one sequence.
//!
//! A layer is a file as of an epoch: see `windows.rs`. What a layer says of a byte hides what lower ones say: that it was written,
//! or that it was cleared. Where none says anything the byte is zero and takes no space. A blob has one layer, whatever snapshots
//! of it were taken; a copy of it has the source's, and gets one of its own over it when it is written to.
//!
//! Under the windows of a file lie the extents that have rows of their own: stretches that were cleared at once, and in stores of
//! before there were windows, all.
//!
//! A content belongs to the extents of one window that are what is left of the write it came with, in any epoch. An overwritten
//! extent leaves its ends, which go on to name its content: a write reads nothing and writes what it brings. Once less than a quarter
//! of a content is read, what is left is copied to contents of its own, so that what is stored is never more than four times what can
//! be read, and what is copied never more than a third of what was overwritten. What a copy hides of files that were its source's
//! goes when it is written over again, or with the copy.

use crate::codec;
use crate::download::missing;
use crate::error::Result;
use crate::keys::{self, ContentName, File};
use crate::model::{Extent, Layer, PageExtent, Pages};
use crate::windows::{self, Changes, WindowExtents, Windows};
use crate::{BlobService, Keyspaces};
use lazurite_engine::{Direction, Scan, Snapshot};
use std::ops::Range;

/// The unit of a page blob, in bytes.
pub(crate) const PAGE_BYTES: u64 = 512;
/// How many times what is read of a content the whole of it may be.
pub(crate) const UNREAD_MAX: u64 = 4;

/// A stretch of a page blob of which one layer, or none, has something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) range: Range<u64>,
    pub(crate) what: Written,
}

/// What is known of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Never,
    Cleared,
    /// What the extent of the stretch has of its content, cut to begin with the stretch.
    Pages(Stored),
}

/// Pages and where their content is filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: File,
    /// The window that they belong to; `None` of those that have a row of their own.
    pub(crate) window: Option<u64>,
    pub(crate) pages: Pages,
}

impl Stored {
    pub(crate) fn content_name(&self) -> ContentName {
        ContentName {
            file: self.file,
            window: self.window,
            content: self.pages.content,
        }
    }

    fn skip(mut self, bytes: u64) -> Stored {
        self.pages.skipped += bytes;
        self
    }
}

impl Segment {
    /// What there is at the start of the segment, which then begins at `start`.
    pub(crate) fn advance(&mut self, start: u64) -> Written {
        let what = self.what;
        if let Written::Pages(stored) = what {
            self.what = Written::Pages(stored.skip(start - self.range.start));
        }
        self.range.start = start;
        what
    }
}

/// The extents of several layers as one sequence of segments.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The topmost first.
    layers: Vec<LayerRows>,
    rest: Range<u64>,
}

/// What one layer, or one part of it, says, in order.
#[derive(Debug)]
struct LayerRows {
    rows: Rows,
    current: Option<(Range<u64>, Option<Stored>)>,
    ended: bool,
}

#[derive(Debug)]
enum Rows {
    Windows(WindowExtents),
    Extents(File, Scan),
    Changes(Box<Changes>),
}

impl Overlay {
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        layers: &[Layer],
        range: Range<u64>,
    ) -> Overlay {
        let rows = |layer: &Layer| {
            let first = windows::first_window(range.start);
            let windows = Windows::new(keyspaces, snapshot, layer.file, layer.end, first);
            let windows = Rows::Windows(WindowExtents::new(windows));
            let extents = layer.file.extents_from(range.start);
            let extents = snapshot.scan(&keyspaces.blocks, extents, Direction::Forward);
            let extents = Rows::Extents(layer.file, extents);
            layer
                .windowed
                .then_some(windows)
                .into_iter()
                .chain([extents])
        };
        Overlay {
            layers: layers
                .iter()
                .rev()
                .flat_map(rows)
                .map(LayerRows::new)
                .collect(),
            rest: range,
        }
    }

    /// The windows of a file as of an epoch, and nothing under them.
    pub(crate) fn of_windows(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        (file, epoch): (File, u64),
        range: Range<u64>,
    ) -> Overlay {
        let first = windows::first_window(range.start);
        let windows = Windows::new(keyspaces, snapshot, file, epoch, first);
        let rows = Rows::Windows(WindowExtents::new(windows));
        Overlay {
            layers: vec![LayerRows::new(rows)],
            rest: range,
        }
    }

    /// What of `layers` is other than in the first `before` of them, the last of which was seen as of the epoch `since`.
    pub(crate) fn of_changes(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        layers: &[Layer],
        (before, since): (usize, u64),
        range: Range<u64>,
    ) -> Overlay {
        let mut overlay = Overlay::new(keyspaces, snapshot, &layers[before..], range);
        let last = before.checked_sub(1).and_then(|last| layers.get(last));
        if let Some(layer) = last.filter(|layer| layer.end > since) {
            let epochs = [since, layer.end];
            let start = overlay.rest.start;
            let changes = Changes::new(keyspaces, snapshot, layer.file, epochs, start);
            let changes = LayerRows::new(Rows::Changes(Box::new(changes)));
            overlay.layers.push(changes);
        }
        overlay
    }

    /// The next segment; `None` at the end of the range.
    pub(crate) fn next(&mut self) -> Result<Option<Segment>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let start = self.rest.start;
        let mut end = self.rest.end;
        let mut what = Written::Never;
        for layer in &mut self.layers {
            layer.load(start)?;
            let Some((range, stored)) = &layer.current else {
                continue;
            };
            if range.start > start {
                end = end.min(range.start);
                continue;
            }
            end = end.min(range.end);
            what = match stored {
                None => Written::Cleared,
                Some(stored) => Written::Pages(stored.skip(start - range.start)),
            };
            break;
        }
        self.rest.start = end;
        Ok(Some(Segment {
            range: start..end,
            what,
        }))
    }
}

impl LayerRows {
    fn new(rows: Rows) -> LayerRows {
        LayerRows {
            rows,
            current: None,
            ended: false,
        }
    }

    /// Stands on the first extent that ends behind `offset`.
    fn load(&mut self, offset: u64) -> Result<()> {
        while !self.ended
            && self
                .current
                .as_ref()
                .is_none_or(|(range, _)| range.end <= offset)
        {
            self.current = self.rows.next()?;
            self.ended = self.current.is_none();
        }
        Ok(())
    }
}

impl Rows {
    fn next(&mut self) -> Result<Option<(Range<u64>, Option<Stored>)>> {
        match self {
            Rows::Windows(extents) => extents.next(),
            Rows::Changes(changes) => changes.next(),
            Rows::Extents(file, rows) => {
                if !rows.advance()? {
                    return Ok(None);
                }
                let (range, extent) = extent_at(rows)?;
                let stored = |pages| Stored {
                    file: *file,
                    window: None,
                    pages,
                };
                Ok(Some((range, extent.pages.map(stored))))
            }
        }
    }
}

pub(crate) fn extent_at(rows: &Scan) -> Result<(Range<u64>, PageExtent)> {
    let extent = codec::decode_extent(&rows.value()?)?;
    let end = keys::end_offset(rows.key()).filter(|&end| extent.start < end);
    let end = end.ok_or_else(|| missing("an extent of pages has no bytes"))?;
    Ok((extent.start..end, extent))
}

/// What of `there` does not lie in `range`.
pub(crate) fn subtract(there: &Range<u64>, range: &Range<u64>) -> Vec<Range<u64>> {
    let before = there.start..there.end.min(range.start);
    let after = there.start.max(range.end)..there.end;
    let parts = [before, after].into_iter();
    parts.filter(|part| !part.is_empty()).collect()
}

impl Extent {
    /// What of the extent does not lie in `range`.
    pub(crate) fn without(&self, range: &Range<u64>) -> impl Iterator<Item = Extent> {
        let (start, pages) = (self.range.start, self.pages);
        subtract(&self.range, range).into_iter().map(move |range| {
            let pages = pages.map(|pages| Pages {
                skipped: pages.skipped + (range.start - start),
                ..pages
            });
            Extent { range, pages }
        })
    }
}

impl BlobService {
    /// Whether there is something under the windows of a file.
    pub(crate) fn has_extents(&self, file: File) -> Result<bool> {
        let snapshot = self.db.snapshot();
        let extents = file.extents_from(0);
        let mut rows = snapshot.scan(&self.keyspaces.blocks, extents, Direction::Forward);
        Ok(rows.advance()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_leaves_what_lies_outside() {
        let range = 10..20;
        for (there, expected) in [
            (0..5, &[(0, 5)][..]),
            (0..10, &[(0, 10)]),
            (12..18, &[]),
            (5..15, &[(5, 10)]),
            (15..25, &[(20, 25)]),
            (5..50, &[(5, 10), (20, 50)]),
            (20..30, &[(20, 30)]),
        ] {
            let left = subtract(&there, &range).into_iter();
            let left: Vec<_> = left.map(|range| (range.start, range.end)).collect();
            assert_eq!(left, expected, "{there:?}");
        }
    }
}
