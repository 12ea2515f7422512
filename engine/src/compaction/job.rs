//! Compaction jobs: merge, drop, write, install.

use super::Retention;
use super::picker::{self, Plan};
use crate::cache::Cache;
use crate::flush::Covering;
use crate::key::{Kind, SEQUENCE_MAX, SEQUENCE_MIN, SequenceNumber};
use crate::keyspace::Tree;
use crate::range_tombstones::{Fragment, RangeTombstones, clip};
use crate::sstable::{Compression, SstableCursor, SstableOptions, SstableWriter};
use crate::stats::count;
use crate::store::{Store, lock};
use crate::value_log::{Pin, ValuePointer, ValueReader, ValueWriter};
use crate::version::{Field, FileMeta, LiveFile, Version, VersionEdit};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// From how many value-log segments one job copies values: an SSTable may point to gigabytes, and other jobs wait meanwhile.
const SEGMENTS_AT_ONCE: usize = 4;

/// After how many keys a merge lets others run. A thread that wakes beside it may wait for the next tick of the scheduler
/// otherwise, which is milliseconds.
const KEYS_PER_SLICE: u32 = 64;

impl Store {
    /// Does the most urgent compaction of any keyspace. Answers whether there was one. Called under `compacting`.
    pub(crate) fn compact_one(&self) -> Result<bool> {
        let retention = Retention::new(self.snapshots.boundaries());
        let mut trees = self.trees();
        // Each time another keyspace is asked first, so that a busy one does not starve the rest.
        let first = self.compactions.fetch_add(1, Ordering::Relaxed) % trees.len().max(1);
        trees.rotate_left(first);
        for tree in trees {
            if let Some(plan) = self.pick(&tree, &retention)? {
                self.run_plan(&tree, plan, &[])?;
                return Ok(true);
            }
        }
        self.rewrite_wasteful()
    }

    /// Merges all SSTables of the keyspace into one run.
    pub(crate) fn compact_all(&self, tree: &Tree) -> Result<()> {
        let _guard = lock(&self.compacting);
        match picker::everything(&tree.view().version) {
            Some(plan) => self
                .run_plan(tree, plan, &[])
                .inspect_err(|error| self.note_failure(error)),
            None => Ok(()),
        }
    }

    fn pick(&self, tree: &Tree, retention: &Retention) -> Result<Option<Plan>> {
        let view = tree.view();
        let version = &view.version;
        let mut spans = Vec::new();
        for (level, file) in version
            .files()
            .filter(|(_, file)| file.meta.range_tombstones > 0)
        {
            let reader = file.reader()?;
            spans.extend(picker::deleted_spans(level, reader.fragments(), retention));
        }
        let dense = tree.tombstone_percent_max();
        Ok(picker::pick(
            version,
            &spans,
            retention,
            &self.config,
            dense,
            // What is about to come into level 0 is joined with the rest of it.
            view.sealed.is_empty() && self.is_at_rest(),
        ))
    }

    /// Percentage of garbage that a value-log segment may have: less at rest, when copying what is alive disturbs nobody, and
    /// least when space is short.
    pub(crate) fn garbage_percent_max(&self) -> u64 {
        match self.room.is_short() {
            true => 4,
            false if self.is_at_rest() => 16,
            false => 50,
        }
    }

