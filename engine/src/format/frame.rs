//! Frames: the records of a log segment.
//!
//! A segment is allocated at its full length before it is used, and may be a reused file; so the
//! part that is not written yet holds zeros, or the frames of an earlier segment. After the file
//! header comes one frame of type 2, written when the segment is taken into use, and then frames of
//! type 1, each one batch:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | low half of the checksum of the rest of the frame; key: [`store_key`], offset |
//! | 4 | 4 | bytes of the payload x 4 + type |
//! | 8 | 4 | sequence number of the first change − base |
//! | 12 | 4 | type 1: sequence number of the first change − the last durable one; see below |
//! | 16 | n | payload; type 1: `change.rs`; type 2: see [`Beginning`] |
//!
//! The last durable one is the last sequence number known to be durable when the frame was written.
//! If the difference does not fit, the field is 2^32 − 1; in type 2 it always is.
//!
//! [`store_key`]: crate::format::header::store_key
//!
//! Sequence numbers grow from frame to frame. Each segment records the end of the one before it.
//! The log ends at the first bad frame, unless a later good frame or the manifest records that the
//! place of the bad frame was durable: that is corruption, not a torn tail.
//!
//! The key of the checksums contains the secret id of the store. Otherwise a value in the place
//! after a torn frame could look like a frame for that place, and record that the torn one was
//! durable.

use crate::Result;
use crate::base::codec::{Decoder, checksum};
use crate::base::config::BATCH_BYTES_MAX;
use crate::base::key::{SEQUENCE_MAX, SequenceNumber};
use crate::format::change::Changes;
use crate::format::dump::Dump;
use crate::format::header::{HEADER_BYTES, store_key_in};
use crate::format::search::{Exhausted, SearchBudget};
use std::collections::{BTreeMap, BinaryHeap};

pub(crate) const FRAME_HEADER_BYTES: usize = 16;
pub(crate) const FRAME_BATCH: u32 = 1;
pub(crate) const FRAME_BEGINNING: u32 = 2;
const BEGINNING_BYTES: usize = 32;
/// Offset of the first batch of a segment.
pub(crate) const FIRST_BATCH: usize = HEADER_BYTES as usize + FRAME_HEADER_BYTES + BEGINNING_BYTES;
/// The reason in errors about a bad frame that is known to have been whole.
pub(crate) const DAMAGED: &str = "the checksum of the record does not match";
pub(crate) const BEGINNING_DAMAGED: &str = "the beginning of the segment is damaged";
/// The distance that is stored if the real one does not fit in 32 bits, and in beginnings.
pub(crate) const FAR: u32 = u32::MAX;

const _: () = assert!((BATCH_BYTES_MAX as u64) < 1 << 30);

/// The first record of a segment, written when it is taken into use: four integers of 8 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The last sequence number before the segment.
    pub(crate) base: SequenceNumber,
    /// The last sequence number known to be durable.
    pub(crate) durable: SequenceNumber,
    /// Number of the previous segment, 0 for none, and the end of its last frame.
    pub(crate) previous: u64,
    pub(crate) previous_end: u64,
}

impl Beginning {
    pub(crate) fn encode(&self) -> [u8; BEGINNING_BYTES] {
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

pub(crate) fn encode_frame(
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

/// One batch of a segment.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) first: SequenceNumber,
    pub(crate) durable: SequenceNumber,
    pub(crate) end: usize,
}

pub(crate) fn payload_of<'a>(bytes: &'a [u8], frame: &Frame) -> &'a [u8] {
    &bytes[frame.offset as usize + FRAME_HEADER_BYTES..frame.end]
}

