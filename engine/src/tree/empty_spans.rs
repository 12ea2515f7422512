//! EmptySpans: spans of a keyspace in which nothing is live, so that a scan need not walk the
//! tombstones there again.
//!
//! A queue is written at one end and deleted at the other: before its head lie the tombstones of
//! all rows deleted since the last compaction, and every scan for the head would walk them.
//! Instead, a scan that walked many remembers "nothing is live in [start, end) as of sequence
//! number n", and the next scan starts after the span. A put into such a span ends it there.
//!
//! Spans are kept only in memory and found again by scans, so they cannot be wrong after a crash.
//! Invariant: no put into a known span has been applied since its sequence number; known spans do
//! not overlap.

use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Number of hidden rows from which a stretch is worth remembering.
pub(crate) const HIDDEN_ROWS_MIN: usize = 32;
/// Maximum number of known spans. Another one drops them all: scans find the useful ones again.
const SPANS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct EmptySpans {
    /// False until a scan explores the first span: puts then need not look.
    in_use: AtomicBool,
    /// The sequence number of the last change that was applied or is being applied.
    last_put: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<Vec<u8>, Span>,
    explored: Vec<Explored>,
    next_id: u64,
}

#[derive(Debug)]
struct Span {
    end: Vec<u8>,
    as_of: SequenceNumber,
}

/// A span whose end a scan is looking for.
#[derive(Debug)]
struct Explored {
    id: u64,
    start: Vec<u8>,
    /// The smallest key from `start` on that was put meanwhile.
    put: Option<Vec<u8>>,
    as_of: SequenceNumber,
}

impl EmptySpans {
    /// Call this before changes up to number `last` are applied to the memtable.
    pub(crate) fn begin_puts(&self, last: SequenceNumber) {
        // Stored before `note_put` loads `in_use`; `explore` stores and loads in the reverse order,
        // so one of the two sees the other's store. If the put does not see the exploration, the
        // exploration sees the number and gives up.
        self.last_put.store(last, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Call this before the put of `key` is applied to the memtable.
    pub(crate) fn note_put(&self, key: &[u8]) {
        if self.in_use.load(Ordering::Acquire) {
            lock(&self.state).note_put(key);
        }
    }

    /// Returns the end of a known empty span around `key`, for a reader at `at`.
    pub(crate) fn end_around(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        if !self.in_use.load(Ordering::Acquire) {
            return None;
        }
        let state = lock(&self.state);
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (_, gap) = state.known.range::<[u8], _>(upto).next_back()?;
        (gap.as_of <= at && *key < gap.end[..]).then(|| gap.end.clone())
    }

    /// Begins to explore the span that a scan at `at` walks from `start` on, and returns the
    /// exploration's id. `None` if the span may contain a put that the scan does not see.
    pub(crate) fn explore(&self, start: &[u8], at: SequenceNumber) -> Option<u64> {
        let mut state = lock(&self.state);
        self.in_use.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.last_put.load(Ordering::Acquire) > at {
            return None;
        }
        state.next_id += 1;
        let id = state.next_id;
        state.explored.push(Explored {
            id,
            start: start.to_vec(),
            put: None,
            as_of: at,
        });
        Some(id)
    }

    /// Ends an exploration. `live` is the first live key that the scan found, or the key at which
    /// it stopped; `None` if the scan gave up.
    pub(crate) fn settle(&self, id: u64, live: Option<&[u8]>) {
        let mut state = lock(&self.state);
        let index = state.explored.iter().position(|explored| explored.id == id);
        let explored = state
            .explored
            .swap_remove(index.expect("an exploration ends once"));
        let Some(live) = live else { return };
        let end = explored
            .put
            .map_or(live.to_vec(), |put| put.min(live.to_vec()));
        if explored.start < end {
            state.add(explored.start, end, explored.as_of);
        }
    }
}

impl State {
    fn note_put(&mut self, key: &[u8]) {
        for explored in self
            .explored
            .iter_mut()
            .filter(|explored| explored.start[..] <= *key)
        {
            if explored.put.as_ref().is_none_or(|put| *key < put[..]) {
                explored.put = Some(key.to_vec());
            }
        }
        let upto = (Bound::Unbounded, Bound::Included(key));
        let Some((start, gap)) = self.known.range_mut::<[u8], _>(upto).next_back() else {
            return;
        };
        if *key < gap.end[..] {
            gap.end = key.to_vec();
            if *start == gap.end {
                self.known.remove(key);
            }
        }
    }

    /// Adds a span, joined with the known spans that it touches.
    fn add(&mut self, mut start: Vec<u8>, mut end: Vec<u8>, mut as_of: SequenceNumber) {
        if self.known.len() >= SPANS_MAX {
            self.known.clear();
        }
        while let Some((other, gap)) = self.known.range(..=end.clone()).next_back() {
            if gap.end < start {
                break;
            }
            as_of = as_of.max(gap.as_of);
            end = end.max(gap.end.clone());
            let other = other.clone();
            self.known.remove(&other);
            start = start.min(other);
        }
        self.known.insert(start, Span { end, as_of });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn explored(gaps: &EmptySpans, start: &str, live: &str, at: SequenceNumber) {
        let id = gaps.explore(start.as_bytes(), at).unwrap();
        gaps.settle(id, Some(live.as_bytes()));
    }

    fn end(gaps: &EmptySpans, key: &str, at: SequenceNumber) -> Option<String> {
        gaps.end_around(key.as_bytes(), at)
            .map(|end| String::from_utf8(end).unwrap())
    }

    #[test]
    fn a_put_ends_a_gap_at_its_key() {
        let gaps = EmptySpans::default();
        explored(&gaps, "a", "m", 5);
        assert_eq!(end(&gaps, "b", 5).as_deref(), Some("m"));
        assert_eq!(
            end(&gaps, "b", 4),
            None,
            "an older reader may see rows there"
        );
        gaps.begin_puts(7);
        gaps.note_put(b"f");
        assert_eq!(end(&gaps, "b", 6).as_deref(), Some("f"));
        assert_eq!(end(&gaps, "g", 6), None);
        gaps.note_put(b"a");
        assert_eq!(end(&gaps, "a", 7), None);
    }

    #[test]
    fn touching_gaps_become_one() {
        let gaps = EmptySpans::default();
        explored(&gaps, "a", "c", 5);
        explored(&gaps, "e", "g", 6);
        explored(&gaps, "c", "e", 7);
        assert_eq!(end(&gaps, "a", 7).as_deref(), Some("g"));
        assert_eq!(lock(&gaps.state).known.len(), 1);
    }

    #[test]
    fn a_put_during_the_exploration_counts() {
        let gaps = EmptySpans::default();
        let id = gaps.explore(b"a", 5).unwrap();
        gaps.begin_puts(6);
        gaps.note_put(b"c");
        gaps.settle(id, Some(b"m"));
        assert_eq!(end(&gaps, "a", 6).as_deref(), Some("c"));
        assert!(
            gaps.explore(b"a", 5).is_none(),
            "the put is not visible at 5"
        );
    }
}
