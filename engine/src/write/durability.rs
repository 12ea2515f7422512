//! Syncs of the log, shared: one covers everyone whose batch was appended before it began, and while it runs the next group forms;
//! the first to be woken after it leads the next.
//!
//! The value log is synced at the same time as the log, by a thread of its own where there is one: a power cut may leave a frame
//! without its value, and then the log ends there.
//!
//! Invariant: changes that count as durable were synced in the order of their sequence numbers, with the values they point to;
//! after a failed sync nothing is written any more.

use crate::Result;
use crate::base::config::{Background, Config, Durability};
use crate::base::counter::count;
use crate::base::health::{Health, PanicGuard, Wakes};
use crate::base::key::SequenceNumber;
use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread, ThreadId};
use crate::base::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::fs::Clock;
use crate::fs::directory::OpenFile;
use crate::values::ValueLog;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// How long a sync waits for writers that are expected: less than it takes itself.
const GATHER_MAX: Duration = Duration::from_micros(80);

/// Most times that it looks for them, in case the clock does not advance.
const GATHER_TRIES: usize = 1000;

/// After how long without a write the store is at rest: spare log segments are removed, and the log is marked as durable.
const REST: Duration = Duration::from_millis(250);

/// A change is synced when it is one interval old. When it is this many intervals old and still not synced, because syncs take
/// long, writes wait: so much is the most that a power cut takes.
const INTERVALS_MAX: u32 = 4;

/// The least time after which writes wait, however short the interval.
const UNSYNCED_MIN: Duration = Duration::from_millis(20);

/// Stands for no time in `oldest_unsynced`.
const NEVER: u64 = u64::MAX;

/// The next task of the sync thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Make a log segment ready.
    Segment,
    /// Sync the changes that were appended.
    Sync,
    /// Everything is synced, and nothing was written for a while. Returned once for each rest.
    Rest,
}

/// The values that the log points to. A sync of the log makes them durable too.
pub(crate) trait Values: Send + Sync + fmt::Debug {
    fn is_unsynced(&self) -> bool;
    fn sync(&self) -> Result<()>;
}

impl Values for ValueLog {
    fn is_unsynced(&self) -> bool {
        ValueLog::is_unsynced(self)
    }

    fn sync(&self) -> Result<()> {
        ValueLog::sync(self)
    }
}

/// Counted since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct SyncCounters {
    pub(crate) syncs: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stalled_microseconds: AtomicU64,
}

/// How far the log is synced, and the threads and tasks that wait for more.
#[derive(Debug)]
pub(crate) struct SharedSync {
    config: Arc<Config>,
    background: Background,
    clock: Arc<dyn Clock>,
    value_log: Arc<dyn Values>,
    health: Arc<Health>,
    counters: SyncCounters,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// Notified when a sync ends.
    ended: Condvar,
    /// Notified when a sync of the value log is wanted.
    values_wanted: Condvar,
    /// On a cache line of its own, like the other numbers that all writers change: 64 threads commit 5 % more a second, and tickets 9 %
    /// more (workload `commits` of `benches/engine`).
    durable: CachePadded<AtomicU64>,
    /// When the oldest change that is not durable was appended, in nanoseconds of the clock, or `NEVER`.
    oldest_unsynced: CachePadded<AtomicU64>,
}

#[derive(Debug, Default)]
struct Progress {
    appended: SequenceNumber,
    durable: SequenceNumber,
    /// The segments with changes that are not durable; the last of them is being appended to.
    files: Vec<OpenFile>,
    /// Whether a segment is to be made ready.
    wants_segment: bool,
    /// Whether the sync thread knows that nothing has been written for a while.
    is_at_rest: bool,
    /// When the oldest change was appended that the sync under way is for.
    syncing_since: Option<Duration>,
    /// When the oldest change was appended that no sync has begun for.
    unsynced_since: Option<Duration>,
    /// Whether the sync thread waits for the next write. Later ones need not wake it: it looks again after its interval.
    awaits_write: bool,
    running: bool,
    values: ValueSync,
    waiters: Vec<Waiter>,
    /// How many the last sync was for, and came while it ran.
    present: usize,
    closed: bool,
}

/// How far the sync of the value log is that the leader of a sync has asked for.
#[derive(Debug, Default)]
enum ValueSync {
    #[default]
    Unwanted,
    Wanted,
    Running,
    Ended(Result<()>),
}

impl Wakes for SharedSync {
    /// Wakes all waiters so that they see that the store has failed.
    fn wake_everyone(&self) {
        let everyone = std::mem::take(&mut lock(&self.progress).waiters);
        everyone.into_iter().for_each(|waiter| waiter.waker.wake());
        self.changed.notify_all();
        self.ended.notify_all();
        self.values_wanted.notify_all();
    }
}

