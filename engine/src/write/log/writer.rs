//! WalWriter: the segment of the log that is being appended to; Prepared: the next one.

use crate::base::key::SequenceNumber;
use crate::format::frame::{
    Beginning, FAR, FRAME_BATCH, FRAME_BEGINNING, FRAME_HEADER_BYTES, encode_frame,
};
use crate::format::header::{HEADER_BYTES, encode_header, store_key};
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use crate::fs::{LOG_TAIL_BYTES, LogWrites};
use crate::{Error, Result};

const _: () = assert!(
    LOG_TAIL_BYTES >= FRAME_HEADER_BYTES,
    "a reader looks for zeros where the next frame would begin"
);

/// A segment that waits to be used.
#[derive(Debug)]
pub(crate) struct Prepared {
    number: u64,
    key: u64,
    file: OpenFile,
    length: u64,
}

impl Prepared {
    /// Makes segment `number` of `length` bytes, out of segment `old` if there is one; durable
    /// except for its name.
    pub(crate) fn create(
        directory: &Directory,
        store: u128,
        number: u64,
        length: u64,
        old: Option<u64>,
        writes: LogWrites,
    ) -> Result<Prepared> {
        let name = FileName::Numbered(FileKind::Wal, number);
        if let Some(old) = old {
            directory.rename(FileName::Numbered(FileKind::Wal, old), name)?;
        }
        let file = directory.open_log(name, length, writes)?;
        // A reused file may have records after `length`, which are cut off.
        file.set_length(length)?;
        file.write(&encode_header(FileKind::Wal, store, number), 0)?;
        file.sync()?;
        Ok(Prepared {
            number,
            key: store_key(store, number),
            file,
            length,
        })
    }

    /// Returns a writer to the segment, whose first sequence number is after `base`. Call
    /// [`WalWriter::begin`] before anything is appended.
    pub(crate) fn writer(self, base: SequenceNumber) -> WalWriter {
        WalWriter {
            base,
            end: HEADER_BYTES,
            segment: self,
        }
    }
}

/// The segment being appended to.
#[derive(Debug)]
pub(crate) struct WalWriter {
    segment: Prepared,
    base: SequenceNumber,
    end: u64,
}

impl WalWriter {
    /// Takes the segment into use. After a failure the segment is as it was.
    pub(crate) fn begin(&mut self, beginning: Beginning) -> Result<()> {
        let mut frame = Vec::new();
        let head = (FRAME_BEGINNING, 0, FAR);
        let payload = beginning.encode();
        encode_frame(&mut frame, self.segment.key, HEADER_BYTES, head, &payload);
        let begun = self.append(&mut frame);
        if begun.is_err() {
            self.undo(frame.len())?;
        }
        begun
    }

    /// The segment of a writer whose `begin` has failed.
    pub(crate) fn into_prepared(self) -> Prepared {
        self.segment
    }

    pub(crate) fn number(&self) -> u64 {
        self.segment.number
    }

    pub(crate) fn base(&self) -> SequenceNumber {
        self.base
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The length that the segment was made with. Appends beyond it are allowed, but slower.
    pub(crate) fn length(&self) -> u64 {
        self.segment.length
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.end > self.segment.length / 2
    }

    pub(crate) fn file(&self) -> &OpenFile {
        &self.segment.file
    }

    /// Adds a frame to `group`, which will be appended at the end of the segment.
    pub(crate) fn frame(
        &self,
        group: &mut Vec<u8>,
        first: SequenceNumber,
        durable: SequenceNumber,
        payload: &[u8],
    ) {
        let offset = self.end + group.len() as u64;
        let distance = u32::try_from(first - durable).unwrap_or(FAR);
        let delta = u32::try_from(first - self.base);
        let delta = delta.expect("a segment is ended before 2^32 sequence numbers");
        let head = (FRAME_BATCH, delta, distance);
        encode_frame(group, self.segment.key, offset, head, payload);
    }

    /// Appends a group of frames in one write. After a failure the end has not moved.
    pub(crate) fn append(&mut self, group: &mut Vec<u8>) -> Result<()> {
        let end = self.end + group.len() as u64;
        // A reused segment holds old frames after the end. Zeros there distinguish a clean end from
        // a torn frame.
        let room = self.segment.length.saturating_sub(end) as usize;
        group.resize(group.len() + room.min(LOG_TAIL_BYTES), 0);
        self.segment.file.write(group, self.end)?;
        self.end = end;
        Ok(())
    }

    /// Erases the bytes that a failed append of `bytes` bytes may have written: otherwise a replay
    /// would find whole frames there. Its errors are never `NoSpace`.
    pub(crate) fn undo(&self, bytes: usize) -> Result<()> {
        let length = self.segment.length;
        let room = length.saturating_sub(self.end) as usize;
        let zeroed = self.segment.file.write(&vec![0; room.min(bytes)], self.end);
        // A file system that never writes in place has no space for the zeros either. There, the
        // segment is cut short.
        let kept = match zeroed {
            Err(Error::NoSpace { .. }) => self.end,
            zeroed => zeroed.map(|()| self.end.max(length))?,
        };
        let cut = self.segment.file.set_length(kept);
        cut.map_err(Error::not_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    use crate::write::log::reader::{self, SegmentContents};
    use std::io::ErrorKind;
    use std::sync::Arc;

    #[test]
    fn nothing_is_left_of_an_append_that_failed_where_zeros_take_space_too() {
        for writes in [LogWrites::AtOnce, LogWrites::AtSync] {
            let disk = FaultFs::new(Arc::new(MemoryFs::crashable()));
            let directory = Directory::new(Arc::new(disk.clone()), "/data".as_ref());
            directory.make().unwrap();
            let prepared = Prepared::create(&directory, 1, 7, 8192, None, writes).unwrap();
            let mut wal = prepared.writer(0);
            wal.begin(Beginning::default()).unwrap();
            let mut group = Vec::new();
            wal.frame(&mut group, 1, 0, b"");
            wal.frame(&mut group, 2, 0, &[1; 100]);
            let bytes = group.len();
            disk.set(Some(Fault {
                operation: Some(Operation::Write),
                path: String::new(),
                nth: 1,
                failure: Failure::Error(ErrorKind::StorageFull),
                sticky: true,
            }));
            wal.append(&mut group).unwrap_err();
            wal.undo(bytes).unwrap();
            let found = reader::read(&directory, 1, 7, None, Vec::new()).unwrap();
            let SegmentContents::Segment(segment) = found else {
                panic!("{found:?}");
            };
            assert!(segment.frames.is_empty(), "{writes:?}: {segment:?}");
            assert!(segment.torn.is_none(), "{writes:?}: {segment:?}");
        }
    }
}
