//! Forks: stores opened from checkpoints of another store, many in one process.

mod common;

use common::{Change, Model, Store, open_in};
use lazurite_engine::fs::{
    DiskFs, Failure, Fault, FaultFs, Fs, HookFs, Keep, ManualClock, MemoryFs, Operation,
};
use lazurite_engine::{
    Background, Batch, Choices, Config, Db, Durability, Environment, Error, Keyspace,
    KeyspaceOptions,
};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

fn put(db: &Db, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(keyspace, key, value);
    db.write(batch).unwrap().wait().unwrap();
}

/// A store with the fewest threads.
fn open_fork(path: &Path) -> Db {
    let config = Config::default();
    let environment = Environment {
        background: Background::FewThreads,
        ..Environment::system(config.durability)
    };
    Db::open_with(path, config, environment).unwrap()
}

/// A measurement. It reads the use of memory and handles from `/proc`.
#[cfg(target_os = "linux")]
mod cost {
    use super::*;
    use lazurite_engine::fs::{Clock, SystemClock};

    /// The resources that this process uses.
    #[derive(Debug, Clone, Copy)]
    struct Usage {
        threads: i64,
        handles: i64,
        /// Resident memory, in KiB.
        memory: i64,
    }

    #[allow(clippy::disallowed_methods, reason = "reads /proc, no store")]
    fn usage() -> Usage {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| -> i64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Usage {
            threads: field("Threads:"),
            handles: std::fs::read_dir("/proc/self/fd").unwrap().count() as i64,
            memory: field("VmRSS:"),
        }
    }

    /// Bytes of disk that only this directory takes: files with one name.
    #[allow(clippy::disallowed_methods, reason = "looks at files, not at a store")]
    fn own_bytes(directory: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let entries = std::fs::read_dir(directory).unwrap();
        let metadata = entries.map(|entry| entry.unwrap().metadata().unwrap());
        let own = metadata.filter(|metadata| metadata.nlink() == 1);
        own.map(|metadata| metadata.blocks() * 512).sum()
    }

    fn milliseconds(durations: &mut [Duration]) -> String {
        durations.sort();
        let last = durations.len() - 1;
        let [median, most] = [last / 2, last].map(|at| durations[at].as_secs_f64() * 1e3);
        format!("median {median:.1} ms, most {most:.1} ms")
    }

    /// Prints the cost of a fork for two sources: one whose rows are partly in the log, and one
    /// that is flushed and compacted. Run with `cargo test --test forks -- --ignored --nocapture`,
    /// and with `LAZURITE_TEST_SCALE=10` for a million rows.
    #[test]
    #[ignore = "measures, and checks nothing"]
    fn cost_of_a_hundred_forks() {
        for is_flushed in [false, true] {
            println!("source flushed and compacted: {is_flushed}");
            measure_forks(is_flushed);
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "waits for the rest that comes with time"
    )]
    fn measure_forks(is_flushed: bool) {
        const FORKS: i64 = 100;
        let clock = SystemClock::default();
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&directory.path().join("source"), Config::default()).unwrap();
        let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
        let rows = (100_000.0 * common::scale()) as u32;
        for first in (0..rows).step_by(1000) {
            let mut batch = Batch::new();
            for row in first..first + 1000 {
                batch.put(&keyspace, &row.to_be_bytes(), &[row as u8; 200]);
            }
            drop(db.write(batch).unwrap());
        }
        if is_flushed {
            let began = clock.now();
            db.flush_all().unwrap();
            db.compact(&keyspace).unwrap();
            println!(
                "flush and compaction: {:.1} ms",
                (clock.now() - began).as_secs_f64() * 1e3
            );
        }
        let before = usage();
        let (mut checkpoints, mut opens) = (Vec::new(), Vec::new());
        let mut forks = Vec::new();
        for fork in 0..FORKS {
            let path = directory.path().join(format!("fork-{fork}"));
            let began = clock.now();
            db.checkpoint(&path).unwrap();
            checkpoints.push(clock.now() - began);
            let began = clock.now();
            let copy = open_fork(&path);
            opens.push(clock.now() - began);
            forks.push((copy, path));
        }
        let print = |when: &str| {
            let now = usage();
            println!(
                "{when}, per fork: {} threads, {} handles, {} KiB of memory, {} KiB of disk",
                (now.threads - before.threads) / FORKS,
                (now.handles - before.handles) / FORKS,
                (now.memory - before.memory) / FORKS,
                forks.iter().map(|(_, path)| own_bytes(path)).sum::<u64>() / 1024 / FORKS as u64,
            );
        };
        println!("checkpoint: {}", milliseconds(&mut checkpoints));
        println!("open: {}", milliseconds(&mut opens));
        print("opened");
        for (fork, _) in &forks {
            let keyspace = fork.keyspace("rows", KeyspaceOptions::default()).unwrap();
            assert!(fork.get(&keyspace, &7u32.to_be_bytes()).unwrap().is_some());
        }
        print("one row read");
        for (fork, _) in &forks {
            let keyspace = fork.keyspace("rows", KeyspaceOptions::default()).unwrap();
            put(fork, &keyspace, b"key", b"value");
        }
        print("one row written");
        std::thread::sleep(Duration::from_millis(600));
        print("at rest");
        let began = clock.now();
        for (fork, _) in &forks {
            fork.abandon();
        }
        println!(
            "abandon: {:.1} ms each",
            (clock.now() - began).as_secs_f64() * 1e3 / FORKS as f64
        );
    }
}

