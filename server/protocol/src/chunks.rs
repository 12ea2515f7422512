//! Checks all bytes of a text in chunks, a form that the compiler vectorises.

const CHUNK_BYTES: usize = 64;

/// True if `is_one` is true of all bytes of a text. The loop over a chunk does not stop early, so
/// that the compiler vectorises it. Chunks are long, because the loop over a short one would be
/// unrolled instead.
pub(crate) fn all_bytes(text: &str, is_one: impl Fn(u8) -> bool) -> bool {
    let text = text.as_bytes();
    let are = |bytes: &[u8]| bytes.iter().fold(true, |all, byte| all & is_one(*byte));
    let are_chunk = |chunk: &[u8; CHUNK_BYTES]| are(chunk);
    match text.last_chunk() {
        // The last chunk overlaps the one before it.
        Some(last) => text.as_chunks().0.iter().all(are_chunk) && are_chunk(last),
        None => are(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_other_byte_is_found_at_any_place() {
        for length in 0..200 {
            let text = "a".repeat(length);
            assert!(all_bytes(&text, |byte| byte == b'a'), "{length}");
            for at in 0..length {
                let mut other = text.clone();
                other.replace_range(at..=at, "b");
                assert!(!all_bytes(&other, |byte| byte == b'a'), "{at} of {length}");
            }
        }
    }
}
