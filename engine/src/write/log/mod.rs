//! The log: framing, append, and replay up to a torn tail. One log for all keyspaces, in segments.
//!
//! A segment has its full length before it is used, and may be an old one used again; so it is full of zeros, or of what an
//! earlier segment left. After the file header comes one frame of type 2, written when the segment is taken into use, and
//! then frames of type 1, each one batch:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | low half of the checksum of the rest of the frame, keyed by [`frame_key`] and offset |
//! | 4 | 4 | bytes of the payload x 4 + type |
//! | 8 | 4 | sequence number of the first change − base |
//! | 12 | 4 | how far behind the first change the last one is that was known to be durable then; 2^32 − 1 for further |
//! | 16 | n | payload; type 1: `batch.rs`; type 2: see [`Beginning`] |
//!
//! Sequence numbers grow from frame to frame. Each segment says where the one before it ended. Frames behind the first bad one
//! of the last segments are dropped, unless a later good frame says that the bad one's place was durable: that is
//! corruption, not a torn tail.

pub(crate) mod segments;

use crate::Result;
use crate::base::codec::{Decoder, checksum};
use crate::base::config::BATCH_BYTES_MAX;
use crate::base::key::{SEQUENCE_MAX, SequenceNumber};
use crate::dump::Dump;
use crate::fs::LogWrites;
use crate::fs::files::{
    Directory, FORMAT_VERSION, FileKind, FileName, HEADER_BYTES, OpenFile, check_header,
    encode_header, named_in_header,
};

const FRAME_HEADER_BYTES: usize = 16;
const FRAME_BATCH: u32 = 1;
const FRAME_BEGINNING: u32 = 2;
const BEGINNING_BYTES: usize = 32;
/// Where the first batch of a segment stands.
const FIRST_BATCH: usize = HEADER_BYTES as usize + FRAME_HEADER_BYTES + BEGINNING_BYTES;
/// What is said of a bad frame that was whole once.
pub(crate) const DAMAGED: &str = "the checksum of the record does not match";
pub(crate) const BEGINNING_DAMAGED: &str = "the beginning of the segment is damaged";
/// Stands for a distance that does not fit.
const FAR: u32 = u32::MAX;

const _: () = assert!((BATCH_BYTES_MAX as u64) < 1 << 30);

/// What a segment says when it is taken into use: four integers of 8 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The last sequence number before the segment.
    pub(crate) base: SequenceNumber,
    /// The last sequence number known to be durable.
    pub(crate) durable: SequenceNumber,
    /// Number of the segment before, 0 for none, and where its last frame ends.
    pub(crate) previous: u64,
    pub(crate) previous_end: u64,
}

impl Beginning {
    fn encode(&self) -> [u8; BEGINNING_BYTES] {
        let mut out = [0; BEGINNING_BYTES];
        let fields = [self.base, self.durable, self.previous, self.previous_end];
        for (place, field) in out.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Beginning> {
        let mut decoder = Decoder::new(bytes);
        let beginning = Beginning {
            base: decoder.u64().filter(|base| *base < SEQUENCE_MAX)?,
            durable: decoder.u64()?,
            previous: decoder.u64()?,
            previous_end: decoder.u64()?,
        };
        (decoder.is_empty() && beginning.durable <= beginning.base).then_some(beginning)
    }
}

/// A segment that waits to be used.
#[derive(Debug)]
pub(crate) struct Prepared {
    number: u64,
    key: u64,
    file: OpenFile,
    length: u64,
    writes: LogWrites,
}

impl Prepared {
    /// Makes segment `number` of `length` bytes, out of segment `old` if there is one; durable but for its name.
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
        file.write(&encode_header(FileKind::Wal, store, number), 0)?;
        file.sync()?;
        Ok(Prepared {
            number,
            key: frame_key(FORMAT_VERSION, store, number),
            file,
            length,
            writes,
        })
    }

    /// Takes the segment into use.
    pub(crate) fn begin(self, beginning: Beginning) -> Result<WalWriter> {
        let mut writer = WalWriter {
            number: self.number,
            key: self.key,
            file: self.file,
            length: self.length,
            base: beginning.base,
            end: HEADER_BYTES,
            writes: self.writes,
        };
        let mut frame = Vec::new();
        let head = (FRAME_BEGINNING, 0, FAR);
        encode_frame(
            &mut frame,
            self.key,
            HEADER_BYTES,
            head,
            &beginning.encode(),
        );
        writer.append(&mut frame)?;
        Ok(writer)
    }
}

