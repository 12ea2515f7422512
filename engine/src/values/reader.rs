//! ValueReader: reads any part of a value, touching only the chunks it needs.

use crate::Result;
use crate::base::codec::checksum;
use crate::base::config::CHUNK_HEADER_BYTES;
use crate::base::mutex::lock;
use crate::format::pointer::{Extent, ValuePointer};
use crate::values::{Pin, ValueLog};
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// Values up to this length are kept in the cache, like blocks of rows: reading one from a file
/// takes several times as long.
const CACHED_BYTES_MAX: u64 = 16 << 10;

/// Reads one value, or any part of it, and verifies the checksums.
#[derive(Debug, Clone)]
pub struct ValueReader(Source);

#[derive(Debug, Clone)]
enum Source {
    Inline(Bytes),
    Log(Arc<LogValue>),
}

#[derive(Debug)]
struct LogValue {
    log: Arc<ValueLog>,
    pointer: ValuePointer,
    _pins: Vec<Pin>,
    /// The chunk read last, by its offset in the value: small reads come one after another.
    last: Mutex<Option<(u64, Bytes)>>,
}

impl ValueReader {
    pub(crate) fn inline(bytes: Bytes) -> ValueReader {
        ValueReader(Source::Inline(bytes))
    }

    /// Pins the value. Errors: `Corrupt` if a segment is missing.
    pub(crate) fn open(log: Arc<ValueLog>, pointer: ValuePointer) -> Result<ValueReader> {
        let first = pointer.extents.first().map_or(0, |extent| extent.segment);
        let missing = log.missing(first);
        ValueReader::try_open(log, pointer).ok_or(missing)
    }

    /// Opens the value, and keeps it while the reader exists. `None` if a segment is gone, because
    /// the value was moved after the pointer was read.
    pub(crate) fn try_open(log: Arc<ValueLog>, pointer: ValuePointer) -> Option<ValueReader> {
        let pins = log.pin(&pointer)?;
        Some(ValueReader(Source::Log(Arc::new(LogValue {
            log,
            pointer,
            _pins: pins,
            last: Mutex::new(None),
        }))))
    }

    /// Length of the whole value in bytes.
    pub fn length(&self) -> u64 {
        match &self.0 {
            Source::Inline(bytes) => bytes.len() as u64,
            Source::Log(value) => value.pointer.length,
        }
    }

    /// Returns bytes from `offset` on, at most `length_max`: as many as are cheap to return at
    /// once. Empty only at the end of the value, or if `length_max` is 0. Blocks for the disk.
    pub fn read_at(&self, offset: u64, length_max: usize) -> Result<Bytes> {
        if offset >= self.length() || length_max == 0 {
            return Ok(Bytes::new());
        }
        let (start, chunk) = match &self.0 {
            Source::Inline(bytes) => (0, bytes.clone()),
            Source::Log(value) => value.chunk_of(offset)?,
        };
        let from = (offset - start) as usize;
        let end = from.saturating_add(length_max).min(chunk.len());
        if end == chunk.len() {
            // The chunk has been read to its end, so the next read is of another one.
            self.release();
        }
        Ok(chunk.slice(from..end))
    }

    /// Frees the memory of the chunk that is kept for the next read. A later read of the chunk
    /// reads it again.
    pub fn release(&self) {
        if let Source::Log(value) = &self.0 {
            *lock(&value.last) = None;
        }
    }

    /// Like [`ValueReader::read_at`] with no limit, but reads from disk and bypasses the cache: for
    /// verification and collection.
    pub(crate) fn read_file_at(&self, offset: u64) -> Result<Bytes> {
        let Source::Log(value) = &self.0 else {
            return self.read_at(offset, usize::MAX);
        };
        let start = offset - offset % value.pointer.chunk_bytes;
        let chunk = value.read_chunk(start)?;
        Ok(chunk.slice((offset - start) as usize..))
    }

