//! Replay: applies the log of the last process to the memtables.
//!
//! A separate thread reads and checks segments a few ahead of the one being applied. Nothing on
//! disk changes here, so damage found after some records were applied still leaves the directory as
//! it was.

use crate::base::key::{Kind, SequenceNumber};
use crate::catalog::parts::Parts;
use crate::catalog::recovered::{CutOff, CutReason, Recovered};
use crate::format::change::{Change, Changes};
use crate::format::edit::WalMeta;
use crate::format::frame::{BEGINNING_DAMAGED, Frame};
use crate::format::header::HEADER_BYTES;
use crate::format::pointer::ValuePointer;
use crate::fs::directory::OpenFile;
use crate::fs::name::{FileKind, FileName};
use crate::values::ValueReader;
use crate::write::commit::Applied;
use crate::write::log::reader::{self, Segment, SegmentContents, Torn};
use crate::write::log::segments::Used;
use crate::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Sender, channel, sync_channel};

/// Frames of the log that are applied under one hold of the locks.
const FRAMES_AT_ONCE: usize = 256;

/// Maximum number of checked segments that wait to be applied while another one is read.
const SEGMENTS_AHEAD: usize = 2;

/// A segment that was read, with the results of checking its frames.
#[derive(Debug)]
struct Checked {
    segment: Segment,
    /// The highest sequence number that the manifest or a frame of the segment records as durable.
    durable: SequenceNumber,
    /// Whether the manifest records some of this segment as durable, and thus all earlier ones.
    is_marked: bool,
    /// Indices of the frames that point to values in the value log; or the error about a frame that
    /// no batch encodes to, which counts only if the segment is part of the log.
    with_values: Result<Vec<usize>>,
}

/// A listed segment as it was read.
#[derive(Debug)]
enum Read {
    Checked(Box<Checked>),
    /// The beginning of the segment is lost, and with it all its records.
    CutOff(CutOff),
}

