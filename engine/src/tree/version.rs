//! Version: the immutable set of live files by level; VersionEdit: one change to it; State: what all edits add up to.
//!
//! An edit is a list of fields, each a tag byte and its contents; see FORMAT.md. It is applied whole or not at all.

use crate::base::codec::{Decoder, put_bytes, put_optional, put_varint};
use crate::base::key::{SEQUENCE_MAX, SequenceNumber, is_before_end};
use crate::dump::{End, Escaped};
use crate::fs::files::NUMBER_MAX;
use crate::tree::cache::Cache;
use crate::tree::sstable::SstableReader;
use crate::{KeyRange, Result};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// More bytes than any file or its values have; sums of less do not overflow.
const BYTES_MAX: u64 = 1 << 48;

/// How many levels a keyspace can have.
pub(crate) const LEVELS: usize = 7;

/// What the manifest says about an SSTable.
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
    /// Bytes of each value-log segment that entries refer to.
    pub(crate) references: Vec<(u64, u64)>,
}

impl FileMeta {
    /// Bytes of values in the value log that entries refer to.
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

/// A live SSTable. Marked obsolete, its file is discarded with the last reference.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) meta: FileMeta,
    obsolete: AtomicBool,
    cache: Arc<Cache>,
    reader: OnceLock<Arc<SstableReader>>,
}

impl LiveFile {
    pub(crate) fn new(meta: FileMeta, cache: Arc<Cache>) -> LiveFile {
        LiveFile {
            meta,
            obsolete: AtomicBool::new(false),
            cache,
            reader: OnceLock::new(),
        }
    }

    /// No version contains it any more, and the manifest says so durably.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// What reads it; made when it is first asked for.
    pub(crate) fn reader(&self) -> Result<&Arc<SstableReader>> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let opened = Arc::new(SstableReader::open(&self.cache, &self.meta)?);
        let reader = self.reader.get_or_init(|| opened.clone());
        if !Arc::ptr_eq(reader, &opened) {
            // Another thread was faster, and what it has set aside in the cache suffices.
            self.cache.unpin(opened.pinned_bytes());
        }
        Ok(reader)
    }
}

impl LiveFile {
    /// Opens the file and reads its index now, so that the first reader need not.
    pub(crate) fn warm(&self) {
        // Whatever is wrong with it is for that reader to meet.
        if let Ok(reader) = self.reader() {
            reader.warm(&self.cache);
        }
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.get() {
            self.cache.unpin(reader.pinned_bytes());
        }
        if self.obsolete.load(Ordering::Acquire) {
            self.cache.discard(self.meta.number);
        }
    }
}

/// The SSTables of a keyspace: level 0 newest first, each deeper level one run in key order.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) levels: Vec<Vec<Arc<LiveFile>>>,
}

impl Default for Version {
    fn default() -> Self {
        Version {
            levels: vec![Vec::new(); LEVELS],
        }
    }
}

impl Version {
    /// The version with `removed` (by number) out and `added` in. `Err` names a file that overlaps another one of its level, which
    /// only level 0 allows: lookups would miss what it holds.
    pub(crate) fn with(
        &self,
        removed: &[u64],
        added: Vec<(usize, Arc<LiveFile>)>,
    ) -> std::result::Result<Version, u64> {
        let mut version = self.clone();
        for level in &mut version.levels {
            level.retain(|file| !removed.contains(&file.meta.number));
        }
        for (level, file) in added {
            version.levels[level].push(file);
        }
        version.sort()?;
        Ok(version)
    }

    fn sort(&mut self) -> std::result::Result<(), u64> {
        self.levels[0]
            .sort_by_key(|file| std::cmp::Reverse((file.meta.sequence_max, file.meta.number)));
        for level in &mut self.levels[1..] {
            level.sort_by(|a, b| a.meta.range.start.cmp(&b.meta.range.start));
            let overlap = level
                .windows(2)
                .find(|pair| pair[0].meta.overlaps(&pair[1].meta.range));
            if let Some(pair) = overlap {
                return Err(pair[1].meta.number);
            }
        }
        Ok(())
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<LiveFile>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }
}

/// The file of a sorted level that may contain `key`.
pub(crate) fn file_of<'a>(files: &'a [Arc<LiveFile>], key: &[u8]) -> Option<&'a Arc<LiveFile>> {
    let file = files.get(first_ending_behind(files, key))?;
    file.meta.contains(key).then_some(file)
}

/// Index of the first file of a sorted level that ends behind `key`.
pub(crate) fn first_ending_behind(files: &[Arc<LiveFile>], key: &[u8]) -> usize {
    files.partition_point(|file| !is_before_end(key, file.meta.range.end.as_deref()))
}

