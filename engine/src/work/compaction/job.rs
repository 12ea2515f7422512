//! Compaction jobs: run a plan of the picker, and install its outputs.

use crate::base::counter::count;
use crate::base::mutex::lock;
use crate::format::edit::{Field, FileMeta, VersionEdit};
use crate::tree::keyspace::Tree;
use crate::tree::live_file::LiveFile;
use crate::tree::retention::Retention;
use crate::work::Work;
use crate::work::compaction::merge::MergeSpec;
use crate::work::compaction::overlap_split::OverlapSplit;
use crate::work::compaction::picker::{self, Plan};
use crate::work::compaction::progress::Progress;
use crate::{Config, Result};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of value-log segments from which one job copies values: an SSTable may point to
/// gigabytes, and other jobs wait meanwhile.
const SEGMENTS_AT_ONCE: usize = 4;

/// Bytes per second that may be rewritten, while writes go on, of segments in which garbage is the
/// smaller part. Space is then freed within a minute after a delete, and the copies take a small
/// part of the disk's throughput.
const REWRITES_PER_SECOND: u64 = 32 << 20;

/// A merge also rewrites an SSTable next to its inputs that is smaller than half a full SSTable.
const SMALL_PART: u64 = 2;

/// A store that leaves inherited SSTables alone merges them with its own once they are at most this
/// many times as large as its own.
const INHERITED_MAX: u64 = 4;

/// The rule for rewriting value-log segments.
struct RewriteRule {
    /// Percentage of garbage above which a segment is rewritten.
    garbage_percent: u64,
    /// Maximum number of segments from which one job copies values.
    segments: usize,
}

/// A plan that was carried out.
struct Compacted {
    kind: &'static str,
    inputs: Vec<Arc<LiveFile>>,
    outputs: Vec<FileMeta>,
}

impl Work {
    /// Runs the most urgent compaction of any keyspace. Returns whether there was one. The caller
    /// must hold `compacting`.
    pub(crate) fn compact_one(&self) -> Result<bool> {
        let retention = Retention::new(self.parts.snapshots.boundaries());
        let mut trees = self.parts.trees.all();
        trees.retain(|tree| self.may_merge(tree));
        // The fullest keyspace first: its writers may be waiting. Keyspaces that are equally full
        // take turns.
        let first = self.compactions.fetch_add(1, Ordering::Relaxed) % trees.len().max(1);
        trees.rotate_left(first);
        trees.sort_by_cached_key(|tree| {
            Reverse(picker::fullness(&tree.view().version, &self.parts.config))
        });
        for tree in trees {
            if let Some(plan) = self.pick(&tree, &retention)? {
                self.run_plan(&tree, plan, &[])?;
                return Ok(true);
            }
        }
        self.rewrite_wasteful()
    }

    /// Whether there may be a merge in the keyspace: see [`Config::merges_inherited`].
    fn may_merge(&self, tree: &Tree) -> bool {
        tree.has_flushed() || self.merges_inherited(tree)
    }

    /// Whether SSTables of the keyspace are merged although the store has inherited them.
    fn merges_inherited(&self, tree: &Tree) -> bool {
        let level0_files = tree.view().version.levels[0].len();
        // Without these merges, writers to all keyspaces would be slowed down or wait for ever.
        let is_near_stop = level0_files > self.parts.config.level0_files_stop.saturating_mul(3) / 4;
        is_near_stop || self.rewrites_inherited()
    }

    /// Whether a plan rewrites few inherited bytes for each byte that the store has written itself.
    fn rewrites_own(&self, plan: &Plan) -> bool {
        let (mut inherited, mut own) = (0u64, 0u64);
        for file in plan.rewritten() {
            if file.meta.number <= self.inherited_through {
                inherited += file.meta.size;
            } else {
                own += file.meta.size;
            }
        }
        inherited <= own.saturating_mul(INHERITED_MAX)
    }

    /// Merges all SSTables of the keyspace into one run.
    pub(crate) fn compact_all(&self, tree: &Tree) -> Result<()> {
        let _guard = self.compacting.lock();
        let Some(plan) = picker::everything(&tree.view().version) else {
            return Ok(());
        };
        let done = self.run_plan(tree, plan, &[]);
        self.remove_obsolete();
        done.inspect_err(|error| self.parts.health.note(error))
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
        let config = Config {
            sstable_bytes: tree.sstable_bytes(&self.parts.config),
            ..(*self.parts.config).clone()
        };
        let merges_inherited = self.merges_inherited(tree);
        Ok(picker::pick(
            version,
            &spans,
            retention,
            &config,
            dense,
            // While a memtable waits to be flushed, small files wait too, to join with its file.
            self.rewrites_inherited() && view.immutable.is_empty() && self.is_at_rest(),
            |plan| merges_inherited || self.rewrites_own(plan),
        ))
    }

