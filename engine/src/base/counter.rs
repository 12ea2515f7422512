//! Counters for statistics. Relaxed ordering suffices, because no decision depends on them.

use crate::base::sync::{AtomicU64, Ordering};

/// Adds `by` to a counter, with relaxed ordering.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
