//! The engine with its own threads on a real disk: writers, readers and background work at once.

mod common;

use common::scale;
use lazurite_engine::{
    Batch, Choices, Config, Db, Direction, Durability, Environment, KeyRange, KeyspaceOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

const WRITERS: u64 = 4;

fn config(durability: Durability) -> Config {
    Config {
        durability,
        memtable_bytes_max: 32 << 10,
        memory_bytes_max: 256 << 10,
        wal_segment_bytes: 64 << 10,
        wal_bytes_max: 512 << 10,
        sstable_bytes: 32 << 10,
        level_bytes_base: 64 << 10,
        value_bytes_separated: 1 << 10,
        value_chunk_bytes: 1 << 10,
        value_segment_bytes: 64 << 10,
        ..Config::default()
    }
}

fn key(writer: u64, index: u64) -> Vec<u8> {
    format!("{writer}/{index:06}").into_bytes()
}

/// Writes batches that each put one number under the same key in two keyspaces; every reader must
/// find the numbers equal.
fn write(db: &Db, writer: u64, count: u64, large: bool) {
    let (a, b) = keyspaces(db);
    let mut choices = Choices::new(writer);
    for number in 1..=count {
        let key = key(writer, choices.below(200));
        let mut value = number.to_le_bytes().to_vec();
        if large && number % 50 == 0 {
            value.resize(3000, number as u8);
        }
        let mut batch = Batch::new();
        batch.put(&a, &key, &value);
        batch.put(&b, &key, &value);
        if number % 97 == 0 {
            let range = KeyRange {
                start: self::key(writer, 0),
                end: Some(self::key(writer, 50)),
            };
            batch.delete_range(&a, range.clone());
            batch.delete_range(&b, range);
        }
        let ticket = db.write(batch).unwrap();
        if number % 10 == 0 {
            ticket.wait().unwrap();
        }
    }
}

fn keyspaces(db: &Db) -> (lazurite_engine::Keyspace, lazurite_engine::Keyspace) {
    let open = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
    (open("a"), open("b"))
}

fn check_equal(db: &Db, direction: Direction) -> u64 {
    let (a, b) = keyspaces(db);
    let snapshot = db.snapshot();
    let mut left = snapshot.scan(&a, KeyRange::all(), direction);
    let mut right = snapshot.scan(&b, KeyRange::all(), direction);
    let mut rows = 0;
    loop {
        let more = left.advance().unwrap();
        assert_eq!(more, right.advance().unwrap());
        if !more {
            return rows;
        }
        assert_eq!(left.key(), right.key());
        assert_eq!(left.value().unwrap(), right.value().unwrap());
        assert_eq!(
            snapshot.get(&a, left.key()).unwrap().unwrap(),
            right.value().unwrap()
        );
        rows += 1;
    }
}

fn readers_see_whole_batches(durability: Durability, count: u64) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), config(durability)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || write(db, writer, count, true))
            })
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    check_equal(db, direction);
                }
            });
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let rows = check_equal(&db, Direction::Forward);
    assert!(rows > 0);
    assert_eq!(db.failure().map(|failure| failure.to_string()), None);
    if durability == Durability::Memory {
        return;
    }
    db.close().unwrap();
    let db = Db::open(directory.path(), config(durability)).unwrap();
    assert_eq!(check_equal(&db, Direction::Backward), rows);
    assert_eq!(
        db.stats().memtable_bytes,
        0,
        "a clean close leaves nothing to replay"
    );
}

#[test]
fn readers_see_whole_batches_at_process() {
    readers_see_whole_batches(Durability::Process, 3000);
}

#[test]
fn readers_see_whole_batches_at_disk() {
    readers_see_whole_batches(Durability::Disk, 500);
}

#[test]
fn readers_see_whole_batches_in_memory() {
    readers_see_whole_batches(Durability::Memory, 3000);
}

#[test]
fn a_checkpoint_made_under_writers_is_one_cut_through_both_keyspaces() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(&directory.path().join("live"), config(Durability::Process)).unwrap();
    let copies: Vec<_> = (0..3)
        .map(|i| directory.path().join(format!("copy{i}")))
        .collect();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || write(db, writer, 1500, true));
        }
        for copy in &copies {
            db.checkpoint(copy).unwrap();
        }
    });
    assert!(
        db.checkpoint(&copies[0]).is_err(),
        "the directory is not empty"
    );
    for copy in &copies {
        let db = Db::open(copy, config(Durability::Process)).unwrap();
        check_equal(&db, Direction::Forward);
        write(&db, 9, 200, true);
        assert_eq!(db.verify().unwrap().damages.len(), 0);
    }
    check_equal(&db, Direction::Forward);
    assert_eq!(db.verify().unwrap().damages.len(), 0);
}

