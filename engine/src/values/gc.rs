//! Removal of segments that nothing refers to, and the choice of those worth rewriting.
//!
//! References to a segment are never counted up and down: they are summed over the memtables and the live SSTables, each of which
//! knows its own. So the account cannot drift, and it is right after every restart.

use crate::Result;
use crate::format::edit::Field;
use crate::fs::name::{FileKind, FileName};
use crate::values::{ValueLog, lock};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

fn is_wasteful(live: u64, size: u64, percent: u64) -> bool {
    live < size / 100 * (100 - percent)
}

impl ValueLog {
    /// Something may have become garbage.
    pub(crate) fn request_collection(&self) {
        self.collect.store(true, Ordering::SeqCst);
    }

    /// Whether a collection may find something; asks once.
    pub(crate) fn take_collection_request(&self) -> bool {
        self.collect.swap(false, Ordering::SeqCst)
    }

    /// Sealed segments without pins. Call it before references are counted: a segment that is released later has
    /// references that the count sees.
    pub(crate) fn unpinned(&self) -> Vec<u64> {
        let segments = lock(&self.segments);
        let free = |number: &&u64| segments.pins[number].load(Ordering::SeqCst) == 0;
        segments.sealed.keys().filter(free).copied().collect()
    }

    /// Retires active segments without a writer of which more than `percent` is garbage.
    pub(crate) fn retire_wasteful(&self, references: &HashMap<u64, u64>, percent: u64) {
        let mut segments = lock(&self.segments);
        let is_idle = |number: u64| segments.pins[&number].load(Ordering::SeqCst) == 0;
        let wasteful = segments.active.iter().filter(|active| {
            let size = active.end.load(Ordering::Relaxed);
            let live = references.get(&active.number).copied().unwrap_or(0);
            let is_large = size > self.segment_bytes / 16;
            is_large && is_idle(active.number) && is_wasteful(live, size, percent)
        });
        let wasteful: Vec<u64> = wasteful.map(|active| active.number).collect();
        segments.retire(|active| wasteful.contains(&active.number));
    }

    /// Sealed segments of which more than `percent` is garbage, and that are still referred to.
    pub(crate) fn wasteful(&self, references: &HashMap<u64, u64>, percent: u64) -> Vec<u64> {
        let segments = lock(&self.segments);
        let live = |number: &u64| references.get(number).copied().unwrap_or(0);
        let wasteful = segments.sealed.iter().filter(|(number, meta)| {
            let live = live(number);
            live > 0 && is_wasteful(live, meta.size, percent)
        });
        wasteful.map(|(&number, _)| number).collect()
    }

    /// Removes sealed segments, but for those that were pinned meanwhile. Everything that hides their values is durable.
    pub(crate) fn remove(&self, numbers: &[u64]) -> Result<usize> {
        let mut doomed = Vec::new();
        {
            let mut segments = lock(&self.segments);
            for &number in numbers {
                if segments.pins[&number].load(Ordering::SeqCst) == 0 {
                    segments.pins.remove(&number);
                    let meta = segments.sealed.remove(&number);
                    doomed.push((number, meta.expect("only sealed segments are removed")));
                }
            }
        }
        let fields = doomed
            .iter()
            .map(|&(number, _)| Field::RemoveSegment(number))
            .collect();
        if doomed.is_empty() {
            return Ok(0);
        }
        if let Err(error) = self.edits.append(fields) {
            let mut segments = lock(&self.segments);
            for (number, meta) in doomed {
                segments.sealed.insert(number, meta);
                segments.pins.insert(number, Default::default());
            }
            return Err(error);
        }
        for &(number, _) in &doomed {
            self.files.remove(&number);
            // A file that cannot be removed now is an orphan that the next open removes.
            let _ = self
                .directory
                .remove(FileName::Numbered(FileKind::ValueLog, number));
        }
        Ok(doomed.len())
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        let segments = lock(&self.segments);
        let sealed: u64 = segments.sealed.values().map(|meta| meta.size).sum();
        let writable = segments.retiring.iter().chain(&segments.active);
        sealed
            + writable
                .map(|segment| segment.end.load(Ordering::Relaxed))
                .sum::<u64>()
    }
}
