//! Sealed segments in place: a whole value is handed out as a slice of its segment, without a copy.
//!
//! A chunk is verified when it is first handed out; after that its page is marked, so that reading it again costs nothing.
//! Only whole values are read like this. What is streamed in parts goes through `pread`, because every page of a mapping
//! that was touched counts as memory of the process.

use super::{CHUNK_HEADER_BYTES, ValueLog};
use crate::Result;
use crate::codec::checksum;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Segments mapped at once.
pub(super) const MAPPED_MAX: usize = 16;
/// Chunks of at least this many bytes begin in different pages of this size; smaller ones are verified each time.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Mapped {
    bytes: Bytes,
    /// One bit for each page: whether the chunk that begins in it was verified.
    verified: Box<[AtomicU64]>,
}

impl Mapped {
    fn new(bytes: Bytes) -> Mapped {
        let pages = (bytes.len() as u64).div_ceil(PAGE_BYTES);
        Mapped {
            bytes,
            verified: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The chunk of `length` bytes whose record starts at `offset`; `None` if it is not whole or not what was written.
    fn chunk(&self, segment: u64, offset: u64, length: usize) -> Option<Bytes> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(CHUNK_HEADER_BYTES)?.checked_add(length)?;
        let record = self.bytes.get(start..end)?;
        let (head, payload) = record.split_at(CHUNK_HEADER_BYTES);
        let page = offset / PAGE_BYTES;
        let (word, bit) = (&self.verified[(page / 64) as usize], 1 << (page % 64));
        let is_large = length as u64 >= PAGE_BYTES;
        if !is_large || word.load(Ordering::Relaxed) & bit == 0 {
            let sum = u64::from_le_bytes(head[4..].try_into().ok()?);
            let right_length = head[..4] == (length as u32).to_le_bytes();
            if !right_length || sum != checksum(segment, offset, &[&head[..4], payload]) {
                return None;
            }
            if is_large {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Some(self.bytes.slice(start + CHUNK_HEADER_BYTES..end))
    }
}

impl ValueLog {
    /// The chunk whose record starts at `offset` of a sealed segment, in place. `None` if it is not to be had like this: then
    /// reading the file tells why.
    pub(super) fn mapped_chunk(
        &self,
        segment: u64,
        offset: u64,
        length: usize,
    ) -> Result<Option<Bytes>> {
        let Some(mapped) = self.mapped(segment)? else {
            return Ok(None);
        };
        Ok(mapped.chunk(segment, offset, length))
    }

    fn mapped(&self, number: u64) -> Result<Option<Arc<Mapped>>> {
        if let Some(mapped) = self.mapped.get(&number) {
            return Ok(Some(mapped));
        }
        let Some(size) = self.sealed_size(number) else {
            return Ok(None);
        };
        let Some(bytes) = self.file(number)?.map(size) else {
            return Ok(None);
        };
        let mapped = Arc::new(Mapped::new(bytes));
        self.mapped.insert(number, mapped.clone());
        Ok(Some(mapped))
    }
}