const FORK: &str = "/fork";

fn row(index: u8, value: &[u8]) -> Change {
    Change::Put(usize::from(index % 3), vec![index], value.to_vec())
}

/// A small store with rows in SSTables, large values, and, unless it is flushed, rows in the log.
fn source(fs: &MemoryFs, is_flushed: bool) -> (Store, Model) {
    let store = open_in("/source", Arc::new(fs.clone()), &config()).unwrap();
    let mut model = Model::default();
    for index in 0..40 {
        let length = if index % 5 == 0 { 400 } else { 10 };
        let changes = [row(index, &vec![index; length])];
        store.write(&changes).unwrap();
        model.apply(&changes);
        if index == 20 {
            store.db.flush_all().unwrap();
        }
    }
    if is_flushed {
        store.db.flush_all().unwrap();
    }
    (store, model)
}

fn config() -> Config {
    Config {
        durability: Durability::Disk,
        value_bytes_separated: 200,
        value_chunk_bytes: 100,
        ..Config::default()
    }
}

#[test]
fn fork_and_source_do_not_see_writes_of_each_other() {
    for is_flushed in [false, true] {
        let fs = MemoryFs::crashable();
        let (source, model) = source(&fs, is_flushed);
        source.db.checkpoint(FORK.as_ref()).unwrap();
        let fork = open_in(FORK, Arc::new(fs.clone()), &config()).unwrap();
        assert_eq!(fork.dump().unwrap(), model);
        let (mut in_source, mut in_fork) = (model.clone(), model);
        for index in 0..60 {
            let changes = [row(index, &[1; 300])];
            source.write(&changes).unwrap();
            in_source.apply(&changes);
            let changes = [row(index + 1, &[2; 250]), Change::Delete(0, vec![index])];
            fork.write(&changes).unwrap();
            in_fork.apply(&changes);
        }
        for store in [&source, &fork] {
            store.db.flush_all().unwrap();
            let compact = |keyspace| store.db.compact(keyspace).unwrap();
            store.keyspaces.iter().for_each(compact);
            while store.db.step().unwrap().is_some() {}
        }
        assert_eq!(source.dump().unwrap(), in_source);
        assert_eq!(fork.dump().unwrap(), in_fork);
        for (name, store) in [("fork", &fork), ("source", &source)] {
            assert_eq!(store.db.verify().unwrap().damages.len(), 0, "{name}");
        }
    }
}

#[test]
fn fork_lives_on_when_its_source_is_closed_and_its_files_are_removed() {
    for is_flushed in [false, true] {
        let fs = MemoryFs::crashable();
        let (source, mut model) = source(&fs, is_flushed);
        source.db.checkpoint(FORK.as_ref()).unwrap();
        let fork = open_in(FORK, Arc::new(fs.clone()), &config()).unwrap();
        source.db.close().unwrap();
        for name in fs.list("/source".as_ref()).unwrap() {
            fs.remove(&Path::new("/source").join(name)).unwrap();
        }
        assert_eq!(fork.dump().unwrap(), model);
        let changes = [row(50, &[3; 300])];
        fork.write(&changes).unwrap();
        model.apply(&changes);
        fork.db.close().unwrap();
        let fork = open_in(FORK, Arc::new(fs), &config()).unwrap();
        assert_eq!(fork.dump().unwrap(), model);
    }
}