impl Parts {
    /// Applies the log to the memtables, and notes in the manifest's state where each segment ends.
    pub(crate) fn replay(&self) -> Result<Recovered> {
        let wals = std::mem::take(&mut self.catalog.lock().state.wals);
        let (give_back, used) = channel();
        let read = move |(&number, meta): (&u64, &WalMeta)| {
            // Reuses the memory of an applied segment, which is mapped already.
            let bytes = used.try_recv().unwrap_or_default();
            self.read_wal(number, meta, bytes).transpose()
        };
        // Stepped work must run in the same order every time, so it uses no second thread.
        if self.background.is_stepped() {
            return self.replay_all(&wals, &mut wals.iter().filter_map(read), &give_back);
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(SEGMENTS_AHEAD);
            let mut segments = wals.iter().filter_map(read);
            // The send fails if the receiver is gone, because a segment is damaged.
            scope.spawn(move || segments.all(|segment| sender.send(segment).is_ok()));
            self.replay_all(&wals, &mut receiver.into_iter(), &give_back)
        })
    }

    /// Errors for the damage found within single segments of the log.
    pub(crate) fn log_damages(&self) -> Vec<Error> {
        let wals = self.catalog.lock().state.wals.clone();
        let read = |(number, meta): (u64, WalMeta)| {
            let read = self.read_wal(number, &meta, Vec::new());
            match read {
                Ok(Some(Read::Checked(checked))) => checked.with_values.err(),
                Ok(Some(Read::CutOff(_)) | None) => None,
                Err(error) => Some(error),
            }
        };
        wals.into_iter().filter_map(read).collect()
    }

    /// Reads a segment, makes it durable, and checks its frames; `None` if it was not in use.
    fn read_wal(&self, number: u64, meta: &WalMeta, bytes: Vec<u8>) -> Result<Option<Read>> {
        let read = reader::read(&self.directory, self.store_id, number, meta.end, bytes)?;
        let durable_end = meta.end.unwrap_or(meta.durable);
        let segment = match read {
            SegmentContents::Segment(segment) => segment,
            _ if durable_end > 0 => {
                let name = FileName::Numbered(FileKind::Wal, number);
                let path = self.directory.path_of(name);
                return Err(Error::corrupt(&path, HEADER_BYTES, BEGINNING_DAMAGED));
            }
            SegmentContents::Unused => return Ok(None),
            SegmentContents::NoBeginning(file, torn) => {
                let lost = cut_off(&file, HEADER_BYTES, torn, CutReason::TornRecord);
                return Ok(Some(Read::CutOff(lost)));
            }
        };
        if segment.end < durable_end {
            return Err(segment.damaged());
        }
        segment.file.sync()?;
        let keyspaces = self.trees.all().len();
        Ok(Some(Read::Checked(Box::new(Checked {
            with_values: check_frames(&segment, keyspaces),
            is_marked: durable_end > 0,
            durable: segment.durable.max(match durable_end {
                0 => 0,
                end => segment.last_before(end),
            }),
            segment,
        }))))
    }

    /// Applies segments until one does not begin where the one before it ends: a power cut has lost
    /// the records between them. The rest is cut off.
    fn replay_all(
        &self,
        listed: &BTreeMap<u64, WalMeta>,
        segments: &mut dyn Iterator<Item = Result<Read>>,
        give_back: &Sender<Vec<u8>>,
    ) -> Result<Recovered> {
        let mut log = Replay::begin(self, listed);
        let mut ahead = VecDeque::new();
        let mut is_whole = true;
        while let Some(read) = ahead.pop_front().map(Ok).or_else(|| segments.next()) {
            let checked = match read? {
                Read::Checked(checked) => checked,
                Read::CutOff(lost) => {
                    log.lost.push(lost);
                    continue;
                }
            };
            log.durable = log.durable.max(checked.durable);
            is_whole = is_whole && log.is_continued_by(&checked.segment);
            if !is_whole && checked.is_marked {
                let file = &checked.segment.file;
                return Err(file.corrupt(HEADER_BYTES, CutReason::BehindGap.as_damage()));
            }
            if !is_whole {
                log.cut(&checked.segment, 0, CutReason::BehindGap);
                continue;
            }
            if !log.unproven(&checked)?.is_empty() {
                // Later segments decide: they record how much of this one was durable.
                while let Some(read) = segments.next().transpose()? {
                    if let Read::Checked(checked) = &read {
                        log.durable = log.durable.max(checked.durable);
                    }
                    ahead.push_back(read);
                }
            }
            is_whole = log.apply(&checked)?;
            // The send fails once all segments have been read.
            let _ = give_back.send(checked.segment.into_bytes());
        }
        log.finish()
    }

    fn note_replayed(&self, segment: &Segment, end: u64) {
        let state = &mut self.catalog.lock().state;
        state.wals.insert(segment.number, WalMeta::ended(end));
        self.log.with_log(|log| {
            log.previous = (segment.number, end);
            log.last_batch = (segment.number, end);
        });
        self.log.segments().add(Used {
            number: segment.number,
            base: segment.beginning.base,
            bytes: end,
            end,
            is_reusable: false,
        });
    }

    /// True if all values in the value log that the changes point to can be read. Checks only the
    /// changes that `counts` selects.
    fn has_values<'a>(
        &self,
        changes: impl Iterator<Item = (SequenceNumber, Change<'a>)>,
        counts: impl Fn(SequenceNumber, u32) -> bool,
    ) -> Result<bool> {
        for (sequence, change) in changes {
            let Change::Set {
                keyspace,
                kind: Kind::Large,
                value,
                ..
            } = change
            else {
                continue;
            };
            if !counts(sequence, keyspace) {
                continue;
            }
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

fn cut_off(file: &OpenFile, offset: u64, torn: Torn, reason: CutReason) -> CutOff {
    CutOff {
        path: file.path().to_path_buf(),
        offset,
        batches: torn.batches,
        bytes: torn.bytes,
        reason,
    }
}

/// The changes of a frame that was checked, with their numbers.
fn changes_of<'a>(
    segment: &'a Segment,
    frame: &Frame,
) -> impl Iterator<Item = (SequenceNumber, Change<'a>)> {
    let changes = Changes::new(segment.payload(frame));
    (frame.first..).zip(changes.map(|change| change.expect("the frame was checked")))
}

/// A replay under way.
struct Replay<'a> {
    store: &'a Parts,
    /// The segments that the manifest lists.
    listed: &'a BTreeMap<u64, WalMeta>,
    /// For each keyspace, the sequence number up to which its changes are in SSTables.
    flushed: Vec<SequenceNumber>,
    /// The highest sequence number that the manifest or a frame records as durable.
    durable: SequenceNumber,
    /// The last sequence number that is in SSTables or was applied.
    last: SequenceNumber,
    /// The end of the log as far as it was applied.
    end: Option<LogEnd>,
    /// Records that are not applied.
    lost: Vec<CutOff>,
    recovered: Recovered,
}

/// The end of a segment, as far as it was applied.
struct LogEnd {
    segment: u64,
    offset: u64,
    sequence: SequenceNumber,
    file: OpenFile,
}