pub(crate) fn count_changes(payload: &[u8]) -> u64 {
    (Changes::new(payload).count() as u64).max(1)
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

pub(crate) fn beginning_of(bytes: &[u8], key: u64) -> Option<Beginning> {
    let (_, _, payload) = payload_at(bytes, key, HEADER_BYTES as usize, FRAME_BEGINNING)?;
    Beginning::decode(payload)
}

/// The frame at `offset`, if its checksum matches and its sequence number is after `last`.
pub(crate) fn frame_at(
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

/// Maximum number of candidates for frames that are kept, the shortest ones, to bound the memory.
const CANDIDATES_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 22 };

/// Number of leading changes of a payload that must decode before it counts as plausible.
const PLAUSIBLE_CHANGES: usize = 8;

/// Returns the good frames after the bad one at `offset`, in order, and whether the search was
/// complete.
///
/// Every offset is a candidate, because the damaged bytes may be a length. The shortest candidates
/// are tried first, and a candidate that overlaps a good frame is skipped. So a client's value that
/// looks like a longer frame cannot hide a good one. An incomplete search is no sign of damage: the
/// end of a reused segment holds old frames, perhaps with hostile values.
pub(crate) fn find_frames(
    bytes: &[u8],
    key: u64,
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
) -> (Vec<Frame>, bool) {
    let mut budget = SearchBudget::of(bytes.len());
    let (candidates, mut is_complete) = plausible_frames(bytes, base, offset, last, &mut budget);
    let mut found: BTreeMap<usize, Frame> = BTreeMap::new();
    for (length, at) in candidates {
        let before = found.range(..at + FRAME_HEADER_BYTES + length).next_back();
        if before.is_some_and(|(_, frame)| frame.end > at) {
            continue;
        }
        if budget.charge(length).is_err() {
            is_complete = false;
            break;
        }
        let frame = frame_at(bytes, key, base, at, last);
        found.extend(frame.map(|frame| (at, frame)));
    }
    (found.into_values().collect(), is_complete)
}

/// Returns the lengths and offsets of candidates for frames after `offset`, the shortest first, and
/// whether all were found.
fn plausible_frames(
    bytes: &[u8],
    base: SequenceNumber,
    offset: usize,
    last: SequenceNumber,
    budget: &mut SearchBudget,
) -> (Vec<(usize, usize)>, bool) {
    let least = (last - base) as u32;
    let most = least.saturating_add(u32::try_from(bytes.len() - offset).unwrap_or(u32::MAX));
    let mut candidates = Candidates::default();
    let mut next = offset + 1;
    while next + FRAME_HEADER_BYTES < bytes.len() {
        let rest = &bytes[next..];
        // Most of a segment may be zeros, because it was never written.
        if rest.first_chunk::<4096>() == Some(&[0; 4096]) {
            next += 4096 - FRAME_HEADER_BYTES;
            continue;
        }
        let window = &rest[..rest.len().min(4096)];
        for (index, first) in window[8..].windows(4).enumerate() {
            let first = u32::from_le_bytes(first.try_into().expect("a window of four"));
            // This check is cheaper than a checksum over an arbitrary length, and few places that
            // are not frames pass it.
            if first <= least || first > most {
                continue;
            }
            match plausible_length(bytes, next + index, budget) {
                Ok(None) => {}
                Ok(Some(length)) => candidates.add(length, next + index),
                Err(Exhausted) => return (candidates.shortest.into_sorted_vec(), false),
            }
        }
        next += window.len() - 11;
    }
    let is_complete = !candidates.is_cut;
    (candidates.shortest.into_sorted_vec(), is_complete)
}

/// The lengths and offsets of the shortest candidates, at most [`CANDIDATES_MAX`].
#[derive(Default)]
struct Candidates {
    shortest: BinaryHeap<(usize, usize)>,
    /// Whether a candidate was left out.
    is_cut: bool,
}

impl Candidates {
    fn add(&mut self, length: usize, offset: usize) {
        if self.shortest.len() < CANDIDATES_MAX {
            self.shortest.push((length, offset));
            return;
        }
        self.is_cut = true;
        if let Some(mut longest) = self.shortest.peek_mut()
            && length < longest.0
        {
            *longest = (length, offset);
        }
    }
}

/// Shows the frames of a segment.
pub(crate) fn dump(dump: &mut Dump<'_>, number: u64) -> Result<()> {
    let bytes = dump.whole()?;
    let key = store_key_in(&bytes, number);
    let beginning = beginning_of(&bytes, key);
    if beginning.is_none() && is_zero(&bytes, HEADER_BYTES as usize) {
        return dump.line(format_args!("{HEADER_BYTES:>10}  not in use"));
    }
    show_beginning(dump, beginning.as_ref())?;
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

fn show_beginning(dump: &mut Dump<'_>, beginning: Option<&Beginning>) -> Result<()> {
    let Some(Beginning {
        base,
        durable,
        previous,
        previous_end,
    }) = beginning
    else {
        return dump.damage(
            HEADER_BYTES,
            "beginning; sequence numbers are counted from it",
        );
    };
    dump.line(format_args!(
        "{HEADER_BYTES:>10}  beginning: {BEGINNING_BYTES} bytes, base #{base}, durable #{durable}, before it segment {previous} up to {previous_end}, checksum ok"
    ))
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

/// The length of the payload at `offset` if its first changes decode, so that it may be a frame.
fn plausible_length(
    bytes: &[u8],
    offset: usize,
    budget: &mut SearchBudget,
) -> std::result::Result<Option<usize>, Exhausted> {
    let mut decoder = Decoder::new(&bytes[offset..]);
    let mut payload = || {
        let _sum = decoder.u32()?;
        let tag = decoder.u32().filter(|tag| tag & 3 == FRAME_BATCH)?;
        decoder.take(8)?;
        let length = (tag >> 2) as usize;
        // A frame has at least one change.
        let is_possible = (1..=BATCH_BYTES_MAX).contains(&length);
        decoder.take(length).filter(|_| is_possible)
    };
    let Some(payload) = payload() else {
        return Ok(None);
    };
    // A change decodes in a few steps, whatever the length of its key and value.
    budget.charge(PLAUSIBLE_CHANGES)?;
    let mut changes = Changes::new(payload).take(PLAUSIBLE_CHANGES);
    let decode = changes.all(|change| change.is_ok());
    Ok(decode.then_some(payload.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::{put_bytes, put_varint};
    use crate::format::header::store_key;

    #[test]
    fn heads_of_empty_frames_do_not_hide_a_good_frame() {
        let key = store_key(7, 1);
        // Every fourth byte begins an empty frame with the sequence number 1.
        let mut bytes = [1, 0, 0, 0].repeat(2 * CANDIDATES_MAX);
        let offset = bytes.len();
        let payload = [2, 0, 1, b'k', 1, b'v'];
        encode_frame(
            &mut bytes,
            key,
            offset as u64,
            (FRAME_BATCH, 2, 1),
            &payload,
        );
        let (found, is_complete) = find_frames(&bytes, key, 0, 0, 0);
        assert!(is_complete);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].offset, offset as u64);
    }

    #[test]
    fn a_search_behind_a_bad_frame_hashes_a_bounded_number_of_bytes() {
        let key = store_key(7, 1);
        let real = |bytes: &mut Vec<u8>, first: u32, value: &[u8]| {
            let mut payload = vec![2, 0, 1, b'k'];
            put_bytes(&mut payload, value);
            let offset = bytes.len() as u64;
            encode_frame(bytes, key, offset, (FRAME_BATCH, first, 1), &payload);
        };
        let mut bytes = vec![0xee; 100];
        // Each fake looks like a frame with one put, whose value takes all bytes that follow.
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
        let (found, is_complete) = find_frames(&bytes, key, 0, 0, 0);
        assert!(!is_complete, "there was too much to be tried");
        let last = found.last().map(|frame| (frame.first, frame.durable));
        assert_eq!(last, Some((2, 1)), "the shortest are tried first");
    }
}
