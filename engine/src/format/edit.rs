//! VersionEdit: one change of the files of a store, as the manifest holds it.
//!
//! An edit is a list of fields, each a tag byte and its contents; see FORMAT.md. It is applied
//! whole or not at all.

use crate::base::codec::{Decoder, put_bytes, put_optional, put_varint};
use crate::base::config::KEY_BYTES_MAX;
use crate::base::key::{SEQUENCE_MAX, SequenceNumber, is_before_end};
use crate::format::dump::{End, Escaped};
use crate::fs::name::NUMBER_MAX;
use crate::{KeyRange, Result};
use std::fmt::{self, Debug, Display};

/// More than the bytes of any file, and more than the bytes of the values that one file refers to.
/// Sums of smaller numbers do not overflow.
const BYTES_MAX: u64 = 1 << 48;

/// Length of the longest bound of a range: one byte more than that of the longest key.
const BOUND_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// How many levels a keyspace can have.
pub(crate) const LEVELS: usize = 7;

/// The entry of an SSTable in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMeta {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) checksum: u64,
    /// Spans all keys and all range tombstones of the file.
    pub(crate) range: KeyRange,
    pub(crate) sequence_min: SequenceNumber,
    pub(crate) sequence_max: SequenceNumber,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    /// For each value-log segment that entries refer to: its number, and the bytes that their
    /// values take there, chunk headers included.
    pub(crate) references: Vec<(u64, u64)>,
}

impl FileMeta {
    /// Bytes of the value log that entries refer to, chunk headers included.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.references.iter().map(|(_, bytes)| bytes).sum()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.range.start[..] <= *key && is_before_end(key, self.range.end.as_deref())
    }

    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        is_before_end(&range.start, self.range.end.as_deref())
            && is_before_end(&self.range.start, range.end.as_deref())
    }
}

/// The entry of a sealed value-log segment in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentMeta {
    pub(crate) size: u64,
    /// The wrapping sum of the checksums of its chunks; `None` if a write to the segment failed, or
    /// if recovery sealed the segment, because recovery does not read it.
    pub(crate) checksum: Option<u64>,
}

/// The entry of a WAL segment in the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalMeta {
    /// The end of the last record; `None` while it is not known.
    pub(crate) end: Option<u64>,
    /// Every record before this offset, and of earlier segments, was durable when this field was
    /// written to the manifest; 0 if unknown.
    pub(crate) durable: u64,
}

impl WalMeta {
    /// The entry of a segment whose last record ends at `end`.
    pub(crate) fn ended(end: u64) -> WalMeta {
        WalMeta {
            end: Some(end),
            durable: 0,
        }
    }
}

/// One field of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    NextFile(u64),
    LastSequence(SequenceNumber),
    Keyspace(u32, String),
    AddFile(u32, u32, FileMeta),
    RemoveFile(u32, u64),
    /// All changes of the keyspace up to this sequence number are in SSTables.
    Flushed(u32, SequenceNumber),
    AddWal(u64, WalMeta),
    RemoveWal(u64),
    /// Segment and offset: all records before this place, those of earlier segments included, are
    /// durable. Damage to them is not a torn tail.
    MarkWal(u64, u64),
    AddSegment(u64, SegmentMeta),
    RemoveSegment(u64),
    /// Nothing was written after this edit: the store was closed.
    Closed,
}

/// One change to the set of live files; atomic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    pub(crate) fields: Vec<Field>,
}

/// A place in the log: all records before it are durable, with their values. Only a sync of the log
/// makes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogMark {
    /// Number of the segment; 0 if there is no log.
    pub(crate) segment: u64,
    pub(crate) end: u64,
}

/// Makes edits durable: the part of the manifest that is needed to change the set of files.
pub(crate) trait EditLog: Send + Sync + Debug {
    /// Returns a number that no file of the store has had.
    fn next_file(&self) -> u64;
    /// Makes the edit durable and applies it. After a passing failure the edit has no effect. After
    /// any other failure it may take effect, and the caller must stop writing.
    fn append(&self, fields: Vec<Field>) -> Result<()>;
    /// Like `append`, and records in the same edit how far the log is durable, unless that is
    /// recorded already or the mark's segment is no longer listed. Does nothing if there is nothing
    /// to record.
    fn append_marked(&self, mark: LogMark, fields: Vec<Field>) -> Result<()>;
}