/// What the checksums of the frames of a segment are keyed by beside their offsets. Since version 4 the id of the store is part of it,
/// which nobody outside knows: a value that looks like a frame for the place where it will lie could be taken for one behind a torn
/// frame, and would say that the torn one was durable.
fn frame_key(version: u32, store: u128, number: u64) -> u64 {
    if version < 4 {
        return number;
    }
    number ^ (store as u64) ^ (store >> 64) as u64
}

/// The same for the segment that begins with these bytes.
fn key_named_in(bytes: &[u8], number: u64) -> u64 {
    let named = named_in_header(bytes);
    named.map_or(number, |(version, store)| frame_key(version, store, number))
}

fn encode_frame(
    out: &mut Vec<u8>,
    key: u64,
    offset: u64,
    (kind, first, durable): (u32, u32, u32),
    payload: &[u8],
) {
    let start = out.len();
    let tag = (payload.len() as u32) << 2 | kind;
    for field in [0, tag, first, durable] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(payload);
    let sum = checksum(key, offset, &[&out[start + 4..]]) as u32;
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The segment being appended to.
#[derive(Debug)]
pub(crate) struct WalWriter {
    number: u64,
    key: u64,
    file: OpenFile,
    length: u64,
    base: SequenceNumber,
    end: u64,
    writes: LogWrites,
}

impl WalWriter {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn base(&self) -> SequenceNumber {
        self.base
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The length it was made with. It may be appended to behind it, only not as fast.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.end > self.length / 2
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
        let distance = u32::try_from(first - durable).unwrap_or(FAR);
        let delta = u32::try_from(first - self.base);
        let delta = delta.expect("a segment is ended before 2^32 sequence numbers");
        let head = (FRAME_BATCH, delta, distance);
        encode_frame(group, self.key, offset, head, payload);
    }

    /// Appends a group of frames in one write. After a failure the end has not moved.
    pub(crate) fn append(&mut self, group: &mut Vec<u8>) -> Result<()> {
        let end = self.end + group.len() as u64;
        // A segment that is used again holds old frames behind the end. Zeros there tell a clean end from a torn frame. What
        // is gathered until a sync has zeros to the end of its page anyway.
        if self.writes == LogWrites::AtOnce {
            let room = self.length.saturating_sub(end) as usize;
            group.resize(group.len() + room.min(FRAME_HEADER_BYTES), 0);
        }
        self.file.write(group, self.end)?;
        self.end = end;
        Ok(())
    }

    /// Takes back what a failed append may have added to the length of the file.
    pub(crate) fn undo(&self) -> Result<()> {
        self.file.set_length(self.end.max(self.length))
    }
}

/// One batch of a segment.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) first: SequenceNumber,
    durable: SequenceNumber,
    end: usize,
}

/// The whole frames of a segment, and where the last of them ends.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: OpenFile,
    bytes: Vec<u8>,
    pub(crate) beginning: Beginning,
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: u64,
    /// The number of the last change in it, or before it if it is empty.
    pub(crate) last_sequence: SequenceNumber,
    /// The last sequence number that any frame of this segment says was durable, be it behind a bad one.
    pub(crate) durable: SequenceNumber,
    /// What is lost behind `end`, if anything stands there.
    pub(crate) torn: Option<Torn>,
}

/// Records that are not applied: those behind a bad one, and that one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Torn {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

