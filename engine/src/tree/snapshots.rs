//! Snapshots: the published sequence number, and those at which readers read, which compaction must
//! respect.

use crate::base::key::SequenceNumber;
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The sequence numbers at which readers read.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    published: CachePadded<AtomicU64>,
    held: Mutex<BTreeMap<SequenceNumber, usize>>,
}

impl Snapshots {
    fn held(&self) -> MutexGuard<'_, BTreeMap<SequenceNumber, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last sequence number that readers see.
    pub(crate) fn published(&self) -> SequenceNumber {
        self.published.load(Ordering::Acquire)
    }

    /// Makes everything up to `sequence` visible.
    pub(crate) fn publish(&self, sequence: SequenceNumber) {
        let before = self.published.swap(sequence, Ordering::AcqRel);
        assert!(
            before <= sequence,
            "sequence numbers are published in order"
        );
    }

    /// The oldest sequence number at which a reader reads or will read.
    pub(crate) fn floor(&self) -> SequenceNumber {
        let held = self.held();
        held.keys()
            .next()
            .copied()
            .unwrap_or_else(|| self.published())
    }

    /// Returns all sequence numbers at which a reader reads, and the one at which the next reader
    /// will, ascending.
    pub(crate) fn boundaries(&self) -> Vec<SequenceNumber> {
        let held = self.held();
        let mut boundaries: Vec<_> = held.keys().copied().collect();
        boundaries.push(self.published());
        boundaries.dedup();
        boundaries
    }

    /// Registers a reader at the published sequence number until `release`.
    pub(crate) fn hold(&self) -> SequenceNumber {
        let mut held = self.held();
        let sequence = self.published();
        *held.entry(sequence).or_default() += 1;
        sequence
    }

    pub(crate) fn release(&self, sequence: SequenceNumber) {
        let mut held = self.held();
        let count = held
            .get_mut(&sequence)
            .expect("a snapshot is released once");
        *count -= 1;
        if *count == 0 {
            held.remove(&sequence);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.held().values().sum()
    }
}