#[test]
fn fork_of_a_flushed_store_has_no_log() {
    let fs = MemoryFs::crashable();
    let (source, mut model) = source(&fs, true);
    source.db.checkpoint(FORK.as_ref()).unwrap();
    let names = fs.list(FORK.as_ref()).unwrap();
    assert!(
        !names.iter().any(|name| name.ends_with(".wal")),
        "{names:?}"
    );
    // Sequence numbers go on after those of the source.
    let fork = open_in(FORK, Arc::new(fs.clone()), &config()).unwrap();
    let changes = [row(1, b"newer"), Change::Delete(0, vec![3])];
    fork.write(&changes).unwrap();
    model.apply(&changes);
    let fork = open_in(FORK, Arc::new(fs.crash(1, Keep::Nothing)), &config()).unwrap();
    assert_eq!(fork.dump().unwrap(), model);
}

/// Options of a store that lives as long as the process, among many that share their files.
fn brief_config() -> Config {
    Config {
        durability: Durability::Memory,
        merges_inherited: false,
        level0_files_max: 5,
        ..config()
    }
}

/// Returns a store with work for its background threads: SSTables in level 0 with rows in each
/// keyspace, and a value-log segment of garbage.
fn unmerged_source(fs: Arc<dyn Fs>, files: u8) -> (Store, Model) {
    let store = open_in("/source", fs, &config()).unwrap();
    let mut model = Model::default();
    for file in 0..files {
        let value = |key: u8| vec![file; if key < 3 { 400 } else { 20 }];
        let changes: Vec<_> = (0..30).map(|key| row(key, &value(key))).collect();
        store.write(&changes).unwrap();
        model.apply(&changes);
        store.db.flush_all().unwrap();
    }
    (store, model)
}

/// Runs background work until none is left, with the store at rest.
fn work_through(fork: &Store, clock: &ManualClock) {
    loop {
        clock.advance(Duration::from_secs(20));
        if fork.db.step().unwrap().is_none() {
            return;
        }
    }
}

/// Opens the fork with a clock of its own.
fn open_with_clock(fs: Arc<dyn Fs>, config: &Config) -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..common::environment(fs)
    };
    let fork = common::open_with(FORK.as_ref(), config, environment);
    (fork.unwrap(), clock)
}

/// Counts the calls of this kind that a fork makes when it is created, opened, and left alone, if
/// its source has `files` SSTables in each keyspace.
fn calls_of_a_fork(operation: Operation, files: u8) -> u64 {
    let faults = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let (source, _) = unmerged_source(Arc::new(faults.clone()), files);
    // An earlier checkpoint has ended the segments that were being written.
    source.db.checkpoint("/before".as_ref()).unwrap();
    faults.set(Some(Fault {
        operation: Some(operation),
        path: String::new(),
        nth: u64::MAX,
        failure: Failure::Error(ErrorKind::Other),
        sticky: false,
    }));
    let made = source.db.checkpoint_for(FORK.as_ref(), Durability::Memory);
    made.unwrap();
    let (fork, clock) = open_with_clock(Arc::new(faults.clone()), &brief_config());
    work_through(&fork, &clock);
    faults.seen().0
}

#[test]
fn fork_writes_reads_and_opens_no_more_for_a_large_store_than_for_a_small_one() {
    let operations = [
        (Operation::Create, 4),
        (Operation::Open, 2),
        (Operation::Write, 4),
        (Operation::Read, 4),
    ];
    for (operation, most) in operations {
        let calls = [1, 4].map(|files| calls_of_a_fork(operation, files));
        assert_eq!(calls[0], calls[1], "{operation:?}");
        assert!(calls[0] <= most, "{operation:?}: {}", calls[0]);
    }
    for operation in [Operation::Sync, Operation::SyncDirectory] {
        assert_eq!(calls_of_a_fork(operation, 4), 0, "{operation:?}");
    }
    let links = [1, 4].map(|files| calls_of_a_fork(Operation::Link, files));
    let keyspaces = common::KEYSPACES.len() as u64;
    assert_eq!(links[1] - links[0], 3 * keyspaces, "one for each SSTable");
}

