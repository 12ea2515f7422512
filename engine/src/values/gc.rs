//! Removal of segments that nothing refers to, and the choice of those worth rewriting.
//!
//! No counter holds the references to a segment. Each collection adds up the references of the
//! memtables and of the live SSTables, each of which knows its own. So the sums cannot drift, and
//! are right after every restart.

use crate::Result;
use crate::format::edit::{Field, LogMark, SegmentMeta};
use crate::fs::name::{FileKind, FileName};
use crate::values::ValueLog;
use std::collections::HashMap;

/// A segment is small if it has at most 1/16 of the length of a full one.
const SMALL_PART: u64 = 16;

/// Minimum number of small segments that are joined at once. Each value is then copied a few times
/// at most until its segment is no longer small.
const SMALL_MAX: usize = 16;

fn is_wasteful(live: u64, size: u64, percent: u64) -> bool {
    live < size / 100 * (100 - percent)
}

impl ValueLog {
    /// Requests a collection, because some values may have become garbage.
    pub(crate) fn request_collection(&self) {
        self.segments.request_collection();
    }

    /// True if a collection was requested; clears the request.
    pub(crate) fn take_collection_request(&self) -> bool {
        self.segments.take_collection_request()
    }

    /// Returns the sealed segments without pins. Call this before references are counted: if a pin
    /// is released later, the references that took its place are counted.
    pub(crate) fn unpinned(&self) -> Vec<u64> {
        self.segments.unpinned()
    }

    /// Ends large active segments without pins or writers of which more than `percent` is garbage.
    pub(crate) fn retire_wasteful(&self, references: &HashMap<u64, u64>, percent: u64) {
        self.segments.fill_wasteful(|number, size| {
            let live = references.get(&number).copied().unwrap_or(0);
            is_wasteful(live, size, percent)
        });
    }

    /// Sealed segments of which more than `percent` is garbage, and that are still referred to.
    pub(crate) fn wasteful(&self, references: &HashMap<u64, u64>, percent: u64) -> Vec<u64> {
        let sealed = self.segments.sealed().into_iter();
        let wasteful = sealed.filter(|(number, meta)| {
            let live = references.get(number).copied().unwrap_or(0);
            live > 0 && is_wasteful(live, meta.size, percent)
        });
        wasteful.map(|(number, _)| number).collect()
    }

    /// Returns the small sealed segments to be joined: as many as fit into one segment, or none if
    /// there are fewer than [`SMALL_MAX`]. Small segments come from checkpoints, which end the
    /// segments in use. `counts` selects the segments that may be rewritten.
    pub(crate) fn small(&self, counts: impl Fn(u64) -> bool) -> Vec<u64> {
        let bytes_max = self.segments.segment_bytes();
        let is_small = |(number, meta): &(u64, SegmentMeta)| {
            meta.size <= bytes_max / SMALL_PART && counts(*number)
        };
        let mut bytes = 0;
        let sealed = self.segments.sealed().into_iter().filter(is_small);
        let joined = sealed.take_while(|(_, meta)| {
            bytes += meta.size;
            bytes <= bytes_max
        });
        let joined: Vec<u64> = joined.map(|(number, _)| number).collect();
        if joined.len() >= SMALL_MAX {
            joined
        } else {
            Vec::new()
        }
    }

    /// Removes sealed segments, except those that were pinned meanwhile. The log must be durable up
    /// to `mark`, which is after the last change that refers to the segments or hides their values.
    /// One edit makes the mark durable together with the removal, so that a replay never takes a
    /// removed value for one lost in a power cut.
    pub(crate) fn remove(&self, numbers: &[u64], mark: LogMark) -> Result<usize> {
        let removal = self.segments.begin_removal(numbers);
        if removal.numbers().is_empty() {
            return Ok(0);
        }
        let fields = removal
            .numbers()
            .iter()
            .map(|&number| Field::RemoveSegment(number))
            .collect();
        self.edits.append_marked(mark, fields)?;
        let gone = removal.complete();
        for &number in &gone {
            self.files.remove(&number);
            // A file that cannot be removed now is an orphan that the next open removes.
            let name = FileName::Numbered(FileKind::ValueLog, number);
            let _ = self.directory.remove(name);
        }
        Ok(gone.len())
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_wasteful_if_more_than_the_percentage_is_garbage() {
        for (live, is_expected) in [(0, true), (4999, true), (5000, false), (10_000, false)] {
            assert_eq!(is_wasteful(live, 10_000, 50), is_expected, "{live}");
        }
        assert!(is_wasteful(7999, 10_000, 20) && !is_wasteful(8000, 10_000, 20));
    }
}
