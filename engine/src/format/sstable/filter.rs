//! Filter: a blocked Bloom filter on whole user keys; a lookup reads one cache line, and a key
//! takes about ten bits.
//!
//! The block is an array of 64-byte lines. The high bits of a key's hash pick its line. The hash
//! times a constant gives seven numbers of nine bits each, which pick the key's bits in the line.

const LINE_BYTES: usize = 64;
const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 7;

/// The filter of the keys with these hashes.
pub(crate) fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = (hashes.len() * BITS_PER_KEY)
        .div_ceil(LINE_BYTES * 8)
        .max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let start = line(hash, lines) * LINE_BYTES;
        for bit in bits(hash) {
            filter[start + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// `false` only if no key with this hash was added.
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let (lines, _) = filter.as_chunks::<LINE_BYTES>();
    if lines.is_empty() {
        return true;
    }
    let line = &lines[line(hash, lines.len())];
    // All bits are tested, although the first one that is missing decides. A loop that ends there
    // is mispredicted for nearly every absent key, and the processor does not begin to load the
    // filter of the next file.
    let has = |bit: usize| (line[bit / 8] >> (bit % 8)) & 1;
    bits(hash).fold(1, |all, bit| all & has(bit)) == 1
}

/// The line, out of `lines`, that has the bits of this hash.
fn line(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits of this hash in its line.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    // The high bits of `hash` picked the line. The multiplication spreads the low bits over all 64
    // bits, which then give nine bits to each probe.
    let spread = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| (spread >> (9 * probe)) as usize & (LINE_BYTES * 8 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::hash;

    #[test]
    fn every_added_key_may_be_there_and_few_others() {
        let hashes: Vec<u64> = (0..10_000u32).map(|i| hash(&i.to_le_bytes())).collect();
        let filter = build(&hashes);
        assert!(hashes.iter().all(|&hash| may_contain(&filter, hash)));
        let absent = (10_000..30_000u32).map(|i| hash(&i.to_le_bytes()));
        let wrong = absent.filter(|&hash| may_contain(&filter, hash)).count();
        assert!(
            wrong < 20_000 * 3 / 100,
            "{wrong} of 20000 absent keys pass"
        );
    }
}
