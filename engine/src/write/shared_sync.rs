//! Shared syncs of the log. A sync covers every batch that was appended before it began. While it
//! runs, the next group forms; the first writer of that group to wake leads the next sync.
//!
//! `sync_schedule.rs` decides when a sync is due, `value_sync.rs` syncs the values that the log
//! points to, and `ticket.rs` makes a writer wait.
//!
//! Invariant: changes that count as durable were synced in the order of their sequence numbers,
//! with the values they point to. After a failure of the store nothing more becomes durable: no
//! thread retries a failed sync.

use crate::Error;
use crate::Result;
use crate::base::config::{Background, Config};
use crate::base::counter::count;
use crate::base::health::{Health, PanicGuard, Wakes};
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread, ThreadId};
use crate::base::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::format::edit::LogMark;
use crate::fs::Clock;
use crate::fs::directory::OpenFile;
use crate::write::value_sync::{ValueSync, Values};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// The value of `oldest_unsynced` that stands for no time.
pub(super) const NEVER: u64 = u64::MAX;

/// Counters of syncs and waits since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct SyncCounters {
    pub(crate) syncs: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stalled_microseconds: AtomicU64,
}

/// How far the log is synced, and the threads and tasks that wait for more.
#[derive(Debug)]
pub(crate) struct SharedSync {
    pub(super) config: Arc<Config>,
    pub(super) background: Background,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) health: Arc<Health>,
    pub(super) counters: SyncCounters,
    pub(super) progress: Mutex<Progress>,
    /// Notified when the sync thread has something to look at.
    pub(super) changed: Condvar,
    /// Notified when a sync ends.
    pub(super) ended: Condvar,
    values: ValueSync,
    /// On a cache line of its own, like the other numbers that all writers change. With 64 threads
    /// this gives 5 % more commits a second, and 9 % more tickets (workload `commits` of
    /// `benches/engine`).
    durable: CachePadded<AtomicU64>,
    /// When the oldest change that is not durable was appended, in nanoseconds of the clock, or
    /// `NEVER`.
    pub(super) oldest_unsynced: CachePadded<AtomicU64>,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) appended: SequenceNumber,
    pub(super) durable: SequenceNumber,
    /// The end of the log, and its end when the last successful sync began.
    end_appended: LogMark,
    end_durable: LogMark,
    /// The segments with changes that are not durable, and after them the one being appended to.
    files: Vec<OpenFile>,
    /// Whether a segment is to be made ready.
    pub(super) wants_segment: bool,
    /// Whether the sync thread knows that nothing has been written for a while.
    pub(super) is_at_rest: bool,
    /// The time at which the oldest change of the sync under way was appended.
    syncing_since: Option<Duration>,
    /// The time at which the oldest change was appended for which no sync has begun.
    pub(super) unsynced_since: Option<Duration>,
    /// Whether the sync thread waits for the next write, which must wake it. Later writes need not:
    /// the thread looks again after its interval.
    pub(super) awaits_write: bool,
    pub(super) running: bool,
    pub(super) waiters: Vec<Waiter>,
    pub(super) end: End,
}

/// A sync under way.
struct SyncTask {
    /// The last change that the sync makes durable, and the end of the log after that change.
    target: SequenceNumber,
    end: LogMark,
    /// The files of the log to be synced.
    files: Vec<OpenFile>,
}

/// Whether the store is open, closing or abandoned.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    Open,
    /// The threads end; appended changes are synced once more.
    Closing,
    /// Nothing becomes durable any more.
    Abandoned,
}

/// A thread or a task that waits for a sync.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) sequence: SequenceNumber,
    pub(super) waker: Waker,
    /// The waiting thread, which can lead the next sync. `None` for a task: the sync thread leads.
    pub(super) thread: Option<ThreadId>,
}

impl Waiter {
    fn wake(self) {
        self.waker.wake();
    }
}

/// A waker that unparks one thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn unpark_me() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

impl Wakes for SharedSync {
    /// Wakes all waiters, so that they notice that the store has failed.
    fn wake_everyone(&self) {
        let everyone = std::mem::take(&mut lock(&self.progress).waiters);
        everyone.into_iter().for_each(Waiter::wake);
        self.changed.notify_all();
        self.ended.notify_all();
        self.values.wake();
    }
}

impl SharedSync {
    pub(crate) fn new(
        config: Arc<Config>,
        background: Background,
        clock: Arc<dyn Clock>,
        values: Arc<dyn Values>,
        health: Arc<Health>,
    ) -> SharedSync {
        SharedSync {
            config,
            background,
            clock,
            values: ValueSync::new(values, health.clone()),
            health,
            counters: SyncCounters::default(),
            progress: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            durable: CachePadded::new(AtomicU64::new(0)),
            oldest_unsynced: CachePadded::new(AtomicU64::new(NEVER)),
        }
    }

    pub(crate) fn counters(&self) -> &SyncCounters {
        &self.counters
    }

