//! Compression of the blocks of SSTables.

use crate::base::config::Compression;
use crate::format::sstable::BLOCK_BYTES_MAX;
use crossbeam_queue::ArrayQueue;
use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};

/// Contexts of zstd for reuse: setting one up costs more than compressing a block. They are shared,
/// not kept per thread, because one takes 160 KiB, and hundreds of a server's threads read
/// occasionally.
static PACKERS: LazyLock<ArrayQueue<Compressor<'static>>> = LazyLock::new(|| ArrayQueue::new(4));
static UNPACKERS: LazyLock<ArrayQueue<Decompressor<'static>>> =
    LazyLock::new(|| ArrayQueue::new(16));

/// Prepares a decompression context, so that the first read of a block need not.
pub(crate) fn prepare() {
    let unpacker = Decompressor::new();
    // A full queue needs no other context. Without memory, the read itself fails.
    let _ = unpacker.map(|unpacker| UNPACKERS.push(unpacker));
}

fn pack_zstd(payload: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.resize(zstd::zstd_safe::compress_bound(payload.len()), 0);
    let packer = PACKERS.pop().map_or_else(|| Compressor::new(1), Ok);
    let mut packer = packer.ok()?;
    let packed = packer.compress_to_buffer(payload, &mut out[..]).ok();
    // If the queue is full, the context is dropped.
    let _ = PACKERS.push(packer);
    packed
}

fn pack_lz4(payload: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.resize(lz4_flex::block::get_maximum_output_size(payload.len()), 0);
    lz4_flex::block::compress_into(payload, out).ok()
}

fn unpack_lz4(payload: &[u8], out: &mut [u8]) -> Option<usize> {
    lz4_flex::block::decompress_into(payload, out).ok()
}

fn unpack_zstd(payload: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut unpacker = UNPACKERS.pop().map_or_else(Decompressor::new, Ok).ok()?;
    let unpacked = unpacker.decompress_to_buffer(payload, out).ok();
    let _ = UNPACKERS.push(unpacker);
    unpacked
}

/// Compresses `payload` into `out`. Returns `payload` itself if that saves less than an eighth.
pub(crate) fn compress<'a>(
    payload: &'a [u8],
    compression: Compression,
    out: &'a mut Vec<u8>,
) -> (Compression, &'a [u8]) {
    let packed = match compression {
        Compression::None => None,
        Compression::Zstd => pack_zstd(payload, out),
        Compression::Lz4 => pack_lz4(payload, out),
    };
    match packed {
        Some(length) if length + payload.len() / 8 < payload.len() => (compression, &out[..length]),
        _ => (Compression::None, payload),
    }
}

/// Reverses `compress`: writes a block of `length` bytes to `out`, unless the payload was stored
/// uncompressed. The checksum has been verified; `Err` says why the bytes are still not a block.
pub(crate) fn decompress<'a>(
    payload: &'a [u8],
    compression: u8,
    length: u32,
    out: &'a mut Vec<u8>,
) -> std::result::Result<&'a [u8], &'static str> {
    let unpack = match compression {
        0 if payload.len() == length as usize => return Ok(payload),
        1 if length <= BLOCK_BYTES_MAX && is_zstd_length(payload, length) => unpack_zstd,
        2 if length <= BLOCK_BYTES_MAX && is_lz4_ratio(payload.len(), length) => unpack_lz4,
        _ => return Err("the block has an unknown compression or a wrong length"),
    };
    out.resize(length as usize, 0);
    match unpack(payload, out) {
        Some(count) if count == out.len() => Ok(out),
        _ => Err("the block does not decompress to its length"),
    }
}

/// False if `packed` bytes cannot be a block of `length`, because LZ4 packs at most 255 bytes into
/// one. Such a length is refused before memory is allocated for it.
fn is_lz4_ratio(packed: usize, length: u32) -> bool {
    length as usize / 255 <= packed
}

/// Whether the frame header of zstd records this length of the contents.
fn is_zstd_length(payload: &[u8], length: u32) -> bool {
    let contents = zstd::zstd_safe::get_frame_content_size(payload);
    matches!(contents, Ok(Some(contents)) if contents == u64::from(length))
}
