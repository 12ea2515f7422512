//! CommitLog: the path of a write. Batches that `queue.rs` has put in order go to the log and into
//! the memtables, and become visible. `shared_sync.rs` waits for the disk.
//!
//! A memtable is sealed only between groups: before a group is applied, or after it was published.
//! So a sealed memtable becomes visible as a whole, whichever memtables a reader looks at first.
//!
//! Invariant: at `Process`, batches are handed to the operating system before they are published,
//! in sequence order. At `Disk`, the sync that their writers wait for hands them over; at `Memory`,
//! nothing does. After a failed write or sync of the log the store takes no more writes.

use crate::base::counter::count;
use crate::base::health::{Health, Wakes};
use crate::base::key::{Kind, SEQUENCE_MAX, SequenceNumber};
use crate::format::change::{Change, Changes};
use crate::format::edit::{EditLog, LogMark};
use crate::fs::Clock;
use crate::fs::directory::Directory;
use crate::fs::reserve::SpaceReserve;
use crate::tree::keyspace::Tree;
use crate::tree::memtable::Memtable;
use crate::tree::snapshots::Snapshots;
use crate::tree::trees::Trees;
use crate::values::Pin;
use crate::values::ValueLog;
use crate::write::log::Log;
use crate::write::log::segments::LogSegments;
use crate::write::queue::{CommitQueue, GROUP_BYTES_MAX, Queued, Request, Stages};
use crate::write::shared_sync::SharedSync;
use crate::write::value_sync::Values;
use crate::{Background, Batch, Config, Durability, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A batch in the queue.
#[derive(Debug)]
pub(crate) struct PendingBatch {
    payload: Vec<u8>,
    count: u64,
    put_bytes: u64,
    has_range_deletion: bool,
    /// Pins that are kept until the memtable refers to the values.
    _pins: Vec<Pin>,
}

/// Whether changes are applied as they are made, or again from the log.
///
/// A replay puts all changes of a keyspace into one memtable. It is not known where the old process
/// sealed its memtables, and a seal between a value and its replacement would keep a pointer to a
/// value that may be gone by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    Live,
    Replay,
}

/// The path of a write: group commit onto the log, into the memtables, and the shared syncs that
/// make it durable.
#[derive(Debug)]
pub(crate) struct CommitLog {
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    edits: Arc<dyn EditLog>,
    health: Arc<Health>,
    sync: Arc<SharedSync>,
    segments: LogSegments,
    counters: Counters,
    trees: Arc<Trees>,
    snapshots: Arc<Snapshots>,
    reserve: Arc<SpaceReserve>,
    /// Background work, which is woken when memtables are sealed.
    work: Arc<dyn Wakes>,
    queue: CommitQueue<CommitLog>,
}

/// The parts of a [`CommitLog`].
pub(crate) struct CommitParts {
    pub(crate) config: Arc<Config>,
    pub(crate) background: Background,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) directory: Directory,
    pub(crate) store_id: u128,
    pub(crate) edits: Arc<dyn EditLog>,
    pub(crate) value_log: Arc<ValueLog>,
    pub(crate) health: Arc<Health>,
    pub(crate) trees: Arc<Trees>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) reserve: Arc<SpaceReserve>,
    pub(crate) work: Arc<dyn Wakes>,
}

/// Counters of commits since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes of committed batches, without large values. Writers are charged for these bytes.
    pub(crate) batch_bytes: AtomicU64,
    /// Bytes of keys and values in committed batches, large values included.
    pub(crate) put_bytes: AtomicU64,
    pub(crate) logged_bytes: AtomicU64,
}

