//! Runs group commit, shared syncs and the locks of keys in many orders of their steps (shuttle):
//! no thread or task waits for ever, whatever fails.

#[path = "../src/base/config.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod config;
#[path = "../src/base/counter.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod counter;
#[path = "../src/base/error.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod error;
#[path = "../src/base/health.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod health;
#[path = "../src/base/mutex.rs"]
#[allow(dead_code, reason = "tests use a part of it")]
mod mutex;

/// The parts of the engine that the files below use, with shuttle's locks, atomics and threads.
mod base {
    pub(crate) use crate::{config, counter, health, mutex};

    pub mod key {
        pub type SequenceNumber = u64;
    }
    pub mod sync {
        pub use shuttle::hint::spin_loop;
        pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
        pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
        pub use shuttle::thread_local;

        /// Time stands still: `park_timeout` waits until it is woken, as `park` does.
        pub mod thread {
            pub use shuttle::thread::{Thread, ThreadId, current, park, park_timeout};
        }
    }
}

#[path = "../src/write"]
#[allow(dead_code, reason = "tests use a part of it")]
mod write {
    pub(crate) mod key_locks;
    pub(crate) mod queue;
    pub(crate) mod shared_sync;
    pub(crate) mod sync_schedule;
    pub(crate) mod ticket;
    pub(crate) mod value_sync;
}

#[path = "../src/values"]
#[allow(dead_code, reason = "tests use a part of it")]
mod values {
    pub(crate) mod segments;
}

mod format {
    pub mod edit {
        /// A place in the log.
        pub type LogMark = (u64, u64);

        /// The entry of a segment in the manifest.
        #[derive(Debug, Clone, Copy)]
        #[allow(dead_code, reason = "tests use a part of it")]
        pub struct SegmentMeta {
            pub size: u64,
            pub checksum: Option<u64>,
        }
    }
}

pub use config::Config;
use config::{Background, Durability};
pub use error::{Error, Result};
use format::edit::LogMark;
use fs::directory::OpenFile;
use health::{Health, Wakes};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use values::segments::{Room, Segments, Writable};
use write::key_locks::{KeyLocks, LockedKey, Mode};
use write::queue::{CommitQueue, Queued, Request, Stages};
use write::shared_sync::SharedSync;
use write::value_sync::Values;

/// A log and a clock that live in memory.
mod fs {
    use std::fmt::Debug;
    use std::time::Duration;

    pub trait Clock: Send + Sync + Debug {
        fn now(&self) -> Duration;
    }

    pub mod directory {
        use crate::{Error, Result};
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU64, Ordering};

        /// A file whose syncs take a while. Sync number `fails` fails.
        #[derive(Debug, Clone, Default)]
        pub struct OpenFile {
            pub syncs: Arc<AtomicU64>,
            pub fails: u64,
            /// The last number that was written, and the last that is durable.
            pub written: Arc<AtomicU64>,
            pub synced: Arc<AtomicU64>,
        }

        impl OpenFile {
            pub fn sync(&self) -> Result<()> {
                let written = self.written.load(Ordering::SeqCst);
                shuttle::thread::yield_now();
                if self.syncs.fetch_add(1, Ordering::SeqCst) + 1 == self.fails {
                    let path = "log".as_ref();
                    return Err(Error::sync(path, std::io::ErrorKind::Other.into()));
                }
                self.synced.fetch_max(written, Ordering::SeqCst);
                Ok(())
            }

            pub fn length(&self) -> Result<u64> {
                Ok(self.written.load(Ordering::SeqCst))
            }
        }
    }
}

/// A clock that advances by a millisecond at each call, so a wait for other writers soon ends.
#[derive(Debug)]
struct FastClock(std::sync::atomic::AtomicU64);

impl fs::Clock for FastClock {
    fn now(&self) -> std::time::Duration {
        let now = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::time::Duration::from_millis(now)
    }
}

/// A value log without values.
#[derive(Debug)]
struct NoValues;

