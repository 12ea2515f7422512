//! Group commit: one leader logs, syncs and applies for everyone waiting.
//!
//! Writers queue their batches and try for the log. Who gets it commits the whole queue: numbers the batches, appends them
//! to the WAL in one write, applies them to the memtables, publishes the last sequence number, and wakes the others, whose
//! batches are done. Syncs are shared the same way: one covers everyone whose batch was appended before it began, and while it
//! runs the next group forms; the first to be woken after it leads the next.
//!
//! Invariant: what is published has been handed to the operating system (unless the store lives in memory), in the order of
//! the sequence numbers; after a failed write or sync of the log nothing is written any more.

use crate::batch::{Change, Changes};
use crate::config::{Background, Durability};
use crate::files::OpenFile;
use crate::key::{Kind, SEQUENCE_MAX, SequenceNumber};
use crate::keyspace::Tree;
use crate::memtable::Memtable;
use crate::stats::count;
use crate::store::{PanicGuard, Store, lock};
use crate::value_log::Pin;
use crate::wal::WalWriter;
use crate::wal_segments::Segments;
use crate::{Batch, Error, Result};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin as FuturePin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Bytes of batches that one leader takes at once: more would make its followers wait for strangers.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// How long a sync waits for writers that are expected: less than it takes itself.
const GATHER_MAX: Duration = Duration::from_micros(80);

/// How often it looks for them at most, whatever the clock says.
const GATHER_TRIES: usize = 1000;

/// After how long writers see that the one who was to commit their batches has panicked.
const PANIC_NOTICED: Duration = Duration::from_secs(1);

/// How often a writer looks whether the log is free before it sleeps.
const LEAD_TRIES: usize = 50;

/// One batch in the queue.
#[derive(Debug)]
struct Request {
    payload: Vec<u8>,
    count: u64,
    put_bytes: u64,
    /// Kept until the memtable refers to the values.
    _pins: Vec<Pin>,
    outcome: OnceLock<Result<SequenceNumber>>,
    writer: Thread,
}

/// Whether changes are applied as they are made, or again from the log.
///
/// Again, they all come into one memtable of their keyspace. Where the process sealed its memtables is not known, and any other
/// place may lie between a value and what replaced it: the value may be gone by now, and nothing may refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    Now,
    Again,
}

#[derive(Debug, Default)]
pub(crate) struct Commit {
    queue: Mutex<VecDeque<Arc<Request>>>,
    log: Mutex<Log>,
    pub(crate) segments: Segments,
}

/// What the leader holds.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// `None` until the first write, and always when the store lives in memory.
    pub(crate) wal: Option<WalWriter>,
    /// Number of the segment before the first of this process, and where it ends.
    pub(crate) previous: (u64, u64),
    pub(crate) last_sequence: SequenceNumber,
    group: Vec<u8>,
}

/// How far the log is synced, and who waits for more.
#[derive(Debug, Default)]
pub(crate) struct SyncState {
    progress: Mutex<Progress>,
    changed: Condvar,
    durable: AtomicU64,
    /// The most SSTables that any keyspace has in level 0.
    pub(crate) level0_files_most: AtomicUsize,
}

#[derive(Debug, Default)]
struct Progress {
    appended: SequenceNumber,
    durable: SequenceNumber,
    /// The segments that hold what is not durable; the last of them is being appended to.
    files: Vec<OpenFile>,
    /// Whether a segment is to be made ready.
    wants_segment: bool,
    /// Whether nothing has been written for a while.
    is_at_rest: bool,
    running: bool,
    waiters: Vec<Waiter>,
    /// How many the last sync was for, and came while it ran.
    present: usize,
    closed: bool,
}

impl SyncState {
    /// Waits until there is something to do: to sync, or to make a segment ready. `false` once after `limit` without.
    pub(crate) fn wait_for_work(&self, limit: Duration) -> bool {
        let mut progress = lock(&self.progress);
        let idle = |progress: &mut Progress| {
            let is_clean = progress.appended == progress.durable;
            !progress.closed && !progress.wants_segment && is_clean
        };
        if !progress.is_at_rest {
            let waited = self.changed.wait_timeout_while(progress, limit, idle);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            progress.is_at_rest = idle(&mut progress);
            return !progress.is_at_rest;
        }
        let waited = self.changed.wait_while(progress, idle);
        waited.unwrap_or_else(PoisonError::into_inner).is_at_rest = false;
        true
    }

