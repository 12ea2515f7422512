//! Compression of the blocks of SSTables.

use crate::base::config::Compression;
use crate::format::sstable::BLOCK_BYTES_MAX;
use crossbeam_queue::ArrayQueue;
use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};

/// Contexts of zstd for reuse: setting one up costs more than compressing a block. All threads
/// share them, because a context takes 160 KiB, and a server may have hundreds of threads that read
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

/// Compresses `payload` into `out`. Returns `payload` itself if that saves an eighth or less.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compression_packs_what_repeats_and_restores_it() {
        let payload = b"the same words again, ".repeat(100);
        for (compression, tag) in [(Compression::Zstd, 1), (Compression::Lz4, 2)] {
            let (mut out, mut restored) = (Vec::new(), Vec::new());
            let (used, packed) = compress(&payload, compression, &mut out);
            assert_eq!(used, compression);
            assert!(packed.len() < payload.len() / 10, "{}", packed.len());
            let length = payload.len() as u32;
            for wrong in [length - 1, length + 1] {
                assert!(decompress(packed, tag, wrong, &mut restored).is_err());
            }
            let restored = decompress(packed, tag, length, &mut restored).unwrap();
            assert_eq!(restored, payload);
        }
    }

    #[test]
    fn a_wrong_length_is_refused_before_memory_is_taken_for_it() {
        let payload = vec![0; BLOCK_BYTES_MAX as usize + 1];
        let length = payload.len() as u32;
        for (compression, tag) in [(Compression::Zstd, 1), (Compression::Lz4, 2)] {
            for (length, wrong) in [(length, length), (length - 1, length), (256, 1 << 19)] {
                let (mut packed, mut out) = (Vec::new(), Vec::new());
                let (used, packed) =
                    compress(&payload[..length as usize], compression, &mut packed);
                assert_eq!(used, compression);
                assert!(decompress(packed, tag, wrong, &mut out).is_err(), "{wrong}");
                assert_eq!(out.capacity(), 0, "{wrong}");
            }
        }
    }

    #[test]
    fn a_payload_is_stored_as_it_is_unless_more_than_an_eighth_is_saved() {
        // Bytes without a pattern in front of zeros: only the zeros are packed.
        let mut random = 1_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 56) as u8
        };
        let bytes: Vec<u8> = (0..4000).map(|_| next()).collect();
        for compression in [Compression::Zstd, Compression::Lz4] {
            for (zeros, is_packed) in [(0, false), (300, false), (1000, true)] {
                let payload = [&bytes[zeros..], &vec![0; zeros]].concat();
                let mut out = Vec::new();
                let (used, stored) = compress(&payload, compression, &mut out);
                assert_eq!(used == compression, is_packed, "{zeros}");
                assert_eq!(stored.len() < payload.len(), is_packed, "{zeros}");
            }
        }
    }
}