impl SharedSync {
    pub(crate) fn new(
        config: Arc<Config>,
        background: Background,
        clock: Arc<dyn Clock>,
        value_log: Arc<dyn Values>,
        health: Arc<Health>,
    ) -> SharedSync {
        SharedSync {
            config,
            background,
            clock,
            value_log,
            health,
            counters: SyncCounters::default(),
            progress: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            values_wanted: Condvar::new(),
            durable: CachePadded::new(AtomicU64::new(0)),
            oldest_unsynced: CachePadded::new(AtomicU64::new(NEVER)),
        }
    }

    pub(crate) fn counters(&self) -> &SyncCounters {
        &self.counters
    }

    /// A writer has waited since `began`.
    pub(crate) fn count_stall(&self, began: Duration) {
        let waited = self.clock.now().saturating_sub(began);
        count(&self.counters.stalls, 1);
        count(
            &self.counters.stalled_microseconds,
            waited.as_micros() as u64,
        );
    }

    /// How many threads and tasks are registered for a sync.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.progress).waiters.len()
    }

    /// The last sequence number that was appended.
    pub(super) fn last_appended(&self) -> SequenceNumber {
        lock(&self.progress).appended
    }

    pub(crate) fn want_segment(&self) {
        lock(&self.progress).wants_segment = true;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        lock(&self.progress).closed = true;
        self.changed.notify_all();
        self.values_wanted.notify_all();
    }

    /// Everything up to `sequence` is durable, as recovery found it.
    pub(crate) fn start(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
        progress.durable = sequence;
        self.durable.store(sequence, Ordering::Release);
    }

    /// From now on changes are appended to this file.
    pub(crate) fn begin_file(&self, file: &OpenFile) {
        lock(&self.progress).files.push(file.clone());
    }

    pub(crate) fn appended(&self, sequence: SequenceNumber) {
        let mut progress = lock(&self.progress);
        progress.appended = sequence;
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

    fn note_oldest(&self, progress: &Progress) {
        let oldest = progress.syncing_since.or(progress.unsynced_since);
        let nanoseconds = oldest.map_or(NEVER, |since| since.as_nanos() as u64);
        self.oldest_unsynced.store(nanoseconds, Ordering::Release);
    }
}

impl SharedSync {
    /// Waits for something that the sync thread is to do. A segment comes first, because a commit may need it, and takes nothing
    /// from the time that a change may wait for its sync.
    pub(crate) fn wait_for_due(&self) -> Due {
        let state = self;
        let interval = Duration::from_millis(self.config.sync_milliseconds);
        let mut progress = lock(&state.progress);
        while !progress.closed && self.health.failure().is_none() {
            if std::mem::take(&mut progress.wants_segment) {
                return Due::Segment;
            }
            if progress.appended == progress.durable {
                let limit = (!progress.is_at_rest).then_some(REST);
                progress.awaits_write = true;
                let is_over;
                (progress, is_over) = wait(&state.changed, progress, limit);
                progress.awaits_write = false;
                if is_over && progress.appended == progress.durable {
                    progress.is_at_rest = true;
                    return Due::Rest;
                }
                continue;
            }
            progress.is_at_rest = false;
            let awaited =
                self.config.durability == Durability::Disk && !progress.waiters.is_empty();
            let age = progress.unsynced_since.map_or(Duration::ZERO, |since| {
                self.clock.now().saturating_sub(since)
            });
            let left = interval.saturating_sub(age);
            if awaited || left.is_zero() {
                return Due::Sync;
            }
            let is_over;
            (progress, is_over) = wait(&state.changed, progress, Some(left));
            if is_over {
                return Due::Sync;
            }
        }
        Due::Sync
    }

    /// Whether the oldest change that is not durable is older than `part` quarters of the limit.
    pub(crate) fn is_sync_late(&self, part: u32) -> bool {
        let oldest = self.oldest_unsynced.load(Ordering::Acquire);
        if oldest == NEVER || self.config.durability != Durability::Process {
            return false;
        }
        let interval = Duration::from_millis(self.config.sync_milliseconds);
        let limit = interval.saturating_mul(INTERVALS_MAX).max(UNSYNCED_MIN);
        let age = self
            .clock
            .now()
            .saturating_sub(Duration::from_nanos(oldest));
        age >= limit / 4 * part
    }

