//! Acknowledged writes survive where two mechanisms interact: collection and replay, a failed sync
//! and its waiters, readers and a later store in their directory.

mod common;

use common::{DIRECTORY, environment, random_key, scale};
use lazurite_engine::fs::{
    DiskFs, Failure, Fault, FaultFs, Fs, HookFs, Keep, LogWrites, ManualClock, MemoryFs, Operation,
    SystemClock,
};
use lazurite_engine::{
    Background, Batch, Choices, Config, CutReason, Db, Direction, Durability, Environment, Error,
    KeyRange, Keyspace, KeyspaceOptions, remove_store, test_seeds,
};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

const LARGE: &[u8] = &[7; 8 << 20];

fn config(durability: Durability) -> Config {
    Config {
        durability,
        ..Config::default()
    }
}

fn stepped(fs: &MemoryFs, durability: Durability) -> Result<Db, Error> {
    let environment = environment(Arc::new(fs.clone()));
    Db::open_with(Path::new(DIRECTORY), config(durability), environment)
}

fn threaded(fs: impl Fs + 'static) -> Db {
    let environment = Environment {
        background: Background::Threads,
        clock: Arc::new(SystemClock::default()),
        ..environment(Arc::new(fs))
    };
    let config = Config {
        value_bytes_separated: 1000,
        ..config(Durability::Disk)
    };
    Db::open_with(Path::new(DIRECTORY), config, environment).unwrap()
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceOptions::default()).unwrap()
}

fn write(db: &Db, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    db.write(batch).unwrap().wait().unwrap();
}

/// Runs background work until none is left. Returns whether a value-log segment was removed.
fn collect(db: &Db) -> bool {
    let before = db.stats().value_log_bytes;
    while db.step().unwrap().is_some() {}
    db.stats().value_log_bytes < before
}

/// Checks that rows written before a value was collected survive the death of the process,
/// whichever of them are in SSTables.
fn survives_collection(name: &str, write_rows: impl Fn(&Db, [&Keyspace; 3]) -> bool) {
    for durability in [Durability::Process, Durability::Disk] {
        let fs = MemoryFs::crashable();
        let db = stepped(&fs, durability).unwrap();
        let keyspaces = ["a", "b", "c"].map(|name| keyspace(&db, name));
        let [a, b, c] = &keyspaces;
        assert!(write_rows(&db, [a, b, c]), "{name}: nothing was collected");
        let after = fs.crash(1, Keep::Everything);
        let db = stepped(&after, durability).unwrap_or_else(|error| panic!("{name}: {error}"));
        let row = |name, key: &[u8]| db.get(&keyspace(&db, name), key).unwrap();
        assert!(row("b", b"row").is_some(), "{name} at {durability:?}");
        assert!(row("a", b"other").is_some(), "{name} at {durability:?}");
        assert!(
            db.recovered().cut_off.is_empty(),
            "{name}: {:?}",
            db.recovered()
        );
        assert!(db.verify().unwrap().damages.is_empty());
    }
}

#[test]
fn a_row_survives_the_collection_of_a_value_of_its_batch_that_was_deleted() {
    survives_collection("deleted", |db, [a, b, c]| {
        write(db, |batch| {
            batch.put(a, b"blob", LARGE);
            batch.put(a, b"other", b"x");
            batch.put(b, b"row", b"v");
        });
        write(db, |batch| batch.delete(a, b"blob"));
        write(db, |batch| batch.put(c, b"1", b""));
        db.flush(a).unwrap();
        let collected = collect(db);
        db.flush(c).unwrap();
        collected | collect(db)
    });
}

#[test]
fn a_row_survives_the_collection_of_a_value_that_its_own_batch_deletes() {
    survives_collection("deleted by its batch", |db, [a, b, c]| {
        write(db, |batch| {
            batch.put(a, b"blob", LARGE);
            batch.delete(a, b"blob");
            batch.put(a, b"other", b"x");
            batch.put(b, b"row", b"v");
            batch.put(c, b"1", b"");
        });
        db.flush(a).unwrap();
        let collected = collect(db);
        db.flush(c).unwrap();
        collected | collect(db)
    });
}

