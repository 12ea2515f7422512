//! Flush: a sealed memtable becomes a level-0 SSTable.
//!
//! Order: the log is synced up to the memtable's last change (else a power cut could keep these
//! changes and lose older ones of other keyspaces), the SSTable is synced, then the manifest lists
//! the SSTable and releases the log.

use crate::Result;
use crate::base::config::Compression;
use crate::base::counter::count;
use crate::catalog::manifest::Manifest;
use crate::catalog::recovery::overlap;
use crate::format::edit::{Field, FileMeta, VersionEdit};
use crate::fs::name::{FileKind, FileName};
use crate::tree::keyspace::{Tree, View};
use crate::tree::live_file::LiveFile;
use crate::tree::memtable::Memtable;
use crate::tree::range_tombstones::Covering;
use crate::tree::retention::Retention;
use crate::tree::sstable::{SstableOptions, SstableWriter};
use crate::tree::version::Version;
use crate::work::Work;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Age, in seconds, at which a memtable that hides older data is flushed when space is short.
const SHORT_SECONDS: u64 = 1;
/// A memtable with fewer bytes is not worth an SSTable, however much it is read.
const MERGED_BYTES_MIN: u64 = 1 << 20;
/// An idle store keeps a log shorter than this, even if SSTables hold all its changes.
const DEAD_LOG_BYTES_MIN: u64 = 64 << 10;
/// Bytes whose flush costs as much as one merge of a scan, about a microsecond. In a store at rest,
/// a memtable is flushed early once scans have merged it with SSTables often enough to pay for its
/// flush.
const SCAN_MERGE_BYTES: u64 = 4 << 10;

impl Work {
    /// Seals active memtables before they are full. A memtable is sealed if it has hidden older
    /// data for too long (or for less time, if space is short), holds much in the value log,
    /// prevents the removal of the log, or slows down scans. If the store is idle, a large memtable
    /// is sealed too, because a copy of the store, and the next start, would have to build it
    /// again; and all memtables are, if the log is much longer than they are.
    pub(crate) fn seal_aged(&self) {
        let trees = self.parts.trees.all();
        let keeps_dead_log = self.keeps_dead_log();
        let is_aged = |tree: &&Arc<Tree>| {
            self.is_aged(tree) || (keeps_dead_log && !tree.view().active.is_empty())
        };
        let aged: Vec<_> = trees.iter().filter(is_aged).collect();
        if aged.is_empty() {
            return;
        }
        self.parts.log.with_log(|_| {
            for tree in aged {
                tree.seal(self.parts.clock.now());
            }
        });
    }

    fn is_aged(&self, tree: &Tree) -> bool {
        let view = tree.view();
        if view.active.is_empty() {
            return false;
        }
        let summary = view.active.summary();
        let age = self.parts.clock.now().saturating_sub(summary.created);
        let hides_files = (summary.deletions > 0 || summary.value_bytes > 0)
            && view.version.files().next().is_some();
        // An overwrite releases a value at once, a range tombstone only at the flush.
        let hides_values = summary.value_bytes > 0 && view.active.has_range_tombstones();
        let is_old = |seconds| age >= Duration::from_secs(seconds);
        let awaited = || {
            let seconds = self.parts.config.memtable_seconds_max;
            is_old(seconds) || (is_old(seconds.min(SHORT_SECONDS)) && self.parts.reserve.is_short())
        };
        let pins_log = summary.first_sequence.is_some_and(|first| {
            first
                <= self
                    .parts
                    .log
                    .segments()
                    .limit(self.parts.config.wal_bytes_max)
        });
        ((hides_files || hides_values) && awaited())
            || summary.value_bytes > self.parts.config.value_segment_bytes
            || pins_log
            || self.is_read_across(&view)
            || self.is_worth_a_file(&view)
    }

    /// True if the store is idle, the log has at least [`DEAD_LOG_BYTES_MIN`] bytes, and memtables
    /// hold at most half as many. The rest of the log is of no use: it takes space, and the next
    /// start would read it.
    fn keeps_dead_log(&self) -> bool {
        if !self.is_idle() {
            return false;
        }
        let segments = self.parts.log.segments();
        let log_bytes = self.parts.log.with_log(|log| segments.bytes(log));
        let memtable_bytes = self.parts.reserve.memtable_bytes.load(Ordering::Relaxed) as u64;
        log_bytes >= DEAD_LOG_BYTES_MIN && log_bytes / 2 >= memtable_bytes
    }

