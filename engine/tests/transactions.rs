//! Transactions: their histories are serializable, and no transaction waits for ever.

mod common;

use common::{Choices, DIRECTORY, environment, scale};
use lazurite_engine::fs::{Failure, Fault, FaultFs, MemoryFs};
use lazurite_engine::{
    Background, Batch, Config, Db, Direction, Durability, Environment, Error, KeyRange, Keyspace,
    KeyspaceOptions, Result, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables so small that they are sealed and flushed all the time.
fn config() -> Config {
    Config {
        durability: Durability::Memory,
        memtable_bytes_max: 16 << 10,
        value_bytes_separated: 1 << 10,
        ..Config::default()
    }
}

fn open_in_memory() -> (Db, Keyspace) {
    let environment = Environment {
        background: Background::Threads,
        ..environment(Arc::new(MemoryFs::volatile()))
    };
    let db = Db::open_with(Path::new(DIRECTORY), config(), environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    (db, keyspace)
}

fn put(db: &Db, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
    let mut transaction = db.transaction(&[(keyspace, key)]).unwrap();
    transaction.batch().put(keyspace, key, value);
    drop(transaction.commit().unwrap());
}

/// Checks that `wait` returns after `release`, and not before.
fn assert_waits<'s>(
    scope: &'s thread::Scope<'s, '_>,
    wait: impl FnOnce() + Send + 's,
    release: impl FnOnce(),
) {
    let (sender, receiver) = channel();
    scope.spawn(move || {
        wait();
        sender.send(()).unwrap();
    });
    assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
    release();
    receiver.recv_timeout(Duration::from_secs(30)).unwrap();
}

#[test]
fn a_transaction_reads_its_own_writes() {
    let (db, keyspace) = open_in_memory();
    let large = vec![7; 5000];
    put(&db, &keyspace, b"old", b"1");
    put(&db, &keyspace, b"range/1", b"1");
    let mut transaction = db.transaction(&[(&keyspace, b"old")]).unwrap();
    let mut optimistic = db.optimistic();
    let mut get = |key: &[u8], change: &dyn Fn(&mut Batch)| {
        change(transaction.batch());
        change(optimistic.batch());
        let value = transaction.get(&keyspace, key).unwrap();
        assert_eq!(value, optimistic.get(&keyspace, key).unwrap());
        value.map(|value| value.to_vec())
    };
    assert_eq!(get(b"old", &|_| {}), Some(b"1".to_vec()));
    let put_2 = |batch: &mut Batch| batch.put(&keyspace, b"old", b"2");
    assert_eq!(get(b"old", &put_2), Some(b"2".to_vec()));
    let delete = |batch: &mut Batch| batch.delete(&keyspace, b"old");
    assert_eq!(get(b"old", &delete), None);
    let put_large = |batch: &mut Batch| {
        let value = db.write_value(&large).unwrap();
        batch.put_large(&keyspace, b"large", value);
    };
    assert_eq!(get(b"large", &put_large), Some(large.clone()));
    let put_range = |batch: &mut Batch| batch.put(&keyspace, b"range/2", b"2");
    assert_eq!(get(b"range/2", &put_range), Some(b"2".to_vec()));
    let delete_range = |batch: &mut Batch| {
        batch.delete_range(&keyspace, KeyRange::prefix(b"range/"));
    };
    assert_eq!(get(b"range/2", &delete_range), None);
    assert_eq!(get(b"range/1", &|_| {}), None);
    assert_eq!(get(b"range/2", &put_range), Some(b"2".to_vec()));
    assert_eq!(db.get(&keyspace, b"old").unwrap().unwrap(), &b"1"[..]);
    drop(transaction.commit().unwrap());
    assert_eq!(db.get(&keyspace, b"old").unwrap(), None);
    assert_eq!(db.get(&keyspace, b"large").unwrap().unwrap(), large);
    // The other one has read what this one changed.
    assert!(matches!(optimistic.commit(), Err(Error::Conflict)));
}

/// The same random change of a batch and of a map.
fn change(db: &Db, choices: &mut Choices, targets: (&mut Batch, &mut Map), keyspace: &Keyspace) {
    let (batch, map) = targets;
    let (key, value) = (choices.key(), choices.value(1500));
    match choices.below(8) {
        0 | 1 => {
            batch.delete(keyspace, &key);
            map.remove(&key);
        }
        2 => {
            let end = choices.key();
            let range = KeyRange {
                start: key.clone(),
                end: Some(end.clone()),
            };
            batch.delete_range(keyspace, range);
            map.retain(|here, _| *here < key || *here >= end);
        }
        3 => {
            batch.put_large(keyspace, &key, db.write_value(&value).unwrap());
            map.insert(key, value);
        }
        _ => {
            batch.put(keyspace, &key, &value);
            map.insert(key, value);
        }
    }
}

/// All rows that a scan finds, from the least key to the greatest.
fn rows_of(mut rows: lazurite_engine::Scan, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    while rows.advance().unwrap() {
        found.push((rows.key().to_vec(), rows.value().unwrap().to_vec()));
    }
    if direction == Direction::Backward {
        found.reverse();
    }
    found
}

#[test]
fn scans_of_a_transaction_see_its_writes_like_a_sorted_map() {
    let (db, keyspace) = open_in_memory();
    let other = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    let mut committed = Map::new();
    let mut choices = Choices(31);
    for round in 0..(200.0 * scale()) as u64 {
        let mut transaction = db.begin().unwrap();
        let mut optimistic = db.optimistic();
        let mut expected = committed.clone();
        for _ in 0..choices.below(12) {
            let mut again = choices.clone();
            let targets = (transaction.batch(), &mut expected);
            change(&db, &mut choices, targets, &keyspace);
            let targets = (optimistic.batch(), &mut expected);
            change(&db, &mut again, targets, &keyspace);
            transaction
                .batch()
                .put(&other, &choices.key(), b"elsewhere");
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let start = choices.key();
            let end = Some(choices.key()).filter(|end| *end > start);
            let range = KeyRange { start, end };
            let in_range = |key: &[u8]| {
                key >= &range.start[..] && range.end.as_ref().is_none_or(|end| key < &end[..])
            };
            let rows = expected.iter().filter(|(key, _)| in_range(key));
            let rows: Vec<_> = rows
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let scan = transaction.scan(&keyspace, range.clone(), direction);
            assert_eq!(rows_of(scan, direction), rows, "round {round}");
            let scan = optimistic.scan(&keyspace, range.clone(), direction);
            assert_eq!(rows_of(scan, direction), rows, "round {round}");
        }
        if choices.one_in(2) {
            drop(transaction.commit().unwrap());
            committed = expected;
        }
        // What only a transaction saw is not remembered as the state of the store.
        let scan = db
            .snapshot()
            .scan(&keyspace, KeyRange::all(), Direction::Forward);
        let found: Map = rows_of(scan, Direction::Forward).into_iter().collect();
        assert_eq!(found, committed, "round {round}");
    }
}

#[test]
fn a_transaction_that_is_dropped_writes_nothing_and_unlocks() {
    let (db, keyspace) = open_in_memory();
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    transaction.batch().put(&keyspace, b"k", b"1");
    let waits = db.clone();
    let (sender, receiver) = channel();
    let same = keyspace.clone();
    let other = thread::spawn(move || {
        let mut transaction = waits.transaction(&[(&same, b"k")]).unwrap();
        sender.send(transaction.get(&same, b"k").unwrap()).unwrap();
    });
    assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
    drop(transaction);
    let read = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(read, None);
    other.join().unwrap();
}

#[test]
fn thread_that_would_wait_for_itself_gets_an_error() {
    let (db, keyspace) = open_in_memory();
    let _first = db
        .transaction(&[(&keyspace, b"a"), (&keyspace, b"a")])
        .unwrap();
    let second = db.transaction(&[(&keyspace, b"b"), (&keyspace, b"a")]);
    assert!(matches!(second, Err(Error::Deadlock)));
    drop(db.transaction(&[(&keyspace, b"b")]).unwrap());
}

#[test]
fn keyspaces_are_locked_in_the_order_of_their_opening() {
    let memory = Arc::new(MemoryFs::crashable());
    let open = |names: [&str; 2]| {
        let environment = Environment {
            background: Background::Threads,
            ..environment(memory.clone())
        };
        let config = Config {
            durability: Durability::Process,
            ..config()
        };
        let db = Db::open_with(Path::new(DIRECTORY), config, environment).unwrap();
        let keyspaces = names.map(|name| db.keyspace(name, KeyspaceOptions::default()).unwrap());
        (db, keyspaces)
    };
    let (db, _) = open(["second", "first"]);
    db.close().unwrap();
    drop(db);
    let (db, [first, second]) = open(["first", "second"]);
    let holder = db.transaction(&[(&second, b"k")]).unwrap();
    thread::scope(|scope| {
        let wait = || {
            let mut transaction = db.transaction(&[(&first, b"k")]).unwrap();
            transaction.lock([(&second, &b"k"[..])]).unwrap();
        };
        assert_waits(scope, wait, || drop(holder));
    });
}

#[test]
fn exclusive_lock_of_a_key_that_is_held_shared_is_exclusive() {
    let (db, keyspace) = open_in_memory();
    let mut first = db.begin().unwrap();
    first.lock_shared([(&keyspace, &b"k"[..])]).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut second = db.begin().unwrap();
            second.lock_shared([(&keyspace, &b"k"[..])]).unwrap();
            let refused = second.lock([(&keyspace, &b"k"[..])]);
            assert!(matches!(refused, Err(Error::Conflict)));
        });
        other.join().unwrap();
        first.lock([(&keyspace, &b"k"[..])]).unwrap();
        let wait = || {
            let mut second = db.begin().unwrap();
            second.lock_shared([(&keyspace, &b"k"[..])]).unwrap();
        };
        assert_waits(scope, wait, || drop(first));
    });
}