#[test]
fn rows_survive_the_collection_of_a_value_that_was_overwritten_before_any_flush() {
    survives_collection("overwritten", |db, [a, b, c]| {
        write(db, |batch| batch.put(c, b"1", b""));
        write(db, |batch| {
            batch.put(a, b"blob", LARGE);
            batch.put(a, b"other", b"x");
        });
        (0..3).for_each(|_| write(db, |batch| batch.put(a, b"blob", b"small")));
        write(db, |batch| batch.put(b, b"row", b"y"));
        // Each dropped pin requests a collection.
        let mut rounds = (0..3).map(|_| {
            drop(db.write_value(b"value").unwrap());
            collect(db)
        });
        rounds.any(|collected| collected)
    });
}

#[test]
fn a_store_opens_after_the_collection_of_a_value_two_log_segments_back() {
    survives_collection("two segments", |db, [a, b, c]| {
        write(db, |batch| {
            batch.put(a, b"blob", LARGE);
            batch.put(a, b"other", b"x");
            batch.put(b, b"row", b"v");
        });
        write(db, |batch| batch.delete(a, b"blob"));
        for number in 0..1500u32 {
            write(db, |batch| batch.put(c, &number.to_be_bytes(), &[1; 1000]));
        }
        db.flush(a).unwrap();
        let collected = collect(db);
        db.flush(c).unwrap();
        collected | collect(db)
    });
}

#[test]
fn an_opening_reports_the_records_that_a_power_cut_has_taken() {
    let fs = MemoryFs::crashable();
    let db = stepped(&fs, Durability::Process).unwrap();
    let a = keyspace(&db, "a");
    write(&db, |batch| batch.put(&a, b"durable", b"1"));
    db.sync().unwrap();
    write(&db, |batch| batch.put(&a, b"large", &[1; 100_000]));
    write(&db, |batch| batch.put(&a, b"behind it", b"2"));
    // The disk has the whole log, but the value log only as far as it was synced.
    let image = fs.crash(1, Keep::Everything);
    for (path, bytes) in fs.crash(1, Keep::Everything).files() {
        if path.extension().is_some_and(|kind| kind == "vlog") {
            image
                .open(&path)
                .unwrap()
                .set_length(bytes.len() as u64 / 2)
                .unwrap();
        }
    }
    let db = stepped(&image, Durability::Process).unwrap();
    let a = keyspace(&db, "a");
    assert!(db.get(&a, b"durable").unwrap().is_some());
    assert!(db.get(&a, b"behind it").unwrap().is_none());
    let [lost] = &db.recovered().cut_off[..] else {
        panic!("{:?}", db.recovered());
    };
    assert_eq!((lost.reason, lost.batches), (CutReason::MissingValue, 2));
    assert_eq!((db.recovered().batches, db.stats().batches_cut_off), (1, 2));
    assert!(lost.path.extension().is_some_and(|kind| kind == "wal"));
}

/// Length of the header of a file (FORMAT.md).
const HEADER_BYTES: usize = 48;

/// Writes zeros over the last bytes in use of each segment of the log, or over all its records.
fn damage_log(fs: &MemoryFs, all_records: bool) {
    let is_log = |path: &Path| path.extension().is_some_and(|kind| kind == "wal");
    for (path, bytes) in fs.files() {
        if is_log(&path)
            && let Some(last) = bytes.iter().rposition(|byte| *byte != 0)
        {
            let start = if all_records { HEADER_BYTES } else { last - 3 };
            let file = fs.open_log(&path, 0, LogWrites::AtOnce).unwrap();
            let zeros = vec![0; (last + 1).saturating_sub(start)];
            file.write_at(&zeros, start as u64).unwrap();
        }
    }
}

