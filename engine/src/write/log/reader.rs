//! Reads a segment of the log: its whole frames, and the lost ones after them.

use crate::Result;
use crate::base::config::WAL_SEGMENT_BYTES_MAX;
use crate::base::key::SequenceNumber;
use crate::format::frame::{
    BEGINNING_DAMAGED, Beginning, DAMAGED, FIRST_BATCH, FRAME_HEADER_BYTES, Frame, beginning_of,
    count_changes, find_frames, frame_at, payload_of,
};
use crate::format::header::{HEADER_BYTES, check_header, store_key};
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};

/// Maximum length of a file that is read into memory. A segment ends with the first batch beyond
/// [`WAL_SEGMENT_BYTES_MAX`].
const BYTES_MAX: u64 = 2 * WAL_SEGMENT_BYTES_MAX;

/// The whole frames of a segment, and where the last of them ends.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: OpenFile,
    bytes: Vec<u8>,
    pub(crate) beginning: Beginning,
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: u64,
    /// Number of the last change in the segment; of the last one before it, if it has none.
    pub(crate) last_sequence: SequenceNumber,
    /// The highest durable sequence number recorded in any valid frame, including frames after a
    /// bad one.
    pub(crate) durable: SequenceNumber,
    /// The records that are lost after `end`, if there are any.
    pub(crate) torn: Option<Torn>,
}

/// Records that are not applied: a bad one, and all after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Torn {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

/// The contents of the file of a segment.
#[derive(Debug)]
pub(crate) enum SegmentContents {
    Segment(Segment),
    /// The segment was never taken into use.
    Unused,
    /// Records without known sequence numbers, because the beginning of the segment is lost.
    NoBeginning(OpenFile, Torn),
}

/// Reads segment `number` into `bytes`, up to `end` if a recovery has found where it ends.
pub(crate) fn read(
    directory: &Directory,
    store: u128,
    number: u64,
    end: Option<u64>,
    bytes: Vec<u8>,
) -> Result<SegmentContents> {
    let file = directory.open(FileName::Numbered(FileKind::Wal, number))?;
    let bytes = read_bytes(&file, end, bytes)?;
    let header = &bytes[..bytes.len().min(HEADER_BYTES as usize)];
    if check_header(header, FileKind::Wal, number, file.path())? != store {
        return Err(file.corrupt(16, "the segment belongs to another store"));
    }
    let key = store_key(store, number);
    let Some(beginning) = beginning_of(&bytes, key) else {
        return without_beginning(file, &bytes, key);
    };
    Ok(SegmentContents::Segment(Segment::from_bytes(
        number, file, bytes, key, beginning,
    )))
}

/// The bytes of a segment up to `end`, or all of them, in the memory of `bytes`.
fn read_bytes(file: &OpenFile, end: Option<u64>, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let length = file.length()?;
    let length = end.unwrap_or(length).min(length);
    if length > BYTES_MAX {
        return Err(file.corrupt(0, "the file is too long for a segment of the log"));
    }
    bytes.resize(length as usize, 0);
    file.read_exact_into(0, &mut bytes)?;
    Ok(bytes)
}

/// The contents of a segment without a beginning. Errors: its frames prove that it had one.
fn without_beginning(file: OpenFile, bytes: &[u8], key: u64) -> Result<SegmentContents> {
    let behind = frames_behind(bytes, key, 0, HEADER_BYTES as usize, 0);
    if behind.durable > 0 {
        return Err(file.corrupt(HEADER_BYTES, BEGINNING_DAMAGED));
    }
    if behind.batches == 0 {
        return Ok(SegmentContents::Unused);
    }
    let torn = Torn {
        batches: behind.batches,
        bytes: behind.end as u64 - HEADER_BYTES,
    };
    Ok(SegmentContents::NoBeginning(file, torn))
}

