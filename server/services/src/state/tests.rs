//! Operations on whole stores on a disk that fails, fills up and loses power at any call, and in
//! random order.

use crate::state::{DataDirectory, ForkSource, Store, Stores, stores_for_tests};
use lazurite_blob::{ContainerSettings, ListContainers};
use lazurite_engine::fs::{Failure, Fault, FaultFs, Fs, Keep, Lock, MemoryFs, Operation};
use lazurite_engine::{Batch, Config, Durability, Environment, KeyspaceOptions, test_seeds};
use lazurite_protocol::accounts::DEVELOPMENT_ACCOUNT;
use lazurite_protocol::response::error::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

const ROOT: &str = "/data";

type Names = BTreeSet<String>;

fn set(names: &[&str]) -> Names {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Opens a data directory as a server does. The error is a sentence.
fn open(fs: Arc<dyn Fs>, durability: Durability) -> std::result::Result<Arc<Stores>, String> {
    let config = Config {
        durability,
        ..Config::default()
    };
    let environment = Environment {
        fs,
        ..Environment::system(durability)
    };
    let directory = DataDirectory::open(ROOT.as_ref(), config, environment);
    let directory = directory.map_err(|error| error.to_string())?;
    let stores = Arc::new(stores_for_tests(directory)?);
    stores.start_housekeeping();
    Ok(stores)
}

async fn close(stores: &Stores) -> lazurite_engine::Result<()> {
    stores.close_others().await;
    stores.close().await
}

/// Creates a container named `name` and waits until the write is acknowledged.
async fn put(stores: &Stores, name: &str) {
    put_in(&stores.current(), name).await;
}

async fn put_in(store: &Store, name: &str) {
    let settings = ContainerSettings::default();
    let blobs = &store.services.blobs;
    let made = blobs.create_container_with(DEVELOPMENT_ACCOUNT, name, settings);
    let (_, ticket) = made.unwrap();
    ticket.await.unwrap();
    store.check_in_service().unwrap();
}

/// The names of the containers in the current store.
fn names(stores: &Stores) -> Names {
    names_in(&stores.current())
}

fn names_in(store: &Store) -> Names {
    let list = ListContainers::default();
    let page = store
        .services
        .blobs
        .list_containers(DEVELOPMENT_ACCOUNT, &list);
    let containers = page.unwrap().containers.into_iter();
    containers.map(|(name, _)| name).collect()
}

async fn snapshots(stores: &Arc<Stores>) -> Names {
    let listed = stores.list_snapshots().await.unwrap();
    listed.into_iter().map(|snapshot| snapshot.name).collect()
}

/// An operation on a store with containers `aaa` and `bbb`, and a snapshot `one` from before `bbb`.
#[derive(Debug, Clone, Copy)]
enum Step {
    Reset,
    Restore,
    Take,
    Delete,
}

impl Step {
    const ALL: [Step; 4] = [Step::Reset, Step::Restore, Step::Take, Step::Delete];

    async fn run(self, stores: &Arc<Stores>) -> Result<()> {
        match self {
            Step::Reset => stores.reset().await,
            Step::Restore => stores.restore("one".to_owned()).await,
            Step::Take => stores.take_snapshot("two".to_owned()).await.map(|_| ()),
            Step::Delete => stores.delete_snapshot("one".to_owned()).await,
        }
    }

    /// The names of containers and snapshots after the operation.
    fn after(self) -> (Names, Names) {
        match self {
            Step::Reset => (set(&[]), set(&["one"])),
            Step::Restore => (set(&["aaa"]), set(&["one"])),
            Step::Take => (set(&["aaa", "bbb"]), set(&["one", "two"])),
            Step::Delete => (set(&["aaa", "bbb"]), set(&[])),
        }
    }
}

fn before() -> (Names, Names) {
    (set(&["aaa", "bbb"]), set(&["one"]))
}

async fn prepared(fs: Arc<dyn Fs>, durability: Durability) -> Arc<Stores> {
    let stores = open(fs, durability).unwrap();
    put(&stores, "aaa").await;
    stores.take_snapshot("one".to_owned()).await.unwrap();
    put(&stores, "bbb").await;
    stores
}

async fn state(stores: &Arc<Stores>) -> (Names, Names) {
    (names(stores), snapshots(stores).await)
}

/// Restores each snapshot in turn and checks its contents.
async fn check_snapshots(stores: &Arc<Stores>, context: &str) {
    for snapshot in snapshots(stores).await {
        stores.restore(snapshot.clone()).await.unwrap();
        let expected = if snapshot == "one" {
            set(&["aaa"])
        } else {
            set(&["aaa", "bbb"])
        };
        assert_eq!(names(stores), expected, "{context}: {snapshot}");
    }
}

fn fault(path: &str, nth: u64, kind: ErrorKind) -> Fault {
    Fault {
        operation: None,
        path: path.to_owned(),
        nth,
        failure: Failure::Error(kind),
        sticky: true,
    }
}

#[tokio::test]
async fn power_cut_at_any_call_leaves_the_state_before_or_after_and_all_snapshots() {
    for step in Step::ALL {
        for nth in 1.. {
            let fs = MemoryFs::crashable();
            let faults = FaultFs::new(Arc::new(fs.clone()));
            let stores = prepared(Arc::new(faults.clone()), Durability::Disk).await;
            faults.set(Some(fault("", nth, ErrorKind::Other)));
            let outcome = step.run(&stores).await;
            let (_, fired) = faults.seen();
            for keep in [Keep::Nothing, Keep::Everything] {
                let left = fs.crash(nth, keep);
                let context = format!("{step:?}, call {nth}, {keep:?}: {outcome:?}");
                let stores = open(Arc::new(left), Durability::Disk);
                let stores = stores.unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = state(&stores).await;
                let is_right = found == step.after() || outcome.is_err() && found == before();
                assert!(is_right, "{context}: {found:?}");
                check_snapshots(&stores, &context).await;
                close(&stores).await.unwrap();
            }
            let _ = close(&stores).await;
            if !fired {
                break;
            }
        }
    }
}

#[tokio::test]
async fn operation_on_a_disk_that_is_full_changes_nothing_and_succeeds_later() {
    for durability in [Durability::Process, Durability::Memory] {
        for (step, path) in Step::ALL
            .into_iter()
            .flat_map(|step| [(step, "/stores/"), (step, "STORES")])
        {
            for nth in 1.. {
                let faults = FaultFs::new(Arc::new(MemoryFs::volatile()));
                let stores = prepared(Arc::new(faults.clone()), durability).await;
                faults.set(Some(fault(path, nth, ErrorKind::StorageFull)));
                let outcome = step.run(&stores).await;
                let (_, fired) = faults.seen();
                faults.set(None);
                let context = format!("{step:?}, {path}, call {nth}: {outcome:?}");
                if let Err(failure) = &outcome {
                    // After a failed sync the outcome is unknown, so 500 is as right as 507.
                    assert!([507, 500].contains(&failure.status.as_u16()), "{context}");
                    assert_eq!(state(&stores).await, before(), "{context}");
                    put(&stores, "ccc").await;
                    assert_eq!(names(&stores), set(&["aaa", "bbb", "ccc"]));
                    let again = step.run(&stores).await;
                    again.unwrap_or_else(|failure| panic!("{context}: {failure:?}"));
                }
                let (_, snapshots) = state(&stores).await;
                assert_eq!(snapshots, step.after().1, "{context}");
                let _ = close(&stores).await;
                if !fired {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn directory_whose_sync_failed_keeps_the_former_store_for_the_next_start() {
    let fs = MemoryFs::crashable();
    let faults = FaultFs::new(Arc::new(fs.clone()));
    let stores = prepared(Arc::new(faults.clone()), Durability::Disk).await;
    stores.reset().await.unwrap();
    put(&stores, "ccc").await;
    // No sync of the directory of stores comes first: an earlier reset has created the directory.
    faults.set(Some(Fault {
        operation: Some(Operation::SyncDirectory),
        nth: 1,
        ..fault(ROOT, 1, ErrorKind::Other)
    }));
    let refused = stores.reset().await.unwrap_err();
    assert_eq!(refused.status, 500);
    faults.set(None);
    for keep in [Keep::Nothing, Keep::Everything] {
        let stores = open(Arc::new(fs.crash(1, keep)), Durability::Disk).unwrap();
        assert!(
            [set(&["ccc"]), set(&[])].contains(&names(&stores)),
            "{keep:?}"
        );
        close(&stores).await.unwrap();
    }
    let _ = close(&stores).await;
}

#[tokio::test]
async fn two_restores_at_once_happen_one_after_the_other() {
    let stores = prepared(Arc::new(MemoryFs::volatile()), Durability::Process).await;
    stores.take_snapshot("two".to_owned()).await.unwrap();
    for _ in 0..10 {
        let restores = ["one", "two"].map(|name| stores.restore(name.to_owned()));
        let [first, second] = restores;
        let (first, second) = tokio::join!(first, second);
        first.unwrap();
        second.unwrap();
        let names = names(&stores);
        assert!(
            [set(&["aaa"]), set(&["aaa", "bbb"])].contains(&names),
            "{names:?}"
        );
    }
    close(&stores).await.unwrap();
}

#[tokio::test]
async fn store_that_is_retired_acknowledges_nothing_and_is_removed_when_unused() {
    let fs = MemoryFs::volatile();
    let stores = prepared(Arc::new(fs.clone()), Durability::Process).await;
    let former = stores.current();
    former.check_in_service().unwrap();
    stores.reset().await.unwrap();
    let refused = former.check_in_service().unwrap_err();
    assert_eq!(
        (refused.status.as_u16(), &*refused.code),
        (503, "ServerBusy")
    );
    assert!(
        refused
            .headers
            .iter()
            .any(|(name, value)| name == "retry-after" && value == "1")
    );
    // The former store stays readable for requests that hold it.
    let list = ListContainers::default();
    let page = former
        .services
        .blobs
        .list_containers(DEVELOPMENT_ACCOUNT, &list);
    assert_eq!(page.unwrap().containers.len(), 2);
    let top = || fs.list(ROOT.as_ref()).unwrap();
    assert!(top().contains(&"CURRENT".to_owned()));
    drop(former);
    while top().contains(&"CURRENT".to_owned()) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let lock = fs.lock("/data/LOCK".as_ref()).unwrap();
    assert!(
        matches!(lock, Lock::Held(_)),
        "the data directory stays locked"
    );
    close(&stores).await.unwrap();
}

/// Makes a fork of a snapshot with `names` containers. Returns the number of calls of `operation`
/// below the directory of stores that this takes.
async fn calls_of_a_fork(operation: Operation, names: usize) -> u64 {
    let faults = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let stores = open(Arc::new(faults.clone()), Durability::Process).unwrap();
    for name in 0..names {
        put(&stores, &format!("name-{name}")).await;
    }
    stores.take_snapshot("one".to_owned()).await.unwrap();
    let fork = || stores.fork_from(None, ForkSource::Snapshot("one".to_owned()));
    // The first fork flushes the snapshot's WAL to SSTables, so that the next one is cheaper.
    fork().await.unwrap();
    faults.set(Some(Fault {
        operation: Some(operation),
        sticky: false,
        ..fault("/stores/", u64::MAX, ErrorKind::Other)
    }));
    fork().await.unwrap();
    let (calls, _) = faults.seen();
    close(&stores).await.unwrap();
    calls
}

#[tokio::test]
async fn fork_takes_no_sync_and_the_same_calls_of_the_disk_however_much_its_source_holds() {
    for (operation, most) in [
        (Operation::Create, 2),
        (Operation::Write, 4),
        (Operation::Open, 8),
        (Operation::Read, 24),
        (Operation::Sync, 0),
        (Operation::SyncDirectory, 0),
    ] {
        let few = calls_of_a_fork(operation, 1).await;
        assert!(few <= most, "{operation:?}: {few}");
        assert_eq!(calls_of_a_fork(operation, 500).await, few, "{operation:?}");
    }
}

#[tokio::test]
async fn forks_of_now_and_of_a_snapshot_find_no_log_that_a_small_memtable_keeps() {
    let stores = open(Arc::new(MemoryFs::volatile()), Durability::Process).unwrap();
    let db = stores.current().services.db();
    let keyspace = db.keyspace("filler", KeyspaceOptions::default()).unwrap();
    let fill = || {
        let mut batch = Batch::new();
        (0..3000u32).for_each(|row| batch.put(&keyspace, &row.to_be_bytes(), &[7; 1024]));
        drop(db.write(batch).unwrap());
        db.flush(&keyspace).unwrap();
        assert!(db.stats().wal_bytes > 2 << 20);
    };
    put(&stores, "aaa").await;
    fill();
    stores.take_snapshot("one".to_owned()).await.unwrap();
    let number = stores.file.lock().await.snapshot("one").unwrap().number;
    assert!(!stores.directories.has_log(number).unwrap());
    put(&stores, "bbb").await;
    fill();
    let fork = stores.fork_from(Some("f".to_owned()), ForkSource::Now);
    fork.await.unwrap();
    let fork = stores.fork("f").unwrap();
    assert_eq!(names_in(&fork), set(&["aaa", "bbb"]));
    assert!(db.stats().wal_bytes < 1 << 20, "{:?}", db.stats());
    drop((fork, db, keyspace));
    close(&stores).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fork_that_is_held_outlives_its_lifetime_without_requests_until_it_is_let_go() {
    let stores = open(Arc::new(MemoryFs::volatile()), Durability::Memory).unwrap();
    for name in ["held", "idle"] {
        let made = stores.fork_from(Some(name.to_owned()), ForkSource::Now);
        made.await.unwrap();
    }
    let names = || -> Vec<_> {
        let forks = stores.list_forks().into_iter();
        forks.map(|fork| fork.name).collect()
    };
    let held = stores.hold_fork("held".to_owned()).unwrap();
    let lifetime = stores.settings.forks.lifetime;
    tokio::time::sleep(3 * lifetime).await;
    assert_eq!(names(), ["held"]);
    stores.check_held(&held).unwrap();
    drop(held);
    tokio::time::sleep(lifetime / 2).await;
    assert_eq!(names(), ["held"], "its lifetime begins anew");
    tokio::time::sleep(lifetime).await;
    assert_eq!(names(), [""; 0]);
    let gone = stores.hold_fork("held".to_owned()).unwrap_err();
    assert_eq!(&*gone.code, "ForkNotFound");
    close(&stores).await.unwrap();
}

/// A generator of random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

#[tokio::test]
async fn random_operations_agree_with_a_model() {
    for seed in test_seeds(2) {
        for durability in [Durability::Disk, Durability::Memory] {
            check_against_model(seed, durability).await;
        }
    }
}

async fn check_against_model(seed: u64, durability: Durability) {
    let mut random = Random(seed);
    let mut fs = MemoryFs::crashable();
    let mut stores = open(Arc::new(fs.clone()), durability).unwrap();
    let mut current = Names::new();
    let mut kept: BTreeMap<String, Names> = BTreeMap::new();
    // A fork must not show later writes to its source or to other forks.
    let mut forked: BTreeMap<String, Names> = BTreeMap::new();
    for number in 0..90 {
        let name = ["one", "two", "three"][random.below(3)].to_owned();
        let context = format!("seed {seed}, {durability:?}, step {number}");
        match random.below(15) {
            10 => {
                let (fork, source) = (format!("f{}", random.below(3)), random.below(2));
                let (source, expected) = match source {
                    0 => (ForkSource::Now, Some(&current)),
                    _ => (ForkSource::Snapshot(name.clone()), kept.get(&name)),
                };
                let made = stores.fork_from(Some(fork.clone()), source).await;
                let is_new = !forked.contains_key(&fork);
                assert_eq!(made.is_ok(), is_new && expected.is_some(), "{context}");
                if let (Some(expected), true) = (expected, is_new) {
                    forked.insert(fork, expected.clone());
                }
            }
            11..=13 => {
                let fork = format!("f{}", random.below(3));
                let store = stores.fork(&fork);
                assert_eq!(store.is_some(), forked.contains_key(&fork), "{context}");
                if let (Some(store), Some(names)) = (store, forked.get_mut(&fork)) {
                    let name = format!("name-{number}");
                    put_in(&store, &name).await;
                    names.insert(name);
                }
            }
            14 => {
                let fork = format!("f{}", random.below(3));
                let released = stores.release_fork(&fork).is_ok();
                assert_eq!(released, forked.remove(&fork).is_some(), "{context}");
            }
            0..=3 => {
                let name = format!("name-{number}");
                put(&stores, &name).await;
                current.insert(name);
            }
            4 => {
                let taken = stores.take_snapshot(name.clone()).await;
                assert_eq!(taken.is_err(), kept.contains_key(&name), "{context}");
                kept.entry(name).or_insert_with(|| current.clone());
            }
            5 => {
                let restored = stores.restore(name.clone()).await;
                let expected = kept.get(&name);
                assert_eq!(restored.is_ok(), expected.is_some(), "{context}");
                current = expected.cloned().unwrap_or(current);
            }
            6 => {
                let deleted = stores.delete_snapshot(name.clone()).await;
                assert_eq!(deleted.is_ok(), kept.remove(&name).is_some(), "{context}");
            }
            7 => {
                stores.reset().await.unwrap();
                current.clear();
            }
            _ if durability == Durability::Memory => {}
            kind => {
                if kind == 8 {
                    close(&stores).await.unwrap();
                } else {
                    let left = fs.crash(seed, Keep::Sectors);
                    let _ = close(&stores).await;
                    fs = left;
                }
                stores = open(Arc::new(fs.clone()), durability).unwrap();
                forked.clear();
            }
        }
        assert_eq!(names(&stores), current, "{context}");
        for (fork, expected) in &forked {
            let store = stores.fork(fork).expect("the fork was not released");
            assert_eq!(names_in(&store), *expected, "{context}: {fork}");
        }
        let names: Names = kept.keys().cloned().collect();
        assert_eq!(snapshots(&stores).await, names, "{context}");
    }
    for (name, expected) in kept {
        stores.restore(name).await.unwrap();
        assert_eq!(names(&stores), expected, "seed {seed}");
    }
    close(&stores).await.unwrap();
}

#[tokio::test]
async fn a_replaced_store_ends_with_its_last_user_whatever_part_that_holds() {
    let stores = open(Arc::new(MemoryFs::volatile()), Durability::Process).unwrap();
    let store = stores.current();
    let mut ending = store.services.ending();
    let users: Vec<Box<dyn std::any::Any>> = vec![
        Box::new(store.services.clone()),
        Box::new(store.properties.clone()),
        Box::new(store.authenticator.clone()),
        Box::new(store.blob.clone()),
        Box::new(store.queue.clone()),
        Box::new(store.table.clone()),
        Box::new(store),
    ];
    stores.reset().await.unwrap();
    for user in users {
        assert!(!ending.has_come());
        drop(user);
    }
    // The store's tasks, and its removal, drop the store once they run.
    ending.wait().await;
}

#[tokio::test]
async fn a_fork_is_unused_only_without_requests_and_their_responses() {
    let stores = open(Arc::new(MemoryFs::volatile()), Durability::Process).unwrap();
    let mut store = stores.current();
    let users: Vec<Box<dyn std::any::Any>> = vec![
        Box::new(store.blob.clone()),
        Box::new(store.queue.clone()),
        Box::new(store.table.clone()),
        Box::new(store.clone()),
    ];
    stores.reset().await.unwrap();
    for user in users {
        assert!(!Store::is_unused(&mut store));
        drop(user);
    }
    while !Store::is_unused(&mut store) {
        tokio::task::yield_now().await;
    }
}