impl VersionEdit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.fields.iter().for_each(|field| field.encode(&mut out));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<VersionEdit> {
        let mut decoder = Decoder::new(bytes);
        let mut fields = Vec::new();
        while !decoder.is_empty() {
            fields.push(Field::decode(&mut decoder)?);
        }
        Some(VersionEdit { fields })
    }
}

impl Field {
    /// The number of the file that this field adds to the list of live files.
    pub(crate) fn listed_file(&self) -> Option<u64> {
        match self {
            Field::AddFile(_, _, meta) => Some(meta.number),
            Field::AddWal(number, _) | Field::AddSegment(number, _) => Some(*number),
            _ => None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Field::NextFile(number) => put_all(out, 1, &[*number]),
            Field::LastSequence(sequence) => put_all(out, 2, &[*sequence]),
            Field::Keyspace(id, name) => {
                put_all(out, 3, &[u64::from(*id)]);
                put_bytes(out, name.as_bytes());
            }
            Field::AddFile(keyspace, level, meta) => {
                put_all(out, 4, &[u64::from(*keyspace), u64::from(*level)]);
                meta.encode(out);
            }
            Field::RemoveFile(keyspace, number) => {
                put_all(out, 5, &[u64::from(*keyspace), *number])
            }
            Field::Flushed(keyspace, sequence) => {
                put_all(out, 6, &[u64::from(*keyspace), *sequence])
            }
            Field::AddWal(number, meta) => {
                // The end is after the header, so 0 can stand for an unknown end.
                put_all(out, 7, &[*number, meta.end.unwrap_or(0)]);
            }
            Field::RemoveWal(number) => put_all(out, 8, &[*number]),
            Field::AddSegment(number, meta) => {
                put_all(out, 9, &[*number, meta.size]);
                out.push(u8::from(meta.checksum.is_some()));
                out.extend_from_slice(&meta.checksum.unwrap_or(0).to_le_bytes());
            }
            Field::RemoveSegment(number) => put_all(out, 10, &[*number]),
            Field::Closed => out.push(11),
            Field::MarkWal(number, durable) => put_all(out, 12, &[*number, *durable]),
        }
    }

    fn decode(decoder: &mut Decoder) -> Option<Field> {
        Some(match decoder.u8()? {
            1 => Field::NextFile(decoder.varint().filter(|number| *number < NUMBER_MAX)?),
            2 => Field::LastSequence(decoder.varint().filter(|last| *last < SEQUENCE_MAX)?),
            3 => {
                let id = id(decoder)?;
                Field::Keyspace(id, std::str::from_utf8(decoder.bytes()?).ok()?.to_owned())
            }
            4 => {
                let keyspace = id(decoder)?;
                let level = id(decoder).filter(|level| (*level as usize) < LEVELS)?;
                Field::AddFile(keyspace, level, FileMeta::decode(decoder)?)
            }
            5 => Field::RemoveFile(id(decoder)?, decoder.varint()?),
            6 => Field::Flushed(id(decoder)?, decoder.varint()?),
            7 => {
                let number = decoder.varint()?;
                let end = Some(decoder.varint()?).filter(|end| *end > 0);
                Field::AddWal(number, WalMeta { end, durable: 0 })
            }
            8 => Field::RemoveWal(decoder.varint()?),
            9 => {
                let (number, size) = (decoder.varint()?, decoder.varint()?);
                let known = decoder.u8()? == 1;
                let checksum = Some(decoder.u64()?).filter(|_| known);
                Field::AddSegment(number, SegmentMeta { size, checksum })
            }
            10 => Field::RemoveSegment(decoder.varint()?),
            11 => Field::Closed,
            12 => Field::MarkWal(decoder.varint()?, decoder.varint()?),
            _ => return None,
        })
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::NextFile(number) => write!(f, "the next file is {number}"),
            Field::LastSequence(sequence) => write!(f, "durable up to #{sequence}"),
            Field::Keyspace(id, name) => write!(f, "keyspace {id} is {name:?}"),
            Field::AddFile(keyspace, level, meta) => {
                write!(f, "keyspace {keyspace}, level {level}: {meta}")
            }
            Field::RemoveFile(keyspace, number) => {
                write!(f, "keyspace {keyspace}: without file {number}")
            }
            Field::Flushed(keyspace, sequence) => {
                write!(f, "keyspace {keyspace}: flushed up to #{sequence}")
            }
            Field::AddWal(number, meta) => match meta.end {
                Some(end) => write!(f, "WAL segment {number}, which ends at {end}"),
                None => write!(f, "WAL segment {number}"),
            },
            Field::RemoveWal(number) => write!(f, "without WAL segment {number}"),
            Field::MarkWal(number, durable) => {
                write!(f, "WAL segment {number} is durable up to {durable}")
            }
            Field::AddSegment(number, meta) => write!(f, "value-log segment {number}, {meta}"),
            Field::RemoveSegment(number) => write!(f, "without value-log segment {number}"),
            Field::Closed => f.write_str("the store was closed"),
        }
    }
}