/// Random bytes, which do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut choices = Choices::new(seed);
    (0..length).map(|_| choices.next() as u8).collect()
}

/// Rows of 1 KiB in the first keyspace.
fn noisy_rows(keys: std::ops::Range<u8>, seed: u64) -> Vec<Change> {
    let value = |key: u8| noise(seed << 8 | u64::from(key), 1 << 10);
    keys.map(|key| Change::Put(0, vec![key], value(key)))
        .collect()
}

/// Options with which rows of 1 KiB stay in the SSTables.
fn brief_config_of_rows() -> Config {
    Config {
        value_bytes_separated: 4 << 10,
        value_chunk_bytes: 4 << 10,
        ..brief_config()
    }
}

/// A store with four SSTables of a keyspace in level 0.
fn source_of_rows(fs: Arc<dyn Fs>) -> (Store, Model) {
    let config = Config {
        durability: Durability::Disk,
        merges_inherited: true,
        ..brief_config_of_rows()
    };
    let store = open_in("/source", fs, &config).unwrap();
    let mut model = Model::default();
    for file in 0..4 {
        let changes = noisy_rows(0..100, file);
        store.write(&changes).unwrap();
        model.apply(&changes);
        store.db.flush_all().unwrap();
    }
    (store, model)
}

#[test]
fn a_single_deletion_of_a_fork_merges_nothing_that_it_inherited() {
    for merges_inherited in [false, true] {
        let fs = MemoryFs::volatile();
        let (source, mut model) = source_of_rows(Arc::new(fs.clone()));
        let made = source.db.checkpoint_for(FORK.as_ref(), Durability::Memory);
        made.unwrap();
        let config = Config {
            merges_inherited,
            ..brief_config_of_rows()
        };
        let (fork, clock) = open_with_clock(Arc::new(fs), &config);
        let changes = [Change::Delete(0, vec![7])];
        fork.write(&changes).unwrap();
        model.apply(&changes);
        work_through(&fork, &clock);
        let stats = fork.db.stats();
        assert_eq!(stats.flushes, 1, "it hides an older row");
        assert_eq!(stats.compactions > 0, merges_inherited, "{stats:?}");
        assert_eq!(fork.dump().unwrap(), model);
        assert!(fork.db.verify().unwrap().damages.is_empty());
    }
}

#[test]
fn a_fork_merges_what_it_inherited_once_it_has_written_a_quarter_as_much() {
    let fs = MemoryFs::volatile();
    let (source, mut model) = source_of_rows(Arc::new(fs.clone()));
    let made = source.db.checkpoint_for(FORK.as_ref(), Durability::Memory);
    made.unwrap();
    let (fork, clock) = open_with_clock(Arc::new(fs), &brief_config_of_rows());
    for (keys, is_merged) in [(0..40, false), (40..120, true)] {
        let changes = noisy_rows(keys, 9);
        fork.write(&changes).unwrap();
        model.apply(&changes);
        fork.db.flush(&fork.keyspaces[0]).unwrap();
        work_through(&fork, &clock);
        assert_eq!(fork.db.stats().compactions > 0, is_merged);
        assert_eq!(fork.dump().unwrap(), model);
    }
    assert!(fork.db.verify().unwrap().damages.is_empty());
}