    /// Waits until a task awaits a sync (at `Disk`) or a segment is wanted, at most `limit`. Answers whether a segment is.
    pub(crate) fn wait_for_request(&self, limit: Duration, durability: Durability) -> bool {
        let idle = |progress: &mut Progress| {
            let awaited = durability == Durability::Disk && !progress.waiters.is_empty();
            !progress.closed && !progress.wants_segment && !awaited
        };
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.progress), limit, idle);
        let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut progress.wants_segment)
    }

    fn want_segment(&self) {
        lock(&self.progress).wants_segment = true;
        self.changed.notify_all();
    }

    /// Lets everyone who waits see that the store has failed.
    pub(crate) fn wake_everyone(&self) {
        let everyone = std::mem::take(&mut lock(&self.progress).waiters);
        everyone.into_iter().for_each(|waiter| waiter.waker.wake());
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        lock(&self.progress).closed = true;
        self.changed.notify_all();
    }

    /// Everything up to `sequence` is durable, as recovery found it.
    pub(crate) fn start(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
        progress.durable = sequence;
        self.durable.store(sequence, Ordering::Release);
    }

    /// What follows is appended to this file.
    pub(crate) fn begin_file(&self, file: &OpenFile) {
        lock(&self.progress).files.push(file.clone());
    }

    fn appended(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        let was_clean = progress.appended == progress.durable;
        progress.appended = sequence;
        if was_clean {
            self.changed.notify_all();
        }
    }

    pub(crate) fn durable(&self) -> SequenceNumber {
        self.durable.load(Ordering::Acquire)
    }
}

impl Store {
    /// Commits a batch; on return it is visible. Answers its last sequence number.
    pub(crate) fn commit(&self, batch: Batch) -> Result<SequenceNumber> {
        let request = Arc::new(Request {
            put_bytes: batch.put_bytes,
            payload: batch.payload,
            count: batch.count,
            _pins: batch.pins,
            outcome: OnceLock::new(),
            writer: std::thread::current(),
        });
        lock(&self.commit.queue).push_back(request.clone());
        loop {
            self.try_to_lead()?;
            if let Some(outcome) = request.outcome.get() {
                return outcome.clone();
            }
            // Whoever holds the log commits this batch too, or wakes this thread to do it; unless it panics, which is looked for.
            std::thread::park_timeout(PANIC_NOTICED);
        }
    }

