//! Segments: the state of each segment of the value log. Only this file syncs segments and knows
//! which of their bytes are durable.
//!
//! | state | appends | in the manifest | next |
//! | --- | --- | --- | --- |
//! | active | taken | no | full: it has its length, a write to it failed, or it was ended early |
//! | full | only into reserved places | no | sealed, once its writers are done and it is synced |
//! | sealed | none | yes | leaving, when nothing pins it and nothing refers to it |
//! | leaving | none, and no readers | yes | gone once the manifest says so; sealed if that fails |
//!
//! Gone is final. A failed sync fails the store before the lock of syncs is released: the disk may
//! have kept any part of the bytes, and could report success for the next sync. A number is never
//! used again.

use crate::base::health::{Health, PanicGuard};
use crate::base::mutex::lock;
use crate::base::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::format::edit::SegmentMeta;
use crate::fs::directory::OpenFile;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Maximum number of segments that take appends at the same time. There are several, because a file
/// system lets only one thread at a time write to a file.
const ACTIVE_MAX: usize = 4;

/// A segment that is not sealed yet: it takes appends, or is full.
#[derive(Debug)]
pub(crate) struct Writable {
    pub(crate) number: u64,
    pub(crate) file: OpenFile,
    pins: Arc<AtomicU64>,
    /// Offset of the next chunk.
    end: AtomicU64,
    /// Number of chunks that have a place and are not written yet.
    writing: AtomicU64,
    /// Number of bytes written.
    written: AtomicU64,
    /// Number of written bytes that are durable. The lock is held during a sync.
    synced: Mutex<u64>,
    /// The same number as in `synced`, readable during a sync.
    durable: AtomicU64,
    checksum: AtomicU64,
    /// Whether a chunk could not be written, so that the segment has a hole.
    has_hole: AtomicBool,
}

impl Writable {
    /// A segment of `end` bytes, its header included. Its first sync makes its name durable too.
    pub(crate) fn new(number: u64, file: OpenFile, end: u64) -> Writable {
        Writable {
            number,
            file,
            pins: Arc::default(),
            end: AtomicU64::new(end),
            writing: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: Mutex::new(0),
            durable: AtomicU64::new(0),
            checksum: AtomicU64::new(0),
            has_hole: AtomicBool::new(false),
        }
    }

    fn is_idle(&self) -> bool {
        self.writing.load(Ordering::SeqCst) == 0
    }

    fn note_hole(&self) {
        self.has_hole.store(true, Ordering::Relaxed);
        // The hole must be synced too: the length of the file is about to go into the manifest.
        self.written.fetch_add(1, Ordering::Release);
    }

    /// The manifest entry of the segment. Call this once it has no writers.
    fn meta(&self) -> Result<SegmentMeta> {
        if self.has_hole.load(Ordering::Relaxed) {
            // A hole at the end is not in the file, so the length of the file counts.
            return Ok(SegmentMeta {
                size: self.file.length()?,
                checksum: None,
            });
        }
        Ok(SegmentMeta {
            size: self.end.load(Ordering::Relaxed),
            checksum: Some(self.checksum.load(Ordering::Relaxed)),
        })
    }
}

/// Keeps a segment on disk until dropped.
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

/// A request for room for chunk records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) length: u64,
    /// The segment to use, unless another thread writes to that segment.
    pub(crate) preferred: Option<u64>,
    /// Returns the number of bytes to leave before the records. The argument is the end of the
    /// segment.
    pub(crate) filler: fn(u64) -> u64,
}

/// A place for chunk records. The caller writes them there and settles the place.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) segment: Arc<Writable>,
    pub(crate) offset: u64,
    /// Number of bytes from `offset` on.
    pub(crate) length: u64,
    /// Number of bytes before `offset` that a filler record takes.
    pub(crate) filler: u64,
    pub(crate) pin: Pin,
    _writing: Writing,
}

/// Counts as a writer of the segment until dropped, which is after its records are complete.
#[derive(Debug)]
struct Writing {
    segment: Arc<Writable>,
    table: Arc<Shared>,
}

impl Writing {
    fn new(segment: &Arc<Writable>, table: &Arc<Shared>) -> Writing {
        segment.writing.fetch_add(1, Ordering::SeqCst);
        Writing {
            segment: segment.clone(),
            table: table.clone(),
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.segment.note_hole();
        }
        let was_last = self.segment.writing.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.table.awaits_idle.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.table.table));
            self.table.idle.notify_all();
        }
    }
}

