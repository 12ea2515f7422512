//! Frontier: where the scan of an ordered set of rows may start, although rows are consumed and
//! added around that place.
//!
//! A log-structured tree keeps a tombstone for every consumed row until compaction removes it, so a
//! scan from the beginning steps over every row that was ever at the head. The frontier lets each
//! scan start where the last one ended.
//!
//! Invariant: no row before `start` will be needed again, since the clock does not go back. The
//! only exceptions are rows whose writer has not returned yet. The frontier is only in memory:
//! after a restart the first scan starts at the beginning and finds the frontier again.
//!
//! One scan runs at a time, since its caller holds a lock; rows may be added while it runs. A
//! writer calls [`Frontier::added`] after its row is in the store and before it answers its client.
//! Either the row was in the store before the scan began, and the scan saw it; or `added` is called
//! after the scan's `begin`, and its place limits how far `finish` moves the frontier.

use crate::keys::Position;
use lazurite_base::locks::lock;
use std::sync::{Mutex, MutexGuard};

/// The bounds of an ordered set of rows, as the top of the file describes.
#[derive(Debug)]
pub(crate) struct Frontier(Mutex<Bounds>);

#[derive(Debug)]
struct Bounds {
    start: Position,
    /// The first place at which a row was added since the running scan began.
    added: Position,
}

impl Frontier {
    /// A frontier at the beginning, where the first scan starts.
    pub(crate) fn new() -> Frontier {
        Frontier(Mutex::new(Bounds {
            start: Position::MIN,
            added: Position::MAX,
        }))
    }

    /// The position at which the next scan starts.
    pub(crate) fn start(&self) -> Position {
        self.bounds().start
    }

    /// Begins a scan. Returns the position at which the scan starts.
    pub(crate) fn begin(&self) -> Position {
        let mut bounds = self.bounds();
        bounds.added = Position::MAX;
        bounds.start
    }

    /// Ends a scan. No row that it saw before `first_remaining` will be needed again.
    pub(crate) fn finish(&self, first_remaining: Position) {
        let mut bounds = self.bounds();
        bounds.start = first_remaining.min(bounds.added);
    }

    /// Records a row that is now in the store.
    pub(crate) fn added(&self, position: Position) {
        let mut bounds = self.bounds();
        bounds.start = bounds.start.min(position);
        bounds.added = bounds.added.min(position);
    }

    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MessageId;
    use lazurite_base::ticks::Ticks;

    fn at(ticks: u64) -> Position {
        Position {
            at: Ticks(ticks),
            id: MessageId(0),
        }
    }

    #[test]
    fn scan_starts_where_the_last_one_ended() {
        let frontier = Frontier::new();
        assert_eq!(frontier.begin(), Position::MIN);
        frontier.finish(at(70));
        assert_eq!(frontier.begin(), at(70));
    }

    #[test]
    fn row_added_during_a_scan_is_not_skipped() {
        let frontier = Frontier::new();
        frontier.begin();
        frontier.added(at(50));
        frontier.finish(at(70));
        assert_eq!(frontier.begin(), at(50));
    }

    #[test]
    fn row_added_after_a_scan_moves_the_start_back() {
        let frontier = Frontier::new();
        frontier.begin();
        frontier.finish(Position::MAX);
        frontier.added(at(90));
        frontier.added(at(95));
        assert_eq!(frontier.begin(), at(90));
    }
}
