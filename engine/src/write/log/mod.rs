//! The log: one for all keyspaces, in segments. Frames are appended to the last; recovery reads
//! them up to a torn tail.

pub(crate) mod reader;
pub(crate) mod segments;
pub(crate) mod writer;

use crate::base::key::SequenceNumber;
use writer::WalWriter;

/// The log as its leader holds it.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The segment in use. `None` if the next write begins one, and if the store lives in memory.
    pub(crate) wal: Option<WalWriter>,
    /// Number of the last segment that ended, and its end; zeros if there is none.
    pub(crate) previous: (u64, u64),
    /// Segment and offset after the last batch. A later segment without batches may be unsynced
    /// although all batches are synced.
    pub(crate) last_batch: (u64, u64),
    pub(crate) last_sequence: SequenceNumber,
    /// Memory for the frames of a group.
    pub(super) group: Vec<u8>,
}

impl Log {
    /// Ends the segment in use; the next write begins another.
    pub(crate) fn end_segment(&mut self) {
        if let Some(wal) = self.wal.take() {
            self.previous = (wal.number(), wal.end());
        }
    }
}