impl Values for NoValues {
    fn is_unsynced(&self) -> bool {
        false
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// Values that are written all the time: each sync of the log waits for theirs.
#[derive(Debug)]
struct BusyValues;

impl Values for BusyValues {
    fn is_unsynced(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<()> {
        thread::yield_now();
        Ok(())
    }
}

fn shared(fails: u64, values: Arc<dyn Values>) -> (Arc<SharedSync>, Arc<Health>) {
    let file = OpenFile {
        fails,
        ..OpenFile::default()
    };
    shared_on(&file, values)
}

fn shared_on(file: &OpenFile, values: Arc<dyn Values>) -> (Arc<SharedSync>, Arc<Health>) {
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let health = Arc::new(Health::default());
    let background = Background::Threads;
    let clock = Arc::new(FastClock(Default::default()));
    let sync = SharedSync::new(Arc::new(config), background, clock, values, health.clone());
    let sync = Arc::new(sync);
    health.add(sync.clone() as Arc<dyn Wakes>);
    sync.begin_file(file);
    (sync, health)
}

/// Runs writers that append in order and wait for their own changes. Returns how each wait ended.
fn write(sync: &Arc<SharedSync>, writers: u64) -> Vec<Result<()>> {
    let last = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..writers)
        .map(|_| {
            let (sync, last) = (sync.clone(), last.clone());
            thread::spawn(move || {
                let sequence = {
                    let mut last = last.lock().unwrap();
                    *last += 1;
                    sync.appended(*last, LogMark::default());
                    *last
                };
                sync.sync_through(sequence)
            })
        })
        .collect();
    let ended = threads.into_iter().map(|thread| thread.join().unwrap());
    ended.collect()
}

fn every_writer_is_served() {
    let (sync, _) = shared(0, Arc::new(NoValues));
    assert!(write(&sync, 3).iter().all(Result::is_ok));
    assert_eq!(sync.durable(), 3);
}

fn a_failed_sync_reaches_every_writer() {
    for fails in [1, 2] {
        let (sync, health) = shared(fails, Arc::new(NoValues));
        let failed = write(&sync, 3).iter().any(Result::is_err);
        assert_eq!(failed, health.failure().is_some());
        if failed {
            sync.appended(4, LogMark::default());
            assert!(sync.sync_through(4).is_err(), "a sync is tried again");
        }
    }
}

fn a_failure_from_elsewhere_reaches_every_writer() {
    let (sync, health) = shared(0, Arc::new(NoValues));
    let other = thread::spawn(move || health.fail(&Error::Closed));
    write(&sync, 3);
    other.join().unwrap();
}

fn values_are_synced_by_their_thread_or_by_the_leader() {
    let (sync, _) = shared(0, Arc::new(BusyValues));
    let values = {
        let sync = sync.clone();
        thread::spawn(move || sync.value_sync_loop())
    };
    assert!(write(&sync, 2).iter().all(Result::is_ok));
    sync.close();
    values.join().unwrap();
}

/// Counts how often it wakes.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each writer of an abandoned store is answered, with `Ok` only if its change is durable.
fn an_abandoned_store_answers_all_waiters() {
    let (sync, _) = shared(0, Arc::new(NoValues));
    sync.appended(1, LogMark::default());
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let sync = sync.clone();
            thread::spawn(move || sync.ticket(1).wait())
        })
        .collect();
    let mut ticket = Box::pin(sync.ticket(1));
    let woken = Arc::new(Woken::default());
    let waker = woken.clone().into();
    let mut context = Context::from_waker(&waker);
    let polled = ticket.as_mut().poll(&mut context);
    sync.close();
    sync.abandon();
    for thread in threads {
        let waited = thread.join().unwrap();
        let is_durable = sync.durable() == 1;
        assert!(is_durable || matches!(waited, Err(Error::Closed)));
    }
    if polled.is_pending() {
        assert!(woken.0.load(Ordering::SeqCst) > 0, "it is not woken");
        assert!(ticket.as_mut().poll(&mut context).is_ready());
    }
}

/// The value log of a store: its segments, and what each of their files holds.
struct ValueSegments {
    segments: Segments,
    files: Mutex<Vec<OpenFile>>,
    fails: u64,
}

impl ValueSegments {
    fn new(fails: u64) -> (Arc<ValueSegments>, Arc<Health>) {
        let health = Arc::new(Health::default());
        let segments = Segments::new(Default::default(), 2, health.clone());
        let files = Mutex::default();
        let log = ValueSegments {
            segments,
            files,
            fails,
        };
        (Arc::new(log), health)
    }

    /// Writes a value of one byte. Returns its segment, its end in the file, and its pin.
    fn write(&self) -> Result<(u64, u64, values::segments::Pin)> {
        let room = Room {
            length: 1,
            preferred: None,
            filler: |_| 0,
        };
        let place = match self.segments.reserve(room, false)? {
            Some(place) => place,
            None => {
                let file = OpenFile {
                    fails: self.fails,
                    ..OpenFile::default()
                };
                let mut files = self.files.lock().unwrap();
                files.push(file.clone());
                let number = files.len() as u64;
                drop(files);
                self.segments.begin(Writable::new(number, file, 0), room)?
            }
        };
        let end = place.offset + 1;
        place.segment.file.written.fetch_max(end, Ordering::SeqCst);
        self.segments.settle(&place, Ok(1))?;
        Ok((place.segment.number, end, place.pin))
    }

