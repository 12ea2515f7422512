//! Ids: 128 bits, from the time and the operating system's randomness, or from a counter in tests.
//!
//! Each new store takes an id from the source in [`Environment`](crate::Environment); the store's
//! checksums depend on it. The services take their ids from the same source.
#![allow(
    clippy::disallowed_types,
    reason = "ids are a seam of their own, and the time in them has to continue from that of an earlier process"
)]

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of ids. Tests use one that counts.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// 128 bits that no other call has returned or will return.
    fn next_id(&self) -> u128;
}

/// Generates ids of 48 bits of time, in units of about 65 us, and 80 bits of the operating system's
/// randomness. Rows whose keys begin with new ids sort nearly in the order in which the ids were
/// made. So the SSTables of these rows hardly overlap, and most are moved down instead of merged.
#[derive(Debug, Default)]
pub struct RandomIds;

/// Bits of an id that are random.
const RANDOM_BITS: u32 = 80;
/// Number of low bits of the time in nanoseconds that are dropped.
const TIME_SHIFT: u32 = 16;

/// Number of ids that one system call provides bytes for: the call costs more than the bytes.
const IDS_AT_ONCE: usize = 32;

thread_local! {
    /// Random bytes of this thread; ids are taken from the end.
    static RANDOM: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

impl IdSource for RandomIds {
    fn next_id(&self) -> u128 {
        RANDOM.with_borrow_mut(|ids| {
            if ids.is_empty() {
                ids.resize(IDS_AT_ONCE, [0; 16]);
                getrandom::fill(ids.as_flattened_mut())
                    .expect("the operating system gives randomness");
            }
            let random = u128::from_le_bytes(ids.pop().expect("it was just filled"));
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = now.unwrap_or_default().as_nanos() >> TIME_SHIFT;
            // The shift drops the high bits of the time that do not fit.
            time << RANDOM_BITS | random >> (u128::BITS - RANDOM_BITS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_come_in_the_order_of_time_and_differ_within_a_moment() {
        let ids: Vec<u128> = (0..1000).map(|_| RandomIds.next_id()).collect();
        let last = ids[999] >> RANDOM_BITS;
        let mut later = RandomIds.next_id();
        while later >> RANDOM_BITS == last {
            later = RandomIds.next_id();
        }
        assert!(ids.is_sorted_by_key(|id| id >> RANDOM_BITS) && last < later >> RANDOM_BITS);
        let different: BTreeSet<u128> = ids.iter().copied().collect();
        assert_eq!(different.len(), ids.len());
        let low_halves: BTreeSet<u64> = ids.iter().map(|&id| id as u64).collect();
        assert_eq!(low_halves.len(), ids.len());
    }
}
