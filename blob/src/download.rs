//! Download: reads a blob chunk by chunk from one snapshot, so that overwriting the blob meanwhile
//! has no effect.

use crate::cipher::CustomerKey;
use crate::error::{Error, Result, missing};
use crate::keyspaces::Keyspaces;
use crate::model::{Blob, Content, Layer};
use crate::parts::Parts;
use bytes::Bytes;
use lazurite_engine::{Keyspace, Snapshot, ValueReader};
use std::ops::Range;

/// Maximum number of parts that are read at once for a caller that must not block long.
const FEW_PARTS: usize = 64;

/// The range of a request: `bytes=first-last` or `bytes=first-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte; `None` or any offset beyond the end means the end of the blob.
    pub last: Option<u64>,
}

/// The response of Get Blob: the record, and the content to be read.
#[derive(Debug)]
pub struct Download {
    /// The blob; its `length` is that of the whole content, not of the range.
    pub blob: Box<Blob>,
    /// The bytes that `body` reads, end exclusive, if the request has a range; `None` for the whole
    /// blob.
    pub range: Option<Range<u64>>,
    /// Reads the content, or its requested range.
    pub body: BlobReader,
}

/// Reads content once, from front to back. Holds a snapshot until it is dropped, so that even
/// deleted data keeps its space on disk until then.
#[derive(Debug)]
pub struct BlobReader {
    remaining: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Empty,
    Whole(Piece),
    Parts(Box<Parts>),
}

/// The rest of one stored value.
#[derive(Debug)]
pub(crate) struct Piece {
    value: ValueReader,
    offset: u64,
    /// The key, and the content and offset for which the first byte of the value was encrypted.
    sealed: Option<(CustomerKey, u128, u64)>,
}

impl ByteRange {
    /// Returns the requested bytes of a blob of `length` bytes, end exclusive. Error:
    /// `InvalidRange` if there are none.
    pub(crate) fn within(self, length: u64) -> Result<Range<u64>> {
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
        blob: Box<Blob>,
        range: Option<ByteRange>,
        key: Option<CustomerKey>,
    ) -> Result<Download> {
        let range = range.map(|range| range.within(blob.length)).transpose()?;
        let read = range.clone().unwrap_or(0..blob.length);
        let body = BlobReader::open(keyspaces, snapshot, &blob, read, key)?;
        Ok(Download { blob, range, body })
    }
}

impl BlobReader {
    /// Reads a stretch of the blob, end exclusive, which must lie within the blob.
    pub(crate) fn open(
        keyspaces: &Keyspaces,
        snapshot: Snapshot,
        blob: &Blob,
        read: Range<u64>,
        key: Option<CustomerKey>,
    ) -> Result<BlobReader> {
        let first = blob.layers.first().map(|layer| layer.file);
        let source = match (blob.content, first) {
            _ if read.is_empty() => Source::Empty,
            (Content::Whole, Some(file)) => {
                let content = &keyspaces.content;
                let row = file.whole_content();
                let piece = Piece::open(&snapshot, content, &row, read.start)?;
                Source::Whole(piece.sealed(key, file.id, 0))
            }
            (Content::Whole, None) | (Content::Directory { .. }, _) => {
                return Err(missing("a blob with bytes has no file"));
            }
            (Content::Blocks { .. } | Content::Appends { .. }, _) => {
                let layers = blob.layers.clone();
                Source::Parts(Box::new(Parts::of_blocks(
                    keyspaces, snapshot, layers, read.start, key,
                )))
            }
            (Content::Pages { .. }, _) => {
                let layer = Layer::of_pages(&blob.layers)?;
                let read = read.clone();
                Source::Parts(Box::new(Parts::of_pages(
                    keyspaces, snapshot, layer, read, key,
                )))
            }
        };
        Ok(BlobReader {
            remaining: read.end - read.start,
            source,
        })
    }

    /// Number of bytes not yet read.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the next bytes: at least one, at most `bytes_max`, where 0 counts as 1. `None` at
    /// the end. Small blocks and extents are joined, up to 256 KiB. Blocks for the disk. Errors:
    /// those of the engine; `InternalError` if content is missing.
    pub fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        self.chunk(bytes_max, usize::MAX)
    }

    /// Like [`BlobReader::next_chunk`], but reads a bounded number of small blocks or extents, for
    /// a caller that must not block long.
    pub fn next_chunk_at_once(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        self.chunk(bytes_max, FEW_PARTS)
    }

    /// Whether the content is made of blocks, appends or pages, of which a chunk may need many.
    pub fn is_in_parts(&self) -> bool {
        matches!(self.source, Source::Parts(_))
    }

    fn chunk(&mut self, bytes_max: usize, parts_max: usize) -> Result<Option<Bytes>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let wanted = (bytes_max.max(1) as u64).min(self.remaining) as usize;
        let chunk = self.source.next(wanted, parts_max)?;
        self.remaining -= chunk.len() as u64;
        Ok(Some(chunk))
    }
}

impl BlobReader {
    /// Frees the memory of data that was read ahead and not returned. The next call reads that data
    /// again.
    pub fn release(&mut self) {
        match &mut self.source {
            Source::Whole(piece) => piece.value.release(),
            Source::Parts(parts) => parts.release(),
            Source::Empty => {}
        }
    }
}

impl Source {
    /// The next bytes, at least one, from at most `parts_max` parts. Errors: those of the engine;
    /// `InternalError` if the content has ended.
    fn next(&mut self, bytes_max: usize, parts_max: usize) -> Result<Bytes> {
        let chunk = match self {
            Source::Empty => Bytes::new(),
            Source::Whole(piece) => piece.next(bytes_max)?,
            Source::Parts(parts) => parts.next(bytes_max, parts_max)?,
        };
        if chunk.is_empty() {
            return Err(missing("content ends before the length of its blob"));
        }
        Ok(chunk)
    }
}

impl Piece {
    pub(crate) fn open(
        snapshot: &Snapshot,
        content: &Keyspace,
        key: &[u8],
        offset: u64,
    ) -> Result<Piece> {
        let value = snapshot.open_value(content, key)?;
        let value = value.ok_or_else(|| missing("a blob refers to content that is not there"))?;
        Ok(Piece {
            value,
            offset,
            sealed: None,
        })
    }

    /// Makes reads decrypt if there is a key. The first byte of the value was encrypted as the byte
    /// at `offset` of `content`.
    pub(crate) fn sealed(self, key: Option<CustomerKey>, content: u128, offset: u64) -> Piece {
        let sealed = key.map(|key| (key, content, offset));
        Piece { sealed, ..self }
    }

    /// The next bytes, at most `bytes_max`; empty at the end of the value.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Bytes> {
        let mut chunk = self.value.read_at(self.offset, bytes_max)?;
        if let Some((key, content, offset)) = &self.sealed {
            let mut plain = chunk.to_vec();
            key.apply(*content, offset + self.offset, &mut plain);
            chunk = plain.into();
        }
        self.offset += chunk.len() as u64;
        Ok(chunk)
    }
}
