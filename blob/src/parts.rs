//! Parts: reads a blob of many contents, be they blocks, appends or extents of pages, as one
//! sequence of bytes.
//!
//! Small parts are read many at a time into one chunk, in the order of the contents' rows. Contents
//! that were written one after another are next to each other, so most reads are one step of a
//! scan.

use crate::cipher::CustomerKey;
use crate::codec;
use crate::error::missing;
use crate::error::{Error, Result};
use crate::keys::{self, ContentName};
use crate::keyspaces::Keyspaces;
use crate::model::Layer;
use crate::pages::{Change, Changes};
use bytes::{Bytes, BytesMut};
use lazurite_engine::{Direction, KeyRange, Keyspace, Scan, Snapshot, ValueReader};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;

/// Parts with fewer bytes are read together: passing a chunk through several threads and the socket
/// costs far more than copying a few hundred bytes.
const SMALL_BYTES: u64 = 64 << 10;
/// A joint read of parts ends at this many bytes, or at this many parts.
const BYTES_AT_ONCE: usize = 256 << 10;
const PARTS_AT_ONCE: usize = 1024;
/// Fewer contents than this are looked up one by one.
const SCANNED_MIN: usize = 4;
/// Rows that a scan passes on its way to a content before it seeks.
const PASSED_MAX: usize = 4;

/// Zeros, which are read in pieces of this length. Allocated at the first use: a constant would be
/// part of the program's file.
static ZEROS: LazyLock<Bytes> = LazyLock::new(|| vec![0; 64 << 10].into());

/// Reads parts from front to back.
#[derive(Debug)]
pub(crate) struct Parts {
    contents: Contents,
    key: Option<CustomerKey>,
    ahead: ReadAhead,
    /// Parts whose contents are known and that are not read to their end.
    named: VecDeque<Part>,
    /// The value of the first of these parts, if it is large and was begun.
    begun: Option<ValueReader>,
}

/// The source of the parts that follow.
#[derive(Debug)]
enum ReadAhead {
    Blocks(Box<Blocks>),
    Pages(Box<PageParts>),
}

/// A part of a blob: a block, an append, or an extent of pages.
#[derive(Debug)]
struct Part {
    length: u64,
    /// Where the bytes are; `None` for zeros.
    content: Option<Content>,
}

/// The content of a part, and the place of the part in it.
#[derive(Debug)]
struct Content {
    name: ContentName,
    /// Number of bytes of the content before the rest of the part.
    skipped: u64,
    /// The content and the offset for which the first byte of the stored content was encrypted.
    sealed_as: (u128, u64),
}

/// The bytes of a part that belong in a chunk, from `start` on.
#[derive(Debug)]
struct Piece<'p> {
    content: Option<&'p Content>,
    start: usize,
    length: usize,
}

impl Parts {
    /// The blocks or appends of a blob, from an offset on.
    pub(crate) fn of_blocks(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        layers: Vec<Layer>,
        offset: u64,
        key: Option<CustomerKey>,
    ) -> Parts {
        let blocks = Blocks {
            snapshot: snapshot.clone(),
            keyspace: keyspaces.blocks.clone(),
            layers: layers.into_iter(),
            rows: None,
            offset,
        };
        Parts::new(
            keyspaces,
            snapshot,
            ReadAhead::Blocks(Box::new(blocks)),
            key,
        )
    }

    /// The parts of a stretch of a page blob.
    pub(crate) fn of_pages(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        layer: &Layer,
        range: Range<u64>,
        key: Option<CustomerKey>,
    ) -> Parts {
        let pages = PageParts {
            changes: Changes::new(keyspaces, &snapshot, None, layer, range.clone()),
            next: None,
            rest: range,
        };
        Parts::new(keyspaces, snapshot, ReadAhead::Pages(Box::new(pages)), key)
    }

    fn new(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        ahead: ReadAhead,
        key: Option<CustomerKey>,
    ) -> Parts {
        Parts {
            contents: Contents {
                snapshot,
                keyspace: keyspaces.content.clone(),
                rows: None,
                sought: Vec::new(),
            },
            key,
            ahead,
            named: VecDeque::new(),
            begun: None,
        }
    }

    /// The next bytes: from one large part, or from up to `parts_max` small ones. Empty at the end.
    pub(crate) fn next(&mut self, bytes_max: usize, parts_max: usize) -> Result<Bytes> {
        let small = self.name_small(bytes_max.min(BYTES_AT_ONCE), parts_max.min(PARTS_AT_ONCE))?;
        let chunk = if small > 0 {
            self.read_small(small)?
        } else {
            self.read_large(bytes_max)?
        };
        self.pass(chunk.len());
        Ok(chunk)
    }