/// A fork on the disk whose quota leaves room for 1 MiB, of a source with these values.
fn fork_with_a_quota(root: &Path, rows: u32, value_bytes: usize) -> (Db, Arc<ManualClock>) {
    let fs: Arc<dyn Fs> = Arc::new(DiskFs::default());
    let clock = Arc::new(ManualClock::default());
    let open = |name: &str, quota_bytes| {
        let config = Config {
            durability: Durability::Memory,
            merges_inherited: false,
            value_segment_bytes: 256 << 10,
            quota_bytes,
            ..Config::default()
        };
        let environment = Environment {
            clock: clock.clone(),
            ..common::environment(fs.clone())
        };
        Db::open_with(&root.join(name), config, environment).unwrap()
    };
    let source = open("source", None);
    let keyspace = source.keyspace("rows", KeyspaceOptions::default()).unwrap();
    for row in 0..rows {
        put(
            &source,
            &keyspace,
            &row.to_be_bytes(),
            &noise(row.into(), value_bytes),
        );
        if row % (rows / 3) == 0 {
            source.flush_all().unwrap();
        }
    }
    source.checkpoint(&root.join("fork")).unwrap();
    let used = fs.used(&root.join("fork")).unwrap();
    (open("fork", Some(used + (1 << 20))), clock)
}

#[test]
fn a_fork_near_its_quota_gets_space_back_by_its_own_deletions() {
    for (rows, value_bytes) in [(4000, 1000), (60, 64 << 10)] {
        let directory = tempfile::tempdir().unwrap();
        let (fork, clock) = fork_with_a_quota(directory.path(), rows, value_bytes);
        let keyspace = fork.keyspace("rows", KeyspaceOptions::default()).unwrap();
        // Returns how many bytes were taken before the quota was used up.
        let fill = |prefix: u32| {
            for row in 0..1000u32 {
                let mut batch = Batch::new();
                let key = [prefix.to_be_bytes(), row.to_be_bytes()].concat();
                batch.put(&keyspace, &key, &noise(row.into(), 8 << 10));
                match fork.write(batch) {
                    Ok(_) => {}
                    Err(Error::NoSpace { .. }) => return row * (8 << 10),
                    Err(error) => panic!("{error}"),
                }
            }
            panic!("the quota is not kept");
        };
        assert!(fill(1 << 30) < 1 << 20);
        for row in 0..rows / 4 * 3 {
            let mut batch = Batch::new();
            batch.delete(&keyspace, &row.to_be_bytes());
            fork.write(batch).unwrap().wait().unwrap();
        }
        loop {
            clock.advance(Duration::from_secs(2));
            if fork.step().unwrap().is_none() {
                break;
            }
        }
        let filled = fill(1 << 31);
        let deleted = rows / 4 * 3 * value_bytes as u32;
        assert!(filled > deleted / 3 * 2, "{filled} of {deleted} came back");
        let left = rows / 4 * 3..rows;
        for row in left {
            let found = fork.get(&keyspace, &row.to_be_bytes()).unwrap();
            assert!(found.is_some_and(|found| found == noise(row.into(), value_bytes)));
        }
    }
}

#[test]
fn writers_of_a_fork_do_not_wait_for_files_that_it_inherited() {
    let fs = MemoryFs::volatile();
    let unmerged = Config {
        level0_files_max: 100,
        level0_files_stop: 200,
        ..config()
    };
    let source = open_in("/source", Arc::new(fs.clone()), &unmerged).unwrap();
    let rows: Vec<_> = (0..30).map(|key| row(key, b"old")).collect();
    let mut model = Model::default();
    model.apply(&rows);
    for _ in 0..24 {
        source.write(&rows).unwrap();
        source.db.flush_all().unwrap();
    }
    let made = source.db.checkpoint_for(FORK.as_ref(), Durability::Memory);
    made.unwrap();
    let config = Config {
        level0_files_stop: 24,
        ..brief_config()
    };
    let (fork, clock) = open_with_clock(Arc::new(fs), &config);
    let change = [row(0, b"newer")];
    fork.write(&change).unwrap();
    model.apply(&change);
    work_through(&fork, &clock);
    let keyspaces = common::KEYSPACES.len() as u64;
    assert_eq!(fork.db.stats().compactions, keyspaces);
    assert_eq!(fork.dump().unwrap(), model);
}

/// Writes rows of 1 KiB to a keyspace.
fn fill(store: &Store, keyspace: usize, rows: u32) {
    let mut batch = Batch::new();
    for row in 0..rows {
        batch.put(&store.keyspaces[keyspace], &row.to_be_bytes(), &[7; 1024]);
    }
    drop(store.db.write(batch).unwrap());
}

