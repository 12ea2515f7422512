//! Pages: the extents of a page blob, layer over layer, as one sequence; and room for new ones in the topmost layer.
//!
//! A layer is a row of extents that do not overlap, by the offset where they end. What a layer says of a byte hides what lower
//! ones say: that it was written, or that it was cleared. Where none says anything the byte is zero and takes no space. Only
//! the topmost layer is written to, and only while no other record names it: so a snapshot keeps what it saw, and what lies in
//! the layers above a snapshot's is exactly what has changed since.
//!
//! What lies hidden under other layers is dropped at once if no other record names the layer, and else when the last one that
//! did is deleted. Every content belongs to one extent. An overwritten extent leaves its ends; an end that is less than half of its content is
//! copied to a content of its own, so that what is stored is never more than twice what can be read, and a write never copies
//! more than one content at each of its ends.

use crate::codec;
use crate::download::{Key, Piece, missing};
use crate::error::Result;
use crate::keys::{self, File};
use crate::model::{Layer, PageExtent, Pages};
use crate::upload::Uploaded;
use crate::{BlobService, Keyspaces};
use bytes::Bytes;
use lazurite_engine::{Batch, Direction, Scan, Snapshot};
use std::ops::Range;

/// The unit of a page blob, in bytes.
pub(crate) const PAGE_BYTES: u64 = 512;
/// Zeros are read in pieces of this many bytes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

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
    /// The file of the content, and what the extent of the stretch has of it, cut to begin with the stretch.
    Pages(File, Pages),
}

/// The extents of several layers as one sequence of segments.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The topmost first.
    layers: Vec<LayerRows>,
    rest: Range<u64>,
}

#[derive(Debug)]
struct LayerRows {
    file: File,
    rows: Scan,
    current: Option<(Range<u64>, Option<Pages>)>,
    ended: bool,
}

impl Overlay {
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: &Snapshot,
        layers: &[Layer],
        range: Range<u64>,
    ) -> Overlay {
        let rows = |layer: &Layer| LayerRows {
            file: layer.file,
            rows: snapshot.scan(
                &keyspaces.blocks,
                layer.file.extents_from(range.start),
                Direction::Forward,
            ),
            current: None,
            ended: false,
        };
        Overlay {
            layers: layers.iter().rev().map(rows).collect(),
            rest: range,
        }
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
            let Some((range, pages)) = &layer.current else {
                continue;
            };
            if range.start > start {
                end = end.min(range.start);
                continue;
            }
            end = end.min(range.end);
            what = match pages {
                None => Written::Cleared,
                Some(pages) => {
                    let skipped = pages.skipped + (start - range.start);
                    Written::Pages(layer.file, Pages { skipped, ..*pages })
                }
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
    /// Stands on the first extent that ends behind `offset`.
    fn load(&mut self, offset: u64) -> Result<()> {
        while !self.ended
            && self
                .current
                .as_ref()
                .is_none_or(|(range, _)| range.end <= offset)
        {
            if self.rows.advance()? {
                let (range, extent) = extent_at(&self.rows)?;
                self.current = Some((range, extent.pages));
            } else {
                self.current = None;
                self.ended = true;
            }
        }
        Ok(())
    }
}

fn extent_at(rows: &Scan) -> Result<(Range<u64>, PageExtent)> {
    let extent = codec::decode_extent(&rows.value()?)?;
    let end = keys::end_offset(rows.key()).filter(|&end| extent.start < end);
    let end = end.ok_or_else(|| missing("an extent of pages has no bytes"))?;
    Ok((extent.start..end, extent))
}

/// Reads a page blob from front to back.
#[derive(Debug)]
pub(crate) struct PageReader {
    snapshot: Snapshot,
    keyspaces: Keyspaces,
    overlay: Overlay,
    key: Key,
    /// What is left of the present segment, and where its bytes come from; `None` for zeros.
    current: Option<(u64, Option<Piece>)>,
}

impl PageReader {
    pub(crate) fn new(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        layers: &[Layer],
        range: Range<u64>,
        key: Key,
    ) -> PageReader {
        PageReader {
            overlay: Overlay::new(keyspaces, &snapshot, layers, range),
            keyspaces: keyspaces.clone(),
            snapshot,
            key,
            current: None,
        }
    }

    /// Empty at the end.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Bytes> {
        loop {
            if let Some((left, piece)) = &mut self.current
                && *left > 0
            {
                let wanted = (bytes_max as u64).min(*left) as usize;
                let chunk = match piece {
                    Some(piece) => piece.next(wanted)?,
                    None => Bytes::from_static(&ZEROS[..wanted.min(ZEROS.len())]),
                };
                *left -= chunk.len() as u64;
                return Ok(chunk);
            }
            let Some(segment) = self.overlay.next()? else {
                return Ok(Bytes::new());
            };
            self.current = Some((
                segment.range.end - segment.range.start,
                self.open(&segment)?,
            ));
        }
    }

    fn open(&self, segment: &Segment) -> Result<Option<Piece>> {
        let Written::Pages(file, pages) = segment.what else {
            return Ok(None);
        };
        let row = file.block_content(pages.content);
        let content = &self.keyspaces.content;
        let piece = Piece::open(&self.snapshot, content, &row, pages.skipped)?;
        let (sealed_as, offset) = pages.counter();
        Ok(Some(piece.sealed(
            self.key,
            sealed_as,
            offset - pages.skipped,
        )))
    }
}

