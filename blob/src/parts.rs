//! Parts: reads a blob of many contents, be they blocks, appends or extents of pages, as one sequence of bytes.
//!
//! What is read next is looked up a few hundred parts at a time, in the order of the contents' rows. Contents that were written one
//! after another stand next to each other, so most lookups are one step of a scan.

use crate::Keyspaces;
use crate::cipher::CustomerKey;
use crate::codec;
use crate::download::{Key, missing};
use crate::error::{Error, Result};
use crate::keys;
use crate::model::Layer;
use crate::pages::{Overlay, Written};
use bytes::{Bytes, BytesMut};
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot, ValueReader};
use std::cmp::Ordering;
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
    /// Parts that are named and not read to their end.
    named: VecDeque<Part>,
    /// How many of them, from the front, have their values.
    looked_up: usize,
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
    /// Bytes of the content before those of the part that are left.
    skipped: u64,
    /// The content and the offset that the first byte of the row's content was encrypted at.
    sealed_as: (u128, u64),
    /// Once it was looked up.
    value: Option<ValueReader>,
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
            named: VecDeque::new(),
            looked_up: 0,
        }
    }

    /// Some of the next bytes, of one part; empty at the end. No more than `parts_max` parts are looked up for it.
    pub(crate) fn next(&mut self, bytes_max: usize, parts_max: usize) -> Result<Bytes> {
        let key = self.key;
        let Some((part, wanted)) = self.first(bytes_max, parts_max)? else {
            return Ok(Bytes::new());
        };
        let chunk = match &mut part.content {
            Some(content) => content.next(wanted, key.as_ref())?,
            None => Bytes::from_static(&ZEROS[..wanted.min(ZEROS.len())]),
        };
        self.pass(chunk.len());
        Ok(chunk)
    }

    /// Appends what [`Parts::next`] would return to `buffer`, without making anything of its own of it. Returns how many bytes these are.
    pub(crate) fn append_next(
        &mut self,
        bytes_max: usize,
        parts_max: usize,
        buffer: &mut BytesMut,
    ) -> Result<usize> {
        let key = self.key;
        let Some((part, wanted)) = self.first(bytes_max, parts_max)? else {
            return Ok(0);
        };
        let length = match &mut part.content {
            Some(content) => content.append_next(wanted, key.as_ref(), buffer)?,
            None => {
                buffer.resize(buffer.len() + wanted, 0);
                wanted
            }
        };
        self.pass(length);
        Ok(length)
    }

    /// The first part that has bytes left, which was looked up, and how many of them are wanted.
    fn first(&mut self, bytes_max: usize, parts_max: usize) -> Result<Option<(&mut Part, usize)>> {
        if self.looked_up == 0 {
            self.look_ahead(bytes_max as u64, parts_max.min(PARTS_AT_ONCE))?;
        }
        let part = self.named.front_mut();
        Ok(part.map(|part| {
            let wanted = (bytes_max as u64).min(part.length) as usize;
            (part, wanted)
        }))
    }

    /// Goes on behind so many bytes of the first part.
    fn pass(&mut self, bytes: usize) {
        if let Some(part) = self.named.front_mut() {
            part.length -= bytes as u64;
            if part.length == 0 {
                self.named.pop_front();
                self.looked_up -= 1;
            }
        }
    }

    /// Forgets the contents that were looked up and not read to their end.
    pub(crate) fn release(&mut self) {
        self.contents.rows = None;
        self.looked_up = 0;
        for content in self.named.iter_mut().flat_map(|part| &mut part.content) {
            content.value = None;
        }
    }

    /// Looks up parts of `bytes` or a little more, or `parts_max` parts.
    fn look_ahead(&mut self, bytes: u64, parts_max: usize) -> Result<()> {
        let mut left = bytes.min(BYTES_AT_ONCE);
        let mut count = 0;
        while left > 0 && count < parts_max {
            if count == self.named.len() {
                let Some(part) = self.ahead.next()? else {
                    break;
                };
                self.named.push_back(part);
            }
            left = left.saturating_sub(self.named[count].length);
            count += 1;
        }
        let parts = self.named.range_mut(..count);
        let contents = parts.filter_map(|part| part.content.as_mut());
        self.contents.open(contents.collect())?;
        self.looked_up = count;
        Ok(())
    }
}

impl Content {
    /// Some of the bytes that are left. It was looked up.
    fn next(&mut self, bytes_max: usize, key: Option<&CustomerKey>) -> Result<Bytes> {
        let value = self.value.as_ref().ok_or_else(absent)?;
        let mut chunk = value.read_at(self.skipped, bytes_max)?;
        if let Some(key) = key {
            let (content, offset) = self.sealed_as;
            let mut plain = chunk.to_vec();
            key.apply(content, offset + self.skipped, &mut plain);
            chunk = plain.into();
        }
        self.skipped += chunk.len() as u64;
        Ok(chunk)
    }

    /// As [`Content::next`], onto `buffer`. Returns how many bytes.
    fn append_next(
        &mut self,
        bytes_max: usize,
        key: Option<&CustomerKey>,
        buffer: &mut BytesMut,
    ) -> Result<usize> {
        let value = self.value.as_ref().ok_or_else(absent)?;
        let start = buffer.len();
        let length = value.append_at(self.skipped, bytes_max, buffer)?;
        if let Some(key) = key {
            let (content, offset) = self.sealed_as;
            key.apply(content, offset + self.skipped, &mut buffer[start..]);
        }
        self.skipped += length as u64;
        Ok(length)
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
    /// Looks up the values of all. Error: `InternalError` if one is missing.
    fn open(&mut self, mut contents: Vec<&mut Content>) -> Result<()> {
        if contents.len() < SCANNED_MIN {
            for content in contents {
                let value = self.snapshot.open_value(&self.keyspace, &content.row)?;
                content.value = Some(value.ok_or_else(absent)?);
            }
            return Ok(());
        }
        // Most were written in the order in which they are read.
        if !contents.is_sorted_by(|a, b| a.row <= b.row) {
            contents.sort_unstable_by(|a, b| a.row.cmp(&b.row));
        }
        let mut last: Option<&Content> = None;
        for content in contents {
            // Several extents may have parts of one content.
            content.value = match last.filter(|last| last.row == content.row) {
                Some(last) => last.value.clone(),
                None => Some(self.scan_to(&content.row)?),
            };
            last = Some(content);
        }
        Ok(())
    }

    fn scan_to(&mut self, row: &[u8]) -> Result<ValueReader> {
        let mut passed = 0;
        while let Some(rows) = &mut self.rows
            && passed < PASSED_MAX
        {
            match rows.key().cmp(row) {
                Ordering::Less => {
                    passed += 1;
                    if !rows.advance()? {
                        self.rows = None;
                    }
                }
                Ordering::Equal => return Ok(rows.open_value()?),
                Ordering::Greater => break,
            }
        }
        let rows = self.rows.get_or_insert_with(|| {
            self.snapshot
                .scan(&self.keyspace, KeyRange::all(), Direction::Forward)
        });
        rows.seek(row);
        if rows.advance()? && rows.key() == row {
            return Ok(rows.open_value()?);
        }
        self.rows = None;
        Err(absent())
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
                value: None,
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
            value: None,
        }),
        Written::Never | Written::Cleared => None,
    };
    Ok(Some(Part {
        length: segment.range.end - segment.range.start,
        content,
    }))
}

fn absent() -> Error {
    missing("a blob refers to content that is not there")
}
