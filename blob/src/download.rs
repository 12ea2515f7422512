//! Download: a blob on its way out, chunk by chunk from one snapshot, so that overwriting it meanwhile does no harm.

use crate::Keyspaces;
use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{self, BlobFiles};
use crate::model::{Blob, Content};
use bytes::Bytes;
use lazurite_engine::{Direction, Keyspace, Scan, Snapshot, ValueReader};
use std::ops::Range;

/// The range a reader asks for: `bytes=first-last` or `bytes=first-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte; `None` and all beyond the end mean the end of the blob.
    pub last: Option<u64>,
}

/// The answer of Get Blob: what is known at once, and the content to be read.
#[derive(Debug)]
pub struct Download {
    /// The blob; its `length` is that of the whole.
    pub blob: Blob,
    /// The bytes that `body` reads, end exclusive, if a range was asked for; `None` for the whole blob.
    pub range: Option<Range<u64>>,
    /// The content.
    pub body: BlobReader,
}

/// Reads content once, from front to back. Holds its snapshot, and so space on disk, until it is dropped.
#[derive(Debug)]
pub struct BlobReader {
    remaining: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Empty,
    Whole(Piece),
    Blocks(Box<Blocks>),
}

/// The rest of one stored value.
#[derive(Debug)]
struct Piece {
    value: ValueReader,
    offset: u64,
}

/// The rest of a block list: what is left of the present block, and the rows of those after it.
#[derive(Debug)]
struct Blocks {
    snapshot: Snapshot,
    content: Keyspace,
    files: BlobFiles,
    rows: Scan,
    offset: u64,
    current: Option<Piece>,
}

impl ByteRange {
    /// The bytes of a blob of `length` that are meant, end exclusive. Error: `InvalidRange` if there are none.
    fn within(self, length: u64) -> Result<Range<u64>> {
        let end = self
            .last
            .map_or(length, |last| last.saturating_add(1).min(length));
        if self.first >= end {
            return Err(Error::InvalidRange { length });
        }
        Ok(self.first..end)
    }
}

impl Download {
    pub(crate) fn open(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        container_id: u128,
        blob: Blob,
        range: Option<ByteRange>,
    ) -> Result<Download> {
        let range = range.map(|range| range.within(blob.length)).transpose()?;
        let read = range.clone().unwrap_or(0..blob.length);
        let files = BlobFiles {
            container_id,
            blob_id: blob.id,
        };
        let source = match blob.content {
            _ if read.is_empty() => Source::Empty,
            Content::Whole => {
                let key = files.whole_content();
                Source::Whole(Piece::open(
                    &snapshot,
                    &keyspaces.content,
                    &key,
                    read.start,
                )?)
            }
            Content::Blocks { .. } => Source::Blocks(Box::new(Blocks {
                rows: snapshot.scan(
                    &keyspaces.blocks,
                    files.committed_from(read.start),
                    Direction::Forward,
                ),
                snapshot,
                content: keyspaces.content.clone(),
                files,
                offset: read.start,
                current: None,
            })),
        };
        let body = BlobReader {
            remaining: read.end - read.start,
            source,
        };
        Ok(Download { blob, range, body })
    }
}

impl BlobReader {
    /// Bytes not yet read.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The next bytes: at least one, at most `bytes_max` (of which 0 counts as 1); `None` at the end. Blocks for the disk.
    /// Errors: those of the engine; `InternalError` if content is missing.
    pub fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let wanted = (bytes_max.max(1) as u64).min(self.remaining) as usize;
        let chunk = match &mut self.source {
            Source::Empty => Bytes::new(),
            Source::Whole(piece) => piece.next(wanted)?,
            Source::Blocks(blocks) => blocks.next(wanted)?,
        };
        if chunk.is_empty() {
            return Err(missing("content ends before the length of its blob"));
        }
        self.remaining -= chunk.len() as u64;
        Ok(Some(chunk))
    }
}

impl Piece {
    fn open(snapshot: &Snapshot, content: &Keyspace, key: &[u8], offset: u64) -> Result<Piece> {
        let value = snapshot.open_value(content, key)?;
        let value = value.ok_or_else(|| missing("a blob refers to content that is not there"))?;
        Ok(Piece { value, offset })
    }

    /// Empty at the end of the value.
    fn next(&mut self, bytes_max: usize) -> Result<Bytes> {
        let chunk = self.value.read_at(self.offset, bytes_max)?;
        self.offset += chunk.len() as u64;
        Ok(chunk)
    }
}

impl Blocks {
    /// Empty at the end of the list.
    fn next(&mut self, bytes_max: usize) -> Result<Bytes> {
        loop {
            if let Some(piece) = &mut self.current {
                let chunk = piece.next(bytes_max)?;
                if !chunk.is_empty() {
                    self.offset += chunk.len() as u64;
                    return Ok(chunk);
                }
            }
            if !self.rows.advance()? {
                return Ok(Bytes::new());
            }
            self.current = Some(self.open_block()?);
        }
    }

    /// Opens the block of the row the scan stands on, at the place where the last one ended.
    fn open_block(&self) -> Result<Piece> {
        let block = codec::decode_block(&self.rows.value()?)?;
        let skipped = keys::end_offset(self.rows.key())
            .and_then(|end| end.checked_sub(block.length))
            .and_then(|start| self.offset.checked_sub(start))
            .filter(|&skipped| skipped < block.length)
            .ok_or_else(|| missing("a block list has a gap"))?;
        let key = self.files.block_content(block.content);
        Piece::open(&self.snapshot, &self.content, &key, skipped)
    }
}

fn missing(reason: &str) -> Error {
    Error::InternalError {
        reason: reason.to_string(),
    }
}