#[test]
fn log_that_a_small_memtable_keeps_is_counted_until_it_is_flushed() {
    let fs = Arc::new(MemoryFs::volatile());
    let store = open_in("/source", fs.clone(), &Config::default()).unwrap();
    store.write(&[row(0, b"small")]).unwrap();
    fill(&store, 1, 3000);
    store.db.flush(&store.keyspaces[1]).unwrap();
    let stats = store.db.stats();
    assert!(stats.memtable_bytes < 100 << 10, "{stats:?}");
    assert!(stats.wal_bytes > 2 << 20, "{stats:?}");
    store.db.flush_all().unwrap();
    assert_eq!(store.db.stats().wal_bytes, 0);
    // A checkpoint ends the segment in use, and the next flush releases it.
    for name in ["/one", "/two"] {
        store.db.checkpoint(name.as_ref()).unwrap();
        store.write(&[row(0, b"after")]).unwrap();
        store.db.flush_all().unwrap();
    }
    // Each checkpoint ends a segment, which is much longer than the records in it.
    for name in ["/three", "/four", "/five", "/six"] {
        store.write(&[row(0, b"last")]).unwrap();
        store.db.checkpoint(name.as_ref()).unwrap();
    }
    let bytes = store.db.stats().wal_bytes;
    assert!((1..100 << 10).contains(&bytes), "{bytes}");
}

#[test]
fn memtable_of_an_idle_store_is_flushed_if_it_is_worth_a_file() {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..common::environment(Arc::new(MemoryFs::volatile()))
    };
    let store = common::open_with("/source".as_ref(), &Config::default(), environment).unwrap();
    fill(&store, 0, 3000);
    store.write(&[row(1, b"small")]).unwrap();
    let mut steps = 0;
    while store.db.step().unwrap().is_none() {
        steps += 1;
        assert!(steps < 20, "nothing was flushed");
        clock.advance(Duration::from_secs(1));
        if steps < 10 {
            store.write(&[row(1, b"again")]).unwrap();
        }
    }
    assert!(
        steps >= 14,
        "{steps}: flushed while the store was written to"
    );
    assert_eq!(store.db.stats().flushes, 1);
    clock.advance(Duration::from_secs(9));
    while store.db.step().unwrap().is_some() {}
    assert_eq!(store.db.stats().flushes, 1, "the small one stays");
}

#[test]
fn log_of_rows_that_are_gone_is_removed_once_the_store_is_idle() {
    let clock = Arc::new(ManualClock::default());
    let fs = Arc::new(MemoryFs::crashable());
    let environment = Environment {
        clock: clock.clone(),
        ..common::environment(fs.clone())
    };
    let store = common::open_with("/source".as_ref(), &Config::default(), environment).unwrap();
    let keyspace = &store.keyspaces[0];
    store.write(&[row(1, b"alive")]).unwrap();
    for row in 0..400_u32 {
        let mut batch = Batch::new();
        batch.put(keyspace, &row.to_be_bytes(), &[7; 20_000]);
        drop(store.db.write(batch).unwrap());
        let mut batch = Batch::new();
        batch.delete(keyspace, &row.to_be_bytes());
        drop(store.db.write(batch).unwrap());
    }
    assert!(store.db.stats().wal_bytes > 4 << 20);
    let work_for = |seconds| {
        for _ in 0..seconds {
            while store.db.step().unwrap().is_some() {}
            store.db.sync().unwrap();
            clock.advance(Duration::from_secs(1));
        }
    };
    work_for(10);
    let stats = store.db.stats();
    assert_eq!(
        (stats.wal_segments, stats.memtable_bytes > 1 << 20),
        (0, false),
        "{stats:?}"
    );
    // The next write begins a new log, and the next open finds everything.
    store.write(&[row(2, b"later")]).unwrap();
    let model = store.dump().unwrap();
    let after = Arc::new(fs.crash(1, Keep::Everything));
    let again = open_in("/source", after, &Config::default()).unwrap();
    assert_eq!(again.dump().unwrap(), model);
    assert_eq!(again.db.recovered().batches, 1);
}

