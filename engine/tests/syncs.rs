//! Syncs that are slow, that fail, and how many there are.

mod common;

use common::{DIRECTORY, environment};
use lazurite_engine::fs::{
    Clock, FaultFs, Fs, HookFs, ManualClock, MemoryFs, Operation, SystemClock,
};
use lazurite_engine::{
    Background, Batch, Config, Db, Durability, Environment, Error, Keyspace, KeyspaceOptions,
};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "wal")
}

fn open(fs: impl Fs + 'static, config: Config, clock: Arc<dyn Clock>) -> (Db, Keyspace) {
    let environment = Environment {
        background: Background::Threads,
        clock,
        ..environment(Arc::new(fs))
    };
    let db = Db::open_with(Path::new(DIRECTORY), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    (db, keyspace)
}

fn put(db: &Db, keyspace: &Keyspace, number: u64) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.put(keyspace, &number.to_be_bytes(), b"value");
    db.write(batch)?.wait()
}

/// Returns how many acknowledged writes a power cut loses at most, as the time from the first to
/// the last of them, on a disk whose syncs of the log take `sync`. Time moves by a millisecond with
/// each write, and by the length of a sync while the writer waits for it.
fn most_lost(sync: Duration, writes: u64) -> Duration {
    let clock = Arc::new(ManualClock::default());
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let durable = Arc::new(AtomicUsize::new(0));
    let slow = {
        let (clock, acknowledged, durable) = (clock.clone(), acknowledged.clone(), durable.clone());
        move |operation, path: &Path| {
            if operation != Operation::Sync || !is_log(path) {
                return Ok(());
            }
            let covered = acknowledged.load(Ordering::SeqCst);
            let end = clock.now() + sync;
            while clock.now() < end {
                let before = acknowledged.load(Ordering::SeqCst);
                // Long enough for a writer that need not wait. If none writes, time goes on.
                thread::park_timeout(Duration::from_micros(300));
                if acknowledged.load(Ordering::SeqCst) == before {
                    clock.advance(Duration::from_millis(1));
                }
            }
            durable.fetch_max(covered, Ordering::SeqCst);
            Ok(())
        }
    };
    let fs = HookFs::new(MemoryFs::volatile(), slow);
    let (db, keyspace) = open(fs, Config::default(), clock.clone());
    let mut at = Vec::new();
    let mut most = Duration::ZERO;
    for number in 0..writes {
        put(&db, &keyspace, number).unwrap();
        clock.advance(Duration::from_millis(1));
        at.push(clock.now());
        acknowledged.store(at.len(), Ordering::SeqCst);
        let durable = durable.load(Ordering::SeqCst);
        if let (Some(first), Some(last)) = (at.get(durable), at.last()) {
            most = most.max(*last - *first);
        }
    }
    most
}

#[test]
fn a_power_cut_takes_at_most_250_milliseconds_of_writes_however_long_a_sync_takes() {
    for milliseconds in [1, 100, 500] {
        let most = most_lost(Duration::from_millis(milliseconds), 3_000);
        println!("syncs of {milliseconds} ms: {} ms lost", most.as_millis());
        assert!(
            most <= Duration::from_millis(250),
            "syncs of {milliseconds} ms: {most:?}"
        );
    }
}

#[test]
fn a_put_of_a_large_value_waits_for_the_syncs_of_both_logs_at_once() {
    // Each sync waits for the other one to begin: in turn they would wait for ever.
    let begun = Arc::new((Mutex::new([0u64; 2]), Condvar::new()));
    let is_on = Arc::new(AtomicBool::new(false));
    let hook = {
        let (begun, is_on) = (begun.clone(), is_on.clone());
        move |operation, path: &Path| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            let log = match (operation, kind) {
                (Operation::Sync, Some("wal")) => 0,
                (Operation::Sync, Some("vlog")) => 1,
                _ => return Ok(()),
            };
            if is_on.load(Ordering::SeqCst) {
                let (count, changed) = &*begun;
                let mut count = count.lock().unwrap();
                count[log] += 1;
                changed.notify_all();
                let limit = Duration::from_secs(20);
                let waited = changed.wait_timeout_while(count, limit, |count| count[0] != count[1]);
                assert!(!waited.unwrap().1.timed_out(), "one sync after the other");
            }
            Ok(())
        }
    };
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let fs = HookFs::new(MemoryFs::volatile(), hook);
    let (db, keyspace) = open(fs, config, Arc::new(SystemClock::default()));
    let put_large = |number: u64| {
        let value = db.write_value(&[1; 4 << 10]).unwrap();
        let mut batch = Batch::new();
        batch.put_large(&keyspace, &number.to_be_bytes(), value);
        db.write(batch).unwrap().wait().unwrap();
    };
    // Now both logs have a segment.
    put_large(0);
    is_on.store(true, Ordering::SeqCst);
    (1..=10).for_each(put_large);
    is_on.store(false, Ordering::SeqCst);
    assert_eq!(*begun.0.lock().unwrap(), [10, 10]);
}

