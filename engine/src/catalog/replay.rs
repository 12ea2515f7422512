//! Replay: the log of the last process goes into the memtables.
//!
//! A separate thread reads and checks segments a few ahead of the one being applied. Nothing on disk
//! changes here: damage that shows behind applied records still leaves the directory as it was.

use crate::base::key::{Kind, SequenceNumber};
use crate::catalog::parts::Parts;
use crate::format::change::{Change, Changes};
use crate::format::edit::WalMeta;
use crate::format::frame::{BEGINNING_DAMAGED, DAMAGED, Frame};
use crate::format::header::HEADER_BYTES;
use crate::format::pointer::ValuePointer;
use crate::fs::directory::OpenFile;
use crate::fs::name::{FileKind, FileName};
use crate::values::ValueReader;
use crate::write::commit::Applied;
use crate::write::log::reader;
use crate::write::log::reader::{Segment, Torn};
use crate::write::log::segments::Used;
use crate::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel, sync_channel};

/// Frames of the log that are applied under one hold of the locks.
const FRAMES_AT_ONCE: usize = 256;

/// Segments held in memory beside the one being applied.
const SEGMENTS_AHEAD: usize = 2;

/// The outcome of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

/// A segment whose frames have been looked at.
#[derive(Debug)]
struct Checked {
    segment: Segment,
    /// The manifest says that changes up to here are durable.
    durable: SequenceNumber,
    /// Indices of the frames that point to values in the value log; or the error about a frame, should it be part of the log.
    with_values: Result<Vec<usize>>,
}

impl Parts {
    /// Applies the log to the memtables, and notes in the manifest's state where each segment ends.
    pub(crate) fn replay(&self) -> Result<Replayed> {
        let wals = std::mem::take(&mut self.catalog.lock().state.wals);
        let (give_back, used) = channel();
        let read = move |(&number, meta): (&u64, &WalMeta)| {
            // The memory of a segment that has been applied is mapped already.
            let bytes = used.try_recv().unwrap_or_default();
            self.read_wal(number, meta, bytes).transpose()
        };
        // Stepped work runs in the same order every time.
        if self.background.is_stepped() {
            return self.replay_all(&wals, &mut wals.iter().filter_map(read), &give_back);
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(SEGMENTS_AHEAD);
            let mut segments = wals.iter().filter_map(read);
            // The receiver goes early if a segment is damaged.
            scope.spawn(move || segments.all(|segment| sender.send(segment).is_ok()));
            self.replay_all(&wals, &mut receiver.into_iter(), &give_back)
        })
    }

    /// Damage found within single segments of the log.
    pub(crate) fn log_damages(&self) -> Vec<Error> {
        let wals = self.catalog.lock().state.wals.clone();
        let read = |(number, meta): (u64, WalMeta)| {
            let read = self.read_wal(number, &meta, Vec::new());
            match read {
                Ok(Some(checked)) => checked.with_values.err(),
                Ok(None) => None,
                Err(error) => Some(error),
            }
        };
        wals.into_iter().filter_map(read).collect()
    }

    /// Reads a segment, makes it durable, and checks its frames; `None` if it was not in use.
    fn read_wal(&self, number: u64, meta: &WalMeta, bytes: Vec<u8>) -> Result<Option<Checked>> {
        let read = reader::read(&self.directory, self.store_id, number, meta.end, bytes)?;
        let durable_end = meta.end.unwrap_or(meta.durable);
        let Some(segment) = read else {
            if durable_end == 0 {
                return Ok(None);
            }
            let name = FileName::Numbered(FileKind::Wal, number);
            let path = self.directory.path_of(name);
            return Err(Error::corrupt(&path, HEADER_BYTES, BEGINNING_DAMAGED));
        };
        if segment.end < durable_end {
            return Err(segment.damaged());
        }
        segment.file.sync()?;
        let keyspaces = self.trees.all().len();
        Ok(Some(Checked {
            with_values: check_frames(&segment, keyspaces),
            durable: segment.durable.max(match durable_end {
                0 => 0,
                end => segment.last_before(end),
            }),
            segment,
        }))
    }

    /// Applies segments up to the first that does not begin where the one before it ends: a power cut has taken records before
    /// it.
    fn replay_all(
        &self,
        listed: &BTreeMap<u64, WalMeta>,
        segments: &mut dyn Iterator<Item = Result<Checked>>,
        give_back: &Sender<Vec<u8>>,
    ) -> Result<Replayed> {
        let mut log = Replay::begin(self, listed);
        let mut ahead = VecDeque::new();
        let mut is_whole = true;
        while let Some(checked) = ahead.pop_front().map(Ok).or_else(|| segments.next()) {
            let checked: Checked = checked?;
            log.durable = log.durable.max(checked.durable);
            is_whole = is_whole && log.is_continued_by(&checked.segment);
            if !is_whole {
                log.cut_off(&checked.segment, 0);
                continue;
            }
            if !log.unproven(&checked)?.is_empty() {
                // Later segments decide: they say how far this one was durable.
                while let Some(checked) = segments.next().transpose()? {
                    log.durable = log.durable.max(checked.durable);
                    ahead.push_back(checked);
                }
            }
            is_whole = log.apply(&checked)?;
            // The receiver is gone once everything has been read.
            let _ = give_back.send(checked.segment.into_bytes());
        }
        log.finish()
    }

    fn note_replayed(&self, segment: &Segment, end: u64) {
        let state = &mut self.catalog.lock().state;
        state.wals.insert(segment.number, WalMeta::ended(end));
        self.log
            .with_log(|log| log.previous = (segment.number, end));
        self.log.segments().add(Used {
            number: segment.number,
            base: segment.beginning.base,
            bytes: end,
            end,
            is_reusable: false,
        });
    }

    /// Whether every value that the changes point to can be read.
    fn has_all_values(&self, payload: &[u8]) -> Result<bool> {
        for change in Changes::new(payload).flatten() {
            let Change::Set {
                kind: Kind::Large,
                value,
                ..
            } = change
            else {
                continue;
            };
            let Some(pointer) = ValuePointer::decode(value) else {
                return Ok(false);
            };
            let reader = ValueReader::open(self.value_log.clone(), pointer);
            match reader.and_then(|reader| reader.read_through()) {
                Err(Error::Corrupt { .. }) => return Ok(false),
                read => read?,
            };
        }
        Ok(true)
    }
}