/// Which files of a sorted level reach into `range`.
pub(crate) fn overlapping(files: &[Arc<LiveFile>], range: &KeyRange) -> std::ops::Range<usize> {
    let start = first_ending_behind(files, &range.start);
    let end = files[start..]
        .partition_point(|file| is_before_end(&file.meta.range.start, range.end.as_deref()));
    start..start + end
}

/// What the manifest says about a sealed value-log segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentMeta {
    pub(crate) size: u64,
    /// The wrapping sum of the checksums of its chunks; `None` if it was sealed by a recovery, which does not read it.
    pub(crate) checksum: Option<u64>,
}

/// What the manifest says about a WAL segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalMeta {
    /// Where the last record ends, if a recovery has found that out.
    pub(crate) end: Option<u64>,
    /// Every record before this offset, and of the segments before, was durable when the manifest said so; 0: not known.
    pub(crate) durable: u64,
}

impl WalMeta {
    /// Of a segment that a recovery has read, or that ends here and is durable.
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
    /// Everything of the keyspace up to here is in SSTables.
    Flushed(u32, SequenceNumber),
    AddWal(u64, WalMeta),
    RemoveWal(u64),
    /// Segment and offset: the records before it, and the segments before, are durable. Damage to them is not a torn tail.
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
                // The end is behind the header, so 0 is free to say that there is none yet.
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
            Field::AddFile(keyspace, level, meta) => write!(
                f,
                "keyspace {keyspace}, level {level}: file {}, {} bytes, checksum {:016x}, {} to {}, #{} to #{}, {} entries, {} deletes, {} range tombstones, values in {:?}",
                meta.number,
                meta.size,
                meta.checksum,
                Escaped(&meta.range.start),
                End(meta.range.end.as_deref()),
                meta.sequence_min,
                meta.sequence_max,
                meta.entries,
                meta.tombstones,
                meta.range_tombstones,
                meta.references
            ),
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
            Field::AddSegment(number, meta) => match meta.checksum {
                Some(sum) => write!(
                    f,
                    "value-log segment {number}, {} bytes, checksum {sum:016x}",
                    meta.size
                ),
                None => write!(f, "value-log segment {number}, {} bytes", meta.size),
            },
            Field::RemoveSegment(number) => write!(f, "without value-log segment {number}"),
            Field::Closed => f.write_str("the store was closed"),
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
        let (number, size, checksum) = (decoder.varint()?, decoder.varint()?, decoder.u64()?);
        if number >= NUMBER_MAX || size >= BYTES_MAX {
            return None;
        }
        let range = KeyRange {
            start: decoder.bytes()?.to_vec(),
            end: decoder.optional()?.map(<[u8]>::to_vec),
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

/// One keyspace in the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: String,
    pub(crate) flushed: SequenceNumber,
    pub(crate) files: BTreeMap<u64, (u32, FileMeta)>,
}

/// What all edits of a manifest add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) next_file: u64,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
    pub(crate) wals: BTreeMap<u64, WalMeta>,
    pub(crate) segments: BTreeMap<u64, SegmentMeta>,
    pub(crate) closed: bool,
}

