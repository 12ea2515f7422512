//! Value log: large values, written once, in append-only segments that many writers share.
//!
//! A value is a row of chunks. A chunk record is `u32` length, `u64` checksum over the length and the bytes (keyed by file
//! number and offset), and the bytes. All chunks of a value have its chunk length but the last. A [`ValuePointer`] names the
//! extents: stretches of chunk records that lie one after another. Whole chunks of a streamed value begin with a page of 4 KiB if
//! their records are whole pages, and many small values written together begin with one and end with one: records of zeros that no
//! pointer names fill the pages.
//!
//! Invariants: bytes are written before the batch that refers to them is logged, and synced before it counts as durable; a segment is
//! removed only when no SSTable, memtable, writer or reader refers to it and all that hides its values is durable.

mod dump;
mod gc;
mod reader;
mod writer;

pub(crate) use dump::dump;
pub use reader::ValueReader;
pub use writer::{LargeValue, UnwrittenChunk, ValueWriter, WrittenChunk};

use crate::base::config::{CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES};
use crate::base::health::Health;
use crate::base::mutex::lock;
use crate::format::edit::{EditLog, Field, SegmentMeta};
use crate::format::header::{HEADER_BYTES, check_header, encode_header};
use crate::format::pointer::{Extent, ValuePointer};
use crate::fs::directory::{Directory, OpenFile};
use crate::fs::name::{FileKind, FileName};
use crate::fs::{PAGE_BYTES, PageBuffer};
use crate::tree::cache::Cache;
use crate::{Config, Error, Result};
use crossbeam_queue::ArrayQueue;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Segments that take appends at once: a file system lets only one thread at a time write to a file.
const ACTIVE_MAX: usize = 4;

/// Unused buffers for chunk records that are kept.
const BUFFERS_MAX: usize = 8;

/// A place for chunk records, to be written there and settled.
#[derive(Debug)]
struct Place {
    segment: Arc<Writable>,
    offset: u64,
    /// Bytes from `offset` on.
    length: u64,
    /// Bytes before `offset` to be filled, so that it is where a page begins.
    filler: u64,
    pin: Pin,
    _writing: Writing,
}

/// Counts as a writer of its segment until dropped, which comes after its records are complete.
#[derive(Debug)]
struct Writing(Arc<Writable>);

