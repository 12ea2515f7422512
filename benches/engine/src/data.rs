//! Keys and values, the same for every engine: both are computed from a row's number, so that any
//! answer can be checked.
//!
//! A key is 20 bytes: partition and row, 50 rows a partition. A value starts with the row's number
//! and a generation, which an overwrite raises; the rest is half noise, half zeros, so that the
//! value compresses to about half.

use std::cell::RefCell;

use lazurite_bench_common::Random;

/// Rows of one partition: what a prefix scan reads.
pub(crate) const PARTITION_ROWS: u64 = 50;
/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 20;
const HEADER_BYTES: usize = 12;
/// Noise and zeros alternate at this distance, below the window of every compressor.
const STRIPE_BYTES: usize = 128;
const POOL_BYTES: usize = 4 << 20;

/// The key of a row.
pub(crate) type Key = [u8; KEY_BYTES];

/// `kPPPPPPPPP/RRRRRRRRR`; the keys sort as the rows are numbered.
pub(crate) fn key(row: u64) -> Key {
    let mut key = *b"k000000000/000000000";
    put_digits(&mut key[1..10], row / PARTITION_ROWS);
    put_digits(&mut key[11..], row % PARTITION_ROWS);
    key
}

/// A key that no row has, between the keys of `row` and of its successor.
pub(crate) fn missing_key(row: u64) -> [u8; KEY_BYTES + 1] {
    let mut missing = [b'x'; KEY_BYTES + 1];
    missing[..KEY_BYTES].copy_from_slice(&key(row));
    missing
}

/// The first key in the partition of `row`, and the first key after the partition.
pub(crate) fn partition(row: u64) -> (Key, Key) {
    let first = row - row % PARTITION_ROWS;
    (key(first), key(first + PARTITION_ROWS))
}

/// The key of the message with that number: `qNNNNNNNNNNNNNNNNNNN`.
pub(crate) fn message_key(number: u64) -> Key {
    let mut key = [b'q'; KEY_BYTES];
    put_digits(&mut key[1..], number);
    key
}