impl State {
    /// `Err` says why the edit does not fit what came before it.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> std::result::Result<(), &'static str> {
        self.closed = false;
        edit.fields
            .iter()
            .try_for_each(|field| self.apply_field(field))
    }

    fn keyspace(&mut self, id: &u32) -> std::result::Result<&mut KeyspaceState, &'static str> {
        self.keyspaces
            .get_mut(id)
            .ok_or("an edit names a keyspace that does not exist")
    }

    fn apply_field(&mut self, field: &Field) -> std::result::Result<(), &'static str> {
        match field {
            Field::NextFile(number) => self.next_file = *number,
            Field::LastSequence(sequence) => self.last_sequence = *sequence,
            Field::Keyspace(id, name) => {
                let name = name.clone();
                let state = KeyspaceState {
                    name,
                    ..KeyspaceState::default()
                };
                if self.keyspaces.insert(*id, state).is_some() {
                    return Err("an edit creates a keyspace that exists");
                }
            }
            Field::AddFile(id, level, meta) => {
                let files = &mut self.keyspace(id)?.files;
                files.insert(meta.number, (*level, meta.clone()));
            }
            Field::RemoveFile(id, number) => {
                let removed = self.keyspace(id)?.files.remove(number);
                removed.ok_or("an edit removes a file that does not exist")?;
            }
            Field::Flushed(id, sequence) => self.keyspace(id)?.flushed = *sequence,
            Field::AddWal(number, meta) => {
                self.wals.insert(*number, *meta);
            }
            Field::RemoveWal(number) => {
                self.wals
                    .remove(number)
                    .ok_or("an edit removes a WAL segment that does not exist")?;
            }
            Field::MarkWal(number, durable) => {
                let meta = self.wals.get_mut(number);
                meta.ok_or("an edit marks a WAL segment that does not exist")?
                    .durable = *durable;
            }
            Field::AddSegment(number, meta) => {
                self.segments.insert(*number, *meta);
            }
            Field::RemoveSegment(number) => {
                self.segments
                    .remove(number)
                    .ok_or("an edit removes a value-log segment that does not exist")?;
            }
            Field::Closed => self.closed = true,
        }
        Ok(())
    }

    /// One edit that makes this state out of nothing.
    pub(crate) fn as_edit(&self) -> VersionEdit {
        let mut fields = vec![
            Field::NextFile(self.next_file),
            Field::LastSequence(self.last_sequence),
        ];
        for (&id, keyspace) in &self.keyspaces {
            fields.push(Field::Keyspace(id, keyspace.name.clone()));
            fields.push(Field::Flushed(id, keyspace.flushed));
            let files = keyspace.files.values();
            fields.extend(files.map(|(level, meta)| Field::AddFile(id, *level, meta.clone())));
        }
        for (&number, &meta) in &self.wals {
            fields.push(Field::AddWal(number, meta));
            if meta.durable > 0 {
                fields.push(Field::MarkWal(number, meta.durable));
            }
        }
        fields.extend(
            self.segments
                .iter()
                .map(|(&number, &meta)| Field::AddSegment(number, meta)),
        );
        fields.extend(self.closed.then_some(Field::Closed));
        VersionEdit { fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::files::Directory;
    use crate::fs::{FaultFs, MemoryFs, Operation};
    use crate::{Batch, Config, Db, Environment, KeyspaceOptions};
    use proptest::prelude::*;

    #[test]
    fn files_of_one_level_must_not_overlap() {
        let fs = Arc::new(MemoryFs::volatile());
        let directory = Directory::new(fs, "/data".as_ref());
        let cache = Arc::new(Cache::new(directory, 1, 1 << 20, 4));
        let file = |number| {
            let meta = FileMeta {
                number,
                ..example_file()
            };
            Arc::new(LiveFile::new(meta, cache.clone()))
        };
        let version = Version::default();
        let in_level_0 = version.with(&[], vec![(0, file(7)), (0, file(8))]);
        assert!(in_level_0.is_ok());
        let in_level_1 = version.with(&[], vec![(1, file(7)), (1, file(8))]);
        assert_eq!(in_level_1.unwrap_err(), 8);
    }

    #[test]
    fn two_threads_that_open_a_file_at_once_take_no_memory_for_good() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let environment = Environment::stepped(Arc::new(disk.clone()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let mut batch = Batch::new();
        batch.put(&keyspace, b"key", b"value");
        drop(db.write(batch).unwrap());
        db.flush(&keyspace).unwrap();
        let meta = keyspace.tree().view().version.levels[0][0].meta.clone();
        let cache = &db.store().cache;
        let before = cache.figures().0;
        let file = LiveFile::new(meta, cache.clone());
        disk.hold(Some(Operation::Read));
        std::thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| file.reader().unwrap())));
            while disk.held() < 2 {
                std::thread::yield_now();
            }
            disk.hold(None);
        });
        let pinned = file.reader().unwrap().pinned_bytes();
        assert_eq!(cache.figures().0, before + pinned);
        drop(file);
        assert_eq!(cache.figures().0, before);
    }

    fn example_file() -> FileMeta {
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

    fn example() -> State {
        let meta = example_file();
        let fields = vec![
            Field::NextFile(12),
            Field::LastSequence(300),
            Field::Keyspace(0, "a".into()),
            Field::Flushed(0, 9),
            Field::AddFile(0, 1, meta),
            Field::AddWal(10, WalMeta::default()),
            Field::MarkWal(10, 200),
            Field::AddWal(11, WalMeta::ended(300)),
            Field::AddSegment(
                4,
                SegmentMeta {
                    size: 70_100,
                    checksum: None,
                },
            ),
        ];
        let mut state = State::default();
        state.apply(&VersionEdit { fields }).unwrap();
        state
    }

    #[test]
    fn a_state_survives_its_edit() {
        let state = example();
        let edit = VersionEdit::decode(&state.as_edit().encode()).unwrap();
        let mut again = State::default();
        again.apply(&edit).unwrap();
        assert_eq!(again, state);
    }

    #[test]
    fn an_edit_that_does_not_fit_is_refused() {
        let edit = VersionEdit {
            fields: vec![Field::RemoveFile(0, 8)],
        };
        assert!(example().apply(&edit).is_err());
        assert!(State::default().apply(&edit).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Some(edit) = VersionEdit::decode(&bytes) {
                let _ = State::default().apply(&edit);
            }
        }
    }
}