#[test]
fn a_keyspace_of_another_store_is_refused_by_name() {
    use lazurite_engine::Error;
    let directory = tempfile::tempdir().unwrap();
    let here = Db::open(&directory.path().join("a"), config(Durability::Process)).unwrap();
    let there = Db::open(&directory.path().join("b"), config(Durability::Process)).unwrap();
    keyspaces(&here);
    let (foreign, _) = keyspaces(&there);
    let is_refused = |error: Error| {
        assert!(
            error.to_string().contains("open it from this one"),
            "{error}"
        );
        matches!(error, Error::UnknownKeyspace { name } if name == "a")
    };
    let mut batch = Batch::new();
    batch.put(&foreign, b"k", b"v");
    assert!(is_refused(here.write(batch).unwrap_err()));
    assert!(is_refused(here.get(&foreign, b"k").unwrap_err()));
    assert!(is_refused(here.snapshot().get(&foreign, b"k").unwrap_err()));
    let mut scan = here
        .snapshot()
        .scan(&foreign, KeyRange::all(), Direction::Forward);
    assert!(is_refused(scan.advance().unwrap_err()));
    assert!(is_refused(here.flush(&foreign).unwrap_err()));
}

#[test]
fn uploads_that_run_at_once_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), config(Durability::Process)).unwrap();
    let (a, _) = keyspaces(&db);
    let content = |upload: u64| {
        let mut choices = Choices::new(upload);
        let length = 100_000 + choices.below(200_000);
        (0..length)
            .map(|_| choices.next() as u8)
            .collect::<Vec<u8>>()
    };
    thread::scope(|scope| {
        for upload in 0..6 {
            let (db, a) = (&db, &a);
            scope.spawn(move || {
                let mut writer = db.value_writer().unwrap();
                for part in content(upload).chunks(777) {
                    writer.write(part).unwrap();
                }
                let value = writer.finish().unwrap();
                let mut batch = Batch::new();
                batch.put_large(a, &key(upload, 0), value);
                db.write(batch).unwrap().wait().unwrap();
            });
        }
    });
    for upload in 0..6 {
        let expected = content(upload);
        let reader = db
            .snapshot()
            .open_value(&a, &key(upload, 0))
            .unwrap()
            .unwrap();
        assert_eq!(reader.length(), expected.len() as u64);
        for offset in (0..expected.len()).step_by(9_999) {
            let part = reader.read_at(offset as u64, 5_000).unwrap();
            assert!(!part.is_empty());
            assert_eq!(part, expected[offset..offset + part.len()]);
        }
    }
}

#[test]
fn a_ticket_can_be_awaited_without_a_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), config(Durability::Disk)).unwrap();
    let (a, _) = keyspaces(&db);
    let mut batch = Batch::new();
    batch.put(&a, b"k", b"v");
    let mut ticket = std::pin::pin!(db.write(batch).unwrap());
    let mut context = Context::from_waker(Waker::noop());
    while ticket
        .as_mut()
        .poll(&mut context)
        .map(Result::unwrap)
        .is_pending()
    {
        thread::yield_now();
    }
}