    /// Removes the log of an idle store whose changes are all in SSTables. The next write begins a
    /// new segment.
    pub(crate) fn release_log(&self) -> Result<()> {
        if self.parts.is_in_memory() || !self.keeps_dead_log() {
            return Ok(());
        }
        self.parts.log.with_log(|log| {
            let is_durable = self.parts.log.sync().durable() == log.last_sequence;
            if !is_durable || !self.parts.trees.are_flushed() {
                return Ok(());
            }
            log.end_segment();
            let segments = self.parts.log.segments();
            let wals = segments.keep_used();
            let mut fields: Vec<Field> = wals.iter().map(|&wal| Field::RemoveWal(wal)).collect();
            fields.push(Field::LastSequence(log.last_sequence));
            let removed = self.parts.catalog.lock().append(VersionEdit { fields });
            removed.inspect_err(|error| self.parts.health.note(error))?;
            segments.release_wals(&wals);
            Ok(())
        })
    }

    /// True if the store is idle, and the memtable is large enough for an SSTable.
    fn is_worth_a_file(&self, view: &View) -> bool {
        view.active.bytes() as u64 >= MERGED_BYTES_MIN
            && view.immutable.is_empty()
            && self.is_idle()
    }

    /// True if the store is at rest, and the memtable has slowed down scans so often that its flush
    /// pays.
    fn is_read_across(&self, view: &View) -> bool {
        let bytes = view.active.bytes() as u64;
        let paid = view.active.scan_merges().saturating_mul(SCAN_MERGE_BYTES);
        (MERGED_BYTES_MIN..=paid).contains(&bytes) && self.is_at_rest()
    }

    /// Flushes the oldest sealed memtable of any keyspace. Returns whether there was one. The
    /// caller must hold `flushing`.
    pub(crate) fn flush_one(&self) -> Result<bool> {
        let oldest = |tree: Arc<Tree>| Some((tree.view().immutable.last()?.clone(), tree));
        let pending = self.parts.trees.all().into_iter().filter_map(oldest);
        let Some((memtable, tree)) =
            pending.min_by_key(|(memtable, _)| memtable.summary().first_sequence)
        else {
            return Ok(false);
        };
        self.flush(&tree, &memtable)?;
        Ok(true)
    }

    fn flush(&self, tree: &Tree, memtable: &Arc<Memtable>) -> Result<()> {
        let started = self.parts.clock.now();
        // Also makes the values durable that the changes point to.
        self.parts.log.sync().sync_all()?;
        let meta = self.write_memtable(tree, memtable)?;
        let size = meta.size;
        let entries = meta.entries;
        self.install_flush(tree, memtable, meta)?;
        self.parts
            .reserve
            .memtable_bytes
            .fetch_sub(memtable.bytes(), Ordering::Relaxed);
        self.note_versions();
        let took = self.parts.clock.now().saturating_sub(started);
        self.note_flush(memtable.bytes() as u64, took);
        count(&self.counters.flushes, 1);
        count(&self.counters.flushed_bytes, size);
        tracing::info!(
            keyspace = &*tree.name,
            entries,
            bytes = size,
            milliseconds = took.as_millis() as u64,
            "flushed a memtable"
        );
        Ok(())
    }

    /// Writes the SSTable of a memtable, and makes its name durable.
    fn write_memtable(&self, tree: &Tree, memtable: &Memtable) -> Result<FileMeta> {
        let number = self.parts.catalog.lock().next_file();
        let written = self
            .write_level0(tree, number, memtable)
            .and_then(|meta| self.parts.directory.sync().map(|()| meta));
        if written.is_err() {
            self.remove_sstable(number);
        }
        written
    }