    /// Frees the memory of data that was read ahead and not returned.
    pub(crate) fn release(&mut self) {
        self.contents.rows = None;
        self.begun = None;
    }

    /// Takes the next parts into the list of named parts. Returns how many of the next bytes, at
    /// most `bytes_max`, belong to small parts.
    fn name_small(&mut self, bytes_max: usize, parts_max: usize) -> Result<usize> {
        let (mut bytes, mut count) = (0, 0);
        while bytes < bytes_max && count < parts_max {
            if count == self.named.len() {
                let Some(part) = self.ahead.next()? else {
                    break;
                };
                self.named.push_back(part);
            }
            let length = self.named[count].length;
            if length >= SMALL_BYTES {
                break;
            }
            bytes += (length as usize).min(bytes_max - bytes);
            count += 1;
        }
        Ok(bytes)
    }

    /// The next bytes, `length` in all, of several parts.
    fn read_small(&mut self, length: usize) -> Result<Bytes> {
        let mut start = 0;
        let mut pieces = Vec::new();
        for part in &self.named {
            if start == length {
                break;
            }
            let piece = Piece {
                content: part.content.as_ref(),
                start,
                length: (part.length as usize).min(length - start),
            };
            start += piece.length;
            pieces.push(piece);
        }
        let mut chunk = BytesMut::with_capacity(length);
        self.contents.read(pieces, self.key.as_ref(), &mut chunk)?;
        Ok(chunk.freeze())
    }

    /// Some of the next bytes, all from the first part.
    fn read_large(&mut self, bytes_max: usize) -> Result<Bytes> {
        let Some(part) = self.named.front() else {
            return Ok(Bytes::new());
        };
        let wanted = (bytes_max as u64).min(part.length) as usize;
        let Some(content) = &part.content else {
            return Ok(ZEROS.slice(..wanted.min(ZEROS.len())));
        };
        let value = match self.begun.take() {
            Some(value) => value,
            None => self.contents.open(content.name)?,
        };
        let mut chunk = value.read_at(content.skipped, wanted)?;
        self.begun = Some(value);
        if let Some(key) = &self.key {
            let mut plain = chunk.to_vec();
            content.decrypt(key, &mut plain);
            chunk = plain.into();
        }
        Ok(chunk)
    }

    /// Moves past this many bytes.
    fn pass(&mut self, mut bytes: usize) {
        while bytes > 0
            && let Some(part) = self.named.front_mut()
        {
            let passed = (bytes as u64).min(part.length);
            bytes -= passed as usize;
            part.length -= passed;
            if let Some(content) = &mut part.content {
                content.skipped += passed;
            }
            if part.length == 0 {
                self.named.pop_front();
                self.begun = None;
            }
        }
    }
}

impl Piece<'_> {
    fn name(&self) -> Option<ContentName> {
        self.content.map(|content| content.name)
    }
}

impl Content {
    /// Decrypts bytes from the beginning of the rest of the part.
    fn decrypt(&self, key: &CustomerKey, bytes: &mut [u8]) {
        let (content, offset) = self.sealed_as;
        key.apply(content, offset + self.skipped, bytes);
    }
}

/// Looks up contents by name, and reads them.
#[derive(Debug)]
struct Contents {
    snapshot: Snapshot,
    keyspace: Keyspace,
    /// The scan after the last search, if several contents were looked up.
    rows: Option<Scan>,
    /// The key of the row that is searched for.
    sought: Vec<u8>,
}

impl Contents {
    /// Puts pieces where they belong in `chunk`. Error: `InternalError` if one is missing.
    fn read(
        &mut self,
        mut pieces: Vec<Piece<'_>>,
        key: Option<&CustomerKey>,
        chunk: &mut BytesMut,
    ) -> Result<()> {
        // Most pieces were written in the order in which they are read.
        if !pieces.is_sorted_by(|a, b| a.name() <= b.name()) {
            pieces.sort_unstable_by_key(Piece::name);
        }
        let is_scanned = pieces.len() >= SCANNED_MIN;
        // Several extents may have parts of one large content.
        let mut last: Option<(ContentName, ValueReader)> = None;
        for Piece {
            content,
            start,
            length,
        } in pieces
        {
            let Some(content) = content else {
                reserve(chunk, start, length);
                continue;
            };
            let is_last = last.as_ref().is_some_and(|(name, _)| *name == content.name);
            if is_scanned && !is_last {
                let rows = self.find(content.name)?;
                if let Some(value) = rows.small_value() {
                    let from = content.skipped as usize;
                    let bytes = value.get(from..from + length).ok_or_else(absent)?;
                    put(chunk, start, bytes);
                    if let Some(key) = key {
                        content.decrypt(key, &mut chunk[start..start + length]);
                    }
                    continue;
                }
                last = Some((content.name, rows.open_value()?));
            } else if !is_last {
                last = Some((content.name, self.open(content.name)?));
            }
            let (_, value) = last.as_ref().ok_or_else(absent)?;
            read_value(value, content.skipped, length, start, chunk)?;
            if let Some(key) = key {
                content.decrypt(key, &mut chunk[start..start + length]);
            }
        }
        Ok(())
    }

