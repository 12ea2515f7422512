//! Fixed integers, varints, length-prefixed bytes and checksums, of which all formats consist.
//!
//! Integers are little-endian. Decoding never panics: `None` means the bytes were not written by
//! these functions, and the caller, which knows the file and the offset, turns it into `Corrupt`.

pub(crate) use crate::base::varint::put as put_varint;

use crate::base::varint;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed, xxh3_128};

/// Appends the length of `bytes` as a varint, then `bytes`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the byte 0 for `None`; the byte 1, the length and the bytes for `Some`.
pub(crate) fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            put_bytes(out, bytes);
        }
    }
}

/// The hash of a whole key, as filters use it.
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A 128-bit hash to use instead of a key. Different keys have the same hash only by accident.
pub(crate) fn wide_hash(key: &[u8]) -> u128 {
    xxh3_128(key)
}

/// Returns the checksum of the unit at `offset` of file `number`. It depends on both numbers, so a
/// unit that was written to another place fails its check.
pub(crate) fn checksum(number: u64, offset: u64, parts: &[&[u8]]) -> u64 {
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ offset;
    if let [all] = parts {
        return xxh3_64_with_seed(all, seed);
    }
    let mut state = Xxh3::with_seed(seed);
    for part in parts {
        state.update(part);
    }
    state.digest()
}

/// Reads a slice from front to back. Each read returns `None` if the bytes left do not suffice.
#[derive(Debug, Clone)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, position: 0 }
    }

    /// Number of bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// The next `N` bytes, not consumed; `None` if fewer are left.
    #[inline]
    pub(crate) fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.bytes.get(self.position..)?.first_chunk()
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, length) = varint::read(&self.bytes[self.position..])?;
        self.position += length;
        Some(value)
    }

    #[inline]
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(self.bytes()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.bytes().is_some() {}
            let _ = (decoder.varint(), decoder.optional(), decoder.u128());
        }
    }

    #[test]
    fn the_checksum_depends_on_file_offset_and_bytes() {
        let base = checksum(1, 2, &[b"ab", b"c"]);
        assert_eq!(base, checksum(1, 2, &[b"abc"]));
        assert_ne!(base, checksum(2, 2, &[b"abc"]));
        assert_ne!(base, checksum(1, 3, &[b"abc"]));
        assert_ne!(base, checksum(1, 2, &[b"abd"]));
    }
}