#[test]
fn power_cut_at_any_call_of_a_fork_harms_neither_fork_nor_source() {
    for is_flushed in [false, true] {
        for nth in 1.. {
            let fs = MemoryFs::crashable();
            let (source, model) = source(&fs, is_flushed);
            source.db.checkpoint(FORK.as_ref()).unwrap();
            let faults = FaultFs::new(Arc::new(fs.clone()));
            faults.set(Some(Fault {
                operation: None,
                path: FORK.into(),
                nth,
                failure: Failure::Error(ErrorKind::Other),
                sticky: true,
            }));
            let changes = [row(50, &[3; 300])];
            let used = use_fork(Arc::new(faults.clone()), &changes);
            let (_, fired) = faults.seen();
            let context = format!("call {nth}: {used:?}");
            for keep in [Keep::Nothing, Keep::Everything] {
                let left = fs.crash(nth, keep);
                let fork = open_in(FORK, Arc::new(left.clone()), &config());
                let fork = fork.unwrap_or_else(|error| panic!("{context}: {error}"));
                let mut after = model.clone();
                after.apply(&changes);
                let found = fork.dump().unwrap();
                let is_right = found == after || (found == model && used.is_err());
                assert!(is_right, "{context}: the fork is wrong");
                let source = open_in("/source", Arc::new(left), &config()).unwrap();
                assert_eq!(source.dump().unwrap(), model, "{context}");
            }
            if !fired {
                break;
            }
        }
    }
}

/// Opens the fork, writes, flushes, compacts and closes.
fn use_fork(fs: Arc<dyn Fs>, changes: &[Change]) -> Result<(), Error> {
    let fork = open_in(FORK, fs, &config())?;
    fork.write(changes)?;
    fork.db.flush_all()?;
    fork.db.compact(&fork.keyspaces[0])?;
    fork.db.close()
}

#[test]
fn abandoned_store_writes_nothing_releases_its_directory_and_opens_again() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
        (db, keyspace)
    };
    let (db, keyspace) = open();
    put(&db, &keyspace, b"key", b"value");
    db.abandon();
    assert!(matches!(db.get(&keyspace, b"key"), Err(Error::Closed)));
    assert_eq!(db.stats().flushes, 0);
    db.close().unwrap();
    let (db, keyspace) = open();
    assert!(db.get(&keyspace, b"key").unwrap().is_some());
}

#[test]
fn store_with_few_threads_syncs_flushes_and_compacts_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        durability: Durability::Disk,
        memtable_bytes_max: 4 << 10,
        level0_files_max: 2,
        level0_files_stop: 4,
        value_bytes_separated: 1 << 10,
        ..Config::default()
    };
    let environment = Environment {
        background: Background::FewThreads,
        ..Environment::system(config.durability)
    };
    let db = Db::open_with(directory.path(), config, environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let keys = || (0..200u32).map(u32::to_be_bytes);
    for key in keys() {
        put(&db, &keyspace, &key, &[1; 300]);
    }
    put(&db, &keyspace, b"large", &[2; 5000]);
    while db.stats().compactions == 0 {
        std::thread::yield_now();
    }
    assert!(db.stats().flushes > 0);
    db.abandon();
    let db = open_fork(directory.path());
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    for key in keys() {
        assert_eq!(db.get(&keyspace, &key).unwrap().unwrap(), [1; 300][..]);
    }
    assert_eq!(db.get(&keyspace, b"large").unwrap().unwrap(), [2; 5000][..]);
}

/// Returns a store that puts a row larger than a memtable into each keyspace while an SSTable is
/// written, like writers that never pause.
fn put_during_flushes() -> Store {
    let writer: Arc<OnceLock<(Db, Vec<Keyspace>)>> = Arc::default();
    let (target, count) = (writer.clone(), AtomicU32::new(0));
    let hooked = HookFs::new(MemoryFs::volatile(), move |operation, path| {
        let is_flush = operation == Operation::Sync && path.extension().is_some_and(|e| e == "sst");
        // The limit makes a flush that does not end fail instead of going on for ever.
        if let Some((db, keyspaces)) = target.get().filter(|_| is_flush)
            && count.fetch_add(1, Ordering::Relaxed) < 50
        {
            keyspaces
                .iter()
                .for_each(|keyspace| put(db, keyspace, b"during", &[1; 3000]));
        }
        Ok(())
    });
    let config = Config {
        durability: Durability::Process,
        memtable_bytes_max: 2000,
        ..Config::default()
    };
    let store = open_in("/source", Arc::new(hooked), &config).unwrap();
    for keyspace in &store.keyspaces {
        put(&store.db, keyspace, b"before", b"value");
    }
    let opened = writer.set((store.db.clone(), store.keyspaces.clone()));
    opened.unwrap();
    store
}