    /// Commits what is queued, if nobody holds the log.
    fn try_to_lead(&self) -> Result<()> {
        for _ in 0..LEAD_TRIES {
            match self.commit.log.try_lock() {
                Ok(mut log) => {
                    while let Some(group) = self.take_group() {
                        self.commit_group(&mut log, &group);
                    }
                    drop(log);
                    self.wake_next_leader();
                    return Ok(());
                }
                Err(TryLockError::Poisoned(_)) => return Err(self.broken()),
                // A group takes a few microseconds; to sleep and be woken takes longer.
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        Ok(())
    }

    /// To be called after the log was let go of: a batch that was queued meanwhile has no leader.
    fn wake_next_leader(&self) {
        let next = lock(&self.commit.queue).front().cloned();
        if let Some(request) = next {
            request.writer.unpark();
        }
    }

    /// Does something with the log that is not a commit.
    pub(crate) fn with_log<T>(&self, act: impl FnOnce(&mut Log) -> T) -> T {
        let done = act(&mut lock(&self.commit.log));
        self.wake_next_leader();
        done
    }

    /// A leader has panicked: nobody knows what of its group was applied.
    fn broken(&self) -> Error {
        let error = Error::ReadOnly {
            reason: "a commit was broken off by a panic".into(),
        };
        self.fail(&error);
        error
    }

    fn take_group(&self) -> Option<Vec<Arc<Request>>> {
        let mut queue = lock(&self.commit.queue);
        let mut bytes = 0;
        let fits = |request: &&Arc<Request>| {
            let before = bytes;
            bytes += request.payload.len();
            before < GROUP_BYTES_MAX
        };
        let count = queue.iter().take_while(fits).count();
        (count > 0).then(|| queue.drain(..count).collect())
    }

    fn commit_group(&self, log: &mut Log, group: &[Arc<Request>]) {
        let first = log.last_sequence + 1;
        let logged = self.check_writable().and_then(|()| self.append(log, group));
        if let Err(error) = logged {
            group
                .iter()
                .for_each(|request| answer(request, Err(error.clone())));
            return;
        }
        let mut next = first;
        for request in group {
            self.apply(request, next);
            next += request.count;
            count(&self.counters.put_bytes, request.put_bytes);
        }
        self.snapshots.publish(next - 1);
        for request in group {
            answer(request, Ok(next - 1));
        }
    }

    /// Numbers the batches and hands them to the operating system.
    fn append(&self, log: &mut Log, group: &[Arc<Request>]) -> Result<()> {
        let mut next = log.last_sequence + 1;
        if self.is_in_memory() {
            log.last_sequence += group.iter().map(|request| request.count).sum::<u64>();
            return Ok(());
        }
        self.provide_wal(log)?;
        let wal = log.wal.as_mut().expect("provide_wal left one");
        let was_half_full = wal.is_half_full();
        log.group.clear();
        for request in group {
            wal.frame(&mut log.group, next, self.sync.durable(), &request.payload);
            next += request.count;
        }
        // The numbers are used up even if this fails: what a failed write left behind must not look like what follows.
        log.last_sequence = next - 1;
        if let Err(error) = wal.append(&log.group) {
            if !matches!(error, Error::NoSpace { .. }) || wal.undo().is_err() {
                self.fail(&error);
            }
            return Err(error);
        }
        count(&self.counters.logged_bytes, log.group.len() as u64);
        if log.group.capacity() > GROUP_BYTES_MAX {
            log.group = Vec::new();
        }
        self.sync.appended(next - 1);
        if wal.is_half_full() && !was_half_full {
            self.sync.want_segment();
        }
        Ok(())
    }

    fn apply(&self, request: &Request, first: SequenceNumber) {
        let changes = Changes::new(&request.payload);
        let changes = changes.map(|change| change.expect("the payload was encoded by a batch"));
        let last = first + request.count - 1;
        self.apply_changes((first..).zip(changes), last, Applied::Now);
    }

    /// Applies numbered changes, up to `last`, to the memtables, runs of one keyspace at a time. The caller holds the log.
    pub(crate) fn apply_changes<'a>(
        &self,
        changes: impl Iterator<Item = (SequenceNumber, Change<'a>)>,
        last: SequenceNumber,
        when: Applied,
    ) {
        let mut changes = changes.peekable();
        while let Some(&(_, first)) = changes.peek() {
            let tree = self.tree(first.keyspace()).expect("the batch was checked");
            if let Change::DeleteRange { start, end, .. } = first
                && when == Applied::Now
                && tree.glance().active.covers_many(start, end)
            {
                tree.seal(self.clock.now());
            }
            // A deletion of a range is always the first of its run, so that it is looked at here.
            let mut begun = false;
            let mut belongs = |(_, change): &(SequenceNumber, Change<'_>)| {
                let is_first = !std::mem::replace(&mut begun, true);
                let is_range = matches!(change, Change::DeleteRange { .. });
                is_first || (change.keyspace() == tree.id && !is_range)
            };
            let run = std::iter::from_fn(|| changes.next_if(&mut belongs));
            tree.gaps.begin_puts(last);
            let view = tree.glance();
            self.apply_run(&tree, &view.active, run, when);
            if when == Applied::Now && view.active.bytes() >= tree.memtable_bytes_max(&self.config)
            {
                tree.seal(self.clock.now());
                self.notify();
            }
        }
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
                tree.gaps.note_put(key);
            }
        });
        let floor = match when {
            Applied::Now => self.snapshots.floor(),
            // Nobody reads yet: what later changes hide may have lost its values already.
            Applied::Again => SEQUENCE_MAX,
        };
        let bytes = active.apply(noted, floor);
        self.room.memtable_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Makes everything that was appended before the call durable: the value log first, because a pointer that survives
    /// a crash must find its value.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let target = lock(&self.sync.progress).appended;
        self.sync_through(target)
    }

    /// Returns once everything up to `sequence` is durable; shares a sync that is under way.
    pub(crate) fn sync_through(&self, sequence: SequenceNumber) -> Result<()> {
        while self.sync.durable() < sequence {
            let mut progress = lock(&self.sync.progress);
            if progress.durable >= sequence {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure.clone());
            }
            if progress.running {
                progress.waiters.push(Waiter {
                    sequence,
                    waker: UNPARK_ME.with(Waker::clone),
                    is_thread: true,
                });
                drop(progress);
                std::thread::park();
            } else {
                self.lead_sync(progress)?;
            }
        }
        Ok(())
    }

    /// Syncs what has been appended, and wakes who waits for that.
    fn lead_sync(&self, mut progress: MutexGuard<'_, Progress>) -> Result<()> {
        let _guard = PanicGuard::new(self, "a sync");
        progress.running = true;
        let progress = self.gather(progress);
        let target = progress.appended;
        let files = progress.files.clone();
        drop(progress);
        // In the order in which they were written, so that what a power cut leaves is a prefix.
        let synced = self
            .value_log
            .sync()
            .and_then(|()| files.iter().try_for_each(OpenFile::sync));
        count(&self.counters.syncs, 1);
        if let Err(error) = &synced {
            self.fail(error);
        }
        let mut progress = lock(&self.sync.progress);
        progress.running = false;
        progress.present = progress.waiters.len() + 1;
        if synced.is_ok() {
            progress.durable = progress.durable.max(target);
            // The last may have been appended to meanwhile.
            progress.files.drain(..files.len().saturating_sub(1));
            self.sync.durable.store(progress.durable, Ordering::Release);
        }
        let ready = progress.take_ready(synced.is_err());
        let tasks_wait = !progress.waiters.is_empty();
        drop(progress);
        ready.into_iter().for_each(|waiter| waiter.waker.wake());
        if tasks_wait {
            self.sync.changed.notify_all();
        }
        synced
    }

    /// Those whom the last sync has let go are about to come back with their next batches: a sync that waits for a moment
    /// serves them together with those who came meanwhile, instead of the two in turn.
    fn gather<'a>(&'a self, mut progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        let expected = progress.present;
        if self.background == Background::Stepped || progress.waiters.len() + 1 >= expected {
            return progress;
        }
        let end = self.clock.now() + GATHER_MAX;
        for _ in 0..GATHER_TRIES {
            if progress.waiters.len() + 1 >= expected || self.clock.now() >= end {
                break;
            }
            drop(progress);
            std::thread::yield_now();
            progress = lock(&self.sync.progress);
        }
        progress
    }

    fn poll_sync(&self, sequence: SequenceNumber, waker: &Waker) -> Poll<Result<()>> {
        if self.sync.durable() >= sequence {
            return Poll::Ready(Ok(()));
        }
        if self.background == Background::Stepped {
            return Poll::Ready(self.sync_through(sequence));
        }
        let mut progress = lock(&self.sync.progress);
        if progress.durable >= sequence {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = self.failure() {
            return Poll::Ready(Err(failure.clone()));
        }
        if progress.closed {
            drop(progress);
            return Poll::Ready(self.sync_through(sequence));
        }
        progress.waiters.push(Waiter {
            sequence,
            waker: waker.clone(),
            is_thread: false,
        });
        self.sync.changed.notify_all();
        Poll::Pending
    }

    /// The ticket of the batch whose last sequence number this is.
    pub(crate) fn ticket(self: &Arc<Self>, sequence: SequenceNumber) -> Ticket {
        match self.config.durability {
            Durability::Memory | Durability::Process => Ticket::ready(),
            Durability::Disk => Ticket(Some((self.clone(), sequence))),
        }
    }

    /// Keyspaces are sealed by who holds the log; this is for everyone else.
    pub(crate) fn seal(&self, tree: &Tree) {
        self.with_log(|_| tree.seal(self.clock.now()));
    }

    /// Seals the keyspace that uses the most memory, unless there is a sealed memtable to flush already.
    pub(crate) fn seal_largest(&self) {
        self.with_log(|_| {
            let trees = self.trees();
            if trees.iter().any(|tree| !tree.glance().sealed.is_empty()) {
                return;
            }
            if let Some(tree) = trees.iter().max_by_key(|tree| tree.glance().active.bytes()) {
                tree.seal(self.clock.now());
            }
        });
    }
}