#[test]
fn damage_to_a_row_that_became_durable_during_a_flush_is_no_torn_tail() {
    for begins_segment in [false, true] {
        let fs = MemoryFs::crashable();
        // The store stays open, because a close would flush everything.
        let _open = write_amid_flush(&fs, begins_segment);
        let whole = fs.crash(1, Keep::Everything);
        let db = stepped(&whole, Durability::Disk).unwrap();
        assert!(db.get(&keyspace(&db, "b"), b"row").unwrap().is_some());
        for all_records in [false, true] {
            let damaged = fs.crash(1, Keep::Everything);
            damage_log(&damaged, all_records);
            let error = stepped(&damaged, Durability::Disk).err();
            assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
        }
    }
}

/// Writes a row to keyspace b while a flush of keyspace a writes its SSTable: into the log segment
/// that the flush has synced, or into a new segment.
fn write_amid_flush(fs: &MemoryFs, begins_segment: bool) -> Db {
    let writer: Arc<Mutex<Option<(Db, Keyspace)>>> = Arc::default();
    let amid_flush = writer.clone();
    let disk = HookFs::new(fs.clone(), move |operation, path| {
        let is_sstable = path.extension().is_some_and(|kind| kind == "sst");
        if operation == Operation::Sync
            && is_sstable
            && let Some((db, b)) = amid_flush.lock().unwrap().take()
        {
            write(&db, |batch| batch.put(&b, b"row", b"1"));
        }
        Ok(())
    });
    let environment = environment(Arc::new(disk));
    let db = Db::open_with(DIRECTORY.as_ref(), config(Durability::Disk), environment).unwrap();
    let [a, b] = ["a", "b"].map(|name| keyspace(&db, name));
    write(&db, |batch| batch.put(&a, b"row", b"1"));
    if begins_segment {
        // The checkpoint ends the segment in use.
        db.checkpoint("/copy".as_ref()).unwrap();
    }
    *writer.lock().unwrap() = Some((db.clone(), b));
    db.flush(&a).unwrap();
    db
}

/// A disk without space for the second half of write number `nth` to a segment of the log.
fn refusing(fs: &MemoryFs, nth: u64) -> FaultFs {
    let disk = FaultFs::new(Arc::new(fs.clone()));
    disk.set(Some(Fault {
        operation: Some(Operation::Write),
        path: ".wal".into(),
        nth,
        failure: Failure::Error(io::ErrorKind::StorageFull),
        sticky: false,
    }));
    disk
}

fn open_on(disk: &FaultFs) -> Db {
    let environment = environment(Arc::new(disk.clone()));
    Db::open_with(DIRECTORY.as_ref(), config(Durability::Process), environment).unwrap()
}

fn is_refused(db: &Db, keyspace: &Keyspace) -> bool {
    let mut batch = Batch::new();
    batch.put(keyspace, b"refused", &[2; 300]);
    matches!(db.write(batch), Err(Error::NoSpace { .. }))
}

#[test]
fn a_store_opens_whose_first_batch_in_a_log_segment_was_refused() {
    let fs = MemoryFs::crashable();
    let db = stepped(&fs, Durability::Process).unwrap();
    let a = keyspace(&db, "a");
    write(&db, |batch| batch.put(&a, b"first", &[1; 300]));
    db.close().unwrap();
    drop((db, a));
    // Two writes come before: the header, and the beginning of the segment.
    let db = open_on(&refusing(&fs, 3));
    let a = keyspace(&db, "a");
    assert!(is_refused(&db, &a));
    // Both calls record how far the log is durable. The segment in use holds no batch yet.
    db.checkpoint("/copy".as_ref()).unwrap();
    db.sync().unwrap();
    let after = fs.crash(1, Keep::Nothing);
    for path in [DIRECTORY, "/copy"] {
        let environment = environment(Arc::new(after.clone()));
        let db = Db::open_with(path.as_ref(), config(Durability::Process), environment).unwrap();
        let a = keyspace(&db, "a");
        assert!(db.get(&a, b"first").unwrap().is_some(), "{path}");
        assert!(db.get(&a, b"refused").unwrap().is_none(), "{path}");
    }
}