    /// Reads and verifies the whole value, but keeps nothing. Returns its length.
    pub(crate) fn read_through(&self) -> Result<u64> {
        let mut offset = 0;
        while offset < self.length() {
            offset += self.read_file_at(offset)?.len() as u64;
        }
        Ok(offset)
    }

    /// The whole value.
    pub(crate) fn read_all(&self) -> Result<Bytes> {
        let value = match &self.0 {
            Source::Inline(bytes) => return Ok(bytes.clone()),
            Source::Log(value) => value,
        };
        if value.pointer.length <= value.pointer.chunk_bytes {
            return match value.pointer.length {
                0 => Ok(Bytes::new()),
                _ => value.read_chunk(0),
            };
        }
        let expected = value.pointer.length.min(crate::BATCH_BYTES_MAX as u64);
        let mut all = Vec::with_capacity(expected as usize);
        while (all.len() as u64) < self.length() {
            let part = self.read_at(all.len() as u64, usize::MAX)?;
            all.extend_from_slice(&part);
        }
        Ok(all.into())
    }
}

impl LogValue {
    /// The chunk that holds `offset`, and where in the value it starts.
    fn chunk_of(&self, offset: u64) -> Result<(u64, Bytes)> {
        let start = offset - offset % self.pointer.chunk_bytes;
        if let Some((known, chunk)) = &*lock(&self.last)
            && *known == start
        {
            return Ok((start, chunk.clone()));
        }
        let is_small = self.pointer.length <= self.pointer.chunk_bytes.min(CACHED_BYTES_MAX);
        let chunk = if is_small {
            self.read_small()?
        } else {
            self.read_chunk(start)?
        };
        *lock(&self.last) = Some((start, chunk.clone()));
        Ok((start, chunk))
    }

    /// A value of one chunk, from the cache if it is there.
    fn read_small(&self) -> Result<Bytes> {
        let Some(Extent {
            segment, offset, ..
        }) = self.pointer.extents.first().copied()
        else {
            return Ok(Bytes::new());
        };
        let cache = &self.log.cache;
        if let Some(value) = cache.present(segment, offset) {
            return Ok(value);
        }
        let value = self.read_chunk(0)?;
        cache.insert(segment, offset, value.clone());
        Ok(value)
    }

    fn read_chunk(&self, start: u64) -> Result<Bytes> {
        let mut before = 0;
        for extent in &self.pointer.extents {
            if start < before + extent.length {
                return read_chunk(&self.log, extent, self.pointer.chunk_bytes, start - before);
            }
            before += extent.length;
        }
        unreachable!("the extents add up to the length, which the caller has checked")
    }
}

/// Reads the chunk that starts `inside` bytes after the start of the extent; `inside` must be a
/// multiple of the chunk length.
fn read_chunk(log: &ValueLog, extent: &Extent, chunk_bytes: u64, inside: u64) -> Result<Bytes> {
    let file = log.file(extent.segment)?;
    let headers = inside / chunk_bytes * CHUNK_HEADER_BYTES as u64;
    let offset = extent
        .offset
        .checked_add(inside)
        .and_then(|offset| offset.checked_add(headers));
    let offset = offset.ok_or_else(|| file.corrupt(0, "a pointer names a chunk out of bounds"))?;
    let length = chunk_bytes.min(extent.length - inside) as usize;
    let mut bytes = Bytes::from(file.read_exact(offset, CHUNK_HEADER_BYTES + length)?);
    let head = bytes.split_to(CHUNK_HEADER_BYTES);
    let sum = u64::from_le_bytes(head[4..].try_into().expect("eight bytes follow"));
    let right_length = head[..4] == (length as u32).to_le_bytes();
    if right_length && sum == checksum(extent.segment, offset, &[&head[..4], &bytes]) {
        Ok(bytes)
    } else {
        Err(file.corrupt(offset, "the checksum of the chunk does not match"))
    }
}
