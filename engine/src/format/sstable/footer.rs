//! Footer: the last bytes of an SSTable, which lead to everything else in it.

use crate::base::codec::{Decoder, checksum};
use crate::base::key::SequenceNumber;
use crate::format::sstable::BlockHandle;

/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 112;
pub(crate) const FOOTER_MAGIC: &[u8; 8] = b"LZSSTEND";
/// Number of bytes that the checksum covers: all before the checksum and the magic.
const SUMMED_BYTES: usize = FOOTER_BYTES - 16;

/// The contents of the footer. A handle of length 0 stands for an absent block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) index: BlockHandle,
    pub(crate) filter: BlockHandle,
    pub(crate) range_tombstones: BlockHandle,
    /// 1: the root leads to data blocks; 2: the root leads to partitions, and these to data blocks.
    pub(crate) index_depth: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// The smallest and the largest sequence number of an entry.
    pub(crate) sequences: (SequenceNumber, SequenceNumber),
}

impl Footer {
    /// Encodes the footer for `offset` of file `number`. Its checksum depends on both.
    pub(crate) fn encode(&self, number: u64, offset: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for handle in [self.index, self.filter, self.range_tombstones] {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&handle.length.to_le_bytes());
        }
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.tombstones.to_le_bytes());
        out.extend_from_slice(&self.sequences.0.to_le_bytes());
        out.extend_from_slice(&self.sequences.1.to_le_bytes());
        out.extend_from_slice(&self.index_depth.to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        let sum = checksum(number, offset, &[&out]);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(FOOTER_MAGIC);
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    /// Decodes the footer at `offset` of file `number`. `Err` says why the bytes are not a footer.
    pub(crate) fn decode(
        bytes: &[u8],
        number: u64,
        offset: u64,
    ) -> std::result::Result<Footer, &'static str> {
        let footer = bytes
            .split_at_checked(SUMMED_BYTES)
            .and_then(|(summed, rest)| {
                let mut rest = Decoder::new(rest);
                let is_right = rest.u64()? == checksum(number, offset, &[summed])
                    && rest.take(FOOTER_MAGIC.len())? == FOOTER_MAGIC;
                is_right.then_some(summed)
            });
        let footer = footer.ok_or("the checksum of the footer does not match")?;
        Footer::decode_fields(footer)
            .filter(|footer| matches!(footer.index_depth, 1 | 2))
            .ok_or("the footer does not decode")
    }

    fn decode_fields(bytes: &[u8]) -> Option<Footer> {
        let mut decoder = Decoder::new(bytes);
        let mut handle = || {
            Some(BlockHandle {
                offset: decoder.u64()?,
                length: decoder.u64()?,
            })
        };
        let (index, filter, range_tombstones) = (handle()?, handle()?, handle()?);
        let (entries, tombstones) = (decoder.u64()?, decoder.u64()?);
        let sequences = (decoder.u64()?, decoder.u64()?);
        let index_depth = decoder.u32()?;
        Some(Footer {
            index,
            filter,
            range_tombstones,
            index_depth,
            entries,
            tombstones,
            sequences,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_is_read_only_where_it_was_written() {
        let handle = |offset| BlockHandle { offset, length: 9 };
        let footer = Footer {
            index: handle(48),
            filter: handle(70),
            range_tombstones: BlockHandle::default(),
            index_depth: 2,
            entries: 5,
            tombstones: 1,
            sequences: (3, 8),
        };
        let bytes = footer.encode(7, 100);
        assert_eq!(Footer::decode(&bytes, 7, 100), Ok(footer));
        assert!(Footer::decode(&bytes, 8, 100).is_err());
        assert!(Footer::decode(&bytes, 7, 101).is_err());
        assert!(Footer::decode(&bytes[1..], 7, 100).is_err());
        let deep = Footer {
            index_depth: 3,
            ..footer
        };
        assert!(Footer::decode(&deep.encode(7, 100), 7, 100).is_err());
    }
}