#[test]
fn a_refused_batch_that_cannot_be_erased_from_the_log_is_not_called_refused() {
    let fs = MemoryFs::crashable();
    let disk = FaultFs::new(Arc::new(fs.clone()));
    let db = open_on(&disk);
    let a = keyspace(&db, "a");
    write(&db, |batch| batch.put(&a, b"first", &[1; 300]));
    disk.set(Some(Fault {
        operation: None,
        path: ".wal".into(),
        nth: 1,
        failure: Failure::Error(io::ErrorKind::StorageFull),
        sticky: true,
    }));
    let mut batch = Batch::new();
    batch.put(&a, b"second", &[2; 300]);
    // It may be in the store after a restart, which `NoSpace` and `ReadOnly` rule out.
    let failed = db.write(batch).map(drop).unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
    let mut batch = Batch::new();
    batch.put(&a, b"third", b"3");
    let refused = db.write(batch).map(drop).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused:?}");
}

#[test]
fn a_log_segment_whose_beginning_was_refused_is_begun_by_the_next_batch() {
    for is_marked in [false, true] {
        let fs = MemoryFs::crashable();
        let db = open_on(&refusing(&fs, 2));
        let a = keyspace(&db, "a");
        assert!(is_refused(&db, &a));
        write(&db, |batch| batch.put(&a, b"first", b"v"));
        if is_marked {
            db.sync().unwrap();
        }
        let is_log = |path: &Path| path.extension().is_some_and(|kind| kind == "wal");
        let files = fs.files();
        let segments = files.iter().filter(|(path, _)| is_log(path)).count();
        assert_eq!(segments, 1, "the refused one is left over");
        let db = stepped(&fs.crash(1, Keep::Everything), Durability::Process).unwrap();
        assert!(db.get(&keyspace(&db, "a"), b"first").unwrap().is_some());
        assert!(db.recovered().cut_off.is_empty(), "{:?}", db.recovered());
    }
}

#[test]
fn a_group_that_was_refused_leaves_no_records() {
    let fs = MemoryFs::crashable();
    let db = open_on(&refusing(&fs, 3));
    let a = keyspace(&db, "a");
    assert!(is_refused(&db, &a));
    let after = fs.crash(1, Keep::Everything);
    let db = stepped(&after, Durability::Process).unwrap();
    assert!(db.get(&keyspace(&db, "a"), b"refused").unwrap().is_none());
    assert!(db.recovered().cut_off.is_empty(), "{:?}", db.recovered());
}

/// The names of the files of the store that end like this.
fn files_of(fs: &MemoryFs, end: &str) -> Vec<String> {
    let names = fs.list(DIRECTORY.as_ref()).unwrap().into_iter();
    names.filter(|name| name.ends_with(end)).collect()
}