/// Reads segment `number` into `bytes`, up to `end` if a recovery has found where it ends; `None` if it was not in use.
pub(crate) fn read(
    directory: &Directory,
    store: u128,
    number: u64,
    end: Option<u64>,
    mut bytes: Vec<u8>,
) -> Result<Option<Segment>> {
    let file = directory.open(FileName::Numbered(FileKind::Wal, number))?;
    let length = file.length()?;
    let length = end.unwrap_or(length).min(length);
    bytes.resize(length as usize, 0);
    file.read_exact_into(0, &mut bytes)?;
    let header = &bytes[..bytes.len().min(HEADER_BYTES as usize)];
    if check_header(header, FileKind::Wal, number, file.path())? != store {
        return Err(file.corrupt(16, "the segment belongs to another store"));
    }
    let key = key_named_in(header, number);
    let Some(beginning) = beginning_of(&bytes, key) else {
        // Whether frames of a segment without a beginning say that it had one which was durable.
        let behind = frames_behind(&bytes, key, 0, HEADER_BYTES as usize, 0);
        if behind.durable > 0 {
            return Err(file.corrupt(HEADER_BYTES, BEGINNING_DAMAGED));
        }
        if behind.batches > 0 {
            let torn = Torn {
                batches: behind.batches,
                bytes: behind.end as u64 - HEADER_BYTES,
            };
            torn.warn(&file, HEADER_BYTES);
        }
        return Ok(None);
    };
    let mut frames: Vec<Frame> = Vec::new();
    let mut offset = FIRST_BATCH;
    let mut last = beginning.base;
    while let Some(frame) = frame_at(&bytes, key, beginning.base, offset, last) {
        offset = frame.end;
        last = frame.first;
        frames.push(frame);
    }
    let last_frame = frames.last();
    let last_sequence =
        last_frame.map(|frame| frame.first + count_changes(payload_of(&bytes, frame)) - 1);
    let durable = frames.iter().map(|frame| frame.durable).max();
    let behind = frames_behind(&bytes, key, beginning.base, offset, last);
    let torn = torn_at(&bytes, offset, &behind);
    Ok(Some(Segment {
        number,
        file,
        bytes,
        beginning,
        frames,
        end: offset as u64,
        last_sequence: last_sequence.unwrap_or(beginning.base),
        durable: beginning
            .durable
            .max(durable.unwrap_or(0))
            .max(behind.durable),
        torn,
    }))
}

/// Whether segment `number` of the store has been taken into use. Its header may be damaged.
pub(crate) fn is_in_use(file: &OpenFile, store: u128, number: u64) -> Result<bool> {
    let length = file.length()?.min(FIRST_BATCH as u64);
    let bytes = file.read_exact(0, length as usize)?;
    let mut keys = [3, FORMAT_VERSION]
        .map(|version| frame_key(version, store, number))
        .into_iter();
    Ok(keys.any(|key| beginning_of(&bytes, key).is_some()))
}

fn payload_of<'a>(bytes: &'a [u8], frame: &Frame) -> &'a [u8] {
    &bytes[frame.offset as usize + FRAME_HEADER_BYTES..frame.end]
}

impl Segment {
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

    /// What is lost of the segment if the log ends before its frame `index`.
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

    /// The first bad frame is damage: it was whole once.
    pub(crate) fn damaged(&self) -> crate::Error {
        self.file.corrupt(self.end, DAMAGED)
    }
}

impl Torn {
    /// Says what was cut off behind `offset` of the log.
    pub(crate) fn warn(&self, file: &OpenFile, offset: u64) {
        tracing::warn!(
            path = %file.path().display(),
            offset,
            batches = self.batches,
            bytes = self.bytes,
            "cut off a torn tail of the log: nothing says that it was durable"
        );
    }
}

/// What stands at the end of the frames, if it is not zeros.
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

fn count_changes(payload: &[u8]) -> u64 {
    (crate::write::batch::Changes::new(payload).count() as u64).max(1)
}

fn payload_at(bytes: &[u8], key: u64, offset: usize, kind: u32) -> Option<(u32, u32, &[u8])> {
    let mut decoder = Decoder::new(bytes.get(offset..)?);
    let sum = decoder.u32()?;
    let tag = decoder.u32()?;
    let (first, durable) = (decoder.u32()?, decoder.u32()?);
    let length = (tag >> 2) as usize;
    if tag & 3 != kind || length > BATCH_BYTES_MAX {
        return None;
    }
    let payload = decoder.take(length)?;
    let summed = &bytes[offset + 4..offset + FRAME_HEADER_BYTES + length];
    let right = sum == checksum(key, offset as u64, &[summed]) as u32;
    right.then_some((first, durable, payload))
}

fn beginning_of(bytes: &[u8], key: u64) -> Option<Beginning> {
    let (_, _, payload) = payload_at(bytes, key, HEADER_BYTES as usize, FRAME_BEGINNING)?;
    Beginning::decode(payload)
}