    fn write_level0(&self, tree: &Tree, number: u64, memtable: &Memtable) -> Result<FileMeta> {
        let retention = Retention::new(self.parts.snapshots.boundaries());
        let options = SstableOptions {
            block_bytes: tree.block_bytes(&self.parts.config),
            compression: tree.compression().unwrap_or(Compression::Lz4),
        };
        let mut writer =
            SstableWriter::create(&self.parts.directory, self.parts.store_id, number, options)?;
        let fragments = memtable.fragments();
        let mut covering = Covering::new(&fragments);
        memtable.for_each(|key, versions| {
            let covering = covering.of(key);
            let mut newer = None;
            for version in versions {
                let sort = (version.sequence, version.kind);
                if retention.keeps(&mut newer, sort, covering, || false) {
                    writer.add(key, version.sequence, version.kind, version.value)?;
                }
            }
            Ok(())
        })?;
        let fragments = fragments
            .iter()
            .filter_map(|fragment| retention.keep_fragment(fragment.clone(), false));
        writer.finish(&fragments.collect::<Vec<_>>())
    }

    /// Adds the SSTable of a memtable to the manifest. The same edit records how far the log is
    /// durable, so that the next start notices the loss of a part of the log that this SSTable does
    /// not hold.
    fn install_flush(&self, tree: &Tree, memtable: &Arc<Memtable>, meta: FileMeta) -> Result<()> {
        let number = meta.number;
        let file = Arc::new(LiveFile::new(meta.clone(), self.parts.cache.clone()));
        file.warm();
        let mut manifest = self.parts.catalog.lock();
        let summary = memtable.summary();
        let unneeded = self.unneeded_wals(memtable);
        // Read now, because syncs since the flush began may have made more of the log durable.
        let (durable, mark) = self.parts.log.sync().durable_end();
        let mut fields = vec![
            Field::AddFile(tree.id, 0, meta),
            Field::Flushed(tree.id, summary.last_sequence),
            Field::LastSequence(durable.max(summary.last_sequence)),
        ];
        fields.extend(manifest.mark(mark));
        fields.extend(unneeded.iter().map(|&wal| Field::RemoveWal(wal)));
        let version = self.next_version(tree, &[], vec![(0, file)])?;
        self.append_or_remove(&mut manifest, VersionEdit { fields }, &[number])?;
        tree.install(version, Some(memtable));
        drop(manifest);
        self.parts.log.segments().release_wals(&unneeded);
        Ok(())
    }

    /// Returns the version of the keyspace after an edit that removes and adds these files. The
    /// caller must hold the lock of the manifest.
    pub(crate) fn next_version(
        &self,
        tree: &Tree,
        removed: &[u64],
        added: Vec<(usize, Arc<LiveFile>)>,
    ) -> Result<Version> {
        let next = tree.view().version.with(removed, added);
        next.map_err(|number| overlap(&self.parts.directory, number))
    }

    /// Appends an edit that adds the SSTables `added`. After a passing failure the edit is
    /// certainly not in the manifest, and the SSTables are removed. After any other failure the
    /// manifest may refer to the SSTables: they stay, and writing stops.
    pub(crate) fn append_or_remove(
        &self,
        manifest: &mut Manifest,
        edit: VersionEdit,
        added: &[u64],
    ) -> Result<()> {
        let appended = manifest.append(edit);
        match &appended {
            Err(error) if error.is_passing() => {
                added.iter().for_each(|&number| self.remove_sstable(number))
            }
            Err(error) => self.parts.health.fail(error),
            Ok(()) => {}
        }
        appended
    }

    pub(crate) fn remove_sstable(&self, number: u64) {
        let _ = self
            .parts
            .directory
            .remove(FileName::Numbered(FileKind::Sstable, number));
    }

    /// Log segments, except the last, whose changes are all in SSTables once `flushed` is in one.
    fn unneeded_wals(&self, flushed: &Arc<Memtable>) -> Vec<u64> {
        let first_needed = |tree: Arc<Tree>| {
            let view = tree.view();
            let memtables = view.immutable.iter().chain([&view.active]);
            let others = memtables.filter(|memtable| !Arc::ptr_eq(memtable, flushed));
            others
                .filter_map(|memtable| memtable.summary().first_sequence)
                .min()
        };
        let first = self
            .parts
            .trees
            .all()
            .into_iter()
            .filter_map(first_needed)
            .min();
        self.parts.log.segments().unneeded(first)
    }
}