/// Two threads, each with a key in one transaction, wait in a second one for the key of the other.
#[test]
fn threads_with_two_transactions_each_do_not_wait_for_each_other() {
    let (db, keyspace) = open_in_memory();
    let both_hold = std::sync::Barrier::new(2);
    let both_asked = std::sync::Barrier::new(2);
    let run = |mine: &[u8], other: &[u8]| {
        let _held = db.transaction(&[(&keyspace, mine)]).unwrap();
        both_hold.wait();
        let refused = db.transaction(&[(&keyspace, other)]);
        assert!(matches!(refused, Err(Error::Deadlock)));
        both_asked.wait();
    };
    thread::scope(|scope| {
        scope.spawn(|| run(b"a", b"b"));
        scope.spawn(|| run(b"b", b"a"));
    });
}

#[test]
fn scan_of_a_dropped_transaction_reads_its_own_large_values_after_a_collection() {
    let environment = environment(Arc::new(MemoryFs::volatile()));
    let config = Config {
        value_segment_bytes: 1 << 16,
        ..config()
    };
    let db = Db::open_with(Path::new(DIRECTORY), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    let large = vec![7; 60_000];
    let value = db.write_value(&large).unwrap();
    transaction.batch().put_large(&keyspace, b"k", value);
    let mut rows = transaction.scan(&keyspace, KeyRange::all(), Direction::Forward);
    drop(transaction);
    for _ in 0..4 {
        // Fills the segment, so that it is sealed.
        drop(db.write_value(&large).unwrap());
    }
    while db.step().unwrap().is_some() {}
    assert!(rows.advance().unwrap());
    assert_eq!(rows.value().unwrap(), large);
}

#[test]
fn scan_of_a_transaction_with_a_key_over_the_limit_is_an_error() {
    let (db, keyspace) = open_in_memory();
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    transaction
        .batch()
        .put(&keyspace, &vec![b'k'; (1 << 16) + 1], b"");
    let mut rows = transaction.scan(&keyspace, KeyRange::all(), Direction::Forward);
    assert!(matches!(rows.advance(), Err(Error::TooLarge { .. })));
    assert!(!rows.advance().unwrap());
}

#[test]
fn batch_that_is_replaced_is_read_like_any_other() {
    let (db, keyspace) = open_in_memory();
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    transaction.batch().put(&keyspace, b"k", &[1; 100]);
    transaction.get(&keyspace, b"k").unwrap();
    let mut batch = Batch::new();
    batch.put(&keyspace, b"other", b"");
    *transaction.batch() = batch;
    assert_eq!(transaction.get(&keyspace, b"k").unwrap(), None);
}

#[test]
fn write_to_another_keyspace_is_no_conflict_for_a_long_range() {
    let (db, keyspace) = open_in_memory();
    let long = db
        .keyspace(
            "long",
            KeyspaceOptions {
                memtable_bytes_max: Some(16 << 20),
                ..KeyspaceOptions::default()
            },
        )
        .unwrap();
    let mut batch = Batch::new();
    (0..20_000u32).for_each(|row| batch.put(&long, &row.to_be_bytes(), b""));
    drop(db.write(batch).unwrap());
    let mut optimistic = db.optimistic();
    let mut rows = optimistic.scan(&long, KeyRange::all(), Direction::Forward);
    while rows.advance().unwrap() {}
    optimistic.batch().put(&long, b"total", b"");
    put(&db, &keyspace, b"elsewhere", b"1");
    drop(optimistic.commit().unwrap());
}

#[test]
fn shared_locks_keep_writers_out_and_one_another_in() {
    let (db, keyspace) = open_in_memory();
    let mut first = db.begin().unwrap();
    first.lock_shared([(&keyspace, &b"k"[..])]).unwrap();
    thread::scope(|scope| {
        let shared = scope.spawn(|| {
            let mut second = db.begin().unwrap();
            second.lock_shared([(&keyspace, &b"k"[..])]).unwrap();
        });
        shared.join().unwrap();
        let wait = || put(&db, &keyspace, b"k", b"1");
        assert_waits(scope, wait, || {
            assert_eq!(first.get(&keyspace, b"k").unwrap(), None);
            drop(first);
        });
    });
    assert!(db.get(&keyspace, b"k").unwrap().is_some());
}

#[test]
fn a_commit_that_fails_unlocks() {
    let fs = FaultFs::new(Arc::new(MemoryFs::crashable()));
    let environment = Environment {
        background: Background::Threads,
        ..environment(Arc::new(fs.clone()))
    };
    let config = Config {
        durability: Durability::Process,
        ..config()
    };
    let db = Db::open_with(Path::new(DIRECTORY), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    put(&db, &keyspace, b"k", b"1");
    fs.set(Some(Fault {
        operation: None,
        path: "wal".to_owned(),
        nth: 1,
        sticky: true,
        failure: Failure::Error(io::ErrorKind::Other),
    }));
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    transaction.batch().put(&keyspace, b"k", b"2");
    assert!(transaction.commit().is_err());
    drop(transaction);
    // Another thread begins or gets an error, and does not wait.
    let (sender, receiver) = channel();
    let other = thread::spawn(move || {
        let _ = db.transaction(&[(&keyspace, b"k")]);
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    other.join().unwrap();
}

/// What an optimistic transaction that has read `range/` and `key` answers after `meanwhile`.
fn commit_after(meanwhile: impl FnOnce(&Db, &Keyspace)) -> Result<Ticket> {
    let (db, keyspace) = open_in_memory();
    put(&db, &keyspace, b"key", b"1");
    put(&db, &keyspace, b"range/2", b"1");
    let mut optimistic = db.optimistic();
    optimistic.get(&keyspace, b"key").unwrap();
    optimistic.get(&keyspace, b"absent").unwrap();
    let range = KeyRange::prefix(b"range/");
    let mut rows = optimistic.scan(&keyspace, range, Direction::Backward);
    while rows.advance().unwrap() {}
    optimistic.batch().put(&keyspace, b"written", b"1");
    meanwhile(&db, &keyspace);
    let committed = optimistic.commit();
    let is_written = db.get(&keyspace, b"written").unwrap().is_some();
    assert_eq!(is_written, committed.is_ok());
    committed
}

#[test]
fn any_change_of_rows_that_were_read_is_a_conflict() {
    type Change = fn(&mut Batch, &Keyspace);
    let conflicts: [Change; 9] = [
        |batch, keyspace| batch.put(keyspace, b"key", b"1"),
        |batch, keyspace| batch.delete(keyspace, b"key"),
        |batch, keyspace| batch.put(keyspace, b"absent", b"1"),
        |batch, keyspace| batch.put(keyspace, b"range/1", b""),
        |batch, keyspace| batch.put(keyspace, b"range/2", b"2"),
        |batch, keyspace| batch.put(keyspace, b"range/3", b""),
        |batch, keyspace| batch.delete(keyspace, b"range/2"),
        |batch, keyspace| batch.delete_range(keyspace, KeyRange::prefix(b"k")),
        |batch, keyspace| batch.delete_range(keyspace, KeyRange::prefix(b"range/2")),
    ];
    let harmless: [Change; 5] = [
        |batch, keyspace| batch.put(keyspace, b"keys", b"1"),
        |batch, keyspace| batch.put(keyspace, b"range.", b"1"),
        |batch, keyspace| batch.put(keyspace, b"range0", b"1"),
        |batch, keyspace| batch.delete_range(keyspace, KeyRange::prefix(b"range0")),
        |batch, keyspace| batch.delete_range(keyspace, KeyRange::prefix(b"keys")),
    ];
    let all = conflicts.iter().zip(std::iter::repeat(true));
    let all = all.chain(harmless.iter().zip(std::iter::repeat(false)));
    for (number, (change, is_conflict)) in all.enumerate() {
        for then in 0..3 {
            let committed = commit_after(|db, keyspace| {
                let mut batch = Batch::new();
                change(&mut batch, keyspace);
                drop(db.write(batch).unwrap());
                match then {
                    0 => {}
                    1 => db.flush(keyspace).unwrap(),
                    _ => db.compact(keyspace).unwrap(),
                }
            });
            let answered = matches!(committed, Err(Error::Conflict));
            assert_eq!(
                answered, is_conflict,
                "change {number}, {then}: {committed:?}"
            );
        }
    }
}

#[test]
fn a_transaction_that_only_reads_never_fails() {
    let (db, keyspace) = open_in_memory();
    let mut optimistic = db.optimistic();
    optimistic.get(&keyspace, b"k").unwrap();
    put(&db, &keyspace, b"k", b"1");
    optimistic.commit().unwrap().wait().unwrap();
}

#[test]
fn of_many_that_find_a_key_absent_one_writes_it() {
    let (db, keyspace) = open_in_memory();
    for round in 0..(300.0 * scale()) as u64 {
        let key = round.to_be_bytes();
        let write = |number: u8| {
            let mut optimistic = db.optimistic();
            assert_eq!(optimistic.get(&keyspace, &key).unwrap(), None);
            let mut batch_key = key.to_vec();
            batch_key.push(number);
            optimistic.batch().put(&keyspace, &key, &[number]);
            optimistic.batch().put(&keyspace, &batch_key, b"");
            optimistic
        };
        // All have read before any commits.
        let begun: Vec<_> = (0..8).map(write).collect();
        let won: usize = thread::scope(|scope| {
            let committed: Vec<_> = begun
                .into_iter()
                .map(|transaction| scope.spawn(move || transaction.commit().is_ok()))
                .collect();
            let committed = committed.into_iter().map(|thread| thread.join().unwrap());
            committed.filter(|is_ok| *is_ok).count()
        });
        assert_eq!(won, 1);
        let rows = db
            .snapshot()
            .scan(&keyspace, KeyRange::prefix(&key), Direction::Forward);
        assert_eq!(count(rows), 2);
    }
}

fn count(mut rows: lazurite_engine::Scan) -> usize {
    let mut count = 0;
    while rows.advance().unwrap() {
        count += 1;
    }
    count
}

/// One committed transaction of a history: the writer of the version that it read of each key, and the keys that it wrote.
#[derive(Debug, Default)]
struct Done {
    id: u64,
    read: BTreeMap<u8, u64>,
    wrote: BTreeSet<u8>,
}

const KEYS: u64 = 12;

fn writer_of(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..8].try_into().unwrap())
    })
}

