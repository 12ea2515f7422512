//! ValuePointer: where a value lies in the value log. SSTables and the WAL hold the pointer instead
//! of the value.

use crate::base::codec::{Decoder, put_varint};
use crate::base::config::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES};

/// A stretch of chunk records of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) segment: u64,
    /// Offset of the first chunk record.
    pub(crate) offset: u64,
    /// Bytes of the value in the extent.
    pub(crate) length: u64,
}

/// Where a value lies. SSTables and the WAL hold the pointer in place of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValuePointer {
    pub(crate) chunk_bytes: u64,
    pub(crate) length: u64,
    pub(crate) extents: Vec<Extent>,
}

impl ValuePointer {
    /// Chunk length, length, count of extents; per extent segment, offset, length: all varints.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Enough for a value of one extent.
        let mut out = Vec::with_capacity(64);
        put_varint(&mut out, self.chunk_bytes);
        put_varint(&mut out, self.length);
        put_varint(&mut out, self.extents.len() as u64);
        for extent in &self.extents {
            put_varint(&mut out, extent.segment);
            put_varint(&mut out, extent.offset);
            put_varint(&mut out, extent.length);
        }
        out
    }

    /// `None` if the bytes are not a pointer whose extents add up.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ValuePointer> {
        let mut decoder = Decoder::new(bytes);
        let chunk_bytes = decoder
            .varint()
            .filter(|bytes| (1..=CHUNK_BYTES_MAX).contains(bytes))?;
        let length = decoder.varint().filter(|length| *length < 1 << 48)?;
        let mut extents = Vec::new();
        let mut left = length;
        for _ in 0..decoder.length()? {
            let extent = Extent {
                segment: decoder.varint()?,
                offset: decoder.varint().filter(|offset| *offset < 1 << 48)?,
                length: decoder.varint()?,
            };
            left = left.checked_sub(extent.length)?;
            let whole_chunks = left == 0 || extent.length.is_multiple_of(chunk_bytes);
            if extent.length == 0 || !whole_chunks {
                return None;
            }
            extents.push(extent);
        }
        (decoder.is_empty() && left == 0).then_some(ValuePointer {
            chunk_bytes,
            length,
            extents,
        })
    }

    /// For each extent, its segment and the bytes that it takes there, chunk headers included.
    pub(crate) fn references(&self) -> impl Iterator<Item = (u64, u64)> {
        let chunk_bytes = self.chunk_bytes;
        let taken = move |extent: &Extent| {
            let headers = extent.length.div_ceil(chunk_bytes) * CHUNK_HEADER_BYTES as u64;
            (extent.segment, extent.length.saturating_add(headers))
        };
        self.extents.iter().map(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_do_not_add_up_to_whole_chunks_do_not_decode() {
        let decoded = |length: u64, extents: &[u64]| {
            let extents = extents.iter().map(|&length| Extent {
                segment: 1,
                offset: 0,
                length,
            });
            let pointer = ValuePointer {
                chunk_bytes: 10,
                length,
                extents: extents.collect(),
            };
            ValuePointer::decode(&pointer.encode()).is_some_and(|decoded| decoded == pointer)
        };
        assert!(decoded(25, &[20, 5]) && decoded(20, &[10, 10]) && decoded(0, &[]));
        for wrong in [&[5, 20][..], &[20, 4], &[20, 6], &[20, 5, 0], &[0, 25], &[]] {
            assert!(!decoded(25, wrong), "{wrong:?}");
        }
    }
}
