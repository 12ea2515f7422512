//! The log: framing, append, and replay up to a torn tail. One log for all keyspaces, in segments.
//!
//! After the file header come frames, each one batch:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | bytes of the payload |
//! | 4 | 1 | type: 1 batch |
//! | 5 | 8 | sequence number of the first change |
//! | 13 | 8 | last sequence number known to be durable when the frame was written |
//! | 21 | 8 | checksum of bytes 0..21 and the payload, keyed by file number and offset |
//! | 29 | n | payload (`batch.rs`) |
//!
//! Sequence numbers grow from frame to frame. The manifest lists the segments; one that is no longer appended to has its end
//! there. In the last one the frames behind the first bad one are dropped, unless a later good frame says that the bad
//! one's place was durable: that is corruption, not a torn tail.

use crate::Result;
use crate::codec::{Decoder, checksum};
use crate::config::BATCH_BYTES_MAX;
use crate::files::{
    Directory, FileKind, FileName, HEADER_BYTES, OpenFile, check_header, encode_header,
};
use crate::key::{SEQUENCE_MAX, SequenceNumber};
use crate::version::WalMeta;
use bytes::Bytes;

const FRAME_HEADER_BYTES: usize = 29;
const FRAME_BATCH: u8 = 1;

/// The segment being appended to.
#[derive(Debug)]
pub(crate) struct WalWriter {
    number: u64,
    file: OpenFile,
    end: u64,
}

impl WalWriter {
    /// Creates segment `number`, durable but for its name.
    pub(crate) fn create(directory: &Directory, store: u128, number: u64) -> Result<WalWriter> {
        let file = directory.create(FileName::Numbered(FileKind::Wal, number))?;
        file.write(&encode_header(FileKind::Wal, store, number), 0)?;
        file.sync()?;
        Ok(WalWriter {
            number,
            file,
            end: HEADER_BYTES,
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
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
        let start = group.len();
        group.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        group.push(FRAME_BATCH);
        group.extend_from_slice(&first.to_le_bytes());
        group.extend_from_slice(&durable.to_le_bytes());
        let sum = checksum(self.number, offset, &[&group[start..], payload]);
        group.extend_from_slice(&sum.to_le_bytes());
        group.extend_from_slice(payload);
    }

    /// Appends a group of frames in one write. After a failure the end has not moved.
    pub(crate) fn append(&mut self, group: &[u8]) -> Result<()> {
        self.file.write(group, self.end)?;
        self.end += group.len() as u64;
        Ok(())
    }
}

/// One batch of a segment.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) first: SequenceNumber,
    pub(crate) payload: Bytes,
    durable: SequenceNumber,
    end: usize,
}

/// The whole frames of a segment, and where the last of them ends.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: OpenFile,
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: u64,
    /// The number of the last change in it, or before it if it is empty.
    pub(crate) last_sequence: SequenceNumber,
    /// The last sequence number that frames of this segment say was durable.
    pub(crate) durable: SequenceNumber,
    /// Whether bytes behind the end were dropped.
    pub(crate) torn: bool,
    /// Whether the manifest knew the end: then all of it was synced.
    pub(crate) sealed: bool,
}

/// Reads segment `number`. `Corrupt` if anything but a torn tail is wrong.
pub(crate) fn read(
    directory: &Directory,
    store: u128,
    number: u64,
    meta: WalMeta,
) -> Result<Segment> {
    let file = directory.open(FileName::Numbered(FileKind::Wal, number))?;
    let length = file.length()?;
    let length = meta.end.unwrap_or(length).min(length);
    let bytes = Bytes::from(file.read_exact(0, length as usize)?);
    let header = &bytes[..bytes.len().min(HEADER_BYTES as usize)];
    if check_header(header, FileKind::Wal, number, file.path())? != store {
        return Err(file.corrupt(16, "the segment belongs to another store"));
    }
    let mut frames: Vec<Frame> = Vec::new();
    let mut offset = HEADER_BYTES as usize;
    let mut last = meta.base;
    while let Some(frame) = frame_at(&bytes, number, offset, last) {
        offset = frame.end;
        last = frame.first;
        frames.push(frame);
    }
    let changes = frames
        .last()
        .map(|frame| frame.first + count_changes(&frame.payload).max(1) - 1);
    let durable = frames.iter().map(|frame| frame.durable).max().unwrap_or(0);
    let segment = Segment {
        number,
        file,
        frames,
        end: offset as u64,
        last_sequence: changes.unwrap_or(meta.base),
        durable,
        torn: offset < bytes.len(),
        sealed: meta.end.is_some(),
    };
    segment.check_end(&bytes, meta)?;
    Ok(segment)
}

impl Segment {
    fn check_end(&self, bytes: &Bytes, meta: WalMeta) -> Result<()> {
        let wrong = match meta.end {
            Some(end) => self.end != end,
            None => self.is_followed_by_durable(bytes),
        };
        match wrong {
            true => Err(self
                .file
                .corrupt(self.end, "the checksum of the record does not match")),
            false => Ok(()),
        }
    }

    /// Whether a later frame says that more than the good frames was durable.
    fn is_followed_by_durable(&self, bytes: &Bytes) -> bool {
        let offsets = self.end as usize + 1..bytes.len();
        let mut later =
            offsets.filter_map(|offset| frame_at(bytes, self.number, offset, self.last_sequence));
        later.any(|frame| frame.durable > self.last_sequence)
    }
}

fn count_changes(payload: &Bytes) -> u64 {
    crate::batch::Changes::new(payload).count() as u64
}

/// The frame at `offset`, if a whole and unharmed one with a sequence number behind `last` stands there.
fn frame_at(bytes: &Bytes, number: u64, offset: usize, last: SequenceNumber) -> Option<Frame> {
    let mut decoder = Decoder::new(bytes.get(offset..)?);
    let length = decoder.u32()? as usize;
    let kind = decoder.u8()?;
    let (first, durable, sum) = (decoder.u64()?, decoder.u64()?, decoder.u64()?);
    let numbered = first > last && durable < first && first < SEQUENCE_MAX;
    let plausible = kind == FRAME_BATCH && length <= BATCH_BYTES_MAX && numbered;
    let payload = plausible.then(|| decoder.take(length))??;
    let head = &bytes[offset..offset + FRAME_HEADER_BYTES - 8];
    (sum == checksum(number, offset as u64, &[head, payload])).then(|| Frame {
        offset: offset as u64,
        first,
        payload: bytes.slice_ref(payload),
        durable,
        end: offset + FRAME_HEADER_BYTES + length,
    })
}