#[test]
fn a_get_never_finds_a_value_that_its_own_batch_deleted() {
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 32 << 10,
        ..Config::default()
    };
    let db = Db::open("/data".as_ref(), config).unwrap();
    let (a, b) = keyspaces(&db);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (db, a, done) = (&db, &a, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(db.get(a, b"k").unwrap(), None, "its batch deletes it");
                }
            });
        }
        for _ in 0..(3_000.0 * scale()) as u32 {
            let mut batch = Batch::new();
            batch.put(&a, b"k", b"never visible");
            (0..24u8).for_each(|row| batch.put(&a, &[b'r', row], &[0; 1400]));
            batch.put(&b, b"k", b"ends the run of changes to one keyspace");
            batch.delete(&a, b"k");
            drop(db.write(batch).unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A store at `Disk` with its own threads that panics in sync `nth` of files with this extension.
fn store_whose_sync_panics(extension: &str, nth: u64) -> Db {
    use lazurite_engine::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
    let fs = FaultFs::new(std::sync::Arc::new(MemoryFs::crashable()));
    let environment = Environment {
        fs: std::sync::Arc::new(fs.clone()),
        ..Environment::system(Durability::Disk)
    };
    let db = Db::open_with("/data".as_ref(), config(Durability::Disk), environment).unwrap();
    keyspaces(&db);
    fs.set(Some(Fault {
        operation: Some(Operation::Sync),
        path: extension.into(),
        nth,
        failure: Failure::Panic,
        sticky: false,
    }));
    db
}

#[test]
fn a_panic_in_a_sync_is_an_error_to_the_threads_that_wait_for_it() {
    let db = store_whose_sync_panics(".wal", 20);
    let (a, _) = keyspaces(&db);
    let put = |writer: u64| -> lazurite_engine::Result<()> {
        for index in 0.. {
            let mut batch = Batch::new();
            batch.put(&a, &key(writer, index), b"v");
            db.write(batch)?.wait()?;
        }
        unreachable!("a sync has panicked")
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let put = &put;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || put(writer)))
            .collect();
        writers.into_iter().map(|writer| writer.join()).collect()
    });
    let (shown, panicked): (Vec<_>, Vec<_>) = ended.into_iter().partition(|ended| ended.is_ok());
    assert!(
        panicked.len() <= 1,
        "only the leader of the sync sees the panic"
    );
    assert!(shown.into_iter().all(|shown| shown.unwrap().is_err()));
    let failure = db.failure().unwrap().to_string();
    assert!(failure.contains("panic"), "{failure}");
}

#[test]
fn a_panic_in_a_sync_is_an_error_to_the_tasks_that_wait_for_it() {
    // The first sync of a log segment is part of making it.
    let db = store_whose_sync_panics(".wal", 2);
    let (a, _) = keyspaces(&db);
    let mut batch = Batch::new();
    batch.put(&a, b"k", b"v");
    let mut ticket = std::pin::pin!(db.write(batch).unwrap());
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let failed = loop {
        match ticket.as_mut().poll(&mut context) {
            Poll::Ready(ended) => break ended,
            Poll::Pending => thread::park(),
        }
    };
    assert!(failed.is_err());
}

#[test]
fn a_panic_in_a_flush_is_an_error_to_writers() {
    let db = store_whose_sync_panics(".sst", 1);
    let (a, _) = keyspaces(&db);
    let put = |index| {
        let mut batch = Batch::new();
        batch.put(&a, &key(0, index), &[7; 500]);
        db.write(batch)?.wait()
    };
    let refused = (0..).find_map(|index| put(index).err()).unwrap();
    let failure = refused.to_string();
    assert!(failure.contains("panic"), "{failure}");
}

/// A waker that unparks one thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_full_store_in_memory_takes_values_again_soon_after_a_range_was_deleted() {
    use lazurite_engine::{Error, fs::MemoryFs};
    let environment = Environment {
        fs: std::sync::Arc::new(MemoryFs::volatile_up_to(16 << 20)),
        ..Environment::system(Durability::Memory)
    };
    let config = Config {
        durability: Durability::Memory,
        ..Config::default()
    };
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let (a, _) = keyspaces(&db);
    let put = |index: u64| {
        let mut batch = Batch::new();
        batch.put(&a, &key(0, index), &[7; 1 << 20]);
        match db.write(batch) {
            Ok(ticket) => ticket.wait().is_ok(),
            Err(Error::NoSpace { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(
        (0..64).any(|index| !put(index)),
        "64 MiB do not fit into 16"
    );
    let mut batch = Batch::new();
    batch.delete_range(&a, KeyRange::prefix(b"0/"));
    db.write(batch).unwrap().wait().unwrap();
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let tries = (0..3000).take_while(|_| {
        let _ = receiver.recv_timeout(std::time::Duration::from_millis(10));
        !put(0)
    });
    let tries = tries.count();
    assert!(tries < 3000, "still full: {}", db.stats());
    println!("space again after {tries} times 10 ms");
    for index in 0..10 {
        assert!(put(index), "{}", db.stats());
    }
}

#[test]
fn too_large_keys_values_and_batches_are_refused_and_leave_nothing() {
    use lazurite_engine::{BATCH_BYTES_MAX, Error, KEY_BYTES_MAX};
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let (a, _) = keyspaces(&db);
    let longest = vec![7; KEY_BYTES_MAX];
    let mut batch = Batch::new();
    batch.put(&a, &longest, b"v");
    db.write(batch).unwrap().wait().unwrap();
    let mut batch = Batch::new();
    batch.put(&a, b"before", b"v");
    batch.put(&a, &[&longest[..], b"7"].concat(), b"v");
    let refused = db.write(batch);
    assert!(
        matches!(refused, Err(Error::TooLarge { what: "key", .. })),
        "{refused:?}"
    );
    let mut batch = Batch::new();
    for index in 0..=BATCH_BYTES_MAX / 30_000 {
        batch.put(&a, &key(9, index as u64), &[7; 30_000]);
    }
    let refused = db.write(batch);
    assert!(
        matches!(refused, Err(Error::TooLarge { what: "batch", .. })),
        "{refused:?}"
    );
    assert_eq!(db.get(&a, b"before").unwrap(), None);
    let mut batch = Batch::new();
    let end = [&longest[..], &[0]].concat();
    batch.delete_range(
        &a,
        KeyRange {
            start: longest.clone(),
            end: Some(end),
        },
    );
    db.write(batch).unwrap().wait().unwrap();
    assert_eq!(db.get(&a, &longest).unwrap(), None);
    db.close().unwrap();
    assert!(matches!(db.get(&a, &longest), Err(Error::Closed)));
    assert!(matches!(db.write(Batch::new()), Err(Error::Closed)));
}

#[test]
fn a_second_open_names_the_holder_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), config(Durability::Process)).unwrap();
    match Db::open(directory.path(), config(Durability::Process)) {
        Err(lazurite_engine::Error::Locked { process_id, .. }) => {
            assert_eq!(process_id, std::process::id())
        }
        other => panic!("{other:?}"),
    }
    drop(db);
    Db::open(directory.path(), config(Durability::Process)).unwrap();
}

