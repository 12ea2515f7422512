//! The bytes of SSTables.
//!
//! | where | what |
//! | --- | --- |
//! | 0 | file header, 48 bytes (`format/header.rs`) |
//! | … | blocks: data blocks, index partitions, index root, filter, range tombstones |
//! | end − 112 | footer: handles, counts, depth of the index, checksum, magic (`footer.rs`) |
//!
//! A block is a payload and a trailer of 13 bytes: compression (0 none, 1 zstd, 2 LZ4), `u32`
//! length before compression, `u64` checksum over the payload and these five bytes, keyed by file
//! number and offset.

pub(crate) mod block;
pub(crate) mod compress;
pub(crate) mod filter;
pub(crate) mod footer;
mod heads;
pub(crate) mod index;

pub(crate) const TRAILER_BYTES: usize = 13;
/// Maximum length of a block that a reader accepts. A data block is far shorter: each row is part
/// of a batch of at most 64 MiB.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 30;

/// Where a block lies: offset of the payload and its length, without the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}