fn answer(request: &Request, outcome: Result<SequenceNumber>) {
    request
        .outcome
        .set(outcome)
        .expect("a batch is in one group");
    request.writer.unpark();
}

/// Who waits for a sync.
#[derive(Debug)]
struct Waiter {
    sequence: SequenceNumber,
    waker: Waker,
    /// A thread can lead the next sync; for tasks the sync thread does.
    is_thread: bool,
}

/// Unparks the thread that it was made for.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static UNPARK_ME: Waker = Arc::new(Unpark(std::thread::current())).into();
}

impl Progress {
    /// Takes out those whose wait is over, and first of all one thread to lead the next sync.
    fn take_ready(&mut self, all: bool) -> Vec<Waiter> {
        let durable = self.durable;
        let is_ready = |waiter: &Waiter| all || waiter.sequence <= durable;
        let (mut ready, waiting): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(is_ready);
        self.waiters = waiting;
        if let Some(next) = self.waiters.iter().position(|waiter| waiter.is_thread) {
            ready.insert(0, self.waiters.swap_remove(next));
        }
        ready
    }
}

/// Completes when a write has reached its durability level. Wait on it (a thread) or await it (a task).
#[must_use = "a write is acknowledged only once its ticket has completed"]
pub struct Ticket(Option<(Arc<Store>, SequenceNumber)>);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("is_ready", &self.0.is_none())
            .finish()
    }
}

impl Ticket {
    /// A ticket for a write that changed nothing.
    pub fn ready() -> Ticket {
        Ticket(None)
    }

    /// Blocks until the write is durable.
    pub fn wait(self) -> Result<()> {
        match self.0 {
            None => Ok(()),
            Some((store, sequence)) => store.sync_through(sequence),
        }
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(self: FuturePin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &self.0 {
            None => Poll::Ready(Ok(())),
            Some((store, sequence)) => store.poll_sync(*sequence, context.waker()),
        }
    }
}
