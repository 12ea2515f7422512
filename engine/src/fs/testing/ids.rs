//! Ids that are the same in every run.

use crate::fs::ids::IdSource;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ids that count up from a seed: the same run gives the same ids.
#[derive(Debug, Default)]
pub struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1
    }
}