/// The frame at `offset`, if a whole and unharmed one with a sequence number behind `last` stands there.
fn frame_at(
    bytes: &[u8],
    key: u64,
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
) -> Option<Frame> {
    let (first, distance, payload) = payload_at(bytes, key, offset, FRAME_BATCH)?;
    let first = base + u64::from(first);
    let durable = match distance {
        FAR => 0,
        distance => first.checked_sub(u64::from(distance))?,
    };
    let numbered = first > last && durable < first && first < SEQUENCE_MAX;
    numbered.then(|| Frame {
        offset: offset as u64,
        first,
        durable,
        end: offset + FRAME_HEADER_BYTES + payload.len(),
    })
}

/// The good frames behind a bad one.
#[derive(Debug, Default)]
struct Behind {
    batches: u64,
    /// Where the last of them ends.
    end: usize,
    /// The last sequence number that one of them says was durable.
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
            "what stands behind a bad frame of the log looks like a great many frames; not all were tried"
        );
    }
    Behind {
        batches: frames.len() as u64,
        end: frames.last().map_or(0, |frame| frame.end),
        durable: frames.iter().map(|frame| frame.durable).max().unwrap_or(0),
    }
}

/// How many times the length of a segment is hashed at most in the search for frames behind a bad one.
const SEARCH_PASSES: usize = 64;

/// How many changes of a payload are decoded to see whether it could be one.
const PLAUSIBLE_CHANGES: usize = 8;

/// The good frames behind the bad one at `offset`, in their order, and whether all of them were looked for.
///
/// Every offset is looked at: what is bad may be a length. Values of outsiders may look like frames, each of which would be hashed to
/// the end of the segment. So the shortest are tried first, and the work is bounded.
fn find_frames(
    bytes: &[u8],
    key: u64,
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
) -> (Vec<Frame>, bool) {
    let mut candidates = plausible_frames(bytes, base, offset, last);
    candidates.sort_unstable();
    let mut budget = bytes.len().saturating_mul(SEARCH_PASSES);
    let mut found = Vec::new();
    let mut is_complete = true;
    for (length, at) in candidates {
        let Some(left) = budget.checked_sub(length) else {
            is_complete = false;
            break;
        };
        budget = left;
        found.extend(frame_at(bytes, key, base, at, last));
    }
    found.sort_unstable_by_key(|frame| frame.offset);
    (found, is_complete)
}

/// The lengths and offsets of what could be a frame behind `offset`.
fn plausible_frames(
    bytes: &[u8],
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
) -> Vec<(usize, usize)> {
    let least = (last - base) as u32;
    let most = least.saturating_add(u32::try_from(bytes.len() - offset).unwrap_or(u32::MAX));
    let mut found = Vec::new();
    let mut next = offset + 1;
    while next + FRAME_HEADER_BYTES < bytes.len() {
        let rest = &bytes[next..];
        // What was never written is zeros, and most of a segment may be that.
        if rest.first_chunk::<4096>() == Some(&[0; 4096]) {
            next += 4096 - FRAME_HEADER_BYTES;
            continue;
        }
        let window = &rest[..rest.len().min(4096)];
        for (index, first) in window[8..].windows(4).enumerate() {
            let first = u32::from_le_bytes(first.try_into().expect("a window of four"));
            // Cheaper than a checksum over a length that may be anything, and true of hardly any place that is no frame.
            if first > least
                && first <= most
                && let Some(length) = plausible_length(bytes, next + index)
            {
                found.push((length, next + index));
            }
        }
        next += window.len() - 11;
    }
    found
}

/// Shows the frames of a segment.
pub(crate) fn dump(dump: &mut Dump<'_>, number: u64) -> Result<()> {
    let bytes = dump.whole()?;
    let key = key_named_in(&bytes, number);
    let beginning = beginning_of(&bytes, key);
    match beginning {
        Some(Beginning {
            base,
            durable,
            previous,
            previous_end,
        }) => dump.line(format_args!(
            "{HEADER_BYTES:>10}  beginning: {BEGINNING_BYTES} bytes, base #{base}, durable #{durable}, before it segment {previous} up to {previous_end}, checksum ok"
        ))?,
        None if is_zero(&bytes, HEADER_BYTES as usize) => {
            return dump.line(format_args!("{HEADER_BYTES:>10}  not in use"));
        }
        None => dump.damage(HEADER_BYTES, "beginning; sequence numbers are counted from it")?,
    }
    let base = beginning.unwrap_or_default().base;
    let (mut offset, mut last) = (FIRST_BATCH, base);
    while let Some(frame) = frame_at(&bytes, key, base, offset, last) {
        show_frame(dump, &bytes, &frame)?;
        (offset, last) = (frame.end, frame.first);
    }
    let (later, _) = find_frames(&bytes, key, base, offset, last);
    if later.is_empty() && is_zero(&bytes, offset) {
        return dump.line(format_args!("{offset:>10}  end of the frames"));
    }
    let lost = later
        .first()
        .map_or(0, |frame| frame.offset - offset as u64);
    match lost {
        0 => dump.line(format_args!(
            "{offset:>10}  end of the frames; no whole one stands behind: one that was torn, or what was there before"
        ))?,
        lost => dump.damage(offset as u64, format_args!("{lost} bytes before the next whole frame"))?,
    }
    later
        .iter()
        .try_for_each(|frame| show_frame(dump, &bytes, frame))
}