/// Reads some keys, and writes its id to some of those.
fn run_pessimistic(db: &Db, keyspace: &Keyspace, id: u64, choices: &mut Choices) -> Option<Done> {
    let keys: Vec<u8> = (0..1 + choices.below(4))
        .map(|_| choices.below(KEYS) as u8)
        .collect();
    let written: BTreeSet<u8> = keys
        .iter()
        .copied()
        .filter(|_| choices.below(2) == 0)
        .collect();
    let mut transaction = db.begin().unwrap();
    let names: Vec<[u8; 1]> = keys.iter().map(|key| [*key]).collect();
    let is_written = |name: &&[u8; 1]| written.contains(&name[0]);
    let locks = |wanted: bool| {
        let names = names.iter().filter(move |name| is_written(name) == wanted);
        names.map(|name| (keyspace, &name[..]))
    };
    if choices.below(2) == 0 {
        transaction.lock(locks(true).chain(locks(false))).unwrap();
    } else {
        // In two steps, of which the second may be out of order.
        transaction.lock(locks(true)).unwrap();
        match transaction.lock_shared(locks(false)) {
            Err(Error::Conflict) => return None,
            locked => locked.unwrap(),
        }
    }
    let mut done = Done {
        id,
        ..Done::default()
    };
    for key in keys {
        let value = transaction.get(keyspace, &[key]).unwrap();
        done.read.insert(key, writer_of(value.as_deref()));
    }
    for key in &written {
        let value = value_of(id, choices);
        transaction.batch().put(keyspace, &[*key], &value);
    }
    drop(transaction.commit().unwrap());
    done.wrote = written;
    Some(done)
}

