//! Frontier: where the scan of an ordered set of rows may start, although rows are consumed before it and added around it.
//!
//! A log-structured tree keeps a tombstone for every consumed row until compaction meets it, so a scan from the beginning
//! walks over everything that ever was at the head. The frontier lets each scan start where the last one ended.
//!
//! Invariant: from now on no row before `start` can be of use, for the clock does not go back; rows whose writer has not
//! returned yet are excepted. It holds in memory only: after a restart the first scan starts at the beginning and finds it
//! again.
//!
//! One scan runs at a time (its caller holds a lock); rows may be added during it. An adder calls [`Frontier::added`]
//! after its row is in the store and before it answers its client. Then either the row was in the store before the scan
//! began, and the scan saw it; or `added` comes after the scan's `begin`, and its place bounds what `finish` sets.

use crate::keys::Position;
use crate::live::locked;
use std::sync::{Mutex, MutexGuard};

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Frontier(Mutex<Bounds>);

#[derive(Debug)]
struct Bounds {
    start: Position,
    /// The first place at which a row was added since the running scan began.
    added: Position,
}

impl Frontier {
    /// Knows nothing: the first scan starts at the beginning.
    pub(crate) fn new() -> Frontier {
        Frontier(Mutex::new(Bounds {
            start: Position::MIN,
            added: Position::MAX,
        }))
    }

    /// Where the next scan begins.
    pub(crate) fn start(&self) -> Position {
        self.bounds().start
    }

    /// Begins a scan; answers where.
    pub(crate) fn begin(&self) -> Position {
        let mut bounds = self.bounds();
        bounds.added = Position::MAX;
        bounds.start
    }

    /// Ends the scan: no row it saw before `first_left` can be of use from its time on.
    pub(crate) fn finish(&self, first_left: Position) {
        let mut bounds = self.bounds();
        bounds.start = first_left.min(bounds.added);
    }

    /// Takes note of a row that is now in the store.
    pub(crate) fn added(&self, position: Position) {
        let mut bounds = self.bounds();
        bounds.start = bounds.start.min(position);
        bounds.added = bounds.added.min(position);
    }

    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MessageId;
    use crate::time::Ticks;

    fn at(ticks: u64) -> Position {
        Position {
            at: Ticks(ticks),
            id: MessageId(0),
        }
    }

    #[test]
    fn a_scan_starts_where_the_last_one_ended() {
        let frontier = Frontier::new();
        assert_eq!(frontier.begin(), Position::MIN);
        frontier.finish(at(70));
        assert_eq!(frontier.begin(), at(70));
    }

    #[test]
    fn a_row_added_during_a_scan_is_not_passed_by() {
        let frontier = Frontier::new();
        frontier.begin();
        frontier.added(at(50));
        frontier.finish(at(70));
        assert_eq!(frontier.begin(), at(50));
    }

    #[test]
    fn a_row_added_after_a_scan_pulls_the_start_back() {
        let frontier = Frontier::new();
        frontier.begin();
        frontier.finish(Position::MAX);
        frontier.added(at(90));
        frontier.added(at(95));
        assert_eq!(frontier.begin(), at(90));
    }
}