impl CommitLog {
    pub(crate) fn new(parts: CommitParts) -> CommitLog {
        let sync = Arc::new(SharedSync::new(
            parts.config.clone(),
            parts.background,
            parts.clock.clone(),
            parts.value_log,
            parts.health.clone(),
        ));
        parts.health.add(sync.clone());
        let segments = LogSegments::new(
            parts.config.clone(),
            parts.background,
            parts.directory,
            parts.store_id,
            parts.edits.clone(),
            parts.health.clone(),
            sync.clone(),
        );
        let queue = CommitQueue::new(parts.health.clone(), Log::default());
        CommitLog {
            config: parts.config,
            clock: parts.clock,
            edits: parts.edits,
            health: parts.health,
            sync,
            segments,
            counters: Counters::default(),
            trees: parts.trees,
            snapshots: parts.snapshots,
            reserve: parts.reserve,
            work: parts.work,
            queue,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn segments(&self) -> &LogSegments {
        &self.segments
    }

    pub(crate) fn sync(&self) -> &Arc<SharedSync> {
        &self.sync
    }

    fn is_in_memory(&self) -> bool {
        self.config.durability == Durability::Memory
    }

    /// Like [`SharedSync::sync_all`], and records in the manifest how far the log is durable, so
    /// that damage before that place is never taken for a torn tail. A frame records the same for
    /// the frames before it, but no frame follows the last one before a rest.
    pub(crate) fn sync_and_mark(&self) -> Result<()> {
        self.sync.sync_all()?;
        let (_, mark) = self.sync.durable_end();
        let marked = self.edits.append_marked(mark, Vec::new());
        marked.inspect_err(|error| self.health.note(error))
    }

    /// Makes the next segment if the present one is half full and there is no next one yet.
    pub(crate) fn prepare_segment(&self) -> Result<()> {
        match self.with_log(|log| self.segments.wanted_length(log)) {
            Some(length) => self.segments.prepare(length),
            None => Ok(()),
        }
    }

    /// Makes the next segment if it is overdue, or waits until another thread has made it. The
    /// caller must hold no lock.
    pub(crate) fn await_segment(&self) -> Result<()> {
        if !self.segments.is_awaited() {
            return Ok(());
        }
        self.prepare_segment()
            .inspect_err(|error| self.health.note(error))
    }

    /// Commits a batch; on return it is visible. Returns the last sequence number of its group.
    pub(crate) fn commit(&self, batch: Batch) -> Result<SequenceNumber> {
        let pending = PendingBatch {
            put_bytes: batch.put_bytes,
            has_range_deletion: batch.has_range_deletion(),
            payload: batch.payload,
            count: batch.count,
            _pins: batch.pins,
        };
        self.queue.commit(self, pending)
    }

    /// Runs `act` on the locked log, between commits.
    pub(crate) fn with_log<T>(&self, act: impl FnOnce(&mut Log) -> T) -> T {
        self.queue.with_log(act)
    }

    /// Seals memtables before a batch deletes a span of many of their rows: otherwise a scan would
    /// have to visit each row.
    fn seal_covered(&self, batch: &PendingBatch) {
        for change in batch.changes() {
            if let Change::DeleteRange {
                keyspace,
                start,
                end,
            } = change
            {
                let tree = self.trees.get(keyspace).expect("the batch was checked");
                if tree.load_view().active.covers_many(start, end) {
                    tree.seal(self.clock.now());
                }
            }
        }
    }

    /// Applies numbered changes, up to `last`, to the memtables; consecutive changes of one
    /// keyspace are applied together. Returns the keyspaces whose memtable has grown to its limit.
    /// The caller must hold the log.
    pub(crate) fn apply_changes<'a>(
        &self,
        changes: impl Iterator<Item = (SequenceNumber, Change<'a>)>,
        last: SequenceNumber,
        when: Applied,
    ) -> Vec<Arc<Tree>> {
        let mut full = Vec::new();
        let mut changes = changes.peekable();
        while let Some(&(_, first)) = changes.peek() {
            let tree = self
                .trees
                .get(first.keyspace())
                .expect("the batch was checked");
            let belongs = |(_, change): &(SequenceNumber, Change<'_>)| change.keyspace() == tree.id;
            let run = std::iter::from_fn(|| changes.next_if(belongs));
            tree.empty_spans.begin_puts(last);
            let view = tree.load_view();
            self.apply_run(&tree, &view.active, run, when);
            if view.active.bytes() >= tree.memtable_bytes_max(&self.config) {
                drop(view);
                full.push(tree);
            }
        }
        full
    }

    fn apply_run<'a>(
        &self,
        tree: &Tree,
        active: &Memtable,
        run: impl Iterator<Item = (SequenceNumber, Change<'a>)>,
        when: Applied,
    ) {
        let noted = run.inspect(|(_, change)| {
            if let Change::Set { kind, key, .. } = change
                && *kind != Kind::Delete
            {
                tree.empty_spans.note_put(key);
            }
        });
        let floor = match when {
            Applied::Live => self.snapshots.floor(),
            // There are no readers yet, and versions that later changes hide may have lost their
            // values already.
            Applied::Replay => SEQUENCE_MAX,
        };
        let bytes = active.apply(noted, floor);
        self.reserve
            .memtable_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Seals a keyspace for callers that do not hold the log.
    pub(crate) fn seal(&self, tree: &Tree) -> SequenceNumber {
        self.with_log(|log| {
            tree.seal(self.clock.now());
            log.last_sequence
        })
    }

    /// Seals all keyspaces between the same two groups. Returns the last sequence number before the
    /// seals.
    pub(crate) fn seal_all(&self) -> SequenceNumber {
        self.with_log(|log| {
            for tree in self.trees.all() {
                tree.seal(self.clock.now());
            }
            log.last_sequence
        })
    }

    /// Seals the keyspace that uses the most memory, unless there is a sealed memtable to flush
    /// already.
    pub(crate) fn seal_largest(&self) {
        self.with_log(|_| {
            let trees = self.trees.all();
            if trees
                .iter()
                .any(|tree| !tree.load_view().immutable.is_empty())
            {
                return;
            }
            if let Some(tree) = trees
                .iter()
                .max_by_key(|tree| tree.load_view().active.bytes())
            {
                tree.seal(self.clock.now());
            }
        });
    }
}

impl Values for ValueLog {
    fn is_unsynced(&self) -> bool {
        ValueLog::is_unsynced(self)
    }

    fn sync(&self) -> Result<()> {
        ValueLog::sync(self)
    }
}

impl Stages for CommitLog {
    type Batch = PendingBatch;
    type Log = Log;
    /// The keyspaces whose memtable has grown to its limit.
    type Applied = Vec<Arc<Tree>>;

    fn log(&self, log: &mut Log, group: &[Arc<Request<PendingBatch>>]) -> Result<SequenceNumber> {
        self.health.check_writable()?;
        let first = log.last_sequence + 1;
        if self.is_in_memory() {
            log.last_sequence += group
                .iter()
                .map(|request| request.batch().count)
                .sum::<u64>();
            return Ok(first);
        }
        self.segments.provide_wal(log)?;
        let wal = log.wal.as_mut().expect("provide_wal left one");
        let was_half_full = wal.is_half_full();
        log.group.clear();
        let mut next = first;
        for batch in group.iter().map(|request| request.batch()) {
            wal.frame(&mut log.group, next, self.sync.durable(), &batch.payload);
            next += batch.count;
        }
        // The numbers are used up even if the write fails: the remains of a failed write must not
        // look like the next frames.
        log.last_sequence = next - 1;
        let bytes = log.group.len() as u64;
        if let Err(error) = wal.append(&mut log.group) {
            // `NoSpace` promises that the batch is not in the store.
            let error = match error {
                Error::NoSpace { .. } => match wal.undo(log.group.len()) {
                    Ok(()) => return Err(error),
                    Err(failed) => failed,
                },
                error => error,
            };
            self.health.fail(&error);
            return Err(error);
        }
        log.last_batch = (wal.number(), wal.end());
        count(&self.counters.logged_bytes, bytes);
        if log.group.capacity() > GROUP_BYTES_MAX {
            log.group = Vec::new();
        }
        let (segment, end) = log.last_batch;
        self.sync.appended(next - 1, LogMark { segment, end });
        if wal.is_half_full() && !was_half_full {
            self.sync.want_segment();
        }
        self.segments.note_length(wal);
        Ok(first)
    }

    fn apply(&self, group: &[Arc<Request<PendingBatch>>], first: SequenceNumber) -> Vec<Arc<Tree>> {
        let batches = || group.iter().map(|request| request.batch());
        batches()
            .filter(|batch| batch.has_range_deletion)
            .for_each(|batch| self.seal_covered(batch));
        let mut next = first;
        let mut full = Vec::new();
        for batch in batches() {
            let last = next + batch.count - 1;
            let changes = (next..).zip(batch.changes());
            full.extend(self.apply_changes(changes, last, Applied::Live));
            next += batch.count;
            count(&self.counters.put_bytes, batch.put_bytes);
            count(&self.counters.batch_bytes, batch.payload.len() as u64);
        }
        full
    }

    fn publish(&self, last: SequenceNumber, full: Vec<Arc<Tree>>) {
        self.snapshots.publish(last);
        if !full.is_empty() {
            for tree in full {
                tree.seal(self.clock.now());
            }
            self.work.wake_everyone();
        }
    }

    fn awaits_sync(&self) -> bool {
        self.config.durability == Durability::Disk
    }
}

impl Queued for PendingBatch {
    fn bytes(&self) -> usize {
        self.payload.len()
    }

    fn count(&self) -> u64 {
        self.count
    }
}

impl PendingBatch {
    fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let changes = Changes::new(&self.payload);
        changes.map(|change| change.expect("the payload was encoded by a batch"))
    }
}

#[cfg(test)]
mod tests {
    use crate::base::key::Kind;
    use crate::fs::MemoryFs;
    use crate::{Batch, Config, Db, Durability, Environment, KeyRange, Keyspace, KeyspaceOptions};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Looks up `k` in a store with a tiny memtable. The batch becomes visible during the lookup,
    /// after `before` calls for the sequence number to read at.
    fn found_during(batch: impl FnOnce(&mut Batch, [&Keyspace; 2]), before: u32) -> Option<Kind> {
        let config = Config {
            durability: Durability::Memory,
            memtable_bytes_max: 8 << 10,
            ..Config::default()
        };
        let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let other = db.keyspace("b", KeyspaceOptions::default()).unwrap();
        let store = db.parts();
        let old = store.snapshots.published();
        let mut changes = Batch::new();
        batch(&mut changes, [&keyspace, &other]);
        drop(db.write(changes).unwrap());
        let asked = Cell::new(0);
        let at = || {
            asked.set(asked.get() + 1);
            if asked.get() > before {
                store.snapshots.published()
            } else {
                old
            }
        };
        let found = keyspace.tree().find(&store.cache, b"k", at).unwrap();
        found.map(|entry| entry.kind)
    }

    #[test]
    fn a_lookup_never_finds_a_value_that_its_own_batch_replaced() {
        for before in 0..8 {
            let found = found_during(
                |batch, [keyspace, other]| {
                    batch.put(keyspace, b"k", b"never visible");
                    (0..24u8).for_each(|row| batch.put(keyspace, &[b'r', row], &[0; 1400]));
                    batch.put(other, b"k", b"ends the run of changes to one keyspace");
                    batch.delete(keyspace, b"k");
                },
                before,
            );
            assert_ne!(found, Some(Kind::Put), "visible after {before} questions");
        }
    }

    #[test]
    fn a_lookup_never_finds_a_value_whose_range_its_own_batch_deleted() {
        for before in 0..8 {
            let found = found_during(
                |batch, [keyspace, _]| {
                    batch.put(keyspace, b"k", b"never visible");
                    (0..300u16).for_each(|row| {
                        batch.put(keyspace, &[b"k", &row.to_be_bytes()[..]].concat(), b"");
                    });
                    batch.delete_range(keyspace, KeyRange::prefix(b"k"));
                },
                before,
            );
            assert_eq!(found, None, "visible after {before} questions");
        }
    }
}