#[test]
fn new_log_segments_do_not_hold_up_the_syncs() {
    // A busy machine delays syncs, too, but not in each of many runs.
    let is_undisturbed = (0..10).any(|_| stalls_among_short_log_segments() == 0);
    assert!(is_undisturbed, "a writer had to wait for a sync");
}

fn stalls_among_short_log_segments() -> u64 {
    // Each segment takes a few writes, so that a new one is wanted long before the interval ends.
    let config = Config {
        wal_segment_bytes: 4 << 10,
        sync_milliseconds: 150,
        ..Config::default()
    };
    let clock = Arc::new(SystemClock::default());
    let (db, keyspace) = open(MemoryFs::volatile(), config, clock.clone());
    let mut number = 0;
    while clock.now() < Duration::from_secs(2) {
        put(&db, &keyspace, number).unwrap();
        number += 1;
        // Without a pace, a fast machine fills more segments than a slow one syncs.
        let next = clock.now() + Duration::from_micros(100);
        while clock.now() < next {
            thread::yield_now();
        }
    }
    let stats = db.stats();
    assert!(stats.syncs >= 3, "{stats:?}");
    stats.stalls
}

#[test]
fn writers_that_wait_for_a_late_sync_hear_that_it_failed_and_readers_do_not_wait() {
    let gate = Arc::new(Gate::default());
    let fails = Arc::new(AtomicBool::new(false));
    let hook = {
        let (gate, fails) = (gate.clone(), fails.clone());
        move |operation, path: &Path| {
            if operation == Operation::Sync && is_log(path) && fails.load(Ordering::SeqCst) {
                gate.wait();
                return Err(io::ErrorKind::Other.into());
            }
            Ok(())
        }
    };
    let config = Config {
        sync_milliseconds: 5,
        ..Config::default()
    };
    let fs = HookFs::new(MemoryFs::volatile(), hook);
    let (db, keyspace) = open(fs, config, Arc::new(SystemClock::default()));
    put(&db, &keyspace, 0).unwrap();
    db.sync().unwrap();
    fails.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..4u64)
            .map(|writer| {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || (0..).find_map(|_| put(db, keyspace, writer).err()))
            })
            .collect();
        while !db.makes_writers_wait() {
            thread::yield_now();
        }
        // Here all writers wait, or are about to.
        assert!(db.get(&keyspace, &0u64.to_be_bytes()).unwrap().is_some());
        assert!(db.failure().is_none());
        gate.open();
        for writer in writers {
            assert!(writer.join().unwrap().is_some());
        }
    });
    assert!(db.failure().is_some());
}

#[test]
fn a_writer_that_was_admitted_waits_for_no_late_sync() {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let config = Config {
        sync_milliseconds: 5,
        ..Config::default()
    };
    let (db, keyspace) = open(disk.clone(), config, Arc::new(SystemClock::default()));
    put(&db, &keyspace, 0).unwrap();
    db.sync().unwrap();
    let admission = db.admit().unwrap();
    disk.hold(Some(Operation::Sync));
    let (puts, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        // A writer that asks for admission waits sooner or later.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                put(&db, &keyspace, 1).unwrap();
                puts.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Checks for a minute at most.
        let is_waiting = (0..600).any(|_| {
            let before = puts.load(Ordering::Relaxed);
            thread::park_timeout(Duration::from_millis(100));
            let still = puts.load(Ordering::Relaxed) == before;
            still && disk.held() > 0 && db.makes_writers_wait()
        });
        is_over.store(true, Ordering::Relaxed);
        let (written, is_written) = std::sync::mpsc::channel();
        let (db, keyspace, admission) = (&db, &keyspace, &admission);
        scope.spawn(move || {
            let mut batch = Batch::new();
            batch.put(keyspace, b"admitted", b"value");
            drop(db.write_admitted(batch, admission).unwrap());
            written.send(()).unwrap();
        });
        let in_time = is_written.recv_timeout(Duration::from_secs(10));
        disk.hold(None);
        assert!(is_waiting && in_time.is_ok());
    });
}