impl Display for FileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "file {}, {} bytes, checksum {:016x}, {} to {}, #{} to #{}, {} entries, {} deletes, {} range tombstones, values in {:?}",
            self.number,
            self.size,
            self.checksum,
            Escaped(&self.range.start),
            End(self.range.end.as_deref()),
            self.sequence_min,
            self.sequence_max,
            self.entries,
            self.tombstones,
            self.range_tombstones,
            self.references
        )
    }
}

impl Display for SegmentMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size)?;
        match self.checksum {
            Some(sum) => write!(f, ", checksum {sum:016x}"),
            None => Ok(()),
        }
    }
}

fn put_all(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    numbers.iter().for_each(|&number| put_varint(out, number));
}

fn id(decoder: &mut Decoder) -> Option<u32> {
    u32::try_from(decoder.varint()?).ok()
}

impl FileMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, self.size);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        put_bytes(out, &self.range.start);
        put_optional(out, self.range.end.as_deref());
        for number in [
            self.sequence_min,
            self.sequence_max,
            self.entries,
            self.tombstones,
            self.range_tombstones,
        ] {
            put_varint(out, number);
        }
        put_varint(out, self.references.len() as u64);
        for &(segment, bytes) in &self.references {
            put_varint(out, segment);
            put_varint(out, bytes);
        }
    }

    fn decode(decoder: &mut Decoder) -> Option<FileMeta> {
        let number = decoder.varint().filter(|number| *number < NUMBER_MAX)?;
        let size = decoder.varint().filter(|size| *size < BYTES_MAX)?;
        let checksum = decoder.u64()?;
        let is_bound = |key: &&[u8]| key.len() <= BOUND_BYTES_MAX;
        let start = decoder.bytes().filter(is_bound)?;
        let end = decoder.optional()?;
        if !end.as_ref().is_none_or(is_bound) {
            return None;
        }
        let range = KeyRange {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        let (sequence_min, sequence_max) = (decoder.varint()?, decoder.varint()?);
        let (entries, tombstones, range_tombstones) =
            (decoder.varint()?, decoder.varint()?, decoder.varint()?);
        let mut references = Vec::new();
        for _ in 0..decoder.length()? {
            let segment = decoder.varint()?;
            references.push((
                segment,
                decoder.varint().filter(|bytes| *bytes < BYTES_MAX)?,
            ));
        }
        Some(FileMeta {
            number,
            size,
            checksum,
            range,
            sequence_min,
            sequence_max,
            entries,
            tombstones,
            range_tombstones,
            references,
        })
    }
}

#[cfg(test)]
impl FileMeta {
    pub(crate) fn example() -> FileMeta {
        FileMeta {
            number: 7,
            size: 4096,
            checksum: 99,
            range: KeyRange {
                start: b"a".to_vec(),
                end: None,
            },
            sequence_min: 3,
            sequence_max: 9,
            entries: 5,
            tombstones: 1,
            range_tombstones: 2,
            references: vec![(4, 70_000)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_bounds_decode_and_longer_ones_do_not() {
        let with_bound = |length| {
            let mut meta = FileMeta::example();
            meta.range.end = Some(vec![0xff; length]);
            let fields = vec![Field::AddFile(0, 1, meta)];
            VersionEdit { fields }
        };
        let longest = with_bound(BOUND_BYTES_MAX);
        assert_eq!(VersionEdit::decode(&longest.encode()), Some(longest));
        let longer = with_bound(BOUND_BYTES_MAX + 1);
        assert_eq!(VersionEdit::decode(&longer.encode()), None);
    }
}