/// The frames of a segment up to the first bad one.
fn whole_frames(bytes: &[u8], key: u64, base: SequenceNumber) -> Vec<Frame> {
    let (mut offset, mut last) = (FIRST_BATCH, base);
    let mut frames = Vec::new();
    while let Some(frame) = frame_at(bytes, key, base, offset, last) {
        (offset, last) = (frame.end, frame.first);
        frames.push(frame);
    }
    frames
}

/// Whether segment `number` of the store has been taken into use. Its header may be damaged.
pub(crate) fn is_in_use(file: &OpenFile, store: u128, number: u64) -> Result<bool> {
    let length = file.length()?.min(FIRST_BATCH as u64);
    let bytes = file.read_exact(0, length as usize)?;
    Ok(beginning_of(&bytes, store_key(store, number)).is_some())
}

impl Segment {
    fn from_bytes(
        number: u64,
        file: OpenFile,
        bytes: Vec<u8>,
        key: u64,
        beginning: Beginning,
    ) -> Segment {
        let base = beginning.base;
        let frames = whole_frames(&bytes, key, base);
        let last_frame = frames.last();
        let (offset, last) =
            last_frame.map_or((FIRST_BATCH, base), |frame| (frame.end, frame.first));
        let last_sequence = last_frame.map_or(base, |frame| {
            frame.first + count_changes(payload_of(&bytes, frame)) - 1
        });
        let durable = frames.iter().map(|frame| frame.durable).max();
        let behind = frames_behind(&bytes, key, base, offset, last);
        Segment {
            torn: torn_at(&bytes, offset, &behind),
            durable: beginning
                .durable
                .max(durable.unwrap_or(0))
                .max(behind.durable),
            number,
            file,
            bytes,
            beginning,
            frames,
            end: offset as u64,
            last_sequence,
        }
    }

    /// The memory of the segment, for the next one.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The batch that a frame of this segment holds.
    pub(crate) fn payload(&self, frame: &Frame) -> &[u8] {
        payload_of(&self.bytes, frame)
    }

    /// The number of the last change that ends before `offset`, or before the segment.
    pub(crate) fn last_before(&self, offset: u64) -> SequenceNumber {
        let count = self
            .frames
            .partition_point(|frame| frame.end as u64 <= offset);
        let last = self.frames[..count].last();
        last.map_or(self.beginning.base, |frame| {
            frame.first + count_changes(self.payload(frame)) - 1
        })
    }

    /// The records of the segment that are lost if the log ends before its frame `index`.
    pub(crate) fn torn_from(&self, index: usize) -> Torn {
        let behind = self.torn.unwrap_or_default();
        let start = self
            .frames
            .get(index)
            .map_or(self.end, |frame| frame.offset);
        Torn {
            batches: (self.frames.len() - index) as u64 + behind.batches,
            bytes: self.end - start + behind.bytes,
        }
    }

    /// The error for the first bad frame, which is known to have been whole once.
    pub(crate) fn damaged(&self) -> crate::Error {
        self.file.corrupt(self.end, DAMAGED)
    }
}

/// The torn records at the end of the frames, if there are not only zeros.
fn torn_at(bytes: &[u8], offset: usize, behind: &Behind) -> Option<Torn> {
    let rest = &bytes[offset..];
    if behind.batches > 0 {
        return Some(Torn {
            batches: behind.batches + 1,
            bytes: (behind.end - offset) as u64,
        });
    }
    let head = &rest[..rest.len().min(FRAME_HEADER_BYTES)];
    let tag = head.get(4..8)?.try_into().ok().map(u32::from_le_bytes)?;
    let claimed = FRAME_HEADER_BYTES + (tag >> 2) as usize;
    head.iter().any(|&byte| byte != 0).then_some(Torn {
        batches: 1,
        bytes: claimed.min(rest.len()) as u64,
    })
}

/// The good frames after a bad one.
#[derive(Debug, Default)]
struct Behind {
    batches: u64,
    /// The end of the last of these frames.
    end: usize,
    /// The highest sequence number that one of the frames records as durable.
    durable: SequenceNumber,
}