/// A write to the topmost layer of a page blob, in a batch.
pub(crate) struct PageWrite<'a> {
    pub(crate) service: &'a BlobService,
    pub(crate) batch: &'a mut Batch,
    pub(crate) file: File,
}

impl PageWrite<'_> {
    /// Puts uploaded pages from `start` on, where nothing is any more.
    pub(crate) fn put(&mut self, start: u64, uploaded: Uploaded) {
        let mut start = start;
        for piece in uploaded.into_pieces() {
            let key = self.file.block_content(piece.content);
            let content = &self.service.keyspaces.content;
            piece.value.put(self.batch, content, &key);
            let pages = Pages {
                content: piece.content,
                skipped: 0,
                stored: piece.length,
                sealed_as: None,
            };
            self.put_extent(start..start + piece.length, Some(pages));
            start += piece.length;
        }
    }

    /// Notes that pages are zero, whatever lower layers say.
    pub(crate) fn put_cleared(&mut self, range: Range<u64>) {
        self.put_extent(range, None);
    }

    fn put_extent(&mut self, range: Range<u64>, pages: Option<Pages>) {
        let extent = PageExtent {
            start: range.start,
            pages,
        };
        let blocks = &self.service.keyspaces.blocks;
        let value = codec::encode_extent(&extent);
        self.batch.put(blocks, &self.file.extent(range.end), &value);
    }

    /// Makes room: afterwards the layer has nothing to say of these ranges, which are ascending and do not overlap.
    pub(crate) fn cut(&mut self, ranges: &[Range<u64>]) -> Result<()> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Ok(());
        };
        let blocks = &self.service.keyspaces.blocks;
        let snapshot = self.service.db.snapshot();
        let from = self.file.extents_from(first.start);
        let mut rows = snapshot.scan(blocks, from, Direction::Forward);
        while rows.advance()? {
            let (there, extent) = extent_at(&rows)?;
            if there.start >= last.end {
                break;
            }
            let left = subtract(&there, ranges);
            if left[..] == [there.clone()] {
                continue;
            }
            self.batch.delete(blocks, rows.key());
            self.keep(&snapshot, &there, extent.pages, left)?;
        }
        Ok(())
    }

    /// Puts back what is left of an extent.
    fn keep(
        &mut self,
        snapshot: &Snapshot,
        there: &Range<u64>,
        pages: Option<Pages>,
        left: Vec<Range<u64>>,
    ) -> Result<()> {
        let mut content_kept = false;
        for part in left {
            let Some(pages) = pages else {
                self.put_extent(part, None);
                continue;
            };
            let skipped = pages.skipped + (part.start - there.start);
            let pages = Pages { skipped, ..pages };
            if !content_kept && (part.end - part.start) * 2 >= pages.stored {
                content_kept = true;
                self.put_extent(part, Some(pages));
            } else {
                self.put_copy(snapshot, part, pages)?;
            }
        }
        if let (Some(pages), false) = (pages, content_kept) {
            let key = self.file.block_content(pages.content);
            self.batch.delete(&self.service.keyspaces.content, &key);
        }
        Ok(())
    }

    fn put_copy(&mut self, snapshot: &Snapshot, range: Range<u64>, pages: Pages) -> Result<()> {
        let content = &self.service.keyspaces.content;
        let old = self.file.block_content(pages.content);
        let mut piece = Piece::open(snapshot, content, &old, pages.skipped)?;
        let length = (range.end - range.start) as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let chunk = piece.next(length - bytes.len())?;
            if chunk.is_empty() {
                return Err(missing("an extent of pages is longer than its content"));
            }
            bytes.extend_from_slice(&chunk);
        }
        let copy = self.service.ids.next_id();
        self.batch
            .put(content, &self.file.block_content(copy), &bytes);
        let pages = Pages {
            content: copy,
            skipped: 0,
            stored: range.end - range.start,
            // It is copied as it is, which may be encrypted.
            sealed_as: Some(pages.counter()),
        };
        self.put_extent(range, Some(pages));
        Ok(())
    }
}