#[test]
fn flushes_end_under_continuous_writes_with_what_was_there_when_they_began() {
    let keyspaces = common::KEYSPACES.len() as u64;
    let store = put_during_flushes();
    store.db.flush_all().unwrap();
    assert_eq!(store.db.stats().flushes, keyspaces);
    let store = put_during_flushes();
    store.db.flush(&store.keyspaces[2]).unwrap();
    let flushes = store.db.stats().flushes;
    assert!((1..=keyspaces).contains(&flushes), "{flushes}");
}

#[test]
fn checkpoints_made_while_everything_is_moved_and_removed_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        memtable_bytes_max: 8 << 10,
        // Writers wait for the flushes, so that a slow disk does not make a thousand segments.
        memory_bytes_max: 64 << 10,
        level0_files_max: 2,
        level0_files_stop: 6,
        sstable_bytes: 4 << 10,
        level_bytes_base: 16 << 10,
        value_bytes_separated: 200,
        value_segment_bytes: 8 << 10,
        wal_segment_bytes: 16 << 10,
        ..Config::default()
    };
    let db = Db::open(&directory.path().join("source"), config.clone()).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0u32.. {
                let length = if number.is_multiple_of(3) { 700 } else { 60 };
                let key = (number.wrapping_mul(0x9e37_79b9) >> 24).to_be_bytes();
                put(&db, &keyspace, &key, &vec![number as u8; length]);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for number in 0..(20.0 * common::scale()) as u32 {
            let path = directory.path().join(format!("fork-{number}"));
            db.checkpoint(&path).unwrap();
            let environment = Environment::system(config.durability);
            let verified = Db::verify_directory(&path, config.clone(), environment);
            let damages = verified.unwrap().damages;
            assert!(damages.is_empty(), "{number}: {damages:?}");
            let fork = open_fork(&path);
            assert_eq!(fork.verify().unwrap().damages.len(), 0, "{number}");
            fork.abandon();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = db.stats();
    assert!(stats.compactions > 0 && stats.flushes > 0);
}

#[test]
fn checkpoint_of_a_store_without_a_log_has_every_acknowledged_batch_and_no_part_of_another() {
    let fs: Arc<dyn Fs> = Arc::new(MemoryFs::volatile());
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 8 << 10,
        ..Config::default()
    };
    let open = |path: &str| {
        let environment = Environment {
            fs: fs.clone(),
            ..Environment::system(Durability::Memory)
        };
        let db = Db::open_with(path.as_ref(), config.clone(), environment).unwrap();
        let keyspace = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
        let keyspaces = ["small", "large"].map(keyspace);
        (db, keyspaces)
    };
    let (db, [small, large]) = open("source");
    let (acknowledged, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1u32.. {
                let mut batch = Batch::new();
                batch.put(&small, b"last", &number.to_be_bytes());
                batch.put(&large, &number.to_be_bytes(), &[7; 200]);
                db.write(batch).unwrap().wait().unwrap();
                acknowledged.store(number, Ordering::SeqCst);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for number in 0..(20.0 * common::scale()) as u32 {
            let before = acknowledged.load(Ordering::SeqCst);
            let path = format!("fork-{number}");
            db.checkpoint(path.as_ref()).unwrap();
            let (fork, [small, large]) = open(&path);
            let last = fork.get(&small, b"last").unwrap();
            let last = last.map_or(0, |last| u32::from_be_bytes(last[..].try_into().unwrap()));
            assert!(last >= before, "{last} of {before}");
            for (number, is_there) in [(before, before > 0), (last, last > 0), (last + 1, false)] {
                let found = fork.get(&large, &number.to_be_bytes()).unwrap();
                assert_eq!(found.is_some(), is_there, "{number} of {last}");
            }
            put(&fork, &small, b"last", b"other");
            assert!(fork.verify().unwrap().damages.is_empty());
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
