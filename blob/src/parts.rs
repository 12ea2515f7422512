//! Parts: reads a blob of many contents, be they blocks, appends or extents of pages, as one sequence of bytes.
//!
//! What is read next is looked up a few hundred parts at a time, in the order of the contents' rows. Contents that were written one
//! after another stand next to each other, so most lookups are one step of a scan.

use crate::Keyspaces;
use crate::codec;
use crate::download::{Key, Piece, missing};
use crate::error::{Error, Result};
use crate::keys;
use crate::model::Layer;
use crate::pages::{Overlay, Written};
use bytes::Bytes;
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot, ValueReader};
use std::collections::VecDeque;

/// Parts are looked up together until they have this many bytes, or are this many.
const BYTES_AT_ONCE: u64 = 256 << 10;
const PARTS_AT_ONCE: usize = 512;
/// Fewer contents than this are looked up one by one.
const SCANNED_MIN: usize = 4;
/// Rows that a scan passes on its way to a content before it seeks.
const PASSED_MAX: usize = 4;

/// Zeros are read in pieces of this many bytes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Reads parts from front to back.
#[derive(Debug)]
pub(crate) struct Parts {
    contents: Contents,
    key: Key,
    ahead: Ahead,
    /// Parts that were looked up and not read to their end, and what is left of them; without a piece those of zeros.
    open: VecDeque<(Part, Option<Piece>)>,
    /// Parts behind those, which were looked up and are to be once more.
    released: VecDeque<Part>,
}

/// Where the next parts are named.
#[derive(Debug)]
enum Ahead {
    Blocks(Box<Blocks>),
    Pages(Overlay),
}

/// A part of a blob.
#[derive(Debug)]
struct Part {
    length: u64,
    /// `None` for zeros.
    content: Option<Content>,
}

/// Where the bytes of a part are.
#[derive(Debug)]
struct Content {
    row: Vec<u8>,
    /// Bytes of the content before those of the part.
    skipped: u64,
    /// The content and the offset that the first byte of the row's content was encrypted at.
    sealed_as: (u128, u64),
}

impl Parts {
    /// The blocks or appends of a blob, from an offset on.
    pub(crate) fn of_blocks(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        layers: Vec<Layer>,
        offset: u64,
        key: Key,
    ) -> Parts {
        let blocks = Blocks {
            snapshot: snapshot.clone(),
            keyspace: keyspaces.blocks.clone(),
            layers: layers.into_iter(),
            rows: None,
            offset,
        };
        Parts::new(keyspaces, snapshot, Ahead::Blocks(Box::new(blocks)), key)
    }

    /// The pages that an overlay shows.
    pub(crate) fn of_pages(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        overlay: Overlay,
        key: Key,
    ) -> Parts {
        Parts::new(keyspaces, snapshot, Ahead::Pages(overlay), key)
    }

    fn new(keyspaces: &Keyspaces, snapshot: Snapshot, ahead: Ahead, key: Key) -> Parts {
        Parts {
            contents: Contents {
                snapshot,
                keyspace: keyspaces.content.clone(),
                rows: None,
            },
            key,
            ahead,
            open: VecDeque::new(),
            released: VecDeque::new(),
        }
    }

    /// Some of the next bytes, of one part; empty at the end.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Bytes> {
        while self.open.front().is_some_and(|(part, _)| part.length == 0) {
            self.open.pop_front();
        }
        if self.open.is_empty() {
            self.look_ahead(bytes_max as u64)?;
        }
        let Some((part, piece)) = self.open.front_mut() else {
            return Ok(Bytes::new());
        };
        let wanted = (bytes_max as u64).min(part.length) as usize;
        let chunk = match piece {
            Some(piece) => piece.next(wanted)?,
            None => Bytes::from_static(&ZEROS[..wanted.min(ZEROS.len())]),
        };
        part.length -= chunk.len() as u64;
        Ok(chunk)
    }

    /// Forgets the contents that were looked up and not read to their end.
    pub(crate) fn release(&mut self) {
        self.contents.rows = None;
        for (mut part, piece) in self.open.drain(..).rev() {
            if let (Some(content), Some(piece)) = (&mut part.content, piece) {
                content.skipped = piece.offset();
            }
            if part.length > 0 {
                self.released.push_front(part);
            }
        }
    }

    fn next_part(&mut self) -> Result<Option<Part>> {
        match self.released.pop_front() {
            Some(part) => Ok(Some(part)),
            None => self.ahead.next(),
        }
    }

    /// Looks up parts of `bytes` or a little more.
    fn look_ahead(&mut self, bytes: u64) -> Result<()> {
        let (mut parts, mut left) = (Vec::new(), bytes.min(BYTES_AT_ONCE));
        while left > 0 && parts.len() < PARTS_AT_ONCE {
            let Some(part) = self.next_part()? else {
                break;
            };
            left = left.saturating_sub(part.length);
            parts.push(part);
        }
        let rows: Vec<&[u8]> = parts
            .iter()
            .filter_map(|part| Some(&part.content.as_ref()?.row[..]))
            .collect();
        let mut values = self.contents.open(&rows)?.into_iter();
        for part in parts {
            let piece = part.content.as_ref().map(|content| {
                let value = values.next().expect("each row has a value");
                let (sealed_as, offset) = content.sealed_as;
                Piece::new(value, content.skipped).sealed(self.key, sealed_as, offset)
            });
            self.open.push_back((part, piece));
        }
        Ok(())
    }
}

