//! Varints: unsigned integers in groups of seven bits, low group first (LEB128). The high bit of a
//! byte is set if another group follows.

/// The length of the longest varint: that of `u64::MAX`.
pub const BYTES_MAX: usize = 10;

/// Appends `value`, in 1 to [`BYTES_MAX`] bytes.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the varint at the start of `bytes`; returns its value and its length. `None` if `bytes`
/// ends within it or the value exceeds 64 bits. Accepts encodings that are longer than necessary.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    // Most varints are lengths below 128.
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Like [`read`], and moves `bytes` past the varint.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (value, length) = read(bytes)?;
    *bytes = &bytes[length..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64, behind: Vec<u8>) {
            let mut out = Vec::new();
            put(&mut out, value);
            let length = out.len();
            out.extend(&behind);
            prop_assert_eq!(read(&out), Some((value, length)));
            let mut rest = &out[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(rest, &behind[..]);
            prop_assert_eq!(read(&out[..length - 1]), None);
        }
    }

    #[test]
    fn varints_have_at_most_64_bits() {
        let mut longest = [0xff; BYTES_MAX];
        longest[BYTES_MAX - 1] = 1;
        assert_eq!(read(&longest), Some((u64::MAX, BYTES_MAX)));
        longest[BYTES_MAX - 1] = 2;
        assert_eq!(read(&longest), None);
        assert_eq!(read(&[0x80; 11]), None);
        assert_eq!(read(&[0x81, 0]), Some((1, 2)), "longer than necessary");
    }
}
