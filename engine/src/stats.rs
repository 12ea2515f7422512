//! Stats: figures of an open store.

use crate::catalog::parts::Parts;
use crate::format::edit::LEVELS;
use crate::tree::keyspace::Tree;
use crate::work::Work;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Figures of an open store, for status pages and tests. Counts begin when the store is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: u64,
    /// Number of SSTables by level, over all keyspaces.
    pub sstables: Vec<u64>,
    /// Bytes of the SSTables by level, over all keyspaces.
    pub level_bytes: Vec<u64>,
    /// Bytes of all SSTables.
    pub sstable_bytes: u64,
    /// Number of segments of the write-ahead log that are still needed.
    pub wal_segments: u64,
    /// Bytes of the write-ahead log that the opening of a copy reads; 0 if SSTables hold
    /// everything. One small memtable may keep many bytes of the log.
    pub wal_bytes: u64,
    /// Bytes of the value log, garbage included.
    pub value_log_bytes: u64,
    /// Bytes of the value log that memtables or SSTables refer to.
    pub value_log_live_bytes: u64,
    /// Number of snapshots held, scans included.
    pub snapshots: u64,
    /// Number of changes since the oldest of these snapshots was taken; 0 if there is none.
    pub oldest_snapshot_age: u64,
    /// Number of wake-ups of background work. Growth while nothing is written is a fault.
    pub signals: u64,
    /// Sequence number of the last visible change.
    pub last_sequence: u64,
    /// Bytes of blocks, small values of the value log, indexes and filters in memory.
    pub cache_bytes: u64,
    /// Blocks and small values that were read from files because they were not in memory.
    pub blocks_read: u64,
    /// Bytes of the keys of all changes, and of the values that were put.
    pub put_bytes: u64,
    /// Bytes written to the write-ahead log.
    pub logged_bytes: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
    /// Bytes written to the value log, copies made by its collection included.
    pub value_bytes: u64,
    /// Batches that the opening of the store replayed from the log.
    pub batches_replayed: u64,
    /// Records cut off at the end of the log by the opening: see
    /// [`Db::recovered`](crate::Db::recovered).
    pub batches_cut_off: u64,
    /// Bytes of the records cut off by the opening.
    pub bytes_cut_off: u64,
    /// Number of memtables that were flushed.
    pub flushes: u64,
    /// Number of compactions.
    pub compactions: u64,
    /// Number of syncs of the log.
    pub syncs: u64,
    /// Number of times that a writer waited for a flush, a compaction or a late sync.
    pub stalls: u64,
    /// The total time of these waits.
    pub stalled: Duration,
}

impl Stats {
    /// Bytes written to files for each of the `put_bytes`; 0 before the first.
    pub fn write_amplification(&self) -> f64 {
        let written =
            self.logged_bytes + self.flushed_bytes + self.compacted_bytes + self.value_bytes;
        match self.put_bytes {
            0 => 0.0,
            put => written as f64 / put as f64,
        }
    }

    /// Returns the number of places that a lookup may have to search besides the active memtable:
    /// sealed memtables, files of level 0, deeper levels in use.
    pub fn read_amplification(&self) -> u64 {
        let level0 = self.sstables.first().copied().unwrap_or(0);
        let deeper = self.sstables.iter().skip(1).filter(|&&files| files > 0);
        self.sealed_memtables + level0 + deeper.count() as u64
    }
}

const MIB: f64 = (1 << 20) as f64;

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_levels(f)?;
        writeln!(
            f,
            "memtables {:.1} MiB, {} waiting to be flushed; log {} segments; values {:.1} MiB, {:.1} MiB of them live",
            mib(self.memtable_bytes),
            self.sealed_memtables,
            self.wal_segments,
            mib(self.value_log_bytes),
            mib(self.value_log_live_bytes),
        )?;
        writeln!(
            f,
            "put {:.1} MiB; written: log {:.1}, {} flushes {:.1}, {} compactions {:.1}, values {:.1} MiB: amplification {:.2}",
            mib(self.put_bytes),
            mib(self.logged_bytes),
            self.flushes,
            mib(self.flushed_bytes),
            self.compactions,
            mib(self.compacted_bytes),
            mib(self.value_bytes),
            self.write_amplification(),
        )?;
        writeln!(
            f,
            "a lookup looks into {} places at most; cache {:.1} MiB, {} blocks read from files",
            self.read_amplification(),
            mib(self.cache_bytes),
            self.blocks_read,
        )?;
        writeln!(
            f,
            "{} syncs; {} stalls, {:?} together; {} snapshots, the oldest {} changes old",
            self.syncs, self.stalls, self.stalled, self.snapshots, self.oldest_snapshot_age,
        )
    }
}

impl Stats {
    fn write_levels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "level   files       MiB")?;
        for (level, (files, bytes)) in self.sstables.iter().zip(&self.level_bytes).enumerate() {
            if *files > 0 || level == 0 {
                writeln!(f, "{level:>5} {files:>7} {:>9.1}", mib(*bytes))?;
            }
        }
        Ok(())
    }

    pub(crate) fn of(parts: &Parts, work: &Work) -> Stats {
        let (writes, jobs) = (parts.log.counters(), work.counters());
        let syncs = parts.log.sync().counters();
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (cache_bytes, blocks_read) = parts.cache.figures();
        let last_sequence = parts.snapshots.published();
        let mut stats = Stats {
            sstables: vec![0; LEVELS],
            level_bytes: vec![0; LEVELS],
            wal_segments: parts.log.segments().count() as u64,
            value_log_bytes: parts.value_log.bytes(),
            value_log_live_bytes: parts.trees.value_references().values().sum(),
            snapshots: parts.snapshots.count() as u64,
            oldest_snapshot_age: last_sequence.saturating_sub(parts.snapshots.floor()),
            signals: work.signals(),
            last_sequence,
            cache_bytes,
            blocks_read,
            put_bytes: counted(&writes.put_bytes),
            logged_bytes: counted(&writes.logged_bytes),
            flushed_bytes: counted(&jobs.flushed_bytes),
            compacted_bytes: counted(&jobs.compacted_bytes),
            value_bytes: parts.value_log.written_bytes(),
            batches_replayed: parts.recovered.batches,
            batches_cut_off: parts.recovered.batches_cut_off(),
            bytes_cut_off: parts.recovered.bytes_cut_off(),
            flushes: counted(&jobs.flushes),
            compactions: counted(&jobs.compactions),
            syncs: counted(&syncs.syncs),
            stalls: counted(&syncs.stalls),
            stalled: Duration::from_micros(counted(&syncs.stalled_microseconds)),
            ..Stats::default()
        };
        for tree in parts.trees.all() {
            stats.add_tree(&tree);
        }
        if stats.memtable_bytes > 0 {
            let segments = parts.log.segments();
            stats.wal_bytes = parts.log.with_log(|log| segments.bytes(log));
        }
        stats
    }

    fn add_tree(&mut self, tree: &Tree) {
        let view = tree.view();
        let memtables = view.immutable.iter().chain([&view.active]);
        let bytes = memtables.map(|memtable| memtable.bytes() as u64);
        self.memtable_bytes += bytes.sum::<u64>();
        self.sealed_memtables += view.immutable.len() as u64;
        for (level, file) in view.version.files() {
            self.sstables[level] += 1;
            self.level_bytes[level] += file.meta.size;
            self.sstable_bytes += file.meta.size;
        }
    }
}