impl Writing {
    fn new(segment: &Arc<Writable>) -> Writing {
        segment.writing.fetch_add(1, Ordering::SeqCst);
        Writing(segment.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_hole();
        }
        self.0.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A segment that takes appends, or took them a moment ago.
#[derive(Debug)]
struct Writable {
    number: u64,
    file: OpenFile,
    /// Where the next chunk goes.
    end: AtomicU64,
    /// Chunks given a place and not yet written.
    writing: AtomicU64,
    /// Bytes written; those that are synced are counted in `synced`, whose lock is held during a sync.
    written: AtomicU64,
    synced: Mutex<u64>,
    /// The same as in `synced`, to be looked at during a sync.
    durable: AtomicU64,
    checksum: AtomicU64,
    /// Whether a chunk could not be written: then there is a hole in it.
    has_hole: AtomicBool,
}

impl Writable {
    fn note_hole(&self) {
        self.has_hole.store(true, Ordering::Relaxed);
        // Its bytes are to be synced too: the length of the file is about to go into the manifest.
        self.written.fetch_add(1, Ordering::Release);
    }

    fn sync(&self) -> Result<()> {
        let mut synced = lock(&self.synced);
        let written = self.written.load(Ordering::Acquire);
        if *synced < written {
            self.file.sync()?;
            *synced = written;
            self.durable.store(written, Ordering::Release);
        }
        Ok(())
    }
}

/// Keeps a segment on disk.
#[derive(Debug)]
pub(crate) struct Pin {
    count: Arc<AtomicU64>,
    collect: Arc<AtomicBool>,
}

impl Pin {
    fn new(count: &Arc<AtomicU64>, collect: &Arc<AtomicBool>) -> Pin {
        count.fetch_add(1, Ordering::SeqCst);
        Pin {
            count: count.clone(),
            collect: collect.clone(),
        }
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        Pin::new(&self.count, &self.collect)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.collect.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Segments {
    /// At most [`ACTIVE_MAX`]; more than one only once writers have met.
    active: Vec<Arc<Writable>>,
    /// Full, but not yet in the manifest.
    retiring: Vec<Arc<Writable>>,
    sealed: BTreeMap<u64, SegmentMeta>,
    pins: HashMap<u64, Arc<AtomicU64>>,
    closed: bool,
}

type Chosen<'a> = (MutexGuard<'a, Segments>, Arc<Writable>);

/// The segments of a store.
#[derive(Debug)]
pub(crate) struct ValueLog {
    directory: Directory,
    store: u128,
    chunk_bytes: usize,
    /// Reused buffers for chunk records: fresh memory costs more than filling it.
    buffers: ArrayQueue<PageBuffer>,
    segment_bytes: u64,
    /// Keeps small values that are read.
    cache: Arc<Cache>,
    edits: Arc<dyn EditLog>,
    segments: Mutex<Segments>,
    /// Held while a segment is made.
    making: Mutex<()>,
    health: Arc<Health>,
    files: quick_cache::sync::Cache<u64, OpenFile>,
    /// Something may have become garbage since the last collection.
    collect: Arc<AtomicBool>,
    written: AtomicU64,
    /// The highest number of a segment that was there when the log was opened.
    inherited_through: u64,
}

impl Segments {
    /// An active segment without a writer, the preferred one first; with `or_busy` any active one. `None` if another has to be made.
    fn choose(&self, preferred: Option<u64>, or_busy: bool) -> Option<Arc<Writable>> {
        let writers = |segment: &Arc<Writable>| segment.writing.load(Ordering::SeqCst);
        let best = self
            .active
            .iter()
            .min_by_key(|segment| (writers(segment), Some(segment.number) != preferred))?;
        let is_free = writers(best) == 0 || or_busy || self.active.len() >= ACTIVE_MAX;
        is_free.then(|| best.clone())
    }

    /// Ends active segments. Answers whether there were any.
    fn retire(&mut self, ends: impl Fn(&Arc<Writable>) -> bool) -> bool {
        let before = self.retiring.len();
        self.retiring
            .extend(self.active.extract_if(.., |segment| ends(segment)));
        self.retiring.len() > before
    }
}

/// A chunk that is verified.
struct StoredChunk {
    end: u64,
    checksum: u64,
    /// Whether the checksum matches.
    is_whole: bool,
}

impl StoredChunk {
    /// Reads the chunk at `offset` of segment `number`, which has `size` bytes. `None` if its length is out of bounds.
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

/// Length of the record that is to stand at `end` so that the next one begins with a page; 0 if none is to.
fn filler_bytes(end: u64) -> u64 {
    let page = PAGE_BYTES as u64;
    match end.next_multiple_of(page) - end {
        // Too short for a header.
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
        let inherited_through = sealed.keys().last().copied().unwrap_or(0);
        let pins = sealed
            .keys()
            .map(|&number| (number, Arc::default()))
            .collect();
        ValueLog {
            directory,
            store,
            chunk_bytes: config.value_chunk_bytes,
            buffers: ArrayQueue::new(BUFFERS_MAX),
            segment_bytes: config.value_segment_bytes,
            cache,
            edits,
            making: Mutex::default(),
            segments: Mutex::new(Segments {
                active: Vec::new(),
                retiring: Vec::new(),
                sealed,
                pins,
                closed: false,
            }),
            health,
            files: quick_cache::sync::Cache::new(64),
            collect: Arc::new(AtomicBool::new(true)),
            written: AtomicU64::new(0),
            inherited_through,
        }
    }

    /// Whether the segment was there when the log was opened.
    pub(crate) fn is_inherited(&self, number: u64) -> bool {
        number <= self.inherited_through
    }

    /// Whether a segment was sealed since the log was opened.
    pub(crate) fn has_sealed_own(&self) -> bool {
        let segments = lock(&self.segments);
        let newest = segments.sealed.keys().last();
        newest.is_some_and(|&number| !self.is_inherited(number))
    }

    /// Whether all of these keep segments of this open log.
    pub(crate) fn owns(&self, pins: &[Pin]) -> bool {
        let is_ours = |pin: &Pin| Arc::ptr_eq(&pin.collect, &self.collect);
        pins.iter().all(is_ours)
    }

    /// Bytes written since the store was opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Gives chunk records of `length` bytes their place, behind the last write to `preferred` unless another thread
    /// writes there. `in_pages`: where a page begins. The caller writes them and settles the place.
    fn reserve(&self, length: u64, preferred: Option<u64>, in_pages: bool) -> Result<Place> {
        let (segments, active) = match self.choose(preferred, false)? {
            Some(chosen) => chosen,
            None => self.make_active(preferred)?,
        };
        let end = active.end.load(Ordering::Relaxed);
        let filler = if in_pages { filler_bytes(end) } else { 0 };
        self.written.fetch_add(filler + length, Ordering::Relaxed);
        let writing = Writing::new(&active);
        active.end.store(end + filler + length, Ordering::Relaxed);
        let pin = Pin::new(&segments.pins[&active.number], &self.collect);
        Ok(Place {
            segment: active,
            offset: end + filler,
            length,
            filler,
            pin,
            _writing: writing,
        })
    }

    /// An active segment as [`Segments::choose`] does, and the lock under which it was chosen.
    fn choose(&self, preferred: Option<u64>, or_busy: bool) -> Result<Option<Chosen<'_>>> {
        let mut segments = lock(&self.segments);
        if segments.closed {
            return Err(Error::Closed);
        }
        if segments.retire(|active| active.end.load(Ordering::Relaxed) >= self.segment_bytes) {
            self.request_collection();
        }
        let chosen = segments.choose(preferred, or_busy);
        Ok(chosen.map(|active| (segments, active)))
    }

    /// Makes another segment. Readers need the lock of the segments, so it is not held meanwhile; writers that come meanwhile
    /// share the segment of another writer.
    fn make_active(&self, preferred: Option<u64>) -> Result<Chosen<'_>> {
        let _making = match self.making.try_lock() {
            Ok(making) => making,
            Err(_) => {
                if let Some(busy) = self.choose(preferred, true)? {
                    return Ok(busy);
                }
                let making = lock(&self.making);
                if let Some(made) = self.choose(preferred, true)? {
                    return Ok(made);
                }
                making
            }
        };
        let fresh = Arc::new(self.create_segment()?);
        let mut segments = lock(&self.segments);
        if segments.closed {
            return Err(Error::Closed);
        }
        segments.pins.insert(fresh.number, Arc::default());
        segments.active.push(fresh.clone());
        Ok((segments, fresh))
    }

    /// A new segment, durable with its name, so that a synced chunk is never in a file without one.
    fn create_segment(&self) -> Result<Writable> {
        let number = self.edits.next_file();
        let name = FileName::Numbered(FileKind::ValueLog, number);
        let header = encode_header(FileKind::ValueLog, self.store, number);
        let file = self.directory.create(name)?;
        if let Err(error) = file.write(&header, 0) {
            let _ = self.directory.remove(name);
            return Err(error);
        }
        let synced = file.sync().and_then(|()| self.directory.sync());
        // The disk may have kept any part, and a sync is never tried again.
        synced.inspect_err(|error| self.health.fail(error))?;
        self.files.insert(number, file.clone());
        Ok(Writable {
            number,
            file,
            end: AtomicU64::new(HEADER_BYTES),
            writing: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: Mutex::new(0),
            durable: AtomicU64::new(0),
            checksum: AtomicU64::new(0),
            has_hole: AtomicBool::new(false),
        })
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        for segment in self.writable() {
            segment.sync()?;
        }
        Ok(())
    }

    /// Whether anything was written that is not durable.
    pub(crate) fn is_unsynced(&self) -> bool {
        let segments = lock(&self.segments);
        let mut writable = segments.retiring.iter().chain(&segments.active);
        writable.any(|segment| {
            segment.durable.load(Ordering::Acquire) < segment.written.load(Ordering::Acquire)
        })
    }

    fn writable(&self) -> Vec<Arc<Writable>> {
        let segments = lock(&self.segments);
        segments
            .retiring
            .iter()
            .chain(&segments.active)
            .cloned()
            .collect()
    }

    /// Keeps the segments of `pointer`; `None` if one is gone, because the value was moved.
    fn pin(&self, pointer: &ValuePointer) -> Option<Vec<Pin>> {
        let segments = lock(&self.segments);
        let pin =
            |extent: &Extent| Some(Pin::new(segments.pins.get(&extent.segment)?, &self.collect));
        pointer.extents.iter().map(pin).collect()
    }

    pub(crate) fn missing(&self, number: u64) -> Error {
        let path = self
            .directory
            .path_of(FileName::Numbered(FileKind::ValueLog, number));
        Error::corrupt(&path, 0, "the file is missing")
    }

    /// Whether the segment is there.
    pub(crate) fn contains(&self, number: u64) -> Result<()> {
        if lock(&self.segments).pins.contains_key(&number) {
            Ok(())
        } else {
            Err(self.missing(number))
        }
    }

    fn file(&self, number: u64) -> Result<OpenFile> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file);
        }
        let writable = self
            .writable()
            .into_iter()
            .find(|segment| segment.number == number);
        if let Some(segment) = writable {
            return Ok(segment.file.clone());
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
        let segments = lock(&self.segments);
        segments.sealed.get(&number).map(|meta| meta.size)
    }