#[derive(Debug)]
struct Sealed {
    meta: SegmentMeta,
    pins: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Table {
    /// Segments that take appends: at most [`ACTIVE_MAX`], several only once writers have collided.
    active: Vec<Arc<Writable>>,
    full: Vec<Arc<Writable>>,
    sealed: BTreeMap<u64, Sealed>,
    leaving: BTreeMap<u64, Sealed>,
    closed: bool,
}

impl Table {
    fn writable(&self) -> impl Iterator<Item = &Arc<Writable>> {
        self.full.iter().chain(&self.active)
    }

    /// The pins of a segment; `None` if readers may not open it.
    fn pins(&self, number: u64) -> Option<&Arc<AtomicU64>> {
        if let Some(sealed) = self.sealed.get(&number) {
            return Some(&sealed.pins);
        }
        let mut writable = self.writable();
        let found = writable.find(|segment| segment.number == number);
        found.map(|segment| &segment.pins)
    }

    /// Makes the active segments that `ends` selects full. Returns whether there were any.
    fn fill(&mut self, ends: impl Fn(&Arc<Writable>) -> bool) -> bool {
        let before = self.full.len();
        self.full
            .extend(self.active.extract_if(.., |segment| ends(segment)));
        self.full.len() > before
    }

    /// Returns the active segment with the fewest writers; of several, the preferred one. `None` if
    /// there is none, or if all have writers and another segment may be made, unless `or_busy`.
    fn choose(&self, preferred: Option<u64>, or_busy: bool) -> Option<Arc<Writable>> {
        let writers = |segment: &Arc<Writable>| segment.writing.load(Ordering::SeqCst);
        let best = self
            .active
            .iter()
            .min_by_key(|segment| (writers(segment), Some(segment.number) != preferred))?;
        let is_free = best.is_idle() || or_busy || self.active.len() >= ACTIVE_MAX;
        is_free.then(|| best.clone())
    }
}

/// The state of the segments that their writers share.
#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Notified when a segment has no more writers and a thread waits for that.
    idle: Condvar,
    awaits_idle: AtomicU64,
}

/// The segments of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    shared: Arc<Shared>,
    /// Held while segments are sealed.
    sealing: Mutex<()>,
    segment_bytes: u64,
    health: Arc<Health>,
    /// Whether something may have become garbage since the last collection.
    collect: Arc<AtomicBool>,
}

impl Segments {
    /// Starts with the segments that the manifest lists, those taken over by recovery included.
    pub(crate) fn new(
        sealed: BTreeMap<u64, SegmentMeta>,
        segment_bytes: u64,
        health: Arc<Health>,
    ) -> Segments {
        let shared = Arc::<Shared>::default();
        lock(&shared.table).sealed = sealed
            .into_iter()
            .map(|(number, meta)| {
                let pins = Arc::default();
                (number, Sealed { meta, pins })
            })
            .collect();
        Segments {
            shared,
            sealing: Mutex::default(),
            segment_bytes,
            health,
            collect: Arc::new(AtomicBool::new(true)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.shared.table)
    }

    /// The length at which a segment is full.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Requests a collection, because something may have become garbage.
    pub(crate) fn request_collection(&self) {
        self.collect.store(true, Ordering::SeqCst);
    }

    /// True if a collection was requested; clears the request.
    pub(crate) fn take_collection_request(&self) -> bool {
        self.collect.swap(false, Ordering::SeqCst)
    }

    /// Whether all `pins` are of segments of this open log.
    pub(crate) fn owns(&self, pins: &[Pin]) -> bool {
        let is_ours = |pin: &Pin| Arc::ptr_eq(&pin.collect, &self.collect);
        pins.iter().all(is_ours)
    }
}

/// Reservation of places for chunk records.
impl Segments {
    /// Reserves a place in an active segment without a writer; with `or_busy` in any. `None` if
    /// another segment has to be made. Errors: `Closed`.
    pub(crate) fn reserve(&self, room: Room, or_busy: bool) -> Result<Option<Place>> {
        let mut table = self.open_table()?;
        if table.fill(|active| active.end.load(Ordering::Relaxed) >= self.segment_bytes) {
            self.request_collection();
        }
        let chosen = table.choose(room.preferred, or_busy);
        Ok(chosen.map(|segment| self.place(segment, room)))
    }

    /// Adds a new segment, and reserves a place in it. Errors: `Closed`.
    pub(crate) fn begin(&self, fresh: Writable, room: Room) -> Result<Place> {
        let fresh = Arc::new(fresh);
        let mut table = self.open_table()?;
        table.active.push(fresh.clone());
        Ok(self.place(fresh, room))
    }