    /// Makes a writer wait while the oldest change that is not durable is too old: for the sync that is under way, or by leading
    /// one. The caller holds no lock.
    pub(crate) fn await_late_sync(&self) -> Result<()> {
        if !self.is_sync_late(4) {
            return Ok(());
        }
        let began = self.clock.now();
        let synced = self.end_late_syncs();
        self.count_stall(began);
        synced
    }

    fn end_late_syncs(&self) -> Result<()> {
        while self.is_sync_late(4) {
            self.health.check_writable()?;
            let progress = lock(&self.progress);
            if progress.running {
                // A sync that panicked does not end, but fails the store.
                let is_running =
                    |progress: &mut Progress| progress.running && self.health.failure().is_none();
                let waited = self.ended.wait_while(progress, is_running);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                self.lead_sync(progress)?;
            }
        }
        Ok(())
    }

    /// Makes everything that was appended before the call durable: the value log first, because a pointer that survives
    /// a crash must find its value.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let target = lock(&self.progress).appended;
        self.sync_through(target)
    }

    /// Returns once everything up to `sequence` is durable; shares a sync that is under way.
    pub(crate) fn sync_through(&self, sequence: SequenceNumber) -> Result<()> {
        while self.durable() < sequence {
            let mut progress = lock(&self.progress);
            if progress.durable >= sequence {
                return Ok(());
            }
            if let Some(failure) = self.health.failure() {
                return Err(failure.clone());
            }
            // One that was unparked by something else is registered still.
            let me = thread::current().id();
            let registered = progress
                .waiters
                .iter()
                .position(|waiter| waiter.thread == Some(me));
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
    fn lead_sync(&self, progress: MutexGuard<'_, Progress>) -> Result<()> {
        let _guard = PanicGuard::new(&self.health, "a sync");
        let (target, files) = self.begin_sync(progress);
        // In the order in which they were written, so that a power cut leaves a prefix.
        let synced = files
            .iter()
            .try_for_each(OpenFile::sync)
            .and_then(|()| self.end_value_sync());
        count(&self.counters.syncs, 1);
        if let Err(error) = &synced {
            self.health.fail(error);
        }
        self.end_sync(target, files.len(), synced.is_ok());
        synced
    }

    /// The last change that a sync is for, and the files of the log that it syncs.
    fn begin_sync(
        &self,
        mut progress: MutexGuard<'_, Progress>,
    ) -> (SequenceNumber, Vec<OpenFile>) {
        progress.running = true;
        let mut progress = self.gather(progress);
        progress.syncing_since = progress.unsynced_since.take();
        if self.value_log.is_unsynced() {
            progress.values = ValueSync::Wanted;
            self.values_wanted.notify_one();
        }
        (progress.appended, progress.files.clone())
    }

    /// Notes the result of a sync of that many files up to `target`, and wakes the waiters that it has served: all if it failed.
    fn end_sync(&self, target: SequenceNumber, files: usize, is_synced: bool) {
        let mut progress = lock(&self.progress);
        progress.running = false;
        progress.present = progress.waiters.len() + 1;
        if is_synced {
            progress.durable = progress.durable.max(target);
            // The last may have been appended to meanwhile.
            progress.files.drain(..files.saturating_sub(1));
            self.durable.store(progress.durable, Ordering::Release);
            progress.syncing_since = None;
            self.note_oldest(&progress);
        }
        self.ended.notify_all();
        let ready = progress.take_ready(!is_synced);
        let tasks_wait = !progress.waiters.is_empty();
        drop(progress);
        ready.into_iter().for_each(|waiter| waiter.waker.wake());
        if tasks_wait {
            self.changed.notify_all();
        }
    }

    /// Waits for the sync of the value log that was wanted, or does it if no thread has begun.
    fn end_value_sync(&self) -> Result<()> {
        let is_running = |progress: &mut Progress| {
            matches!(progress.values, ValueSync::Running) && self.health.failure().is_none()
        };
        let waited = self.ended.wait_while(lock(&self.progress), is_running);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut progress.values) {
            ValueSync::Unwanted => Ok(()),
            ValueSync::Wanted => {
                drop(progress);
                self.value_log.sync()
            }
            ValueSync::Ended(synced) => synced,
            // The thread has panicked, or another sync has failed.
            ValueSync::Running => self.health.check_writable(),
        }
    }

    /// The loop of the thread that syncs the value log for the leaders of syncs.
    pub(crate) fn value_sync_loop(&self) {
        loop {
            let is_idle = |progress: &mut Progress| {
                !matches!(progress.values, ValueSync::Wanted)
                    && !progress.closed
                    && self.health.failure().is_none()
            };
            let state = self;
            let waited = state
                .values_wanted
                .wait_while(lock(&state.progress), is_idle);
            let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
            if !matches!(progress.values, ValueSync::Wanted) || self.health.failure().is_some() {
                return;
            }
            progress.values = ValueSync::Running;
            drop(progress);
            let synced = self.value_log.sync();
            lock(&state.progress).values = ValueSync::Ended(synced);
            state.ended.notify_all();
        }
    }

    /// Waits a moment for the writers that the last sync has served: they are about to come back with their next batches. One sync
    /// then serves them and the writers that came meanwhile, instead of two syncs in turn: 8 threads take half as many syncs for each
    /// commit (`commits` of `lazurite-engine-bench`).
    fn gather<'a>(&'a self, mut progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        let expected = progress.present;
        if self.background.is_stepped() || progress.waiters.len() + 1 >= expected {
            return progress;
        }
        let end = self.clock.now() + GATHER_MAX;
        for _ in 0..GATHER_TRIES {
            if progress.waiters.len() + 1 >= expected || self.clock.now() >= end {
                break;
            }
            drop(progress);
            thread::yield_now();
            progress = lock(&self.progress);
        }
        progress
    }

    fn poll_sync(
        &self,
        registered: &mut Option<Waker>,
        sequence: SequenceNumber,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        if self.durable() >= sequence {
            return Poll::Ready(Ok(()));
        }
        if self.background.is_stepped() {
            return Poll::Ready(self.sync_through(sequence));
        }
        let mut progress = lock(&self.progress);
        if progress.durable >= sequence {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = self.health.failure() {
            return Poll::Ready(Err(failure.clone()));
        }
        if progress.closed {
            drop(progress);
            return Poll::Ready(self.sync_through(sequence));
        }
        // It stays registered until the sync that it waits for has ended, however often it is polled.
        if !registered
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            *registered = Some(waker.clone());
            progress.waiters.push(Waiter {
                sequence,
                waker: waker.clone(),
                thread: None,
            });
            self.changed.notify_all();
        }
        Poll::Pending
    }

    /// The ticket of the batch whose last sequence number this is.
    pub(crate) fn ticket(self: &Arc<Self>, sequence: SequenceNumber) -> Ticket {
        match self.config.durability {
            Durability::Memory | Durability::Process => Ticket::ready(),
            Durability::Disk => Ticket(Some(Awaited {
                sync: self.clone(),
                sequence,
                registered: None,
            })),
        }
    }
}