#[test]
fn the_ticket_of_an_empty_batch_waits_for_earlier_writes() {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let (db, keyspace) = open(disk.clone(), config, Arc::new(SystemClock::default()));
    put(&db, &keyspace, 0).unwrap();
    disk.hold(Some(Operation::Sync));
    let mut batch = Batch::new();
    batch.put(&keyspace, b"key", b"value");
    let earlier = db.write(batch).unwrap();
    let admission = db.admit().unwrap();
    let written = db.write(Batch::new()).unwrap();
    let admitted = db.write_admitted(Batch::new(), &admission).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for ticket in [written, admitted] {
        assert!(pin!(ticket).poll(&mut context).is_pending());
    }
    disk.hold(None);
    earlier.wait().unwrap();
    db.write(Batch::new()).unwrap().wait().unwrap();
}

/// Holds threads up until it is opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[test]
fn a_failed_sync_of_a_new_value_log_segment_reaches_everyone_who_waits_for_the_log() {
    let gate = Arc::new(Gate::default());
    let is_held = Arc::new(AtomicBool::new(false));
    let hook = {
        let (gate, is_held) = (gate.clone(), is_held.clone());
        move |operation, path: &Path| {
            if operation != Operation::Sync {
                return Ok(());
            }
            if path.extension().is_some_and(|kind| kind == "vlog") {
                return Err(io::ErrorKind::Other.into());
            }
            // The sync of a new segment, by another thread, goes on.
            if is_log(path) && thread::current().name() == Some("writer") {
                is_held.store(true, Ordering::SeqCst);
                gate.wait();
            }
            Ok(())
        }
    };
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let fs = HookFs::new(MemoryFs::volatile(), hook);
    let (db, keyspace) = open(fs, config, Arc::new(SystemClock::default()));
    // The first segment is made by a thread that is not held up.
    put(&db, &keyspace, 0).unwrap();
    let (returned, has_returned) = channel();
    for number in 1..5u64 {
        let (db, keyspace, returned) = (db.clone(), keyspace.clone(), returned.clone());
        let write = move || returned.send(put(&db, &keyspace, number)).unwrap();
        let writer = thread::Builder::new().name("writer".into());
        writer.spawn(write).unwrap();
    }
    while !is_held.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let mut batch = Batch::new();
    batch.put(&keyspace, b"awaited by a task", b"value");
    let mut ticket = Box::pin(db.write(batch).unwrap());
    let (woken, is_woken) = channel();
    let waker = Arc::new(Woken(Mutex::new(woken))).into();
    let polled = ticket.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending(), "the sync under way is held up");
    // The next sync of the log syncs the new segment too.
    drop(db.write_value(&[1; 64 << 10]).unwrap());
    gate.open();
    // The sync that was under way succeeds, and may serve some writers. All of them return.
    let limit = Duration::from_secs(20);
    for _ in 1..5 {
        let _ = has_returned.recv_timeout(limit).expect("a writer hangs");
    }
    is_woken.recv_timeout(limit).expect("the task is not woken");
    let polled = ticket.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_ready(), "no event would wake it again");
    assert!(db.failure().is_some());
}