    fn open_table(&self) -> Result<MutexGuard<'_, Table>> {
        let table = self.table();
        if table.closed {
            return Err(Error::Closed);
        }
        Ok(table)
    }

    /// Reserves a place at the end of the segment. The caller holds the table.
    fn place(&self, segment: Arc<Writable>, room: Room) -> Place {
        let end = segment.end.load(Ordering::Relaxed);
        let filler = (room.filler)(end);
        let writing = Writing::new(&segment, &self.shared);
        let next = end + filler + room.length;
        segment.end.store(next, Ordering::Relaxed);
        Place {
            pin: Pin::new(&segment.pins, &self.collect),
            offset: end + filler,
            length: room.length,
            filler,
            segment,
            _writing: writing,
        }
    }

    /// Ends a write: `written` is the sum of its checksums, or its failure. A failure leaves a hole
    /// and ends the segment, so that it can be collected: on a full disk nothing else may free
    /// space.
    pub(crate) fn settle(&self, place: &Place, written: Result<u64>) -> Result<()> {
        let segment = &place.segment;
        match written {
            Ok(sum) => {
                let bytes = place.filler + place.length;
                segment.checksum.fetch_add(sum, Ordering::Relaxed);
                segment.written.fetch_add(bytes, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                segment.note_hole();
                self.table().fill(|active| Arc::ptr_eq(active, segment));
                self.request_collection();
                Err(error)
            }
        }
    }

    /// Makes all active segments full: they take no more appends.
    pub(crate) fn fill_all(&self) {
        self.table().fill(|_| true);
    }

    /// Refuses writers from now on, and makes all active segments full.
    pub(crate) fn close(&self) {
        let mut table = self.table();
        table.closed = true;
        table.fill(|_| true);
    }
}

/// Syncing and sealing of segments.
impl Segments {
    /// Whether anything was written that is not durable.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.table().writable().any(|segment| {
            segment.durable.load(Ordering::Acquire) < segment.written.load(Ordering::Acquire)
        })
    }

    /// Makes everything written so far durable. Errors: the failure of the store; a failed sync is
    /// such a failure, and is never retried.
    pub(crate) fn sync(&self) -> Result<()> {
        let writable: Vec<_> = self.table().writable().cloned().collect();
        writable
            .iter()
            .try_for_each(|segment| self.sync_one(segment))
    }

    fn sync_one(&self, segment: &Writable) -> Result<()> {
        let mut synced = lock(&segment.synced);
        // A sync by another thread may have failed while this thread waited for it.
        if let Some(failure) = self.health.failure() {
            return Err(failure.clone());
        }
        let written = segment.written.load(Ordering::Acquire);
        if *synced < written {
            let _guard = PanicGuard::new(&self.health, "a sync of the value log");
            let done = segment.file.sync();
            done.inspect_err(|error| self.health.fail(error))?;
            *synced = written;
            segment.durable.store(written, Ordering::Release);
        }
        Ok(())
    }

    /// Seals the full segments whose writers are done: syncs each, then calls `record`, which makes
    /// its entry in the manifest durable. Returns whether there were any.
    pub(crate) fn seal_idle(
        &self,
        record: impl Fn(u64, SegmentMeta) -> Result<()>,
    ) -> Result<bool> {
        let _sealing = lock(&self.sealing);
        self.seal(&record, |_| true)
    }

    /// Seals all segments that have values in them; the next value begins a new segment. Waits for
    /// the writers.
    pub(crate) fn seal_all(&self, record: impl Fn(u64, SegmentMeta) -> Result<()>) -> Result<()> {
        let _sealing = lock(&self.sealing);
        let mut table = self.table();
        table.fill(|_| true);
        let ending: Vec<u64> = table.full.iter().map(|segment| segment.number).collect();
        let ends = |segment: &Writable| ending.contains(&segment.number);
        self.shared.awaits_idle.fetch_add(1, Ordering::SeqCst);
        let is_busy = |table: &mut Table| {
            let mut full = table.full.iter();
            full.any(|segment| ends(segment) && !segment.is_idle())
        };
        let waited = self.shared.idle.wait_while(table, is_busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.shared.awaits_idle.fetch_sub(1, Ordering::SeqCst);
        self.seal(&record, ends).map(|_| ())
    }

    fn seal(
        &self,
        record: &impl Fn(u64, SegmentMeta) -> Result<()>,
        which: impl Fn(&Writable) -> bool,
    ) -> Result<bool> {
        let full = self.table().full.clone();
        let mut sealed = false;
        for segment in full.iter().filter(|segment| which(segment)) {
            if !segment.is_idle() {
                continue;
            }
            self.sync_one(segment)?;
            let meta = segment.meta()?;
            record(segment.number, meta)?;
            let pins = segment.pins.clone();
            let mut table = self.table();
            table.full.retain(|other| other.number != segment.number);
            table.sealed.insert(segment.number, Sealed { meta, pins });
            sealed = true;
        }
        Ok(sealed)
    }
}

