//! Syncs of the log, shared: one covers everyone whose batch was appended before it began, and while it runs the next group forms;
//! the first to be woken after it leads the next.
//!
//! Invariant: what counts as durable was synced in the order of the sequence numbers, values before the pointers to them; after
//! a failed sync nothing is written any more.

use crate::Result;
use crate::config::{Background, Durability};
use crate::files::OpenFile;
use crate::key::SequenceNumber;
use crate::stats::count;
use crate::store::{PanicGuard, Store, lock};
use crate::version::{Field, VersionEdit, WalMeta};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// How long a sync waits for writers that are expected: less than it takes itself.
const GATHER_MAX: Duration = Duration::from_micros(80);

/// How often it looks for them at most, whatever the clock says.
const GATHER_TRIES: usize = 1000;

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
    /// Whether the sync thread waits for the next write. Later ones need not wake it: it looks again after its interval.
    awaits_write: bool,
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
        progress.awaits_write = true;
        progress = match progress.is_at_rest {
            true => {
                let waited = self.changed.wait_while(progress, idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
            false => {
                let waited = self.changed.wait_timeout_while(progress, limit, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        progress.awaits_write = false;
        progress.is_at_rest = idle(&mut progress);
        !progress.is_at_rest
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

    pub(crate) fn want_segment(&self) {
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

    pub(crate) fn appended(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
        if progress.awaits_write {
            self.changed.notify_all();
        }
    }

    pub(crate) fn durable(&self) -> SequenceNumber {
        self.durable.load(Ordering::Acquire)
    }
}

impl Store {
    /// Makes everything that was appended before the call durable: the value log first, because a pointer that survives
    /// a crash must find its value.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let target = lock(&self.sync.progress).appended;
        self.sync_through(target)
    }

    /// As [`Store::sync_all`], and notes in the manifest how far the log is durable: damage to it before that is never taken for
    /// a torn tail. Frames say the same of the frames before them, but nothing follows the last one before a rest.
    pub(crate) fn sync_and_mark(&self) -> Result<()> {
        let (target, (number, end)) = self.with_log(|log| {
            let target = lock(&self.sync.progress).appended;
            let wal = log.wal.as_ref();
            (
                target,
                wal.map_or(log.previous, |wal| (wal.number(), wal.end())),
            )
        });
        self.sync_through(target)?;
        let mut manifest = lock(&self.manifest);
        let is_news = |meta: &WalMeta| meta.end.is_none() && meta.durable < end;
        // A segment that is not listed any more has been flushed.
        if !manifest.state.wals.get(&number).is_some_and(is_news) {
            return Ok(());
        }
        let fields = vec![Field::MarkWal(number, end)];
        let marked = manifest.append(VersionEdit { fields });
        drop(manifest);
        marked.inspect_err(|error| self.note_failure(error))
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

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &self.0 {
            None => Poll::Ready(Ok(())),
            Some((store, sequence)) => store.poll_sync(*sequence, context.waker()),
        }
    }
}