fn frames_behind(
    bytes: &[u8],
    key: u64,
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
) -> Behind {
    let (frames, is_complete) = find_frames(bytes, key, base, offset, last);
    if !is_complete {
        tracing::warn!(
            offset,
            "too much behind a bad frame of the log looks like frames: not all of it was searched"
        );
    }
    Behind {
        batches: frames.len() as u64,
        end: frames.last().map_or(0, |frame| frame.end),
        durable: frames.iter().map(|frame| frame.durable).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::frame::{FRAME_BATCH, encode_frame};
    use crate::fs::LogWrites;
    use crate::fs::{Fs, Keep, MemoryFs};
    use crate::{Batch, Config, Db, Environment, Keyspace, KeyspaceOptions};
    use std::sync::Arc;

    fn open(fs: &MemoryFs) -> (Db, Keyspace) {
        let environment = Environment::stepped(Arc::new(fs.clone()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        (db, keyspace)
    }

    fn put(db: &Db, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        let mut batch = Batch::new();
        batch.put(keyspace, key, value);
        drop(db.write(batch).unwrap());
    }

    #[test]
    fn torn_records_are_counted_from_the_bad_one_to_the_last_good_one() {
        let mut bytes = [0; 100];
        let nothing = Behind::default();
        assert!(torn_at(&bytes, 40, &nothing).is_none());
        let behind = Behind {
            batches: 2,
            end: 90,
            durable: 0,
        };
        let torn = torn_at(&bytes, 40, &behind).unwrap();
        assert_eq!((torn.batches, torn.bytes), (3, 50));
        // The head of the bad record says that eight bytes follow it, or more than there are.
        for (claimed, found) in [(8_u32, FRAME_HEADER_BYTES as u64 + 8), (1000, 60)] {
            bytes[44..48].copy_from_slice(&(claimed << 2).to_le_bytes());
            let torn = torn_at(&bytes, 40, &nothing).unwrap();
            assert_eq!((torn.batches, torn.bytes), (1, found));
        }
    }

    #[test]
    fn a_value_that_looks_like_a_frame_does_not_make_a_torn_tail_damage() {
        let fs = MemoryFs::crashable();
        let (db, keyspace) = open(&fs);
        put(&db, &keyspace, b"first", b"value");
        let log_end = || {
            db.parts().log.with_log(|log| {
                log.wal
                    .as_ref()
                    .map(|wal| (wal.number(), wal.end()))
                    .unwrap()
            })
        };
        let (number, torn) = log_end();
        put(&db, &keyspace, b"torn", b"value");
        let (_, end) = log_end();
        // The value lies here, after the head of its frame, tag, keyspace, key and length of the
        // value.
        let offset = end + FRAME_HEADER_BYTES as u64 + 2 + 4 + 1;
        let mut fake = Vec::new();
        let mut payload = Batch::new();
        payload.put(&keyspace, b"fake", b"");
        let (sequence, everything_before) = (9, 1);
        let head = (FRAME_BATCH, sequence, everything_before);
        encode_frame(&mut fake, number, offset, head, &payload.payload);
        put(&db, &keyspace, b"bad", &fake);
        std::mem::forget((db, keyspace));

        let fs = fs.crash(1, Keep::Everything);
        let path = format!("/data/{}", FileName::Numbered(FileKind::Wal, number));
        let log = fs.open_log(path.as_ref(), 0, LogWrites::AtOnce).unwrap();
        let bytes = vec![0xee; (end - torn) as usize + FRAME_HEADER_BYTES];
        log.write_at(&bytes, torn).unwrap();
        let mut found = [0; 8];
        log.read_at(&mut found, offset).unwrap();
        assert_eq!(found, fake[..8], "the value lies where it was meant to");
        let (db, keyspace) = open(&fs);
        assert!(db.get(&keyspace, b"first").unwrap().is_some());
        assert!(db.get(&keyspace, b"torn").unwrap().is_none());
    }
}