/// Access for readers.
impl Segments {
    /// Pins the segments with these numbers; `None` if one is gone, because the value was moved.
    pub(crate) fn pin(&self, numbers: impl Iterator<Item = u64>) -> Option<Vec<Pin>> {
        let table = self.table();
        let pin = |number| Some(Pin::new(table.pins(number)?, &self.collect));
        numbers.map(pin).collect()
    }

    /// Whether readers may open the segment.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.table().pins(number).is_some()
    }

    /// The file of a segment that is not sealed.
    pub(crate) fn writable_file(&self, number: u64) -> Option<OpenFile> {
        let table = self.table();
        let mut writable = table.writable();
        let found = writable.find(|segment| segment.number == number);
        found.map(|segment| segment.file.clone())
    }

    /// Returns the sealed segments, in the order of their numbers.
    pub(crate) fn sealed(&self) -> Vec<(u64, SegmentMeta)> {
        let table = self.table();
        let sealed = table.sealed.iter();
        sealed
            .map(|(&number, sealed)| (number, sealed.meta))
            .collect()
    }

    /// The size of a sealed segment; `None` if it is not sealed, or no longer there.
    pub(crate) fn sealed_size(&self, number: u64) -> Option<u64> {
        let table = self.table();
        table.sealed.get(&number).map(|sealed| sealed.meta.size)
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        let table = self.table();
        let listed = table.sealed.values().chain(table.leaving.values());
        let listed: u64 = listed.map(|sealed| sealed.meta.size).sum();
        let ends = table
            .writable()
            .map(|segment| segment.end.load(Ordering::Relaxed));
        listed + ends.sum::<u64>()
    }
}

/// Removal of segments.
impl Segments {
    /// Returns the sealed segments without pins. Call this before references are counted: if a pin
    /// is released later, the references that took its place are counted.
    pub(crate) fn unpinned(&self) -> Vec<u64> {
        let table = self.table();
        let free = table.sealed.iter().filter(|(_, sealed)| {
            let pins = sealed.pins.load(Ordering::SeqCst);
            pins == 0
        });
        free.map(|(&number, _)| number).collect()
    }

    /// Ends each large active segment that has no pins and no writer and is worth rewriting, as
    /// `is_wasteful` decides from its number and size.
    pub(crate) fn fill_wasteful(&self, is_wasteful: impl Fn(u64, u64) -> bool) {
        let is_large = |size: u64| size > self.segment_bytes / 16;
        let has_ended = self.table().fill(|active| {
            let size = active.end.load(Ordering::Relaxed);
            let is_free = active.pins.load(Ordering::SeqCst) == 0 && active.is_idle();
            is_large(size) && is_free && is_wasteful(active.number, size)
        });
        if has_ended {
            // The next collection seals the segments that ended, and finds their garbage.
            self.request_collection();
        }
    }

    /// Takes sealed segments away from readers, except those that were pinned meanwhile.
    pub(crate) fn begin_removal(&self, numbers: &[u64]) -> Removal<'_> {
        let mut table = self.table();
        let mut removal = Removal {
            segments: self,
            numbers: Vec::new(),
        };
        for &number in numbers {
            let is_free = |sealed: &Sealed| sealed.pins.load(Ordering::SeqCst) == 0;
            if table.sealed.get(&number).is_some_and(is_free)
                && let Some(sealed) = table.sealed.remove(&number)
            {
                table.leaving.insert(number, sealed);
                removal.numbers.push(number);
            }
        }
        removal
    }
}

/// Segments that are leaving. If this is dropped before `complete`, they are sealed again.
#[derive(Debug)]
#[must_use]
pub(crate) struct Removal<'a> {
    segments: &'a Segments,
    numbers: Vec<u64>,
}

impl Removal<'_> {
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Makes the removal final, after the manifest records it durably. Returns the segments.
    pub(crate) fn complete(mut self) -> Vec<u64> {
        let numbers = std::mem::take(&mut self.numbers);
        let mut table = self.segments.table();
        table.leaving.retain(|number, _| !numbers.contains(number));
        drop(table);
        numbers
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let mut table = self.segments.table();
        for number in &self.numbers {
            if let Some(sealed) = table.leaving.remove(number) {
                table.sealed.insert(*number, sealed);
            }
        }
    }
}