#[test]
fn a_directory_of_others_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    #[allow(
        clippy::disallowed_methods,
        reason = "the files of others are not ours to write through `Fs`"
    )]
    std::fs::write(directory.path().join("__azurite_db_blob__.json"), "{}").unwrap();
    match Db::open(directory.path(), config(Durability::Process)) {
        Err(lazurite_engine::Error::UnknownFormat { found, .. }) => {
            assert!(found.contains("not ours"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the files of others are not ours to write through `Fs`"
)]
fn a_store_is_created_beside_files_that_the_caller_tolerates() {
    let directory = tempfile::tempdir().unwrap();
    let fs = lazurite_engine::Environment::system(Durability::Process).fs;
    let is_tolerated: fn(&str) -> bool = |name| name == ".gitkeep" || name.ends_with(".log");
    let foreign_in = |path: &Path| lazurite_engine::foreign_file(&fs, path, is_tolerated).unwrap();
    let foreign = || foreign_in(directory.path());
    for name in [".gitkeep", "debug.log"] {
        std::fs::write(directory.path().join(name), "theirs").unwrap();
    }
    assert_eq!(foreign(), None);
    let refused = Db::open(directory.path(), config(Durability::Process));
    assert!(matches!(
        refused,
        Err(lazurite_engine::Error::UnknownFormat { .. })
    ));
    let left = fs.list(directory.path()).unwrap();
    assert_eq!(left.len(), 2, "nothing is put beside them: {left:?}");
    let environment = Environment {
        is_tolerated,
        ..Environment::system(Durability::Process)
    };
    let opened = Db::open_with(directory.path(), config(Durability::Process), environment);
    drop(opened.unwrap());
    let log = std::fs::read_to_string(directory.path().join("debug.log"));
    assert_eq!(log.unwrap(), "theirs");
    // An existing store stays usable, whatever is put beside it.
    std::fs::write(directory.path().join("package.json"), "{}").unwrap();
    assert_eq!(foreign(), None);
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("package.json"), "{}").unwrap();
    let found = foreign_in(other.path());
    assert_eq!(found.as_deref(), Some("package.json"));
    assert_eq!(foreign_in(&other.path().join("absent")), None);
}

#[test]
fn an_idle_store_uses_no_time() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let (a, _) = keyspaces(&db);
    let mut batch = Batch::new();
    batch.put(&a, b"k", b"v");
    db.write(batch).unwrap().wait().unwrap();
    db.flush(&a).unwrap();
    let rounds = db.stats().signals;
    // Long enough for a thread that spins to be seen, whatever else the machine does.
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(std::time::Duration::from_millis(300));
    drop(sender);
    let signals = db.stats().signals - rounds;
    assert!(signals < 20, "{signals} signals in 300 ms");
}
