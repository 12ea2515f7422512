//! Pages: the extents of a page blob's layers as one sequence.
//!
//! A layer is a file as of an epoch: see `windows.rs`. A byte that is written or cleared in a layer hides the same byte of lower
//! layers. A byte that is in no layer is zero and takes no space. A blob has one layer, however many snapshots of it were taken. A
//! copy has the source's layers, and its first write adds one above them.
//!
//! Below the windows of a file are large stretches that were cleared at once, with rows of their
//! own.
//!
//! A content belongs to the extents of one window, in any epoch, that remain of the write that brought it. The remaining ends of an
//! overwritten extent still refer to its content: a write reads nothing and writes only its own bytes. Once less than a quarter of
//! a content is referred to, the rest is copied to contents of its own. So stored bytes are at most four times the readable ones,
//! and copied bytes at most a third of the overwritten ones. Pages of the source's files that a copy hides are removed when they
//! are overwritten again, or with the copy.

use crate::codec;
use crate::error::Result;
use crate::error::missing;
use crate::keys::{self, File};
use crate::keyspaces::Keyspaces;
use crate::model::{Extent, Layer, Pages};
use crate::segment::{Segment, Stored, Written};
use crate::service::BlobService;
use crate::windows::{self, Changes, WindowExtents, Windows};
use lazurite_engine::{Direction, Scan, Snapshot};
use std::ops::Range;

/// The unit of a page blob, in bytes.
pub(crate) const PAGE_BYTES: u64 = 512;
/// The largest ratio of a content's length to that of its parts in use.
pub(crate) const UNREAD_MAX: u64 = 4;

/// The extents of several layers as one sequence of segments.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The topmost layer first.
    layers: Vec<LayerRows>,
    rest: Range<u64>,
}

/// The extents of one layer, or of a part of a layer, in order.
#[derive(Debug)]
struct LayerRows {
    rows: Rows,
    current: Option<(Range<u64>, Option<Stored>)>,
    ended: bool,
}

#[derive(Debug)]
enum Rows {
    Windows(WindowExtents),
    Cleared(Scan),
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
            [windows, Rows::Cleared(extents)]
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

    /// The differences between `layers` and the first `before` of them, the last of which is seen as of the epoch `since`.
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

    /// Moves to the first extent that ends after `offset`.
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
            Rows::Cleared(rows) => {
                if !rows.advance()? {
                    return Ok(None);
                }
                Ok(Some((cleared_at(rows)?, None)))
            }
        }
    }
}

/// The stretch of cleared pages in a row of those below all windows.
pub(crate) fn cleared_at(rows: &Scan) -> Result<Range<u64>> {
    let start = codec::decode_cleared(&rows.value()?)?;
    let end = keys::end_offset(rows.key()).filter(|&end| start < end);
    let end = end.ok_or_else(|| missing("a stretch of cleared pages has no bytes"))?;
    Ok(start..end)
}

/// The parts of `there` outside `range`.
pub(crate) fn subtract(there: &Range<u64>, range: &Range<u64>) -> Vec<Range<u64>> {
    let before = there.start..there.end.min(range.start);
    let after = there.start.max(range.end)..there.end;
    let parts = [before, after].into_iter();
    parts.filter(|part| !part.is_empty()).collect()
}

impl Extent {
    /// The parts of the extent outside `range`.
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
    /// Whether there are extents below the windows of a file.
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
    fn subtraction_leaves_the_parts_outside() {
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