    /// Percentage of garbage above which a value-log segment is rewritten.
    pub(crate) fn garbage_percent_max(&self) -> u64 {
        self.rewrite_rule().garbage_percent
    }

    /// Returns the percentage of garbage above which a segment is rewritten, and how many are
    /// rewritten at once. The percentage is lower at rest, because copies of live values then
    /// disturb no writer. It is lowest when space is short, and then only one segment is rewritten,
    /// because its copies must fit into the reserve. While writes go on, occasionally one segment
    /// with little garbage is rewritten too.
    fn rewrite_rule(&self) -> RewriteRule {
        let (garbage_percent, segments) = if self.parts.reserve.is_short() {
            (4, 1)
        } else if self.is_at_rest() {
            (16, SEGMENTS_AT_ONCE)
        } else if self.is_rewrite_due() {
            (16, 1)
        } else {
            (50, SEGMENTS_AT_ONCE)
        };
        RewriteRule {
            garbage_percent,
            segments,
        }
    }

    fn is_rewrite_due(&self) -> bool {
        self.parts.clock.now() >= *lock(&self.next_rewrite)
    }

    /// True if inherited segments may be rewritten; see [`Config::merges_inherited`]. A quota
    /// counts the files that copies share, so only a rewrite makes room.
    fn rewrites_inherited(&self) -> bool {
        let config = &self.parts.config;
        config.merges_inherited || config.quota_bytes.is_some() && self.parts.reserve.is_short()
    }