    fn open(&self, name: ContentName) -> Result<ValueReader> {
        let value = self.snapshot.open_value(&self.keyspace, &name.key())?;
        value.ok_or_else(absent)
    }

    /// The scan, moved to the row of a content.
    fn find(&mut self, name: ContentName) -> Result<&Scan> {
        name.write_key(&mut self.sought);
        if !self.walk()? {
            self.rows = None;
            let mut rows = self
                .snapshot
                .scan(&self.keyspace, KeyRange::all(), Direction::Forward);
            rows.seek(&self.sought);
            if !rows.advance()? || rows.key() != self.sought {
                return Err(absent());
            }
            self.rows = Some(rows);
        }
        self.rows.as_ref().ok_or_else(absent)
    }

    /// Moves the scan to the row that is sought, by a few steps or a seek. Returns `false` if the
    /// row does not exist.
    fn walk(&mut self) -> Result<bool> {
        let Some(rows) = &mut self.rows else {
            return Ok(false);
        };
        for _ in 0..=PASSED_MAX {
            match rows.key().cmp(&self.sought) {
                Ordering::Equal => return Ok(true),
                Ordering::Greater => break,
                Ordering::Less => {
                    if !rows.advance()? {
                        return Ok(false);
                    }
                }
            }
        }
        rows.seek(&self.sought);
        Ok(rows.advance()? && rows.key() == self.sought)
    }
}

/// Puts bytes at `start`, after the bytes of `chunk` or over them.
fn put(chunk: &mut BytesMut, start: usize, bytes: &[u8]) {
    if start == chunk.len() {
        chunk.extend_from_slice(bytes);
    } else {
        reserve(chunk, start, bytes.len());
        chunk[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

/// Copies `length` bytes of a value, from `skipped` on, to `start` in `chunk`. Error:
/// `InternalError` if the value is shorter.
fn read_value(
    value: &ValueReader,
    skipped: u64,
    length: usize,
    start: usize,
    chunk: &mut BytesMut,
) -> Result<()> {
    let mut read = 0;
    while read < length {
        let bytes = value.read_at(skipped + read as u64, length - read)?;
        if bytes.is_empty() {
            return Err(absent());
        }
        put(chunk, start + read, &bytes);
        read += bytes.len();
    }
    Ok(())
}

/// Lengthens `chunk` by zeros until it has `length` bytes from `start` on.
fn reserve(chunk: &mut BytesMut, start: usize, length: usize) {
    let end = chunk.len().max(start + length);
    chunk.resize(end, 0);
}

/// The rest of a block list, or of the appends of an append blob: the rows of the current layer,
/// and the layers after it.
#[derive(Debug)]
struct Blocks {
    snapshot: Snapshot,
    keyspace: Keyspace,
    layers: std::vec::IntoIter<Layer>,
    rows: Option<(Layer, Scan)>,
    /// The offset in the blob at which the next part begins.
    offset: u64,
}

/// The rest of a stretch of pages.
#[derive(Debug)]
struct PageParts {
    changes: Changes,
    /// The next extent, if it has been read.
    next: Option<Change>,
    rest: Range<u64>,
}

impl ReadAhead {
    fn next(&mut self) -> Result<Option<Part>> {
        match self {
            ReadAhead::Blocks(blocks) => blocks.next(),
            ReadAhead::Pages(pages) => pages.next(),
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
                name: ContentName {
                    file,
                    window: None,
                    content: block.content,
                },
                skipped,
                sealed_as: (block.content, 0),
            }),
        }))
    }

    /// Moves to the row of the next block; `false` if there is none.
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

impl PageParts {
    fn next(&mut self) -> Result<Option<Part>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.next.is_none() {
            self.next = self.changes.next()?;
        }
        let start = self.rest.start;
        let change = self.next.take_if(|change| change.range.start == start);
        let end = match (&change, &self.next) {
            (Some(there), _) => there.range.end,
            (None, Some(later)) => later.range.start,
            (None, None) => self.rest.end,
        };
        self.rest.start = end;
        let stored = change.and_then(|change| change.stored);
        let content = stored.map(|stored| Content {
            name: stored.content_name(),
            skipped: stored.pages.skipped,
            sealed_as: stored.pages.sealed_as.unwrap_or((stored.pages.content, 0)),
        });
        let length = end - start;
        Ok(Some(Part { length, content }))
    }
}

fn absent() -> Error {
    missing("a blob refers to content that is not there")
}