#[test]
fn files_that_the_manifest_does_not_name_are_removed_at_the_next_start() {
    let fs = MemoryFs::volatile();
    let db = stepped(&fs, Durability::Process).unwrap();
    let a = keyspace(&db, "a");
    write(&db, |batch| batch.put(&a, b"key", b"value"));
    db.flush(&a).unwrap();
    db.close().unwrap();
    drop((db, a));
    let [table] = &files_of(&fs, ".sst")[..] else {
        panic!("one flush writes one file");
    };
    let orphans = ["000900.sst", "000901.wal", "MANIFEST-000902", "CURRENT.new"];
    for name in orphans {
        let file = fs.create(&Path::new(DIRECTORY).join(name)).unwrap();
        file.write_at(b"left over", 0).unwrap();
    }
    let db = stepped(&fs, Durability::Process).unwrap();
    for name in orphans {
        assert!(files_of(&fs, name).is_empty(), "{name}");
    }
    assert_eq!(files_of(&fs, ".sst"), [table.as_str()]);
    assert_eq!(files_of(&fs, "CURRENT").len(), 1);
    let a = keyspace(&db, "a");
    assert_eq!(db.get(&a, b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_flush_that_fails_leaves_no_file() {
    for operation in [Operation::Write, Operation::Sync] {
        let fs = MemoryFs::volatile();
        let disk = FaultFs::new(Arc::new(fs.clone()));
        let db = open_on(&disk);
        let a = keyspace(&db, "a");
        write(&db, |batch| batch.put(&a, b"key", b"value"));
        disk.set(Some(Fault {
            operation: Some(operation),
            path: ".sst".into(),
            nth: 1,
            failure: Failure::Error(io::ErrorKind::StorageFull),
            sticky: false,
        }));
        assert!(db.flush(&a).is_err(), "{operation:?}");
        assert_eq!(files_of(&fs, ".sst"), [""; 0], "{operation:?}");
        // A failed sync ends all writing.
        assert_eq!(db.flush(&a).is_ok(), operation == Operation::Write);
    }
}

#[test]
fn the_log_stays_within_its_limit_while_memtables_have_room() {
    let config = Config {
        wal_segment_bytes: 16 << 10,
        wal_bytes_max: 64 << 10,
        ..config(Durability::Process)
    };
    let environment = environment(Arc::new(MemoryFs::volatile()));
    let db = Db::open_with(DIRECTORY.as_ref(), config, environment).unwrap();
    let [idle, busy] = ["idle", "busy"].map(|name| keyspace(&db, name));
    write(&db, |batch| batch.put(&idle, b"key", b"value"));
    for row in 0..400u32 {
        write(&db, |batch| {
            batch.put(&busy, &row.to_be_bytes(), &[7; 1000])
        });
        while db.step().unwrap().is_some() {}
        // One segment is in use, and one is full before the flush that releases it.
        let stats = db.stats();
        assert!(stats.wal_bytes <= (64 + 2 * 16) << 10, "{stats:?}");
    }
    assert!((2..20).contains(&db.stats().flushes), "{:?}", db.stats());
}

#[test]
fn values_of_the_length_that_is_separated_lie_in_the_value_log() {
    for (length, is_separated) in [(999, false), (1000, true)] {
        let config = Config {
            value_bytes_separated: 1000,
            ..config(Durability::Memory)
        };
        let environment = environment(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with(DIRECTORY.as_ref(), config, environment).unwrap();
        let a = keyspace(&db, "a");
        write(&db, |batch| batch.put(&a, b"key", &vec![7; length]));
        let stats = db.stats();
        assert_eq!(stats.value_log_bytes > 0, is_separated, "{stats:?}");
    }
}

/// A store with short log segments, which are soon used again.
fn reusing(path: &Path, fs: impl Fs + 'static, config: &Config) -> Db {
    Db::open_with(path, config.clone(), environment(Arc::new(fs))).unwrap()
}

fn reusing_config(choices: &mut Choices, durability: Durability) -> Config {
    Config {
        wal_segment_bytes: 5000 + choices.below(10_000) as usize,
        ..config(durability)
    }
}

/// Writes a batch, and sometimes flushes, so that the log segments before the last one are reused.
fn write_and_flush(db: &Db, choices: &mut Choices) {
    let a = keyspace(db, "a");
    let is_long = choices.one_in(30);
    let length = choices.below(if is_long { 20_000 } else { 300 });
    let value = vec![choices.below(256) as u8; length as usize];
    write(db, |batch| batch.put(&a, &random_key(choices), &value));
    if choices.one_in(20) {
        db.flush(&a).unwrap();
    }
}

#[test]
fn the_death_of_the_process_cuts_nothing_off_a_log_segment_that_was_used_before() {
    let modes = [
        (Durability::Process, false),
        (Durability::Disk, false),
        (Durability::Disk, true),
    ];
    for seed in test_seeds((8.0 * scale()) as u64) {
        for (durability, at_once) in modes {
            let choices = &mut Choices::new(seed);
            let config = reusing_config(choices, durability);
            let memory = MemoryFs::crashable();
            let mut disk = HookFs::new(memory.clone(), |_, _| Ok(()));
            if at_once {
                disk = disk.at_once();
            }
            let db = reusing(DIRECTORY.as_ref(), disk, &config);
            for write in 0..300 {
                write_and_flush(&db, choices);
                let left = memory.crash(seed, Keep::Everything);
                let next = reusing(DIRECTORY.as_ref(), left, &config);
                let cut_off = &next.recovered().cut_off;
                let context = format!("seed {seed}, {durability:?}, {at_once}, write {write}");
                assert!(cut_off.is_empty(), "{context}: {cut_off:?}");
            }
        }
    }
}

#[test]
fn an_abandoned_store_on_a_disk_cuts_nothing_off_a_log_segment_that_was_used_before() {
    for seed in test_seeds((3.0 * scale()) as u64) {
        let choices = &mut Choices::new(seed);
        let place = tempfile::tempdir().unwrap();
        let config = reusing_config(choices, Durability::Disk);
        for life in 0..3 {
            let db = reusing(place.path(), DiskFs::default(), &config);
            let cut_off = &db.recovered().cut_off;
            assert!(cut_off.is_empty(), "seed {seed}, {life}: {cut_off:?}");
            for _ in 0..100 + choices.below(100) {
                write_and_flush(&db, choices);
            }
            db.abandon();
        }
    }
}

#[test]
fn values_that_are_deleted_give_their_space_back_at_rest() {
    let fs = MemoryFs::volatile();
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..environment(Arc::new(fs))
    };
    let db = Db::open_with(DIRECTORY.as_ref(), Config::default(), environment).unwrap();
    let a = keyspace(&db, "a");
    for key in 0..16u8 {
        write(&db, |batch| batch.put(&a, &[key], &[key; 1 << 20]));
    }
    db.flush(&a).unwrap();
    for key in 0..16u8 {
        write(&db, |batch| batch.delete(&a, &[key]));
    }
    for _ in 0..10 {
        clock.advance(Duration::from_secs(10));
        while db.step().unwrap().is_some() {}
    }
    assert_eq!(db.stats().value_log_bytes, 0);
}

/// Once armed, holds up the first sync of a value-log segment, and then fails it.
#[derive(Debug, Default)]
struct FailingSync {
    armed: AtomicBool,
    /// Whether the sync is under way, and whether it may end.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl FailingSync {
    fn call(&self, operation: Operation, path: &Path) -> io::Result<()> {
        let is_value_log = path.extension().is_some_and(|kind| kind == "vlog");
        let is_it = operation == Operation::Sync && is_value_log;
        if !is_it || !self.armed.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, ends)| !*ends).unwrap());
        Err(io::ErrorKind::Other.into())
    }

    fn await_begin(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |(began, _)| !*began)
                .unwrap(),
        );
    }

    fn end(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

#[test]
fn a_failed_sync_of_a_value_reaches_the_writer_who_waits_for_the_same_segment() {
    let failing = Arc::new(FailingSync::default());
    let fs = HookFs::new(MemoryFs::crashable(), {
        let failing = failing.clone();
        move |operation, path: &Path| failing.call(operation, path)
    });
    let db = threaded(fs);
    let a = keyspace(&db, "a");
    write(&db, |batch| batch.put(&a, b"first", &[1; 5000]));
    let mut batch = Batch::new();
    batch.put(&a, b"second", &[2; 5000]);
    let ticket = db.write(batch).unwrap();
    failing.armed.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| db.checkpoint("/copy".as_ref()));
        failing.await_begin();
        let writer = scope.spawn(|| ticket.wait());
        // The writer waits for the sync, or has not begun to: both end alike.
        thread::yield_now();
        failing.end();
        assert!(writer.join().unwrap().is_err(), "it was acknowledged");
        assert!(checkpoint.join().unwrap().is_err());
    });
    assert!(db.failure().is_some());
}