/// A replay under way.
struct Replay<'a> {
    store: &'a Parts,
    /// The segments that the manifest lists.
    listed: &'a BTreeMap<u64, WalMeta>,
    /// By keyspace: up to where it is in SSTables.
    flushed: Vec<SequenceNumber>,
    /// The last sequence number that SSTables hold.
    in_sstables: SequenceNumber,
    /// The highest sequence number that any frame records as durable.
    durable: SequenceNumber,
    /// The last one applied.
    last: SequenceNumber,
    /// Number, end, last sequence number and file of the last segment.
    previous: Option<(u64, u64, SequenceNumber, OpenFile)>,
    /// Records that are not applied, by file: from which offset on, and how many.
    torn: Vec<(OpenFile, u64, Torn)>,
    replayed: Replayed,
}

impl<'a> Replay<'a> {
    fn begin(store: &'a Parts, listed: &'a BTreeMap<u64, WalMeta>) -> Replay<'a> {
        let manifest = store.catalog.lock();
        let last = manifest.state.last_sequence;
        let keyspaces = manifest.state.keyspaces.values();
        store.snapshots.publish(last);
        Replay {
            store,
            listed,
            flushed: keyspaces.map(|state| state.flushed).collect(),
            in_sstables: last,
            durable: 0,
            last,
            previous: None,
            torn: Vec::new(),
            replayed: Replayed::default(),
        }
    }

    fn is_continued_by(&self, segment: &Segment) -> bool {
        let beginning = segment.beginning;
        match &self.previous {
            Some((number, end, ..)) => {
                (beginning.previous, beginning.previous_end) == (*number, *end)
            }
            // The segment before the first one is in SSTables, unless it is still listed: then its beginning was lost.
            None => !self.listed.contains_key(&beginning.previous),
        }
    }

    /// The frames with values whose durability is not recorded.
    fn unproven(&self, checked: &Checked) -> Result<Vec<usize>> {
        let mut unproven = checked.with_values.clone()?;
        let frames = &checked.segment.frames;
        unproven.retain(|&index| frames[index].first > self.durable);
        Ok(unproven)
    }

    /// Applies a segment. Returns false if replay stopped at an unsynced frame whose value is missing: there the log ends.
    fn apply(&mut self, checked: &Checked) -> Result<bool> {
        let segment = &checked.segment;
        let mut whole = segment.frames.len();
        for index in self.unproven(checked)? {
            let payload = segment.payload(&segment.frames[index]);
            if !self.store.has_all_values(payload)? {
                whole = index;
                break;
            }
        }
        let lost = segment.frames.get(whole);
        let end = lost.map_or(segment.end, |frame| frame.offset);
        self.cut_off(segment, whole);
        for frames in segment.frames[..whole].chunks(FRAMES_AT_ONCE) {
            self.apply_frames(segment, frames);
            self.store.snapshots.publish(self.last);
        }
        self.replayed.batches += whole as u64;
        self.replayed.bytes += end;
        self.store.note_replayed(segment, end);
        let last = segment.last_sequence;
        self.previous = Some((segment.number, segment.end, last, segment.file.clone()));
        Ok(lost.is_none())
    }

    /// Records the loss if the log ends before frame `whole` of a segment.
    fn cut_off(&mut self, segment: &Segment, whole: usize) {
        let torn = segment.torn_from(whole);
        if torn.batches > 0 {
            let offset = segment
                .frames
                .get(whole)
                .map_or(segment.end, |frame| frame.offset);
            self.torn.push((segment.file.clone(), offset, torn));
        }
    }

    /// Applies changes that are not in SSTables yet.
    fn apply_frames(&mut self, segment: &Segment, frames: &[Frame]) {
        let mut last = self.last;
        let changes = frames.iter().flat_map(|frame| {
            let changes = Changes::new(segment.payload(frame));
            (frame.first..).zip(changes.map(|change| change.expect("the frame was checked")))
        });
        let changes = changes.inspect(|(sequence, _)| last = last.max(*sequence));
        let flushed = &self.flushed;
        let unflushed =
            changes.filter(|(sequence, change)| *sequence > flushed[change.keyspace() as usize]);
        let upto = segment.last_sequence;
        // Those that are full are sealed at the end.
        let _full = self
            .store
            .log
            .apply_changes(unflushed, upto, Applied::Replay);
        self.last = last;
    }

    fn finish(self) -> Result<Replayed> {
        if let Some((_, end, last, file)) = self.previous {
            if self.durable > last {
                return Err(file.corrupt(end, DAMAGED));
            }
            // Changes were durable in the log before they came into an SSTable: a log that ends before them has been cut short.
            if last < self.in_sstables {
                let reason = "the log ends before what is known to be durable";
                return Err(file.corrupt(end, reason));
            }
        } else if self.durable > self.in_sstables
            && let Some(&first) = self.listed.keys().next()
        {
            let directory = &self.store.directory;
            let path = directory.path_of(FileName::Numbered(FileKind::Wal, first));
            return Err(Error::corrupt(&path, HEADER_BYTES, BEGINNING_DAMAGED));
        }
        for (file, offset, torn) in &self.torn {
            torn.warn(file, *offset);
        }
        let store = self.store;
        for tree in store.trees.all() {
            let active = &tree.view().active;
            let is_large = active.bytes() >= tree.memtable_bytes_max(&store.config);
            // Scans have to step over the rows that a deletion covers in its own memtable.
            if is_large || active.has_range_tombstones() {
                store.log.seal(&tree);
            }
        }
        store.catalog.lock().state.last_sequence = self.last;
        store.log.with_log(|log| log.last_sequence = self.last);
        store.log.sync().start(self.last);
        Ok(self.replayed)
    }
}

/// Refuses frames that no batch encodes, or that name a keyspace that does not exist. Answers which of them point to
/// values in the value log.
fn check_frames(segment: &Segment, keyspaces: usize) -> Result<Vec<usize>> {
    let mut with_values = Vec::new();
    for (index, frame) in segment.frames.iter().enumerate() {
        let corrupt = |reason: &str| segment.file.corrupt(frame.offset, reason);
        for change in Changes::new(segment.payload(frame)) {
            let change = change.map_err(|_| corrupt("the record does not decode"))?;
            if change.keyspace() as usize >= keyspaces {
                return Err(corrupt("the record names a keyspace that does not exist"));
            }
            let points = matches!(
                change,
                Change::Set {
                    kind: Kind::Large,
                    ..
                }
            );
            if points && with_values.last() != Some(&index) {
                with_values.push(index);
            }
        }
    }
    Ok(with_values)
}