/// What of `there` lies in none of `ranges`, which are ascending and do not overlap.
fn subtract(there: &Range<u64>, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut start = there.start;
    let first = ranges.partition_point(|range| range.end <= there.start);
    for range in &ranges[first..] {
        if range.start >= there.end {
            break;
        }
        if range.start > start {
            left.push(start..range.start);
        }
        start = range.end;
    }
    if start < there.end {
        left.push(start..there.end);
    }
    left
}

impl BlobService {
    /// The stretches of which the layers have something to say, ascending; neighbours are one.
    pub(crate) fn covered(&self, layers: &[Layer]) -> Result<Vec<Range<u64>>> {
        let snapshot = self.db.snapshot();
        let mut overlay = Overlay::new(&self.keyspaces, &snapshot, layers, 0..u64::MAX);
        let mut covered: Vec<Range<u64>> = Vec::new();
        while let Some(segment) = overlay.next()? {
            match (segment.what, covered.last_mut()) {
                (Written::Never, _) => {}
                (_, Some(last)) if last.end == segment.range.start => {
                    last.end = segment.range.end;
                }
                _ => covered.push(segment.range),
            }
        }
        Ok(covered)
    }

    /// Whether a layer of a page blob has nothing to say.
    pub(crate) fn is_blank(&self, layer: &Layer) -> Result<bool> {
        let snapshot = self.db.snapshot();
        let extents = layer.file.extents_from(0);
        let mut rows = snapshot.scan(&self.keyspaces.blocks, extents, Direction::Forward);
        Ok(!rows.advance()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_leaves_what_lies_outside() {
        let ranges = [10..20, 30..40];
        for (there, expected) in [
            (0..5, &[(0, 5)][..]),
            (0..10, &[(0, 10)]),
            (12..18, &[]),
            (5..15, &[(5, 10)]),
            (5..50, &[(5, 10), (20, 30), (40, 50)]),
            (20..30, &[(20, 30)]),
            (35..60, &[(40, 60)]),
            (50..60, &[(50, 60)]),
        ] {
            let left = subtract(&there, &ranges).into_iter();
            let left: Vec<_> = left.map(|range| (range.start, range.end)).collect();
            assert_eq!(left, expected, "{there:?}");
        }
    }
}
