//! Frontier: where the scan of an ordered set of rows may start, although rows are consumed before it and added around it.
//!
//! A log-structured tree keeps a tombstone for every consumed row until compaction meets it, so a scan from the beginning
//! walks over everything that ever was at the head. The frontier lets each scan start where the last one ended.
//!
//! Invariant: at no time from `since` on can a row before `start` be of use; rows whose writer has not returned yet are
//! excepted. It holds in memory only: after a restart the first scan starts at the beginning and finds it again.
//!
//! One scan runs at a time (its caller holds a lock); rows may be added during it. An adder calls [`Frontier::added`]
//! after its row is in the store and before it answers its client. Then either the row was in the store before the scan
//! began, and the scan saw it; or `added` comes after the scan's `begin`, and its place bounds what `finish` sets.

use crate::keys::Position;
use crate::time::Ticks;
use std::sync::{Mutex, MutexGuard};

/// How far behind `since` the time of a request may be for it to have been overtaken by a younger one: 60 s, twice what the
/// slowest request may take. Further back, the clock was set.
const OVERTAKEN_SECONDS: u64 = 60;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Frontier(Mutex<Bounds>);

#[derive(Debug)]
struct Bounds {
    start: Position,
    since: Ticks,
    /// The first place at which a row was added since the running scan began.
    added: Position,
}

/// Where and as of when to scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanFrom {
    pub(crate) start: Position,
    pub(crate) now: Ticks,
}

impl Frontier {
    /// Knows nothing: the first scan starts at the beginning.
    pub(crate) fn new() -> Frontier {
        Frontier(Mutex::new(Bounds {
            start: Position::MIN,
            since: Ticks(0),
            added: Position::MAX,
        }))
    }

    /// The time that holds for a request that arrived at `now`. If a younger one has overtaken it, that is the younger
    /// one's, which has passed as well: what has become visible or has expired stays so.
    pub(crate) fn time(&self, now: Ticks) -> Ticks {
        self.bounds().time(now)
    }

    /// Begins a scan for a request that arrived at `now`. If the clock was set back, everything is scanned again.
    pub(crate) fn begin(&self, now: Ticks) -> ScanFrom {
        let mut bounds = self.bounds();
        let now = bounds.time(now);
        if now < bounds.since {
            bounds.start = Position::MIN;
            bounds.since = now;
        }
        bounds.added = Position::MAX;
        ScanFrom {
            start: bounds.start,
            now,
        }
    }

    /// Ends the scan: no row it saw before `first_left` can be of use from its time on.
    pub(crate) fn finish(&self, scan: ScanFrom, first_left: Position) {
        let mut bounds = self.bounds();
        bounds.start = first_left.min(bounds.added);
        bounds.since = scan.now;
    }

    /// Takes note of a row that is now in the store.
    pub(crate) fn added(&self, position: Position) {
        let mut bounds = self.bounds();
        bounds.start = bounds.start.min(position);
        bounds.added = bounds.added.min(position);
    }

    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Bounds {
    fn time(&self, now: Ticks) -> Ticks {
        if now.plus_seconds(OVERTAKEN_SECONDS) < self.since {
            now
        } else {
            now.max(self.since)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MessageId;

    fn at(ticks: u64) -> Position {
        Position {
            at: Ticks(ticks),
            id: MessageId(0),
        }
    }

    #[test]
    fn a_scan_starts_where_the_last_one_ended() {
        let frontier = Frontier::new();
        let scan = frontier.begin(Ticks(100));
        assert_eq!(scan.start, Position::MIN);
        frontier.finish(scan, at(70));
        assert_eq!(frontier.begin(Ticks(101)).start, at(70));
    }

    #[test]
    fn a_row_added_during_a_scan_is_not_passed_by() {
        let frontier = Frontier::new();
        let scan = frontier.begin(Ticks(100));
        frontier.added(at(50));
        frontier.finish(scan, at(70));
        assert_eq!(frontier.begin(Ticks(101)).start, at(50));
    }

    #[test]
    fn a_row_added_after_a_scan_pulls_the_start_back() {
        let frontier = Frontier::new();
        let scan = frontier.begin(Ticks(100));
        frontier.finish(scan, Position::MAX);
        frontier.added(at(90));
        frontier.added(at(95));
        assert_eq!(frontier.begin(Ticks(101)).start, at(90));
    }

    #[test]
    fn a_request_overtaken_by_a_younger_one_scans_as_of_its_time() {
        let frontier = Frontier::new();
        let noon = Ticks(0).plus_seconds(3600);
        let scan = frontier.begin(noon);
        frontier.finish(scan, at(7));
        let late = frontier.begin(Ticks(0).plus_seconds(3600 - 60));
        assert_eq!((late.start, late.now), (at(7), noon));
    }

    #[test]
    fn a_clock_set_back_forgets_the_start() {
        let frontier = Frontier::new();
        let scan = frontier.begin(Ticks(0).plus_seconds(3600));
        frontier.finish(scan, at(7));
        let back = Ticks(0).plus_seconds(3600 - 61);
        assert_eq!(frontier.time(back), back);
        let scan = frontier.begin(back);
        assert_eq!((scan.start, scan.now), (Position::MIN, back));
    }
}