/// Waits to be notified, at most `limit`. Answers whether the time is over.
fn wait<'a>(
    condition: &Condvar,
    progress: MutexGuard<'a, Progress>,
    limit: Option<Duration>,
) -> (MutexGuard<'a, Progress>, bool) {
    match limit {
        None => {
            let waited = condition.wait(progress);
            (waited.unwrap_or_else(PoisonError::into_inner), false)
        }
        Some(limit) => {
            let waited = condition.wait_timeout(progress, limit);
            let (progress, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            (progress, timeout.timed_out())
        }
    }
}

/// A thread or a task that waits for a sync.
#[derive(Debug)]
struct Waiter {
    sequence: SequenceNumber,
    waker: Waker,
    /// A thread can lead the next sync; for tasks, which have none, the sync thread does.
    thread: Option<ThreadId>,
}

/// Unparks the thread that it was made for.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn unpark_me() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

impl Progress {
    /// Takes out the waiters whose wait is over, and first of all one thread to lead the next sync.
    fn take_ready(&mut self, all: bool) -> Vec<Waiter> {
        let durable = self.durable;
        let is_ready = |waiter: &Waiter| all || waiter.sequence <= durable;
        let (mut ready, waiting): (Vec<_>, Vec<_>) = self.waiters.drain(..).partition(is_ready);
        self.waiters = waiting;
        if let Some(next) = self
            .waiters
            .iter()
            .position(|waiter| waiter.thread.is_some())
        {
            ready.insert(0, self.waiters.swap_remove(next));
        }
        ready
    }
}

/// Completes when a write has reached its durability level. Wait on it (a thread) or await it (a task).
#[must_use = "a write is acknowledged only once its ticket has completed"]
pub struct Ticket(Option<Awaited>);

/// The sync that a ticket waits for.
struct Awaited {
    sync: Arc<SharedSync>,
    sequence: SequenceNumber,
    /// The waker of the task that is registered for it.
    registered: Option<Waker>,
}

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
            Some(awaited) => awaited.sync.sync_through(awaited.sequence),
        }
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.get_mut().0 {
            None => Poll::Ready(Ok(())),
            Some(awaited) => {
                let Awaited {
                    sync,
                    sequence,
                    registered,
                } = awaited;
                sync.poll_sync(registered, *sequence, context.waker())
            }
        }
    }
}
