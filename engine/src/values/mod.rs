//! Value log: large values, written once, in append-only segments that many writers share.
//!
//! A value is a sequence of chunks. A chunk record is `u32` length, `u64` checksum over the length
//! and the bytes (keyed by file number and offset), and the bytes. All chunks of a value except the
//! last have the chunk length of the value. A [`ValuePointer`] names the extents: stretches of
//! adjacent chunk records. Full chunks of a streamed value begin on a page of 4 KiB if their
//! records are whole pages: a record of zeros that no pointer names fills the gap before them.
//!
//! Invariants: bytes are written before the batch that refers to them is logged, and synced before
//! the batch counts as durable. A segment is removed only when no SSTable, memtable, writer or
//! reader refers to it, everything that hides its values is durable, and the manifest records that.
//!
//! `segments.rs` owns the state of the segments. The rest of this module knows their contents.

mod dump;
mod gc;
mod reader;
mod segments;
#[cfg(test)]
mod segments_tests;
mod writer;

pub(crate) use dump::dump;
pub use reader::ValueReader;
pub(crate) use segments::Pin;
pub use writer::{LargeValue, UnwrittenChunk, ValueWriter, WrittenChunk};

use crate::base::config::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES};
use crate::base::health::{Health, PanicGuard};
use crate::base::mutex::{lock, try_lock};
use crate::format::edit::{EditLog, Field, SegmentMeta};
use crate::format::header::{HEADER_BYTES, check_header, encode_header};
use crate::format::pointer::ValuePointer;
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use crate::fs::{PAGE_BYTES, PageBuffer};
use crate::tree::cache::Cache;
use crate::{Config, Error, Result};
use crossbeam_queue::ArrayQueue;
use segments::{Place, Room, Segments, Writable};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum number of unused buffers for chunk records that are kept.
const BUFFERS_MAX: usize = 8;

/// The value log of a store.
#[derive(Debug)]
pub(crate) struct ValueLog {
    directory: Directory,
    store: u128,
    chunk_bytes: usize,
    /// Reused buffers for chunk records: fresh memory costs more than filling it.
    buffers: ArrayQueue<PageBuffer>,
    /// The cache for small values that are read.
    cache: Arc<Cache>,
    edits: Arc<dyn EditLog>,
    segments: Segments,
    /// Held while a segment is made.
    making: Mutex<()>,
    health: Arc<Health>,
    files: quick_cache::sync::Cache<u64, OpenFile>,
    written: AtomicU64,
    /// The highest number of a segment that was there when the log was opened.
    inherited_through: u64,
}

/// A chunk record, as a verification finds it.
struct StoredChunk {
    end: u64,
    checksum: u64,
    /// Whether the checksum matches.
    is_whole: bool,
}

impl StoredChunk {
    /// Reads the chunk at `offset` of segment `number`, which has `size` bytes. `None` if its
    /// length is out of bounds.
    fn read(file: &OpenFile, number: u64, offset: u64, size: u64) -> Result<Option<StoredChunk>> {
        let head = file.read_exact(offset, CHUNK_HEADER_BYTES)?;
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let start = offset + CHUNK_HEADER_BYTES as u64;
        let end = start + u64::from(length);
        if u64::from(length) > CHUNK_BYTES_MAX || end > size {
            return Ok(None);
        }
        let bytes = file.read_exact(start, length as usize)?;
        let checksum = u64::from_le_bytes(head[4..].try_into().expect("eight bytes"));
        let expected = crate::base::codec::checksum(number, offset, &[&head[..4], &bytes]);
        Ok(Some(StoredChunk {
            end,
            checksum,
            is_whole: checksum == expected,
        }))
    }
}

/// Length of a record of zeros from `end` to a page boundary; 0 if `end` is on one.
fn filler_bytes(end: u64) -> u64 {
    let page = PAGE_BYTES as u64;
    match end.next_multiple_of(page) - end {
        // A rest too short for a header: the record also takes the next page.
        bytes if (1..CHUNK_HEADER_BYTES as u64).contains(&bytes) => bytes + page,
        bytes => bytes,
    }
}

impl ValueLog {
    pub(crate) fn new(
        directory: Directory,
        store: u128,
        config: &Config,
        cache: Arc<Cache>,
        edits: Arc<dyn EditLog>,
        sealed: BTreeMap<u64, SegmentMeta>,
        health: Arc<Health>,
    ) -> ValueLog {
        ValueLog {
            directory,
            store,
            chunk_bytes: config.value_chunk_bytes,
            buffers: ArrayQueue::new(BUFFERS_MAX),
            cache,
            edits,
            making: Mutex::default(),
            inherited_through: sealed.keys().last().copied().unwrap_or(0),
            segments: Segments::new(sealed, config.value_segment_bytes, health.clone()),
            health,
            files: quick_cache::sync::Cache::new(64),
            written: AtomicU64::new(0),
        }
    }