    /// Rewrites an SSTable that refers to a value-log segment with too much garbage, copying its values.
    fn rewrite_wasteful(&self) -> Result<bool> {
        if self.value_log.bytes() == 0 {
            return Ok(false);
        }
        let percent = self.garbage_percent_max();
        let references = self.value_references();
        let mut wasteful = self.value_log.wasteful(&references, percent);
        // When space is short: the copies of what is alive in one fit into the reserve.
        let at_once = if self.room.is_short() {
            1
        } else {
            SEGMENTS_AT_ONCE
        };
        wasteful.truncate(at_once);
        if wasteful.is_empty() {
            return Ok(false);
        }
        for tree in self.trees() {
            if let Some(plan) = picker::referring(&tree.view().version, &wasteful) {
                self.run_plan(&tree, plan, &wasteful)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run_plan(&self, tree: &Tree, plan: Plan, relocate: &[u64]) -> Result<()> {
        let started = self.clock.now();
        let (kind, inputs, outputs) = match plan {
            Plan::Drop(files) => {
                self.install(tree, &files, Vec::new())?;
                ("drop", files, Vec::new())
            }
            Plan::Move(files, level) => {
                let metas = files.iter().map(|file| (level, file.clone())).collect();
                self.install_moved(tree, &files, metas)?;
                ("move", files, Vec::new())
            }
            Plan::Merge(runs, level) => {
                let outputs = self.merge(tree, &runs, level, relocate, Vec::new())?;
                ("merge", runs.into_iter().flatten().collect(), outputs)
            }
            Plan::Split(file, level, cuts) => {
                let outputs = self.merge(tree, &[vec![file.clone()]], level, relocate, cuts)?;
                ("split", vec![file], outputs)
            }
        };
        self.note_versions();
        let written = outputs.iter().map(|meta: &FileMeta| meta.size).sum::<u64>();
        count(&self.counters.compactions, 1);
        count(&self.counters.compacted_bytes, written);
        tracing::info!(
            keyspace = &*tree.name,
            kind,
            files_in = inputs.len(),
            bytes_in = inputs.iter().map(|file| file.meta.size).sum::<u64>(),
            entries_in = inputs.iter().map(|file| file.meta.entries).sum::<u64>(),
            files_out = outputs.len(),
            bytes_out = written,
            entries_out = outputs.iter().map(|meta| meta.entries).sum::<u64>(),
            milliseconds = self.clock.now().saturating_sub(started).as_millis() as u64,
            "compacted"
        );
        Ok(())
    }

    fn merge(
        &self,
        tree: &Tree,
        runs: &[Vec<Arc<LiveFile>>],
        level: usize,
        relocate: &[u64],
        cuts: Vec<Vec<u8>>,
    ) -> Result<Vec<FileMeta>> {
        let mut merge = Merge {
            store: self,
            version: tree.view().version.clone(),
            level,
            block_bytes: tree.block_bytes(&self.config),
            compression: tree.compression().unwrap_or(Compression::Zstd),
            retention: Retention::new(self.snapshots.boundaries()),
            relocate,
            cache: self.cache.for_merge(),
            fragments: Vec::new(),
            writer: None,
            cut: None,
            cuts: cuts.into(),
            numbers: Vec::new(),
            outputs: Vec::new(),
            pins: Vec::new(),
            slice_left: KEYS_PER_SLICE,
        };
        if let Err(error) = merge.run(runs) {
            merge
                .numbers
                .iter()
                .for_each(|&number| self.remove_sstable(number));
            return Err(error);
        }
        let inputs: Vec<Arc<LiveFile>> = runs.iter().flatten().cloned().collect();
        let added = merge
            .outputs
            .iter()
            .map(|meta| (level, meta.clone()))
            .collect();
        self.install(tree, &inputs, added)?;
        Ok(merge.outputs)
    }

    /// Replaces `removed` by `added`, in the manifest and then for readers; the removed files go with their last reader.
    fn install(
        &self,
        tree: &Tree,
        removed: &[Arc<LiveFile>],
        added: Vec<(usize, FileMeta)>,
    ) -> Result<()> {
        let live = |(level, meta): (usize, FileMeta)| {
            let file = LiveFile::new(meta, self.cache.clone());
            file.warm();
            (level, Arc::new(file))
        };
        let added = added.into_iter().map(live).collect();
        self.install_moved(tree, removed, added)?;
        removed.iter().for_each(|file| file.mark_obsolete());
        Ok(())
    }

    fn install_moved(
        &self,
        tree: &Tree,
        removed: &[Arc<LiveFile>],
        added: Vec<(usize, Arc<LiveFile>)>,
    ) -> Result<()> {
        let numbers: Vec<u64> = removed.iter().map(|file| file.meta.number).collect();
        let is_new = |number: &u64| !numbers.contains(number);
        let new: Vec<u64> = added
            .iter()
            .map(|(_, file)| file.meta.number)
            .filter(is_new)
            .collect();
        let mut fields: Vec<Field> = numbers
            .iter()
            .map(|&number| Field::RemoveFile(tree.id, number))
            .collect();
        let add = |(level, file): &(usize, Arc<LiveFile>)| {
            Field::AddFile(tree.id, *level as u32, file.meta.clone())
        };
        fields.extend(added.iter().map(add));
        let mut manifest = lock(&self.manifest);
        self.append_or_remove(&mut manifest, VersionEdit { fields }, &new)?;
        let version = tree.view().version.with(&numbers, added);
        tree.install(version, None);
        Ok(())
    }
}

/// One merge under way.
struct Merge<'a> {
    store: &'a Store,
    version: Arc<Version>,
    level: usize,
    block_bytes: usize,
    compression: Compression,
    retention: Retention,
    relocate: &'a [u64],
    cache: Cache,
    /// The deleted spans of all inputs.
    fragments: Vec<Fragment>,
    writer: Option<SstableWriter>,
    /// Where the present output begins; `None` for the first.
    cut: Option<Vec<u8>>,
    /// Where further ones have to begin, in order.
    cuts: VecDeque<Vec<u8>>,
    numbers: Vec<u64>,
    outputs: Vec<FileMeta>,
    /// Keep the copies of relocated values until an installed SSTable refers to them.
    pins: Vec<Pin>,
    /// After how many keys others are let run.
    slice_left: u32,
}

impl Merge<'_> {
    fn run(&mut self, runs: &[Vec<Arc<LiveFile>>]) -> Result<()> {
        self.fragments = self.merge_fragments(runs)?;
        let fragments = self.fragments.clone();
        let mut covering = Covering::new(&fragments);
        let runs = runs.iter().filter(|run| !run.is_empty());
        let runs: Result<Vec<_>> = runs
            .map(|run| RunVersions::open(&self.cache, run))
            .collect();
        let mut inputs = Inputs::new(runs?);
        let mut key = Vec::new();
        let mut begun = false;
        let (mut newer, mut covered_by) = (None, None);
        while let Some(cursor) = inputs.first() {
            let here = cursor
                .key()
                .expect("a run that comes first is on a version");
            if !begun || key != here {
                begun = true;
                key.clear();
                key.extend_from_slice(here);
                newer = None;
                covered_by = covering.of(&key);
                self.begin_key(&key)?;
            }
            let (sequence, kind) = (cursor.sequence(), cursor.kind());
            let bottom = || picker::is_bottom(&self.version, self.level, &key);
            if self
                .retention
                .keeps(&mut newer, (sequence, kind), covered_by, bottom)
            {
                // With nothing older left, and no deletion to compare it with, the number says nothing any more.
                let is_plain = covered_by.is_none() && self.retention.is_seen_by_all(sequence);
                let sequence = if is_plain && bottom() {
                    SEQUENCE_MIN
                } else {
                    sequence
                };
                self.write(&key, sequence, cursor)?;
            }
            inputs.next(&self.cache)?;
        }
        while let Some(cut) = self.cuts.pop_front() {
            self.finish_output(Some(&cut))?;
        }
        self.finish_output(None)?;
        if !self.pins.is_empty() {
            self.store
                .value_log
                .sync()
                .inspect_err(|error| self.store.fail(error))?;
        }
        self.store.directory.sync()
    }

    /// The deleted spans of all inputs that are still needed for what lies below. What they cover among the inputs goes
    /// by all of them, so the dropped ones are kept until the merge ends; `finish_output` sorts them out.
    fn merge_fragments(&self, runs: &[Vec<Arc<LiveFile>>]) -> Result<Vec<Fragment>> {
        let mut all = RangeTombstones::default();
        for file in runs
            .iter()
            .flatten()
            .filter(|file| file.meta.range_tombstones > 0)
        {
            for fragment in file.reader()?.fragments() {
                for &sequence in &fragment.sequences {
                    all.insert(&fragment.start, fragment.end.as_ref(), sequence, 0);
                }
            }
        }
        Ok(all.fragments())
    }

    /// Between keys a full output is ended, and the merge itself if the store wants to close.
    fn begin_key(&mut self, key: &[u8]) -> Result<()> {
        self.store.check_mergeable()?;
        self.slice_left -= 1;
        if self.slice_left == 0 {
            self.slice_left = KEYS_PER_SLICE;
            self.store.give_way();
        }
        while let Some(cut) = self.cuts.pop_front_if(|cut| cut[..] <= *key) {
            self.finish_output(Some(&cut))?;
        }
        let full = |writer: &SstableWriter| writer.bytes() >= self.store.config.sstable_bytes;
        match self.writer.as_ref().is_some_and(full) {
            true => self.finish_output(Some(key)),
            false => Ok(()),
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
            let number = lock(&self.store.manifest).next_file();
            let options = SstableOptions {
                block_bytes: self.block_bytes,
                compression: self.compression,
            };
            self.numbers.push(number);
            let writer =
                SstableWriter::create(&self.store.directory, self.store.store_id, number, options)?;
            self.writer = Some(writer);
        }
        Ok(self.writer.as_mut().expect("it was just made"))
    }

    /// Ends the present output before `next`, the first key of the next one.
    fn finish_output(&mut self, next: Option<&[u8]>) -> Result<()> {
        let parts = clip(&self.fragments, self.cut.as_deref(), next);
        let keep = |fragment: Fragment| {
            let bottom = picker::is_bottom_span(&self.version, self.level, &fragment);
            self.retention.keep_fragment(fragment, bottom)
        };
        let parts: Vec<Fragment> = parts.into_iter().filter_map(keep).collect();
        if self.writer.is_some() || !parts.is_empty() {
            self.writer()?;
            let writer = self.writer.take().expect("it was just made");
            self.outputs.push(writer.finish(&parts)?);
        }
        self.cut = next.map(<[u8]>::to_vec);
        Ok(())
    }

    /// Copies the value to the end of the value log if it lies in a segment that shall become free. Answers the pointer to the
    /// copy.
    fn relocate(&mut self, pointer: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(pointer) = ValuePointer::decode(pointer).filter(|_| !self.relocate.is_empty())
        else {
            return Ok(None);
        };
        if !pointer
            .references()
            .any(|(segment, _)| self.relocate.contains(&segment))
        {
            return Ok(None);
        }
        let log = &self.store.value_log;
        let reader = ValueReader::open(log.clone(), pointer)?;
        let mut writer = ValueWriter::new(log.clone());
        let mut offset = 0;
        while offset < reader.length() {
            let part = reader.read_at(offset, usize::MAX)?;
            writer.write(&part)?;
            offset += part.len() as u64;
        }
        let copy = writer.finish()?;
        self.pins.extend(copy.pins);
        Ok(Some(copy.pointer.encode()))
    }
}

/// All versions of a run of files, in order.
struct RunVersions<'a> {
    files: std::slice::Iter<'a, Arc<LiveFile>>,
    cursor: SstableCursor,
}