    /// Sealed segments: number, size, checksum if it is known.
    pub(crate) fn sealed(&self) -> Vec<(u64, u64, Option<u64>)> {
        let segments = lock(&self.segments);
        let sealed = segments.sealed.iter();
        sealed
            .map(|(&number, meta)| (number, meta.size, meta.checksum))
            .collect()
    }

    /// The next value begins a new segment.
    pub(crate) fn retire(&self) {
        lock(&self.segments).retire(|_| true);
    }

    /// Seals the segment after a failed write, so that collection can reclaim it: on a full disk nothing else may free space.
    fn note_hole(&self, segment: &Arc<Writable>) {
        segment.note_hole();
        lock(&self.segments).retire(|active| Arc::ptr_eq(active, segment));
        self.request_collection();
    }

    /// Reads a sealed segment through, chunk by chunk, and checks every checksum and their sum. Answers all that is wrong. The
    /// error is that it cannot be read.
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
            // No reference leads to a chunk that a crash or a full disk left half written; only a segment whose sum is known is whole.
            let is_cut = size - offset < CHUNK_HEADER_BYTES as u64;
            if is_cut && known.is_none() {
                return Ok(found);
            }
            let Some(chunk) = StoredChunk::read(&file, number, offset, size)? else {
                // Where the next chunk begins is not known.
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

    /// No more will be written: active segments count as full, and writers that are left are refused.
    pub(crate) fn close(&self) {
        let mut segments = lock(&self.segments);
        segments.closed = true;
        segments.retire(|_| true);
    }

    /// Enters all segments that have values in them into the manifest: the next value begins a new one. Waits for the
    /// writers.
    pub(crate) fn seal_all(&self) -> Result<()> {
        let numbers = |segments: &Segments| -> Vec<u64> {
            let retiring = segments.retiring.iter();
            retiring.map(|segment| segment.number).collect()
        };
        let ending = {
            let mut segments = lock(&self.segments);
            segments.retire(|_| true);
            numbers(&segments)
        };
        self.seal_retired()?;
        while numbers(&lock(&self.segments))
            .iter()
            .any(|number| ending.contains(number))
        {
            std::thread::yield_now();
            self.seal_retired()?;
        }
        Ok(())
    }

    /// Enters full segments into the manifest. Answers whether there were any.
    pub(crate) fn seal_retired(&self) -> Result<bool> {
        let idle = |segment: &&Arc<Writable>| segment.writing.load(Ordering::SeqCst) == 0;
        let retired: Vec<Arc<Writable>> = lock(&self.segments)
            .retiring
            .iter()
            .filter(idle)
            .cloned()
            .collect();
        for segment in &retired {
            segment.sync()?;
            let has_hole = segment.has_hole.load(Ordering::Relaxed);
            let checksum = (!has_hole).then(|| segment.checksum.load(Ordering::Relaxed));
            // A hole at the end is not in the file.
            let size = if has_hole {
                segment.file.length()?
            } else {
                segment.end.load(Ordering::Relaxed)
            };
            let meta = SegmentMeta { size, checksum };
            let fields = vec![Field::AddSegment(segment.number, meta)];
            self.edits.append(fields)?;
            let mut segments = lock(&self.segments);
            segments
                .retiring
                .retain(|other| other.number != segment.number);
            segments.sealed.insert(segment.number, meta);
        }
        Ok(!retired.is_empty())
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

/// Takes over a segment that no manifest lists: it was being written when the process ended. `None` if not even its header
/// was; then nothing durable refers to it.
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

/// The entry of a segment that no manifest lists.
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
