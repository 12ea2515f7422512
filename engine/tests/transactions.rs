//! Transactions: their histories are serializable, and no transaction waits for ever.

mod common;

use common::{DIRECTORY, environment, scale};
use lazurite_engine::fs::{Failure, Fault, FaultFs, MemoryFs};
use lazurite_engine::{
    Background, Choices, Config, Db, Durability, Environment, Error, Keyspace, KeyspaceOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Options with memtables so small that they are sealed and flushed all the time.
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
fn a_transaction_that_is_dropped_writes_nothing_and_unlocks() {
    let (db, keyspace) = open_in_memory();
    let mut transaction = db.transaction(&[(&keyspace, b"k")]).unwrap();
    transaction.batch().put(&keyspace, b"k", b"1");
    let waits = db.clone();
    let (sender, receiver) = channel();
    let same = keyspace.clone();
    let other = thread::spawn(move || {
        let _transaction = waits.transaction(&[(&same, b"k")]).unwrap();
        sender.send(waits.get(&same, b"k").unwrap()).unwrap();
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
            assert_eq!(db.get(&keyspace, b"k").unwrap(), None);
            drop(first);
        });
    });
    assert!(db.get(&keyspace, b"k").unwrap().is_some());
}

#[test]
fn keys_are_locked_in_both_ways_by_one_call() {
    for key in [&b"b"[..], b"both"] {
        let (db, keyspace) = open_in_memory();
        let mut first = db.begin().unwrap();
        let shared = [(&keyspace, &b"a"[..]), (&keyspace, b"both")];
        let exclusive = [(&keyspace, &b"b"[..]), (&keyspace, b"both")];
        first.lock_both(shared, exclusive).unwrap();
        let lock_shared = |key: &[u8]| {
            let mut second = db.begin().unwrap();
            second.lock_shared([(&keyspace, key)]).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| lock_shared(b"a")).join().unwrap();
            assert_waits(scope, || lock_shared(key), || drop(first));
        });
    }
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

/// One committed transaction of a history: for each key that it read, the writer of the version,
/// and the keys that it wrote.
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

/// Runs a transaction that reads some keys, and writes its id to some of those.
fn run(db: &Db, keyspace: &Keyspace, id: u64, choices: &mut Choices) -> Option<Done> {
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
        // Locks the keys in two steps, of which the second may be out of order.
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
        let value = db.get(keyspace, &[key]).unwrap();
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

/// Checks that some serial order of the transactions has the same reads and writes. Every writer of
/// a key has read the key, so the order of its versions is known: a reader of a version comes after
/// the version's writer, and before the writer of the next version.
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

#[test]
fn histories_of_transactions_are_serial() {
    let (db, keyspace) = open_in_memory();
    let count = (2_000.0 * scale()) as u64;
    let history: Vec<Done> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|number| {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || {
                    let mut choices = Choices::new(1 + number);
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
fn keys_of_later_keyspaces_are_unlocked_between_commits() {
    let (db, first) = open_in_memory();
    let second = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    let both = [(&first, &b"k"[..]), (&second, &b"2"[..])];
    let mut transaction = db.transaction(&both).unwrap();
    transaction.batch().put(&first, b"k", b"1");
    drop(transaction.commit().unwrap());
    transaction.unlock_from(&second);
    transaction.admit_deletion_again().unwrap();
    // The key is out of order, so the lock is refused at once if it is not free.
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
    // This key is not out of order, wherever it sorts beside the one that was unlocked.
    transaction.lock([(&second, &b"1"[..])]).unwrap();
    transaction.batch().put(&second, b"1", b"1");
    drop(transaction.commit().unwrap());
}