    /// Whether the segment was there when the log was opened.
    pub(crate) fn is_inherited(&self, number: u64) -> bool {
        number <= self.inherited_through
    }

    /// Whether a segment was sealed since the log was opened.
    pub(crate) fn has_sealed_own(&self) -> bool {
        let sealed = self.segments.sealed();
        sealed
            .last()
            .is_some_and(|&(number, _)| !self.is_inherited(number))
    }

    /// Whether all `pins` are of segments of this open log.
    pub(crate) fn owns(&self, pins: &[Pin]) -> bool {
        self.segments.owns(pins)
    }

    /// Bytes written since the store was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Reserves space for chunk records of `length` bytes, after the last write to `preferred`
    /// unless another thread writes there; with `in_pages`, on a page boundary. The caller must
    /// write the records and settle the place.
    fn reserve(&self, length: u64, preferred: Option<u64>, in_pages: bool) -> Result<Place> {
        let room = Room {
            length,
            preferred,
            filler: if in_pages { filler_bytes } else { |_| 0 },
        };
        let place = match self.segments.reserve(room, false)? {
            Some(place) => place,
            None => self.make_room(room)?,
        };
        self.written
            .fetch_add(place.filler + length, Ordering::Relaxed);
        Ok(place)
    }

    /// Creates another segment, without holding the lock of the segments, which readers need.
    /// Writers that come meanwhile share the segment of another writer.
    fn make_room(&self, room: Room) -> Result<Place> {
        let _making = match try_lock(&self.making) {
            Some(making) => making,
            None => {
                if let Some(busy) = self.segments.reserve(room, true)? {
                    return Ok(busy);
                }
                let making = lock(&self.making);
                if let Some(made) = self.segments.reserve(room, true)? {
                    return Ok(made);
                }
                making
            }
        };
        let fresh = self.create_segment()?;
        self.segments.begin(fresh, room)
    }

    /// Creates a segment. Its name becomes durable with the first of its values, not here, because
    /// writers wait for the segment.
    fn create_segment(&self) -> Result<Writable> {
        let _guard = PanicGuard::new(&self.health, "the making of a segment of the value log");
        let number = self.edits.next_file();
        let name = FileName::Numbered(FileKind::ValueLog, number);
        let header = encode_header(FileKind::ValueLog, self.store, number);
        let file = self.directory.create_to_sync(name)?;
        if let Err(error) = file.write(&header, 0) {
            let _ = self.directory.remove(name);
            return Err(error);
        }
        self.files.insert(number, file.clone());
        Ok(Writable::new(number, file, HEADER_BYTES))
    }

