//! Where ids come from: the operating system's randomness, or a counter in tests.

/// Where ids come from; tests give one that counts.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    /// 128 bits that no other call has returned or will return.
    fn next_id(&self) -> u128;
}

/// Ids from the operating system's randomness.
#[derive(Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives randomness");
        u128::from_le_bytes(bytes)
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
