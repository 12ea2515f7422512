//! Recovered: what the opening of a store found in its log.

use std::fmt;
use std::path::PathBuf;

/// What opening a store found in its log: the batches replayed, and the records cut off at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Batches that were read from the log, including those that SSTables hold as well.
    pub batches: u64,
    /// Bytes of the log up to the end of the last of these batches.
    pub bytes: u64,
    /// Records after the end of the log, in order. A killed process leaves at most the record of an
    /// unacknowledged batch; a power cut leaves the records that were not synced in time. Damage to
    /// the unsynced part of the log looks the same.
    pub cut_off: Vec<CutOff>,
}

/// Records of one segment of the log that were not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// The file of the segment.
    pub path: PathBuf,
    /// The offset of the first of the records.
    pub offset: u64,
    /// The number of the records, as far as they can be distinguished.
    pub batches: u64,
    /// The length of the records, in bytes.
    pub bytes: u64,
    /// Why the records were not replayed.
    pub reason: CutReason,
}

/// Why records were cut off. None of them is known to have been durable: a store that has lost a
/// record known to be durable is refused as corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutReason {
    /// The first record is incomplete.
    TornRecord,
    /// The first record points to a large value that is missing or incomplete.
    MissingValue,
    /// The previous segment of the log ends too early: the records between are missing.
    BehindGap,
}

impl Recovered {
    /// How many records were cut off.
    pub fn batches_cut_off(&self) -> u64 {
        self.cut_off.iter().map(|cut| cut.batches).sum()
    }

    /// How many bytes were cut off.
    pub fn bytes_cut_off(&self) -> u64 {
        self.cut_off.iter().map(|cut| cut.bytes).sum()
    }
}

impl CutOff {
    pub(crate) fn warn(&self) {
        tracing::warn!(
            path = %self.path.display(),
            offset = self.offset,
            batches = self.batches,
            bytes = self.bytes,
            reason = %self.reason,
            "cut off the end of the log: nothing says that it was durable"
        );
    }
}

impl CutReason {
    /// The reason in an error about records that are known to have been durable.
    pub(crate) fn as_damage(self) -> &'static str {
        match self {
            CutReason::TornRecord => crate::format::frame::DAMAGED,
            CutReason::MissingValue => "the value that the record points to is missing or damaged",
            CutReason::BehindGap => "the records before this segment are missing",
        }
    }
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutReason::TornRecord => "a record is not whole",
            CutReason::MissingValue => "a large value is missing",
            CutReason::BehindGap => "the segment before it ends early",
        })
    }
}
