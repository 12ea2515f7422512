//! Where ids come from: the operating system's randomness, or a counter in tests.

use std::cell::RefCell;

/// Where ids come from; tests give one that counts.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// 128 bits that no other call has returned or will return.
    fn next_id(&self) -> u128;
}

/// Ids from the operating system's randomness.
#[derive(Debug, Default)]
pub struct RandomIds;

/// How many ids one call of the operating system is asked for: the call costs more than the bytes.
const IDS_AT_ONCE: usize = 32;

thread_local! {
    /// Random bytes of this thread, from which ids are taken from the end.
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
            u128::from_le_bytes(ids.pop().expect("it was just filled"))
        })
    }
}

/// Ids that count up from a seed: the same run gives the same ids.
#[derive(Debug, Default)]
pub struct CountingIds(std::sync::atomic::AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> u128 {
        u128::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) + 1
    }
}