/// Looks up contents.
#[derive(Debug)]
struct Contents {
    snapshot: Snapshot,
    keyspace: Keyspace,
    /// Where the last search ended, if several contents were looked up.
    rows: Option<Scan>,
}

impl Contents {
    /// The contents of these rows, in their order. Error: `InternalError` if one is missing.
    fn open(&mut self, rows: &[&[u8]]) -> Result<Vec<ValueReader>> {
        if rows.len() < SCANNED_MIN {
            let open = |row: &&[u8]| {
                let value = self.snapshot.open_value(&self.keyspace, row)?;
                value.ok_or_else(absent)
            };
            return rows.iter().map(open).collect();
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&at| rows[at]);
        let mut values: Vec<Option<ValueReader>> = vec![None; rows.len()];
        let mut last: Option<usize> = None;
        for at in order {
            // Several extents may have parts of one content.
            let same = last.filter(|&last| rows[last] == rows[at]);
            values[at] = match same {
                Some(last) => values[last].clone(),
                None => Some(self.scan_to(rows[at])?),
            };
            last = Some(at);
        }
        Ok(values.into_iter().flatten().collect())
    }

    fn scan_to(&mut self, row: &[u8]) -> Result<ValueReader> {
        let mut passed = 0;
        if let Some(rows) = &mut self.rows {
            while rows.key() < row && passed < PASSED_MAX {
                passed += 1;
                if !rows.advance()? {
                    self.rows = None;
                    return Err(absent());
                }
            }
        }
        let mut rows = match self.rows.take() {
            Some(rows) => rows,
            None => {
                let all = KeyRange::all();
                let mut rows = self.snapshot.scan(&self.keyspace, all, Direction::Forward);
                rows.seek(row);
                advanced(rows)?
            }
        };
        if rows.key() != row {
            rows.seek(row);
            rows = advanced(rows)?;
        }
        let rows = self.rows.insert(rows);
        if rows.key() != row {
            return Err(absent());
        }
        Ok(rows.open_value()?)
    }
}

/// The rest of a block list, or of the appends of an append blob: the rows of the present layer, and the layers after it.
#[derive(Debug)]
struct Blocks {
    snapshot: Snapshot,
    keyspace: Keyspace,
    layers: std::vec::IntoIter<Layer>,
    rows: Option<(Layer, Scan)>,
    /// Where the next part begins.
    offset: u64,
}

impl Ahead {
    fn next(&mut self) -> Result<Option<Part>> {
        match self {
            Ahead::Blocks(blocks) => blocks.next(),
            Ahead::Pages(overlay) => next_pages(overlay),
        }
    }
}

impl Blocks {
    fn next(&mut self) -> Result<Option<Part>> {
        if !self.next_row()? {
            return Ok(None);
        }
        let gap = || missing("a block list has a gap");
        let (layer, rows) = self.rows.as_ref().ok_or_else(gap)?;
        let block = codec::decode_block(&rows.value_in_place()?)?;
        let skipped = keys::end_offset(rows.key())
            .and_then(|end| end.checked_sub(block.length))
            .and_then(|start| self.offset.checked_sub(start))
            .filter(|&skipped| skipped < block.length)
            .ok_or_else(gap)?;
        let file = block.file.unwrap_or(layer.file);
        let length = block.length - skipped;
        self.offset += length;
        Ok(Some(Part {
            length,
            content: Some(Content {
                row: file.block_content(block.content),
                skipped,
                sealed_as: (block.content, 0),
            }),
        }))
    }

    /// Stands on the row of the next block; `false` if there is none.
    fn next_row(&mut self) -> Result<bool> {
        loop {
            if let Some((layer, rows)) = &mut self.rows
                && self.offset < layer.end
            {
                return Ok(rows.advance()?);
            }
            let offset = self.offset;
            let Some(layer) = self.layers.find(|layer| layer.end > offset) else {
                return Ok(false);
            };
            let range = layer.file.committed_from(offset);
            let rows = self
                .snapshot
                .scan(&self.keyspace, range, Direction::Forward);
            self.rows = Some((layer, rows));
        }
    }
}

fn next_pages(overlay: &mut Overlay) -> Result<Option<Part>> {
    let Some(segment) = overlay.next()? else {
        return Ok(None);
    };
    let content = match segment.what {
        Written::Pages(stored) => Some(Content {
            row: stored.content_key(),
            skipped: stored.pages.skipped,
            sealed_as: stored.pages.sealed_as.unwrap_or((stored.pages.content, 0)),
        }),
        Written::Never | Written::Cleared => None,
    };
    Ok(Some(Part {
        length: segment.range.end - segment.range.start,
        content,
    }))
}

fn advanced(mut rows: Scan) -> Result<Scan> {
    if rows.advance()? {
        Ok(rows)
    } else {
        Err(absent())
    }
}

fn absent() -> Error {
    missing("a blob refers to content that is not there")
}