    /// Rewrites an SSTable that refers to a value-log segment with too much garbage, or to one of
    /// many small segments, and copies its values out of such segments.
    fn rewrite_wasteful(&self) -> Result<bool> {
        let rewrites_inherited = self.rewrites_inherited();
        let value_log = &self.parts.value_log;
        if value_log.bytes() == 0 || !rewrites_inherited && !value_log.has_sealed_own() {
            return Ok(false);
        }
        let rule = self.rewrite_rule();
        let trees = self.parts.trees.all();
        // A value to which only a memtable refers is copied once the memtable is flushed, and must
        // not delay others until then.
        let referred: HashSet<u64> = trees
            .iter()
            .flat_map(|tree| picker::referred(&tree.view().version))
            .collect();
        let counts = |segment| {
            let may_rewrite = rewrites_inherited || !value_log.is_inherited(segment);
            may_rewrite && referred.contains(&segment)
        };
        let references = self.parts.trees.value_references();
        let mut rewritten = value_log.wasteful(&references, rule.garbage_percent);
        rewritten.retain(|&segment| counts(segment));
        rewritten.truncate(rule.segments);
        if rewritten.is_empty() {
            rewritten = value_log.small(counts);
        }
        if rewritten.is_empty() {
            return Ok(false);
        }
        for tree in trees {
            if let Some(plan) = picker::referring(&tree.view().version, &rewritten) {
                self.run_plan(&tree, plan, &rewritten)?;
                let copied = self.parts.config.value_segment_bytes;
                let pause = Duration::from_millis(copied * 1000 / REWRITES_PER_SECOND);
                *lock(&self.next_rewrite) = self.parts.clock.now() + pause;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run_plan(&self, tree: &Tree, plan: Plan, relocate: &[u64]) -> Result<()> {
        let started = self.parts.clock.now();
        let level0 = tree.view().version.levels[0].clone();
        let Compacted {
            kind,
            inputs,
            outputs,
        } = self.carry_out(tree, plan, relocate)?;
        self.note_versions();
        let is_taken = |file: &&Arc<LiveFile>| inputs.iter().any(|input| Arc::ptr_eq(input, file));
        // Another process wrote the inherited files: they do not show how fast writers put here.
        let is_own = |file: &&Arc<LiveFile>| file.meta.number > self.inherited_through;
        let taken = level0.iter().filter(is_taken).filter(is_own);
        self.note_merge(
            taken.map(|file| file.meta.size).sum(),
            self.parts.clock.now().saturating_sub(started),
        );
        let written = outputs.iter().map(|meta| meta.size).sum::<u64>();
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
            milliseconds = self.parts.clock.now().saturating_sub(started).as_millis() as u64,
            "compacted"
        );
        Ok(())
    }

    fn carry_out(&self, tree: &Tree, plan: Plan, relocate: &[u64]) -> Result<Compacted> {
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
            Plan::Merge { runs, below, level } => {
                let below = self.divide(tree, &runs, below)?;
                let spec = MergeSpec {
                    level,
                    runs: &runs,
                    below: &below.rewritten,
                    cuts: below.cuts,
                    relocate,
                };
                ("merge", spec.inputs(), self.merge(tree, &spec)?)
            }
            Plan::Split(file, level, cuts) => {
                let spec = MergeSpec {
                    level,
                    runs: &[vec![file.clone()]],
                    below: &[],
                    cuts,
                    relocate,
                };
                ("split", spec.inputs(), self.merge(tree, &spec)?)
            }
        };
        Ok(Compacted {
            kind,
            inputs,
            outputs,
        })
    }

    /// Divides the files `below` into those that are rewritten and those that stay.
    fn divide(
        &self,
        tree: &Tree,
        runs: &[Vec<Arc<LiveFile>>],
        below: Vec<Arc<LiveFile>>,
    ) -> Result<OverlapSplit> {
        let small = tree.sstable_bytes(&self.parts.config) / SMALL_PART;
        OverlapSplit::divide(&self.parts.cache.for_merge(), runs, below, small)
    }

    fn merge(&self, tree: &Tree, spec: &MergeSpec<'_>) -> Result<Vec<FileMeta>> {
        let progress = Progress::new(&self.parts.trees, tree, &spec.inputs());
        let merged = self.run_merge(tree, spec, &progress)?;
        merged.install(|outputs| {
            let added = outputs.iter().map(|meta| (spec.level, meta.clone()));
            self.install(tree, &spec.inputs(), added.collect())
        })
    }

    /// Replaces `removed` by `added`, in the manifest and then for readers. The removed files are
    /// deleted after their last reader is done.
    fn install(
        &self,
        tree: &Tree,
        removed: &[Arc<LiveFile>],
        added: Vec<(usize, FileMeta)>,
    ) -> Result<()> {
        let live = |(level, meta): (usize, FileMeta)| {
            let file = LiveFile::new(meta, self.parts.cache.clone());
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
        let mut manifest = self.parts.catalog.lock();
        let version = self.next_version(tree, &numbers, added)?;
        self.append_or_remove(&mut manifest, VersionEdit { fields }, &new)?;
        tree.install(version, None);
        Ok(())
    }
}

impl Work {
    /// Errors: the store closes or has failed, which stops a merge.
    pub(super) fn check_mergeable(&self) -> Result<()> {
        self.parts.health.check_open()?;
        match self.parts.health.failure() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::{ManualClock, MemoryFs};
    use crate::work::job::Job;
    use crate::{Batch, Config, Db, Environment, Keyspace, KeyspaceOptions};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_reader_that_is_the_last_to_use_a_file_does_not_remove_it() {
        let fs = MemoryFs::volatile();
        let environment = Environment::stepped(Arc::new(fs.clone()));
        let db = Db::open_with("/data".as_ref(), Config::default(), environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let put_and_flush = || {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            drop(db.write(batch).unwrap());
            db.flush(&keyspace).unwrap();
        };
        let is_sstable = |path: &Path| path.extension().is_some_and(|kind| kind == "sst");
        let sstables = || {
            let files = fs.files().into_iter();
            files.filter(|(path, _)| is_sstable(path)).count()
        };
        put_and_flush();
        let view = keyspace.tree().view();
        put_and_flush();
        db.compact(&keyspace).unwrap();
        assert_eq!(sstables(), 2, "the old one is in use");
        drop(view);
        assert_eq!(sstables(), 2);
        db.step().unwrap();
        assert_eq!(sstables(), 1);
    }

    #[test]
    fn the_keyspace_that_is_fullest_is_compacted_first() {
        for urgent in [0, 1] {
            let clock = Arc::new(ManualClock::default());
            let environment = Environment {
                clock: clock.clone(),
                ..Environment::stepped(Arc::new(MemoryFs::volatile()))
            };
            let config = Config {
                level0_files_max: 4,
                ..Config::default()
            };
            let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
            let open = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
            let keyspaces = ["a", "b"].map(open);
            for (index, keyspace) in keyspaces.iter().enumerate() {
                for _ in 0..if index == urgent { 4 } else { 2 } {
                    let mut batch = Batch::new();
                    batch.put(keyspace, b"key", b"value");
                    drop(db.write(batch).unwrap());
                    db.flush(keyspace).unwrap();
                }
            }
            // At rest, the other keyspace is compacted too, but later.
            clock.advance(Duration::from_secs(1));
            assert_eq!(db.step().unwrap(), Some(Job::Compaction));
            let files = |keyspace: &Keyspace| keyspace.tree().view().version.levels[0].len();
            assert_eq!(files(&keyspaces[urgent]), 0, "keyspace {urgent}");
            assert_eq!(files(&keyspaces[1 - urgent]), 2, "keyspace {urgent}");
        }
    }
}