fn value_of(id: u64, choices: &mut Choices) -> Vec<u8> {
    let mut value = id.to_le_bytes().to_vec();
    value.resize(8 + choices.below(2000) as usize, 0);
    value
}

/// The same without locks, of keys and of whole ranges.
fn run_optimistic(db: &Db, keyspace: &Keyspace, id: u64, choices: &mut Choices) -> Option<Done> {
    let mut transaction = db.optimistic();
    let mut done = Done {
        id,
        ..Done::default()
    };
    for _ in 0..1 + choices.below(3) {
        let key = choices.below(KEYS) as u8;
        if choices.below(3) > 0 {
            let value = transaction.get(keyspace, &[key]).unwrap();
            done.read.insert(key, writer_of(value.as_deref()));
            continue;
        }
        let last = key + choices.below(4) as u8;
        let range = KeyRange {
            start: vec![key],
            end: Some(vec![last]),
        };
        // A key without a row was written by no transaction.
        done.read
            .extend((key..last.min(KEYS as u8)).map(|key| (key, 0)));
        let mut rows = transaction.scan(keyspace, range, Direction::Forward);
        while rows.advance().unwrap() {
            let value = rows.value().unwrap();
            done.read.insert(rows.key()[0], writer_of(Some(&value)));
        }
    }
    if choices.below(4) == 0 {
        thread::yield_now();
    }
    let read: Vec<u8> = done.read.keys().copied().collect();
    for key in read {
        if choices.below(2) == 0 {
            let value = value_of(id, choices);
            transaction.batch().put(keyspace, &[key], &value);
            done.wrote.insert(key);
        }
    }
    match transaction.commit() {
        Ok(_) => Some(done),
        Err(Error::Conflict) => None,
        Err(error) => panic!("{error}"),
    }
}