fn put_digits(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Makes the values of rows.
pub(crate) struct Values {
    pool: Vec<u8>,
}

impl Values {
    pub(crate) fn new() -> Values {
        let mut pool = vec![0; POOL_BYTES];
        Random::new(1).fill(&mut pool);
        Values { pool }
    }

    /// Fills `value` with the value of `row` in that generation, cut to the length of `value`.
    pub(crate) fn fill(&self, row: u64, generation: u32, value: &mut [u8]) {
        assert!(value.len() >= HEADER_BYTES && value.len() < POOL_BYTES);
        let (header, rest) = value.split_at_mut(HEADER_BYTES);
        header[..8].copy_from_slice(&row.to_le_bytes());
        header[8..].copy_from_slice(&generation.to_le_bytes());
        let starts = (POOL_BYTES - rest.len()) as u64;
        let seed = row << 20 ^ u64::from(generation);
        let mut position = Random::new(seed).below(starts) as usize;
        for stripe in rest.chunks_mut(STRIPE_BYTES) {
            let (noise, zeros) = stripe.split_at_mut(stripe.len() / 2);
            noise.copy_from_slice(&self.pool[position..position + noise.len()]);
            zeros.fill(0);
            position += noise.len();
        }
    }

    /// The value of `row` in that generation.
    pub(crate) fn make(&self, row: u64, generation: u32, length: usize) -> Vec<u8> {
        let mut value = vec![0; length];
        self.fill(row, generation, &mut value);
        value
    }

    /// Returns the generation of `value`, or `None` unless every byte matches the value of `row`
    /// with this length.
    pub(crate) fn check(&self, row: u64, value: &[u8], length: usize) -> Option<u32> {
        thread_local!(static EXPECTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        if value.len() != length {
            return None;
        }
        let generation = u32::from_le_bytes(value[8..HEADER_BYTES].try_into().ok()?);
        EXPECTED.with_borrow_mut(|expected| {
            expected.resize(length, 0);
            self.fill(row, generation, expected);
            (*expected == value).then_some(generation)
        })
    }
}

/// Whether the header of `value` names `row`: a check that costs nearly nothing.
pub(crate) fn names_row(row: u64, value: &[u8]) -> bool {
    value.len() >= HEADER_BYTES && value[..8] == row.to_le_bytes()
}

/// The rows from zero to `count` in pseudo-random order, each once: a Feistel cipher that is
/// applied until the result is below `count`.
pub(crate) struct Shuffle {
    count: u64,
    half_bits: u32,
}

impl Shuffle {
    pub(crate) fn new(count: u64) -> Shuffle {
        let bits = u64::BITS - count.max(2).leading_zeros();
        Shuffle {
            count,
            half_bits: bits.div_ceil(2),
        }
    }

    /// The row at `position`, which is below the count.
    pub(crate) fn at(&self, position: u64) -> u64 {
        let mut row = self.encrypt(position);
        while row >= self.count {
            row = self.encrypt(row);
        }
        row
    }

    fn encrypt(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 1..=4u64 {
            let mixed = (right ^ round << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 23;
            (left, right) = (right, (left ^ mixed) & mask);
        }
        left << self.half_bits | right
    }
}

/// Rows by Zipf's law with exponent 0.99, the most frequent ones scattered over all keys. Gray et
/// al., "Quickly generating billion-record synthetic databases", as in YCSB.
pub(crate) struct Zipf {
    shuffle: Shuffle,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    pub(crate) fn new(count: u64) -> Zipf {
        let sum = |to: u64| (1..=to).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let zeta = sum(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - sum(2) / zeta);
        Zipf {
            shuffle: Shuffle::new(count),
            zeta,
            alpha: 1.0 / (1.0 - THETA),
            eta,
        }
    }

    pub(crate) fn next(&self, random: &mut Random) -> u64 {
        self.shuffle.at(self.rank(random))
    }

    /// A random place in the order of the rows by frequency. The most frequent row has place 0.
    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let (unit, count) = (random.unit(), self.shuffle.count);
        let weight = unit * self.zeta;
        let rank = if weight < 1.0 {
            0
        } else if weight < 1.0 + 0.5f64.powf(THETA) {
            1
        } else {
            (count as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
        };
        rank.min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_rows_and_missing_ones_lie_between() {
        let rows = [0, 1, 49, 50, 51, 4_999_999];
        assert!(rows.map(key).is_sorted());
        assert!(missing_key(49)[..] > key(49)[..] && missing_key(49)[..] < key(50)[..]);
        assert_eq!(&key(51), b"k000000001/000000001");
        assert_eq!(partition(51), (key(50), key(100)));
    }

    #[test]
    fn check_accepts_only_the_value_of_the_row() {
        let values = Values::new();
        for length in [100, 1000, 65_536] {
            let mut value = values.make(7, 3, length);
            assert_eq!(values.check(7, &value, length), Some(3));
            assert!(names_row(7, &value) && !names_row(8, &value));
            assert_eq!(values.check(8, &value, length), None);
            value[length - 1] ^= 1;
            assert_eq!(values.check(7, &value, length), None);
        }
    }

    #[test]
    fn shuffle_visits_every_row_once() {
        for count in [1, 2, 1000, 4097] {
            let shuffle = Shuffle::new(count);
            let mut rows: Vec<u64> = (0..count).map(|position| shuffle.at(position)).collect();
            assert!(count < 1000 || !rows.is_sorted());
            rows.sort_unstable();
            assert!(rows.into_iter().eq(0..count));
        }
    }

    #[test]
    fn zipf_prefers_few_rows_and_stays_within_bounds() {
        let (zipf, mut random) = (Zipf::new(10_000), Random::new(1));
        let rows: Vec<u64> = (0..10_000).map(|_| zipf.next(&mut random)).collect();
        let favourite = Shuffle::new(10_000).at(0);
        let hits = rows.iter().filter(|row| **row == favourite).count();
        assert!(hits > 500 && rows.iter().all(|row| *row < 10_000));
    }
}