    /// Whether anything was written that is not durable.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.segments.is_unsynced()
    }

    /// Makes everything written so far durable. Errors: the failure of the store; a failed sync is
    /// such a failure.
    pub(crate) fn sync(&self) -> Result<()> {
        self.segments.sync()
    }

    /// Pins the segments of `pointer`; `None` if one is gone, because the value was moved.
    fn pin(&self, pointer: &ValuePointer) -> Option<Vec<Pin>> {
        let numbers = pointer.extents.iter().map(|extent| extent.segment);
        self.segments.pin(numbers)
    }

    pub(crate) fn missing(&self, number: u64) -> Error {
        let path = self
            .directory
            .path_of(FileName::Numbered(FileKind::ValueLog, number));
        Error::corrupt(&path, 0, "the file is missing")
    }

    /// Errors: `Corrupt` if the segment is missing.
    pub(crate) fn contains(&self, number: u64) -> Result<()> {
        if self.segments.contains(number) {
            Ok(())
        } else {
            Err(self.missing(number))
        }
    }

    fn file(&self, number: u64) -> Result<OpenFile> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file);
        }
        if let Some(file) = self.segments.writable_file(number) {
            return Ok(file);
        }
        let file = self
            .directory
            .open(FileName::Numbered(FileKind::ValueLog, number))?;
        check_segment(&file, self.store, number)?;
        self.files.insert(number, file.clone());
        Ok(file)
    }

    /// The size of a sealed segment; `None` if it is not sealed, or no longer there.
    pub(crate) fn sealed_size(&self, number: u64) -> Option<u64> {
        self.segments.sealed_size(number)
    }

    /// Sealed segments, in the order of their numbers.
    pub(crate) fn sealed(&self) -> Vec<(u64, SegmentMeta)> {
        self.segments.sealed()
    }

    /// Makes the next value begin a new segment.
    pub(crate) fn retire(&self) {
        self.segments.fill_all();
    }

    /// Reads a sealed segment, chunk by chunk, and checks every checksum and their sum. Returns the
    /// damage. Errors: the segment cannot be read.
    pub(crate) fn verify_segment(
        &self,
        number: u64,
        size: u64,
        known: Option<u64>,
    ) -> Result<Vec<Error>> {
        let file = self.file(number)?;
        let mut found = Vec::new();
        let mut offset = HEADER_BYTES;
        let mut sum = 0u64;
        while offset < size {
            // A crash or a full disk may have left a chunk half written, to which nothing refers.
            // Only a segment whose sum is known must be whole.
            let is_cut = size - offset < CHUNK_HEADER_BYTES as u64;
            if is_cut && known.is_none() {
                return Ok(found);
            }
            let Some(chunk) = StoredChunk::read(&file, number, offset, size)? else {
                // Without its length, the end of the chunk is not known, so the search ends here.
                let reason = "the length of the chunk is out of bounds";
                found.extend(known.map(|_| file.corrupt(offset, reason)));
                return Ok(found);
            };
            if !chunk.is_whole {
                if known.is_none() {
                    return Ok(found);
                }
                found.push(file.corrupt(offset, "the checksum of the chunk does not match"));
            }
            sum = sum.wrapping_add(chunk.checksum);
            offset = chunk.end;
        }
        if found.is_empty() && known.is_some_and(|known| known != sum) {
            let reason = "the checksums of the chunks do not add up to the manifest's";
            found.push(file.corrupt(0, reason));
        }
        Ok(found)
    }

    /// Ends writing: active segments count as full, and later appends are refused.
    pub(crate) fn close(&self) {
        self.segments.close();
    }

    /// Seals all segments that have values in them, which enters them into the manifest; the next
    /// value begins a new segment. Waits for the writers.
    pub(crate) fn seal_all(&self) -> Result<()> {
        self.segments
            .seal_all(|number, meta| self.list(number, meta))
    }

    /// Enters full segments into the manifest. Returns whether there were any.
    pub(crate) fn seal_retired(&self) -> Result<bool> {
        self.segments
            .seal_idle(|number, meta| self.list(number, meta))
    }

    fn list(&self, number: u64, meta: SegmentMeta) -> Result<()> {
        let listed = self.edits.append(vec![Field::AddSegment(number, meta)]);
        listed.inspect_err(|error| self.health.note(error))
    }
}

fn check_segment(file: &OpenFile, store: u128, number: u64) -> Result<()> {
    let length = file.length()?.min(HEADER_BYTES) as usize;
    let header = file.read_exact(0, length)?;
    if check_header(&header, FileKind::ValueLog, number, file.path())? == store {
        Ok(())
    } else {
        Err(file.corrupt(16, "the segment belongs to another store"))
    }
}

/// Takes over a segment that no manifest lists: it was being written when the process ended. `None`
/// if its header was not written whole; then nothing durable refers to it.
pub(crate) fn adopt(
    directory: &Directory,
    store: u128,
    number: u64,
) -> Result<Option<SegmentMeta>> {
    let file = directory.open(FileName::Numbered(FileKind::ValueLog, number))?;
    let meta = describe(&file, store, number)?;
    if meta.is_some() {
        file.sync()?;
    }
    Ok(meta)
}

/// The manifest entry of a segment that is not listed yet; `None` if its header is damaged.
pub(crate) fn describe(file: &OpenFile, store: u128, number: u64) -> Result<Option<SegmentMeta>> {
    match check_segment(file, store, number) {
        Err(Error::Corrupt { .. }) => return Ok(None),
        checked => checked?,
    }
    Ok(Some(SegmentMeta {
        size: file.length()?,
        checksum: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::Extent;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pointer_survives_encoding_and_decoding(
            extents in proptest::collection::vec((1u64..1000, any::<u32>(), 1u64..50), 0..10),
            last in 1u64..100,
        ) {
            let mut extents: Vec<_> = extents.into_iter().map(|(segment, offset, chunks)| Extent {
                segment, offset: u64::from(offset), length: chunks * 100,
            }).collect();
            extents.push(Extent { segment: 3, offset: 9, length: last });
            let length = extents.iter().map(|extent| extent.length).sum();
            let pointer = ValuePointer { chunk_bytes: 100, length, extents };
            prop_assert_eq!(ValuePointer::decode(&pointer.encode()), Some(pointer));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Some(pointer) = ValuePointer::decode(&bytes) {
                let _ = pointer.references().count();
            }
        }
    }
}
