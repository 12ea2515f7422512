//! One part of a merge: reads its inputs in order, drops unneeded versions, writes SSTables.

use crate::base::config::Compression;
use crate::base::key::{Kind, SEQUENCE_MIN, SequenceNumber, is_before_end};
use crate::format::edit::FileMeta;
use crate::format::fragment::Fragment;
use crate::format::pointer::ValuePointer;
use crate::tree::cache::Cache;
use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::tree::range_tombstones::Covering;
use crate::tree::range_tombstones::{RangeTombstones, clip};
use crate::tree::retention::Retention;
use crate::tree::sstable::{SstableCursor, SstableOptions, SstableWriter};
use crate::tree::version::Version;
use crate::values::{Pin, ValueReader, ValueWriter};
use crate::work::Work;
use crate::work::compaction::inputs::Inputs;
use crate::work::compaction::picker;
use crate::work::compaction::progress::Progress;
use crate::{Error, KeyRange, Result};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Number of keys after which a merge yields the processor. Otherwise a thread that becomes ready
/// on the same processor may wait for the scheduler's next tick, some milliseconds.
const KEYS_PER_SLICE: u32 = 64;

/// An output ends after new keys that fill at least one eighth of a full SSTable.
const APPENDED_PART: u64 = 8;

type File = Arc<LiveFile>;

/// The task of a merge.
#[derive(Debug)]
pub(crate) struct MergeSpec<'a> {
    /// The level that the merge writes.
    pub(crate) level: usize,
    /// The runs: lists of files in key order, the newest run first.
    pub(crate) runs: &'a [Vec<File>],
    /// The files of `level` that are merged.
    pub(crate) below: &'a [File],
    /// The keys at which new outputs must begin, in order.
    pub(crate) cuts: Vec<Vec<u8>>,
    /// Value-log segments whose values are copied.
    pub(crate) relocate: &'a [u64],
}

impl MergeSpec<'_> {
    /// The files that the outputs replace.
    pub(crate) fn inputs(&self) -> Vec<File> {
        let runs = self.runs.iter().flatten();
        runs.chain(self.below).cloned().collect()
    }
}

/// A merge under way: all of it, or its part in a range of keys.
pub(crate) struct Merge<'a> {
    store: &'a Work,
    spec: &'a MergeSpec<'a>,
    /// The exclusive end of the part; `None` is the end of all keys.
    end: Option<&'a [u8]>,
    progress: &'a Progress<'a>,
    /// The first failure of any part.
    failure: &'a OnceLock<Error>,
    version: Arc<Version>,
    options: SstableOptions,
    sstable_bytes: u64,
    retention: Retention,
    cache: Cache,
    /// The deleted spans of all inputs.
    fragments: Vec<Fragment>,
    writer: Option<SstableWriter>,
    /// The start of the span that the present output covers.
    cut: Vec<u8>,
    /// The keys at which later outputs must begin, in order.
    cuts: VecDeque<Vec<u8>>,
    /// Length of the present output when a version of the written level was last met, in bytes.
    met: u64,
    /// Number of files of the next level that end before the present key.
    passed: usize,
    /// Bytes of the files of the next level that the present output overlaps.
    passed_bytes: u64,
    outputs: Outputs,
    /// Number of keys left until the merge yields the processor.
    slice_left: u32,
    /// Number of versions that were merged since it last did.
    slice_versions: u64,
}

/// The files and pins that a merge, or a part of one, has made.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Numbers of the files that were begun, complete or not.
    pub(crate) numbers: Vec<u64>,
    /// The complete files, in key order.
    pub(crate) files: Vec<FileMeta>,
    /// Keep the copies of relocated values until an installed SSTable refers to them.
    pub(crate) pins: Vec<Pin>,
}

impl Outputs {
    /// Adds the outputs of the next part.
    pub(crate) fn append(&mut self, mut next: Outputs) {
        self.numbers.append(&mut next.numbers);
        self.files.append(&mut next.files);
        self.pins.append(&mut next.pins);
    }
}