impl<'a> RunVersions<'a> {
    /// A run has at least one file.
    fn open(cache: &Cache, files: &'a [Arc<LiveFile>]) -> Result<RunVersions<'a>> {
        let cursor = SstableCursor::new(files[0].reader()?.clone());
        let files = files.iter();
        let mut run = RunVersions { files, cursor };
        run.settle(cache)?;
        Ok(run)
    }

    fn next(&mut self, cache: &Cache) -> Result<()> {
        self.cursor.next(cache)?;
        self.settle(cache)
    }

    /// Goes to the next file while the present one has ended.
    fn settle(&mut self, cache: &Cache) -> Result<()> {
        while self.cursor.key().is_none() {
            let Some(file) = self.files.next() else {
                return Ok(());
            };
            self.cursor.switch(file.reader()?.clone());
            self.cursor.seek(cache, &[], SEQUENCE_MAX)?;
        }
        Ok(())
    }
}

/// The runs of a merge.
struct Inputs<'a> {
    runs: Vec<RunVersions<'a>>,
    /// Those that have not ended, in the order of their versions: by key, and of one key the newest first.
    order: Vec<usize>,
}

impl<'a> Inputs<'a> {
    fn new(runs: Vec<RunVersions<'a>>) -> Inputs<'a> {
        let order = Vec::with_capacity(runs.len());
        let mut inputs = Inputs { runs, order };
        for run in 0..inputs.runs.len() {
            if inputs.runs[run].cursor.key().is_some() {
                inputs.order.insert(0, run);
                inputs.sink();
            }
        }
        inputs
    }

    /// The version that comes first.
    fn first(&self) -> Option<&SstableCursor> {
        self.order.first().map(|&run| &self.runs[run].cursor)
    }

    /// Leaves the version that comes first.
    fn next(&mut self, cache: &Cache) -> Result<()> {
        let run = &mut self.runs[self.order[0]];
        run.next(cache)?;
        match run.cursor.key() {
            Some(_) => self.sink(),
            None => drop(self.order.remove(0)),
        }
        Ok(())
    }

    /// Moves the first run behind those whose versions come before its own.
    fn sink(&mut self) {
        let sort = |place: usize| {
            let cursor = &self.runs[self.order[place]].cursor;
            (cursor.key(), std::cmp::Reverse(cursor.sequence()))
        };
        let first = sort(0);
        let before = (1..self.order.len()).take_while(|&place| sort(place) < first);
        let places = before.count();
        self.order[..=places].rotate_left(1);
    }
}

impl Store {
    /// Stops a merge when the store closes or has failed.
    fn check_mergeable(&self) -> Result<()> {
        self.check_open()?;
        match self.failure() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Stops writing, unless the failure passes.
    pub(crate) fn note_failure(&self, error: &Error) {
        if !matches!(error, Error::NoSpace { .. } | Error::Closed) {
            self.fail(error);
        }
    }
}