impl<'a> Replay<'a> {
    fn begin(store: &'a Parts, listed: &'a BTreeMap<u64, WalMeta>) -> Replay<'a> {
        let manifest = store.catalog.lock();
        // A listed SSTable proves that its changes were durable in the log before.
        let last = manifest.state.last_sequence;
        let keyspaces = manifest.state.keyspaces.values();
        store.snapshots.publish(last);
        Replay {
            store,
            listed,
            flushed: keyspaces.map(|state| state.flushed).collect(),
            durable: last,
            last,
            end: None,
            lost: Vec::new(),
            recovered: Recovered::default(),
        }
    }

    fn is_continued_by(&self, segment: &Segment) -> bool {
        let beginning = segment.beginning;
        match &self.end {
            Some(end) => (beginning.previous, beginning.previous_end) == (end.segment, end.offset),
            // The segment before the first one is in SSTables, unless it is still listed: then its
            // beginning was lost.
            None => !self.listed.contains_key(&beginning.previous),
        }
    }

    fn is_flushed(&self, sequence: SequenceNumber, keyspace: u32) -> bool {
        sequence <= self.flushed[keyspace as usize]
    }

    /// Indices of the frames that point to values and whose durability is not recorded.
    fn unproven(&self, checked: &Checked) -> Result<Vec<usize>> {
        let mut unproven = checked.with_values.clone()?;
        let frames = &checked.segment.frames;
        unproven.retain(|&index| frames[index].first > self.durable);
        Ok(unproven)
    }

    /// Applies a segment. Returns `false` if replay stopped at a frame whose value was lost in a
    /// power cut and that nothing records as durable: the log ends there. A collected value never
    /// causes this: before the value is removed, the manifest records the log as durable up to the
    /// last frame that points to the value.
    fn apply(&mut self, checked: &Checked) -> Result<bool> {
        let segment = &checked.segment;
        let mut whole = segment.frames.len();
        for index in self.unproven(checked)? {
            let changes = changes_of(segment, &segment.frames[index]);
            let counts = |sequence, keyspace| !self.is_flushed(sequence, keyspace);
            if !self.store.has_values(changes, counts)? {
                whole = index;
                break;
            }
        }
        let lost = segment.frames.get(whole);
        let offset = lost.map_or(segment.end, |frame| frame.offset);
        let reason = lost.map_or(CutReason::TornRecord, |_| CutReason::MissingValue);
        self.cut(segment, whole, reason);
        for frames in segment.frames[..whole].chunks(FRAMES_AT_ONCE) {
            self.apply_frames(segment, frames);
        }
        // Refused batches use up sequence numbers. The base of the next segment counts these
        // numbers, and the manifest may count them.
        self.last = self.last.max(segment.last_before(offset));
        self.store.snapshots.publish(self.last);
        self.recovered.batches += whole as u64;
        self.recovered.bytes += offset;
        self.store.note_replayed(segment, offset);
        self.end = Some(LogEnd {
            segment: segment.number,
            offset,
            sequence: segment.last_before(offset),
            file: segment.file.clone(),
        });
        Ok(lost.is_none())
    }

    /// Notes the records that are lost if the log ends before frame `whole` of a segment.
    fn cut(&mut self, segment: &Segment, whole: usize, reason: CutReason) {
        let torn = segment.torn_from(whole);
        if torn.batches > 0 {
            let frame = segment.frames.get(whole);
            let offset = frame.map_or(segment.end, |frame| frame.offset);
            self.lost.push(cut_off(&segment.file, offset, torn, reason));
        }
    }

    /// Applies changes that are not in SSTables yet.
    fn apply_frames(&mut self, segment: &Segment, frames: &[Frame]) {
        let mut last = self.last;
        let changes = frames.iter().flat_map(|frame| changes_of(segment, frame));
        let changes = changes.inspect(|(sequence, _)| last = last.max(*sequence));
        let unflushed =
            changes.filter(|(sequence, change)| !self.is_flushed(*sequence, change.keyspace()));
        let upto = segment.last_sequence;
        // Full memtables are sealed at the end of the replay.
        let _full = self
            .store
            .log
            .apply_changes(unflushed, upto, Applied::Replay);
        self.last = last;
    }

    /// Errors: `Corrupt` if the log ends before the last change known to be durable.
    fn check_end(&self) -> Result<()> {
        let Some(end) = &self.end else {
            // A store whose rows are all in SSTables may have no log. If the manifest lists a
            // segment, frames in other segments may record that more of the log was durable than
            // was found.
            let Some(&first) = self.listed.keys().next() else {
                return Ok(());
            };
            if self.durable <= self.last {
                return Ok(());
            }
            let name = FileName::Numbered(FileKind::Wal, first);
            let path = self.store.directory.path_of(name);
            return Err(Error::corrupt(&path, HEADER_BYTES, BEGINNING_DAMAGED));
        };
        if self.durable <= end.sequence {
            return Ok(());
        }
        Err(match self.lost.first() {
            Some(lost) => Error::corrupt(&lost.path, lost.offset, lost.reason.as_damage()),
            None => {
                let reason = "the log ends before what is known to be durable";
                end.file.corrupt(end.offset, reason)
            }
        })
    }

    fn finish(mut self) -> Result<Recovered> {
        self.check_end()?;
        self.lost.iter().for_each(CutOff::warn);
        let store = self.store;
        for tree in store.trees.all() {
            let active = &tree.view().active;
            let is_large = active.bytes() >= tree.memtable_bytes_max(&store.config);
            // A scan must step over each row that a deletion covers in its own memtable.
            if is_large || active.has_range_tombstones() {
                store.log.seal(&tree);
            }
        }
        store.catalog.lock().state.last_sequence = self.last;
        store.log.with_log(|log| log.last_sequence = self.last);
        store.log.sync().start(self.last);
        self.recovered.cut_off = self.lost;
        Ok(self.recovered)
    }
}

/// Refuses frames that no batch encodes to, or that name a keyspace that does not exist. Returns
/// the indices of the frames that point to values in the value log.
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