/// A waker that reports the wake-up to a channel.
struct Woken(Mutex<Sender<()>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_checkpoint_links_no_file_that_the_store_still_writes() {
    let writer: Arc<Mutex<Option<Db>>> = Arc::default();
    let hook = {
        let writer = writer.clone();
        move |operation, path: &Path| {
            // Once, in the middle of the checkpoint, begins to write a value.
            if operation == Operation::Sync
                && is_log(path)
                && let Some(db) = writer.lock().unwrap().take()
            {
                drop(db.write_value(&[1; 100]).unwrap());
            }
            Ok(())
        }
    };
    let disk = MemoryFs::crashable();
    let fs = HookFs::new(disk.clone(), hook);
    let db = Db::open_with(
        Path::new(DIRECTORY),
        Config::default(),
        environment(Arc::new(fs)),
    )
    .unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    let value = db.write_value(&[2; 100]).unwrap();
    batch.put_large(&keyspace, b"large", value);
    db.write(batch).unwrap().wait().unwrap();
    *writer.lock().unwrap() = Some(db.clone());
    db.checkpoint(Path::new("/copy")).unwrap();
    assert!(writer.lock().unwrap().is_none(), "the hook was called");
    let copied = || {
        let files = disk.files().into_iter();
        files
            .filter(|(path, _)| path.starts_with("/copy"))
            .collect::<Vec<_>>()
    };
    let before = copied();
    drop(db.write_value(&[3; 100]).unwrap());
    put(&db, &keyspace, 1).unwrap();
    db.flush(&keyspace).unwrap();
    assert!(copied() == before);
    let copy = Db::open_with(
        Path::new("/copy"),
        Config::default(),
        environment(Arc::new(disk)),
    );
    let copy = copy.unwrap();
    let keyspace = copy.keyspace("a", KeyspaceOptions::default()).unwrap();
    let read = copy.get(&keyspace, b"large").unwrap();
    assert_eq!(read.unwrap(), [2; 100][..]);
}

#[test]
fn a_reader_of_a_large_value_does_not_wait_for_a_new_segment() {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let config = Config {
        // Each value begins a segment.
        value_segment_bytes: 1,
        ..Config::default()
    };
    let environment = environment(Arc::new(disk.clone()));
    let db = Db::open_with(Path::new(DIRECTORY), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    let value = db.write_value(&[7; 100_000]).unwrap();
    batch.put_large(&keyspace, b"large", value);
    db.write(batch).unwrap().wait().unwrap();
    disk.hold(Some(Operation::Create));
    thread::scope(|scope| {
        let (db, keyspace) = (&db, &keyspace);
        scope.spawn(|| drop(db.write_value(&[8; 100]).unwrap()));
        while disk.held() == 0 {
            thread::yield_now();
        }
        let (answer, answered) = std::sync::mpsc::channel();
        scope.spawn(move || answer.send(db.get(keyspace, b"large").unwrap()).unwrap());
        let read = answered.recv_timeout(Duration::from_secs(10));
        disk.hold(None);
        assert_eq!(read.unwrap().unwrap().len(), 100_000);
    });
}

/// Holds up writes to SSTables while the flag is set, and counts the ones that wait.
type Hold = Arc<(Mutex<(bool, usize)>, Condvar)>;

fn holding(fs: &MemoryFs, hold: &Hold) -> HookFs {
    let hold = hold.clone();
    HookFs::new(fs.clone(), move |operation, path: &Path| {
        if operation == Operation::Write && path.extension().is_some_and(|kind| kind == "sst") {
            let (state, changed) = &*hold;
            let mut state = state.lock().unwrap();
            state.1 += 1;
            while state.0 {
                state = changed.wait(state).unwrap();
            }
        }
        Ok(())
    })
}

#[test]
fn a_checkpoint_does_not_wait_for_a_compaction() {
    let fs = MemoryFs::volatile();
    let hold = Hold::default();
    let stepped = environment(Arc::new(holding(&fs, &hold)));
    let db = Db::open_with(DIRECTORY.as_ref(), Config::default(), stepped).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for number in 0..40 {
        put(&db, &keyspace, number).unwrap();
        if number % 20 == 19 {
            db.flush(&keyspace).unwrap();
        }
    }
    hold.0.lock().unwrap().0 = true;
    let before = hold.0.lock().unwrap().1;
    thread::scope(|scope| {
        scope.spawn(|| db.compact(&keyspace).unwrap());
        while hold.0.lock().unwrap().1 == before {
            thread::yield_now();
        }
        let (made, is_made) = channel();
        let db = &db;
        scope.spawn(move || made.send(db.checkpoint("/copy".as_ref())).unwrap());
        let answer = is_made.recv_timeout(Duration::from_secs(10));
        hold.0.lock().unwrap().0 = false;
        hold.1.notify_all();
        answer.expect("it waits for the compaction").unwrap();
    });
    // Meanwhile the compaction has removed the files of the source.
    let stepped = environment(Arc::new(fs));
    let copy = Db::open_with("/copy".as_ref(), Config::default(), stepped).unwrap();
    let verified = copy.verify().unwrap();
    assert_eq!((verified.rows, verified.damages.len()), (40, 0));
}