fn is_zero(bytes: &[u8], offset: usize) -> bool {
    let rest = bytes.get(offset..).unwrap_or_default();
    rest.iter().take(FRAME_HEADER_BYTES).all(|&byte| byte == 0)
}

fn show_frame(dump: &mut Dump<'_>, bytes: &[u8], frame: &Frame) -> Result<()> {
    let payload = payload_of(bytes, frame);
    dump.line(format_args!(
        "{:>10}  batch: {} bytes, #{}, durable #{}, checksum ok",
        frame.offset,
        payload.len(),
        frame.first,
        frame.durable
    ))?;
    dump.changes(frame.first, payload)
}

/// The length of what could be the payload of a frame at `offset`: its first changes decode.
fn plausible_length(bytes: &[u8], offset: usize) -> Option<usize> {
    let mut decoder = Decoder::new(&bytes[offset..]);
    let _sum = decoder.u32()?;
    let tag = decoder.u32()?;
    decoder.take(8)?;
    let payload = decoder.take((tag >> 2) as usize)?;
    let mut changes = crate::write::batch::Changes::new(payload).take(PLAUSIBLE_CHANGES);
    changes
        .all(|change| change.is_ok())
        .then_some(payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::{put_bytes, put_varint};
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
    fn a_search_behind_a_bad_frame_hashes_a_bounded_number_of_bytes() {
        let key = frame_key(FORMAT_VERSION, 7, 1);
        let real = |bytes: &mut Vec<u8>, first: u32, value: &[u8]| {
            let mut payload = vec![2, 0, 1, b'k'];
            put_bytes(&mut payload, value);
            let offset = bytes.len() as u64;
            encode_frame(bytes, key, offset, (FRAME_BATCH, first, 1), &payload);
        };
        let mut bytes = vec![0xee; 100];
        // Each looks like a frame whose one put takes all that follows.
        let end = 8 << 20;
        let mut fakes = Vec::new();
        while fakes.len() + 200 < end {
            let length = end - fakes.len() - FRAME_HEADER_BYTES;
            fakes.extend([0; 4]);
            fakes.extend(((length as u32) << 2 | FRAME_BATCH).to_le_bytes());
            fakes.extend([9, 0, 0, 0, 1, 0, 0, 0]);
            fakes.extend([2, 0, 1, b'k']);
            let value = length - 4 - 4;
            let before = fakes.len();
            put_varint(&mut fakes, value as u64);
            assert!(fakes.len() - before <= 4);
        }
        fakes.resize(end, 0);
        real(&mut bytes, 1, &fakes);
        real(&mut bytes, 2, b"small");
        let began = std::time::Instant::now();
        let (found, is_complete) = find_frames(&bytes, key, 0, 0, 0);
        assert!(!is_complete, "there was too much to be tried");
        let last = found.last().map(|frame| (frame.first, frame.durable));
        assert_eq!(last, Some((2, 1)), "the shortest are tried first");
        println!("{} ms", began.elapsed().as_millis());
    }

    #[test]
    fn a_value_that_looks_like_a_frame_does_not_make_a_torn_tail_damage() {
        let fs = MemoryFs::crashable();
        let (db, keyspace) = open(&fs);
        put(&db, &keyspace, b"first", b"value");
        let log_end = || {
            db.store().with_log(|log| {
                log.wal
                    .as_ref()
                    .map(|wal| (wal.number(), wal.end()))
                    .unwrap()
            })
        };
        let (number, torn) = log_end();
        put(&db, &keyspace, b"torn", b"value");
        let (_, end) = log_end();
        // Behind the head of its frame, tag, keyspace, key and length of the value the value lies here.
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