#[test]
fn a_scan_that_outlives_its_store_removes_no_file_of_the_next_one() {
    let fs = MemoryFs::volatile();
    let source = stepped(&fs, Durability::Process).unwrap();
    let a = keyspace(&source, "a");
    for round in 0..2u8 {
        (0..50u8).for_each(|row| write(&source, |batch| batch.put(&a, &[row], &[round; 100])));
        source.flush(&a).unwrap();
    }
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let open_fork = || {
        source.checkpoint("/fork".as_ref()).unwrap();
        let environment = environment(shared.clone());
        Db::open_with("/fork".as_ref(), Config::default(), environment).unwrap()
    };
    let fork = open_fork();
    let mut scan = fork
        .snapshot()
        .scan(&keyspace(&fork, "a"), KeyRange::all(), Direction::Forward);
    assert!(scan.advance().unwrap());
    fork.compact(&keyspace(&fork, "a")).unwrap();
    fork.close().unwrap();
    drop(fork);
    remove_store(&shared, "/fork".as_ref()).unwrap();
    let fork = open_fork();
    drop(scan);
    let verified = fork.verify().unwrap();
    assert_eq!((verified.rows, verified.damages.len()), (50, 0));
    fork.close().unwrap();
    drop(fork);
    let environment = environment(shared.clone());
    Db::open_with("/fork".as_ref(), Config::default(), environment).unwrap();
}

