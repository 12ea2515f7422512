//! Readahead: on a miss the 64 KiB around a block are read too, with exponential back-off when pages are evicted before use.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of a part.
const PART_BYTES: u64 = 64 << 10;
/// A part is read as a whole at least once in two to this power of blocks.
const TIMES_MAX: u16 = 7;

/// For each part how often it was read as a whole, and, in the low byte, how many blocks are to be read alone before the next time.
#[derive(Debug, Default)]
pub(super) struct Readahead(OnceLock<Box<[AtomicU16]>>);

impl Readahead {
    /// The range to read together with a block at `offset`, in a file of `length` bytes, that the disk has to be asked for.
    pub(super) fn of(&self, offset: u64, length: u64) -> Option<Range<u64>> {
        let parts = self.0.get_or_init(|| {
            let count = length.div_ceil(PART_BYTES);
            (0..count).map(|_| AtomicU16::new(0)).collect()
        });
        let part = offset / PART_BYTES;
        let state = parts.get(part as usize)?;
        let now = state.load(Ordering::Relaxed);
        let (times, alone) = (now >> 8, now & 0xff);
        if alone > 0 {
            state.store(now - 1, Ordering::Relaxed);
            return None;
        }
        let times = (times + 1).min(TIMES_MAX);
        state.store(times << 8 | ((1 << times) - 1), Ordering::Relaxed);
        let start = part * PART_BYTES;
        Some(start..length.min(start + PART_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_a_whole_and_then_less_and_less_often() {
        let around = Readahead::default();
        let mut wholes = (0..1000).filter(|_| around.of(70_000, 100_000).is_some());
        let expected = [0, 2, 6, 14, 30, 62, 126, 254, 382];
        assert!(wholes.by_ref().take(expected.len()).eq(expected));
        assert_eq!(around.of(65_535, 100_000), Some(0..65_536), "another part");
        assert_eq!(around.of(100_000, 100_000), None);
        let around = Readahead::default();
        assert_eq!(around.of(70_000, 100_000), Some(65_536..100_000));
        assert_eq!(around.of(u64::MAX, 100_000), None, "no part of the file");
    }
}