    fn synced(&self, number: u64) -> u64 {
        let files = self.files.lock().unwrap();
        files[number as usize - 1].synced.load(Ordering::SeqCst)
    }
}

/// Writers wait for the sync of their values while another thread seals. A sync that succeeds
/// covers everything written before it; after a failed sync no other succeeds.
fn a_failed_sync_of_values_is_final() {
    for fails in [0, 1, 2] {
        let (log, health) = ValueSegments::new(fails);
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let (log, health) = (log.clone(), health.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let (number, end, _pin) = log.write().unwrap();
                        let had_failed = health.failure().is_some();
                        if log.segments.sync().is_ok() {
                            assert!(!had_failed, "a sync succeeds after one has failed");
                            assert!(log.synced(number) >= end, "the value is not durable");
                        } else {
                            assert!(health.failure().is_some(), "the failure is not known");
                        }
                    }
                })
            })
            .collect();
        threads.push({
            let log = log.clone();
            thread::spawn(move || {
                let sealed = Mutex::new(Vec::new());
                let record = |number, meta: format::edit::SegmentMeta| {
                    sealed.lock().unwrap().push((number, meta.size));
                    Ok(())
                };
                let _ = log.segments.seal_all(record);
                let _ = log.segments.seal_idle(record);
                for (number, size) in sealed.into_inner().unwrap() {
                    assert_eq!(
                        log.synced(number),
                        size,
                        "it is sealed before it is durable"
                    );
                }
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(fails > 0 || !log.segments.is_unsynced());
    }
}

/// Readers pin a segment while a collection removes it: it stays for the reader, or it is gone for
/// good.
fn a_segment_is_pinned_or_gone() {
    for records in [true, false] {
        let (log, _) = ValueSegments::new(0);
        let (number, _, pin) = log.write().unwrap();
        drop(pin);
        log.segments.seal_all(|_, _| Ok(())).unwrap();
        let removed = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let (log, removed) = (log.clone(), removed.clone());
                thread::spawn(move || {
                    let pinned = log.segments.pin([number].into_iter());
                    if let Some(_pins) = pinned {
                        thread::yield_now();
                        assert_eq!(removed.load(Ordering::SeqCst), 0, "its file is gone");
                    }
                })
            })
            .collect();
        threads.push({
            let (log, removed) = (log.clone(), removed.clone());
            thread::spawn(move || {
                let removal = log.segments.begin_removal(&[number]);
                thread::yield_now();
                if !removal.numbers().is_empty() && records {
                    removal.complete();
                    removed.store(1, Ordering::SeqCst);
                    assert!(!log.segments.contains(number), "it comes back");
                }
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let is_gone = removed.load(Ordering::SeqCst) == 1;
        assert_eq!(log.segments.contains(number), !is_gone);
    }
}

/// A task and a thread wait for the same sync. The task is woken, whether the sync succeeds or
/// fails.
fn a_task_is_woken_when_its_sync_has_ended_or_failed() {
    for fails in [0, 1] {
        let (sync, _) = shared(fails, Arc::new(NoValues));
        let syncs = {
            let sync = sync.clone();
            thread::spawn(move || {
                sync.wait_for_due();
                let _ = sync.sync_all();
            })
        };
        sync.appended(1, LogMark::default());
        let mut ticket = Box::pin(sync.ticket(1));
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut context = Context::from_waker(&waker);
        let polled = ticket.as_mut().poll(&mut context);
        syncs.join().unwrap();
        if polled.is_pending() {
            assert!(woken.0.load(Ordering::SeqCst) > 0, "it is not woken");
            let polled = ticket.as_mut().poll(&mut context);
            assert!(matches!(&polled, Poll::Ready(done) if done.is_ok() == (fails == 0)));
        }
    }
}

/// A batch of this many changes. The log is represented by its last sequence number.
#[derive(Debug)]
struct Changes(u64);

impl Queued for Changes {
    fn bytes(&self) -> usize {
        1
    }

    fn count(&self) -> u64 {
        self.0
    }
}

/// A store reduced to two sequence numbers: the last one applied, and the last one visible.
#[derive(Debug)]
struct Store {
    file: OpenFile,
    sync: Arc<SharedSync>,
    health: Arc<Health>,
    applied: AtomicU64,
    visible: AtomicU64,
}

impl Stages for Store {
    type Batch = Changes;
    type Log = u64;
    type Applied = ();

    fn log(&self, log: &mut u64, group: &[Arc<Request<Changes>>]) -> Result<u64> {
        self.health.check_writable()?;
        let first = *log + 1;
        *log += group.iter().map(|request| request.batch().0).sum::<u64>();
        self.file.written.store(*log, Ordering::SeqCst);
        self.sync.appended(*log, LogMark::default());
        Ok(first)
    }

    fn apply(&self, group: &[Arc<Request<Changes>>], first: u64) {
        let mut next = first;
        for request in group {
            thread::yield_now();
            let count = request.batch().0;
            assert_eq!(self.applied.fetch_add(count, Ordering::SeqCst) + 1, next);
            next += count;
        }
    }

    fn publish(&self, last: u64, (): ()) {
        assert_eq!(self.applied.load(Ordering::SeqCst), last);
        let before = self.visible.swap(last, Ordering::SeqCst);
        assert!(before < last, "sequence numbers are published in order");
    }
}

/// Commits batches of 1, 2 and 3 changes, and waits for the disk after each. Returns the store and
/// its queue.
fn commit_and_wait(fails: u64) -> (Arc<Store>, Arc<CommitQueue<Store>>) {
    let file = OpenFile {
        fails,
        ..OpenFile::default()
    };
    let (sync, health) = shared_on(&file, Arc::new(NoValues));
    let queue = Arc::new(CommitQueue::new(health.clone(), 0));
    let store = Arc::new(Store {
        file,
        sync,
        health,
        applied: AtomicU64::new(0),
        visible: AtomicU64::new(0),
    });
    let mut threads: Vec<_> = (1..=3)
        .map(|count| {
            let (store, queue) = (store.clone(), queue.clone());
            thread::spawn(move || {
                let committed = queue.commit(&*store, Changes(count));
                let waited = committed.and_then(|sequence| {
                    let visible = store.visible.load(Ordering::SeqCst);
                    assert!(visible >= sequence, "a commit returns before it is visible");
                    store.sync.ticket(sequence).wait()?;
                    let durable = store.file.synced.load(Ordering::SeqCst);
                    assert!(durable >= sequence, "a ticket completes before its sync");
                    Ok(())
                });
                assert!(waited.is_ok() || store.health.failure().is_some());
            })
        })
        .collect();
    // This thread seals memtables: it has the log to itself, between groups.
    threads.push({
        let (store, queue) = (store.clone(), queue.clone());
        thread::spawn(move || {
            queue.with_log(|log| {
                for _ in 0..2 {
                    let visible = store.visible.load(Ordering::SeqCst);
                    assert_eq!(*log, visible, "a group is half committed");
                    thread::yield_now();
                }
            });
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    (store, queue)
}

fn commits_are_visible_in_order_and_durable_once_their_tickets_complete() {
    let (store, queue) = commit_and_wait(0);
    assert_eq!(store.visible.load(Ordering::SeqCst), 6);
    assert_eq!(store.sync.durable(), 6);
    assert!(matches!(queue.commit(&*store, Changes(1)), Ok(7)));
}

fn a_failed_sync_reaches_every_commit() {
    for fails in [1, 2] {
        let (store, queue) = commit_and_wait(fails);
        let failed = store.health.failure().is_some();
        assert_eq!(queue.commit(&*store, Changes(1)).is_err(), failed);
    }
}

/// Transactions lock three keys, in any order and mode: each gets its locks, and no two share a key
/// that one of them has locked exclusively.
fn keys_are_had_by_one_writer_or_by_readers() {
    let locks = Arc::new(KeyLocks::default());
    let holders = Arc::new(Mutex::new([(0, 0); 3]));
    let key = |number: usize| LockedKey {
        rank: 0,
        hash: number as u128,
    };
    let wanted = [
        vec![(2, Mode::Exclusive), (0, Mode::Exclusive)],
        vec![(0, Mode::Shared), (1, Mode::Exclusive), (2, Mode::Shared)],
        vec![(2, Mode::Shared), (1, Mode::Shared), (2, Mode::Shared)],
        vec![(1, Mode::Exclusive), (2, Mode::Shared), (1, Mode::Shared)],
    ];
    let threads: Vec<_> = wanted
        .into_iter()
        .map(|wanted| {
            let (locks, holders) = (locks.clone(), holders.clone());
            thread::spawn(move || {
                let mut held = locks.begin();
                let mut keys: Vec<_> = wanted
                    .iter()
                    .map(|(number, mode)| (key(*number), *mode))
                    .collect();
                held.lock(keys.iter().copied().map(Ok)).unwrap();
                keys.sort_by(|a, b| b.cmp(a));
                keys.dedup_by_key(|(key, _)| *key);
                let change = |by: i32| {
                    let mut holders = holders.lock().unwrap();
                    for (key, mode) in &keys {
                        let (readers, writers) = &mut holders[key.hash as usize];
                        match mode {
                            Mode::Shared => *readers += by,
                            Mode::Exclusive => *writers += by,
                        }
                        assert!(*writers == 0 || (*readers, *writers) == (0, 1));
                    }
                };
                change(1);
                thread::yield_now();
                change(-1);
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Two transactions each lock a second key, one of them out of order: that one is refused, or both
/// get their keys.
fn locks_out_of_order_are_granted_or_refused_at_once() {
    let locks = Arc::new(KeyLocks::default());
    let threads: Vec<_> = [[0, 1], [1, 0]]
        .into_iter()
        .map(|order| {
            let locks = locks.clone();
            thread::spawn(move || {
                let mut held = locks.begin();
                for hash in order {
                    let key = LockedKey { rank: 0, hash };
                    match held.lock([Ok((key, Mode::Exclusive))]) {
                        Err(Error::Conflict) => assert_eq!(order, [1, 0]),
                        locked => locked.unwrap(),
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Threads that each hold a key ask for another thread's key in a second transaction, and one
/// thread makes a shared lock exclusive.
fn misuse_is_refused_and_never_waits() {
    let locks = Arc::new(KeyLocks::default());
    let key = |hash: u128, mode| [Ok((LockedKey { rank: 0, hash }, mode))];
    let mut threads: Vec<_> = [[0, 1], [1, 0]]
        .into_iter()
        .map(|[mine, other]| {
            let locks = locks.clone();
            thread::spawn(move || {
                let (mut first, mut second) = (locks.begin(), locks.begin());
                first.lock(key(mine, Mode::Exclusive)).unwrap();
                let locked = second.lock(key(other, Mode::Exclusive));
                assert!(matches!(locked, Ok(()) | Err(Error::Deadlock)));
            })
        })
        .collect();
    threads.push(thread::spawn(move || {
        let mut held = locks.begin();
        held.lock(key(0, Mode::Shared)).unwrap();
        let locked = held.lock(key(0, Mode::Exclusive));
        assert!(matches!(locked, Ok(())), "it is the only holder");
    }));
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

fn main() {
    // A panic on a stack of shuttle aborts under Wine 8. Wine first calls the exception handlers of
    // the thread's own stack if that lies at lower addresses, and one of them ends the search.
    if cfg!(all(windows, target_env = "gnu")) {
        println!("not run: Wine 8 aborts a panic on a stack of shuttle");
        return;
    }
    let orders = 1_500;
    let checks: [(&str, fn()); 13] = [
        ("every writer is served", every_writer_is_served),
        (
            "a failed sync reaches every writer",
            a_failed_sync_reaches_every_writer,
        ),
        (
            "a failure from elsewhere reaches every writer",
            a_failure_from_elsewhere_reaches_every_writer,
        ),
        (
            "values are synced by their thread or by the leader",
            values_are_synced_by_their_thread_or_by_the_leader,
        ),
        (
            "a task is woken when its sync has ended or failed",
            a_task_is_woken_when_its_sync_has_ended_or_failed,
        ),
        (
            "an abandoned store answers all waiters",
            an_abandoned_store_answers_all_waiters,
        ),
        (
            "a failed sync of values is final",
            a_failed_sync_of_values_is_final,
        ),
        ("a segment is pinned or gone", a_segment_is_pinned_or_gone),
        (
            "commits are visible in order, and durable once their tickets complete",
            commits_are_visible_in_order_and_durable_once_their_tickets_complete,
        ),
        (
            "a failed sync reaches every commit",
            a_failed_sync_reaches_every_commit,
        ),
        (
            "keys are had by one writer or by readers",
            keys_are_had_by_one_writer_or_by_readers,
        ),
        (
            "locks out of order are granted or refused at once",
            locks_out_of_order_are_granted_or_refused_at_once,
        ),
        (
            "misuse is refused and never waits",
            misuse_is_refused_and_never_waits,
        ),
    ];
    for (name, check) in checks {
        shuttle::check_random(check, orders);
        shuttle::check_pct(check, orders, 3);
        println!("{name}: ok");
    }
}