impl<'a> Merge<'a> {
    /// The part of the merge in `range`. Ends early once there is a `failure`.
    pub(crate) fn new(
        store: &'a Work,
        tree: &Tree,
        spec: &'a MergeSpec<'a>,
        range: &'a KeyRange,
        progress: &'a Progress<'a>,
        failure: &'a OnceLock<Error>,
    ) -> Merge<'a> {
        let is_inside =
            |cut: &&Vec<u8>| range.start < **cut && is_before_end(cut, range.end.as_deref());
        Merge {
            store,
            spec,
            end: range.end.as_deref(),
            progress,
            failure,
            version: tree.view().version.clone(),
            options: SstableOptions {
                block_bytes: tree.block_bytes(&store.parts.config),
                compression: tree.compression().unwrap_or(Compression::Zstd),
            },
            sstable_bytes: tree.sstable_bytes(&store.parts.config),
            retention: Retention::new(store.parts.snapshots.boundaries()),
            cache: store.parts.cache.for_merge(),
            fragments: Vec::new(),
            writer: None,
            cut: range.start.clone(),
            cuts: spec.cuts.iter().filter(is_inside).cloned().collect(),
            met: 0,
            passed: 0,
            passed_bytes: 0,
            outputs: Outputs::default(),
            slice_left: KEYS_PER_SLICE,
            slice_versions: 0,
        }
    }

    /// Runs the merge. The outputs are synced. Their names are not, nor is the value log, which the
    /// caller must sync if the outputs have pins. A failure is noted, and the outputs made so far
    /// are returned.
    pub(crate) fn run(mut self) -> Outputs {
        if let Err(error) = self.merge() {
            // Only the first failure is kept.
            let _ = self.failure.set(error);
        }
        self.outputs
    }

    fn merge(&mut self) -> Result<()> {
        self.fragments = self.merge_fragments()?;
        let fragments = self.fragments.clone();
        let mut covering = Covering::new(&fragments);
        let (runs, below) = (self.spec.runs, self.spec.below);
        let mut inputs = Inputs::open(&self.cache, runs, below, &self.cut)?;
        let mut key = Vec::new();
        let mut begun = false;
        let (mut newer, mut covered_by) = (None, None);
        while let Some((cursor, is_below)) = inputs.first() {
            let here = cursor
                .key()
                .expect("a run that comes first is on a version");
            if !begun || key != here {
                if !is_before_end(here, self.end) {
                    break;
                }
                begun = true;
                key.clear();
                key.extend_from_slice(here);
                newer = None;
                covered_by = covering.of(&key);
                self.begin_key(&key, is_below)?;
            }
            let (sequence, kind) = (cursor.sequence(), cursor.kind());
            let bottom = || picker::is_bottom(&self.version, self.spec.level, &key);
            if self
                .retention
                .keeps(&mut newer, (sequence, kind), covered_by, bottom)
            {
                // A row's sequence number serves only to compare the row with older versions and
                // deletions. If there are none, the smallest number will do.
                let is_plain = covered_by.is_none() && self.retention.is_seen_by_all(sequence);
                let sequence = if is_plain && bottom() {
                    SEQUENCE_MIN
                } else {
                    sequence
                };
                self.write(&key, sequence, cursor)?;
            }
            self.slice_versions += 1;
            inputs.next(&self.cache)?;
        }
        self.finish_outputs()
    }

    /// Finishes the present output, and the empty ones after it that have range tombstones.
    fn finish_outputs(&mut self) -> Result<()> {
        while let Some(cut) = self.cuts.pop_front() {
            self.finish_output(Some(&cut))?;
        }
        self.finish_output(self.end)
    }

    /// Returns the deleted spans of all inputs. Each span may hide rows of the inputs, so spans
    /// that hide nothing in deeper levels are kept too, until `finish_output` drops them.
    fn merge_fragments(&self) -> Result<Vec<Fragment>> {
        let mut all = RangeTombstones::default();
        let files = self.spec.runs.iter().flatten().chain(self.spec.below);
        for file in files.filter(|file| file.meta.range_tombstones > 0) {
            for fragment in file.reader()?.fragments() {
                for &sequence in &fragment.sequences {
                    all.insert(&fragment.start, fragment.end.as_ref(), sequence, 0);
                }
            }
        }
        Ok(all.fragments())
    }

    /// Called between keys: ends the output if it is due, and the merge if the store is closing or
    /// another part has failed. `is_below`: the newest version of the key comes from a file of
    /// the level that the merge writes.
    fn begin_key(&mut self, key: &[u8], is_below: bool) -> Result<()> {
        self.store.check_mergeable()?;
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        self.slice_left -= 1;
        if self.slice_left == 0 {
            self.slice_left = KEYS_PER_SLICE;
            self.progress
                .advance(std::mem::take(&mut self.slice_versions));
            self.store.yield_cpu();
        }
        while let Some(cut) = self.cuts.pop_front_if(|cut| cut[..] <= *key) {
            self.finish_output(Some(&cut))?;
        }
        self.pass_files_of_next_level(key);
        let bytes = self.writer.as_ref().map_or(0, SstableWriter::bytes);
        if bytes == 0 {
            // A file of the next level before an output's first key does not overlap that output.
            self.passed_bytes = 0;
        }
        let is_full = bytes >= self.sstable_bytes;
        let is_wide = self.passed_bytes > self.sstable_bytes.saturating_mul(picker::BELOW_MAX);
        // Ends the output after a long run of new keys, so that later appends fall between files.
        let appended = bytes.saturating_sub(self.met);
        let was_appended = is_below && appended >= self.sstable_bytes / APPENDED_PART;
        if bytes > 0 && (is_full || is_wide || was_appended) {
            self.finish_output(Some(key))?;
        }
        if is_below {
            self.met = self.writer.as_ref().map_or(0, SstableWriter::bytes);
        }
        Ok(())
    }

    /// Counts the files of the next level that the current output overlaps, because merging the
    /// output further down rewrites most of them.
    fn pass_files_of_next_level(&mut self, key: &[u8]) {
        let next = self.version.levels.get(self.spec.level + 1);
        let rest = next.and_then(|files| files.get(self.passed..));
        let ended = rest.into_iter().flatten().take_while(|file| {
            let end = file.meta.range.end.as_deref();
            !is_before_end(key, end)
        });
        for file in ended {
            self.passed += 1;
            self.passed_bytes += file.meta.size;
        }
    }

    fn write(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        cursor: &SstableCursor,
    ) -> Result<()> {
        let kind = cursor.kind();
        if kind == Kind::Large
            && let Some(moved) = self.relocate(cursor.value_slice())?
        {
            return self.writer()?.add(key, sequence, kind, &moved);
        }
        self.writer()?
            .add(key, sequence, kind, cursor.value_slice())
    }

    fn writer(&mut self) -> Result<&mut SstableWriter> {
        if self.writer.is_none() {
            let number = self.store.parts.catalog.lock().next_file();
            self.outputs.numbers.push(number);
            let (directory, id) = (&self.store.parts.directory, self.store.parts.store_id);
            self.writer = Some(SstableWriter::create(directory, id, number, self.options)?);
        }
        Ok(self.writer.as_mut().expect("it was just made"))
    }

    /// Ends the present output. The next one begins at `next`; `None` if there is none.
    fn finish_output(&mut self, next: Option<&[u8]>) -> Result<()> {
        let parts = clip(&self.fragments, &self.cut, next);
        let keep = |fragment: Fragment| {
            let bottom = picker::is_bottom_span(&self.version, self.spec.level, &fragment);
            self.retention.keep_fragment(fragment, bottom)
        };
        let parts: Vec<Fragment> = parts.into_iter().filter_map(keep).collect();
        if self.writer.is_some() || !parts.is_empty() {
            self.writer()?;
            let writer = self.writer.take().expect("it was just made");
            self.outputs.files.push(writer.finish(&parts)?);
        }
        (self.met, self.passed_bytes) = (0, 0);
        self.cut = next.unwrap_or_default().to_vec();
        Ok(())
    }

    /// Copies the value to the end of the value log if it lies in a segment that is to be freed.
    /// Returns the pointer to the copy.
    fn relocate(&mut self, pointer: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(pointer) =
            ValuePointer::decode(pointer).filter(|_| !self.spec.relocate.is_empty())
        else {
            return Ok(None);
        };
        if !pointer
            .references()
            .any(|(segment, _)| self.spec.relocate.contains(&segment))
        {
            return Ok(None);
        }
        let log = &self.store.parts.value_log;
        let reader = ValueReader::open(log.clone(), pointer)?;
        let mut writer = ValueWriter::new(log.clone());
        let mut offset = 0;
        while offset < reader.length() {
            let part = reader.read_file_at(offset)?;
            writer.write(&part)?;
            offset += part.len() as u64;
        }
        let copy = writer.finish()?;
        self.outputs.pins.extend(copy.pins);
        Ok(Some(copy.pointer.encode()))
    }
}