    /// How many threads and tasks are registered for a sync.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.progress).waiters.len()
    }

    pub(crate) fn want_segment(&self) {
        lock(&self.progress).wants_segment = true;
        self.changed.notify_all();
    }

    /// Ends the threads that sync. The owner of the store must sync the remaining changes, which
    /// wakes all waiters.
    pub(crate) fn close(&self) {
        self.end(End::Closing);
    }

    /// Ends the store: nothing becomes durable any more, and all waiters get `Closed`.
    pub(crate) fn abandon(&self) {
        self.end(End::Abandoned);
        self.wake_everyone();
    }

    fn end(&self, end: End) {
        lock(&self.progress).end = end;
        self.changed.notify_all();
        self.values.close();
    }

    /// Starts with everything up to `sequence` durable, as recovery found it.
    pub(crate) fn start(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
        progress.durable = sequence;
        self.durable.store(sequence, Ordering::Release);
    }

    /// Notes that changes are appended to this file from now on.
    pub(crate) fn begin_file(&self, file: &OpenFile) {
        lock(&self.progress).files.push(file.clone());
    }

    /// Notes that changes up to `sequence` were appended, and that the log ends at `end`.
    pub(crate) fn appended(&self, sequence: SequenceNumber, end: LogMark) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
        progress.end_appended = end;
        if progress.unsynced_since.is_none() {
            progress.unsynced_since = Some(self.clock.now());
            self.note_oldest(&progress);
        }
        if progress.awaits_write {
            self.changed.notify_all();
        }
    }

    pub(crate) fn durable(&self) -> SequenceNumber {
        self.durable.load(Ordering::Acquire)
    }

    /// Returns the last durable change, and the end of the log after it. For a log that this
    /// process has not appended to, only the manifest has the end.
    pub(crate) fn durable_end(&self) -> (SequenceNumber, LogMark) {
        let progress = lock(&self.progress);
        (progress.durable, progress.end_durable)
    }

    fn note_oldest(&self, progress: &Progress) {
        let oldest = progress.syncing_since.or(progress.unsynced_since);
        let nanoseconds = oldest.map_or(NEVER, |since| since.as_nanos() as u64);
        self.oldest_unsynced.store(nanoseconds, Ordering::Release);
    }

    /// Why nothing becomes durable any more; `None` while syncs go on.
    pub(super) fn is_over(&self, progress: &Progress) -> Option<Error> {
        let failure = self.health.failure().cloned();
        failure.or((progress.end == End::Abandoned).then_some(Error::Closed))
    }
}

impl SharedSync {
    /// Makes everything that was appended before the call durable, values included.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let target = lock(&self.progress).appended;
        self.sync_through(target)
    }

    /// Returns once everything up to `sequence` is durable; shares a running sync. Errors: the
    /// failure of the store; `Closed` if it was abandoned.
    pub(crate) fn sync_through(&self, sequence: SequenceNumber) -> Result<()> {
        while self.durable() < sequence {
            let mut progress = lock(&self.progress);
            if progress.durable >= sequence {
                return Ok(());
            }
            if let Some(error) = self.is_over(&progress) {
                return Err(error);
            }
            // A thread that was unparked for another reason is still registered.
            let me = thread::current().id();
            let is_mine = |waiter: &Waiter| waiter.thread == Some(me);
            let registered = progress.waiters.iter().position(is_mine);
            if !progress.running {
                registered.map(|index| progress.waiters.swap_remove(index));
                self.lead_sync(progress)?;
                continue;
            }
            if registered.is_none() {
                progress.waiters.push(Waiter {
                    sequence,
                    waker: unpark_me(),
                    thread: Some(me),
                });
            }
            drop(progress);
            thread::park();
        }
        Ok(())
    }

    /// Syncs the changes that have been appended, and wakes their waiters.
    pub(super) fn lead_sync(&self, progress: MutexGuard<'_, Progress>) -> Result<()> {
        let _guard = PanicGuard::new(&self.health, "a sync");
        let task = self.begin_sync(progress);
        // The files are synced in the order of the writes, so that a power cut leaves a prefix.
        let synced = task
            .files
            .iter()
            .try_for_each(OpenFile::sync)
            .inspect_err(|error| self.health.fail(error))
            .and_then(|()| self.values.finish());
        count(&self.counters.syncs, 1);
        self.end_sync(&task, synced)
    }

    fn begin_sync(&self, mut progress: MutexGuard<'_, Progress>) -> SyncTask {
        progress.running = true;
        progress.syncing_since = progress.unsynced_since.take();
        self.values.begin();
        SyncTask {
            target: progress.appended,
            end: progress.end_appended,
            files: progress.files.clone(),
        }
    }

    /// Notes the result of a sync, and wakes the waiters that it has served: all if it failed.
    fn end_sync(&self, task: &SyncTask, synced: Result<()>) -> Result<()> {
        let mut progress = lock(&self.progress);
        progress.running = false;
        // The sync of another thread may have failed while this one succeeded.
        let synced = synced.and_then(|()| self.is_over(&progress).map_or(Ok(()), Err));
        if synced.is_ok() {
            progress.durable = progress.durable.max(task.target);
            progress.end_durable = task.end;
            // The last file stays, because it may have been appended to meanwhile.
            progress.files.drain(..task.files.len().saturating_sub(1));
            self.durable.store(progress.durable, Ordering::Release);
            progress.syncing_since = None;
            self.note_oldest(&progress);
        }
        self.ended.notify_all();
        let ready = progress.take_ready(synced.is_err());
        let tasks_wait = !progress.waiters.is_empty();
        drop(progress);
        ready.into_iter().for_each(Waiter::wake);
        if tasks_wait {
            self.changed.notify_all();
        }
        synced
    }

    /// The loop of the thread that syncs the value log for the leaders of syncs.
    pub(crate) fn value_sync_loop(&self) {
        self.values.serve();
    }
}

impl Progress {
    /// Takes out the waiters whose wait is over, and first of all one thread to lead the next sync.
    fn take_ready(&mut self, all: bool) -> Vec<Waiter> {
        let durable = self.durable;
        let is_ready = |waiter: &Waiter| all || waiter.sequence <= durable;
        let (mut ready, waiting): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(is_ready);
        self.waiters = waiting;
        let is_thread = |waiter: &Waiter| waiter.thread.is_some();
        if let Some(next) = self.waiters.iter().position(is_thread) {
            ready.insert(0, self.waiters.swap_remove(next));
        }
        ready
    }
}