#[test]
fn a_writer_of_a_value_that_outlives_its_store_makes_no_file() {
    let fs = MemoryFs::volatile();
    for is_abandoned in [true, false] {
        let db = stepped(&fs, Durability::Process).unwrap();
        let mut writer = db.value_writer().unwrap();
        if is_abandoned {
            db.abandon();
        } else {
            db.close().unwrap();
        }
        let before = fs.files().len();
        assert!(writer.write(LARGE).is_err());
        assert_eq!(fs.files().len(), before);
    }
}

/// A waker that reports the wake-up to a channel.
struct Woken(Mutex<Sender<()>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_task_is_woken_when_its_store_is_abandoned_or_closed() {
    for round in 0..100 {
        let db = threaded(MemoryFs::volatile());
        let a = keyspace(&db, "a");
        let mut batch = Batch::new();
        batch.put(&a, b"key", b"value");
        let mut ticket = pin!(db.write(batch).unwrap());
        let (woken, is_woken) = channel();
        let waker = Arc::new(Woken(Mutex::new(woken))).into();
        let polled = ticket.as_mut().poll(&mut Context::from_waker(&waker));
        let is_abandoned = round % 2 == 0;
        if is_abandoned {
            db.abandon();
        } else {
            db.close().unwrap();
        }
        if polled.is_pending() {
            let limit = Duration::from_secs(20);
            is_woken.recv_timeout(limit).expect("the task is not woken");
            let polled = ticket.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_ready());
        }
    }
}

#[test]
fn a_panic_in_the_making_of_a_value_log_segment_stops_writing_and_no_writer_hangs() {
    let armed = Arc::new(AtomicBool::new(true));
    let fs = HookFs::new(MemoryFs::volatile(), {
        let armed = armed.clone();
        move |operation, path: &Path| {
            let is_value_log = path.extension().is_some_and(|kind| kind == "vlog");
            if operation == Operation::Write && is_value_log && armed.swap(false, Ordering::SeqCst)
            {
                panic!("a disk that panics");
            }
            Ok(())
        }
    });
    let db = threaded(fs);
    let write = || db.write_value(&[1; 5000]);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
    assert!(caught.is_err());
    assert!(db.failure().is_some());
    let (done, is_done) = channel();
    let other = db.clone();
    thread::spawn(move || done.send(other.write_value(&[2; 5000])).unwrap());
    let limit = Duration::from_secs(20);
    let written = is_done.recv_timeout(limit).expect("it hangs");
    assert!(written.is_err());
}
