//! The outcomes of writes: acknowledged, or in doubt because the response was lost, and then found
//! done or not done.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts for one kind of write. Threads share it.
///
/// A write in doubt is looked up as soon as the server is back: it must be there whole or not at
/// all. If it is not there it is sent again. So at the end of a phase every write is either
/// acknowledged or was found, and all of them must be there for good.
pub(super) struct Ledger {
    what: &'static str,
    acknowledged: AtomicU64,
    found_done: AtomicU64,
    found_not_done: AtomicU64,
    found_half: AtomicU64,
}

/// The outcome of a write whose response was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Done,
    NotDone,
    /// Part of a write that must be atomic: the defect this program looks for.
    Half,
}

impl Ledger {
    pub(super) fn new(what: &'static str) -> Ledger {
        Ledger {
            what,
            acknowledged: AtomicU64::new(0),
            found_done: AtomicU64::new(0),
            found_not_done: AtomicU64::new(0),
            found_half: AtomicU64::new(0),
        }
    }

    /// The server acknowledged it.
    pub(super) fn acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer was lost, and this is what a later look has shown.
    pub(super) fn settled(&self, found: Found) {
        let counter = match found {
            Found::Done => &self.found_done,
            Found::NotDone => &self.found_not_done,
            Found::Half => &self.found_half,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (done, not_done) = (count(&self.found_done), count(&self.found_not_done));
        let half = count(&self.found_half);
        write!(
            f,
            "{}: {} acknowledged, {} in doubt ({done} found done, {not_done} found not done, {half} found half done)",
            self.what,
            count(&self.acknowledged),
            done + not_done + half
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_the_sum_of_all_outcomes() {
        let ledger = Ledger::new("writes");
        ledger.acknowledged();
        ledger.settled(Found::Done);
        ledger.settled(Found::NotDone);
        let text = ledger.to_string();
        assert!(text.starts_with("writes: 1 acknowledged, 2 in doubt (1 found done, 1"));
    }
}