/// That one after the other, in some order, would have read and written the same. Every writer of a key has read it, so the order of
/// its versions is known: a reader of a version comes after its writer, and before the writer of the next version.
fn assert_serial(history: &[Done]) {
    let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut replaced: BTreeMap<(u8, u64), u64> = BTreeMap::new();
    for done in history {
        for key in &done.wrote {
            let other = replaced.insert((*key, done.read[key]), done.id);
            assert_eq!(other, None, "an update of {key} was lost");
        }
    }
    for done in history {
        for (key, writer) in &done.read {
            after.entry(*writer).or_default().insert(done.id);
            let next = replaced
                .get(&(*key, *writer))
                .filter(|next| **next != done.id);
            after.entry(done.id).or_default().extend(next);
        }
    }
    // Topological sort: a history without circles leaves no transaction.
    let mut before: BTreeMap<u64, usize> = BTreeMap::new();
    for (id, later) in &after {
        before.entry(*id).or_default();
        later
            .iter()
            .for_each(|id| *before.entry(*id).or_default() += 1);
    }
    let mut free: Vec<u64> = before
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(id, _)| *id)
        .collect();
    while let Some(id) = free.pop() {
        before.remove(&id);
        for later in after.remove(&id).unwrap_or_default() {
            let count = before.get_mut(&later).unwrap();
            *count -= 1;
            if *count == 0 {
                free.push(later);
            }
        }
    }
    assert!(before.is_empty(), "a circle of {:?}", before.keys());
}

type Run = fn(&Db, &Keyspace, u64, &mut Choices) -> Option<Done>;

fn run_history(runs: [Run; 4], seed: u64) {
    let (db, keyspace) = open_in_memory();
    let count = (2_000.0 * scale()) as u64;
    let history: Vec<Done> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|number| {
                let (db, keyspace, run) = (&db, &keyspace, runs[number as usize]);
                scope.spawn(move || {
                    let mut choices = Choices(seed + number);
                    let id = |step| 1 + number + 4 * step;
                    (0..count)
                        .filter_map(|step| run(db, keyspace, id(step), &mut choices))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        done.flatten().collect()
    });
    assert!(history.len() as u64 > count, "most of them conflict");
    assert_serial(&history);
    for key in 0..KEYS as u8 {
        let value = db.get(&keyspace, &[key]).unwrap();
        let last = writer_of(value.as_deref());
        let is_replaced = history
            .iter()
            .any(|done| done.wrote.contains(&key) && done.read[&key] == last);
        assert!(!is_replaced, "the store has an old version of {key}");
    }
}

#[test]
fn histories_of_locking_transactions_are_serial() {
    run_history([run_pessimistic; 4], 1);
}

#[test]
fn histories_of_optimistic_transactions_are_serial() {
    run_history([run_optimistic; 4], 2);
}

#[test]
fn keys_of_later_keyspaces_are_unlocked_between_commits() {
    let (db, first) = open_in_memory();
    let second = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    let both = [(&first, &b"k"[..]), (&second, &b"2"[..])];
    let mut transaction = db.transaction(&both).unwrap();
    transaction.batch().put(&first, b"k", b"1");
    drop(transaction.commit().unwrap());
    transaction.unlock_from(&second);
    transaction.admit_deletion_again().unwrap();
    // Out of order, so that it is refused instead of waiting.
    let is_free = |keyspace: &Keyspace, key: &[u8]| {
        let mut other = db.begin().unwrap();
        let third = db.keyspace("c", KeyspaceOptions::default()).unwrap();
        other.lock([(&third, key)]).unwrap();
        other.lock([(keyspace, key)]).is_ok()
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| (is_free(&second, b"2"), is_free(&first, b"k")));
        assert_eq!(other.join().unwrap(), (true, false));
    });
    // Whatever its place beside the one that was unlocked, it is not out of order.
    transaction.lock([(&second, &b"1"[..])]).unwrap();
    transaction.batch().put(&second, b"1", b"1");
    drop(transaction.commit().unwrap());
}
