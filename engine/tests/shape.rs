//! Costs that must not grow: a pop after many deleted rows, a range deletion and the first row
//! after it, an open. And space that must be freed when its contents are deleted.

mod common;

use lazurite_engine::fs::{Fs, LogWrites, ManualClock, MemoryFs};
use lazurite_engine::{
    Batch, Choices, Config, Db, Direction, Durability, Environment, Error, KeyRange, Keyspace,
    KeyspaceOptions,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn open(path: &Path, config: Config) -> (Db, Keyspace) {
    let db = Db::open(path, config).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    (db, keyspace)
}

fn key(index: u64) -> Vec<u8> {
    format!("row/{index:012}").into_bytes()
}

fn fill(db: &Db, keyspace: &Keyspace, range: std::ops::Range<u64>, value: &[u8]) {
    let mut batch = Batch::new();
    for index in range {
        batch.put(keyspace, &key(index), value);
        if index % 100 == 99 {
            db.write(std::mem::take(&mut batch))
                .unwrap()
                .wait()
                .unwrap();
        }
    }
    db.write(batch).unwrap().wait().unwrap();
}

fn first(db: &Db, keyspace: &Keyspace) -> Option<Vec<u8>> {
    let mut scan = db
        .snapshot()
        .scan(keyspace, KeyRange::prefix(b"row/"), Direction::Forward);
    scan.advance().unwrap().then(|| scan.key().to_vec())
}

#[test]
fn the_head_of_a_queue_is_found_without_a_walk_over_taken_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(directory.path(), Config::default());
    fill(&db, &keyspace, 0..20_000, b"message");
    for head in 0..19_000 {
        assert_eq!(first(&db, &keyspace), Some(key(head)));
        let mut batch = Batch::new();
        batch.delete(&keyspace, &key(head));
        batch.put(&keyspace, &key(head + 20_000), b"message");
        db.write(batch).unwrap().wait().unwrap();
    }
    let mut scan = db
        .snapshot()
        .scan(&keyspace, KeyRange::prefix(b"row/"), Direction::Forward);
    assert!(scan.advance().unwrap());
    assert!(
        scan.rows_passed() < 100,
        "{} rows passed for the head",
        scan.rows_passed()
    );
    // A put in front of everything that was taken is found at once.
    let mut batch = Batch::new();
    batch.put(&keyspace, &key(5), b"late");
    db.write(batch).unwrap().wait().unwrap();
    assert_eq!(first(&db, &keyspace), Some(key(5)));
}

#[test]
fn a_deleted_range_is_stepped_over_not_walked() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        memtable_bytes_max: 1 << 20,
        ..Config::default()
    };
    let (db, keyspace) = open(directory.path(), config);
    fill(&db, &keyspace, 0..100_000, &[7; 50]);
    let mut batch = Batch::new();
    let range = KeyRange {
        start: key(10),
        end: Some(key(99_990)),
    };
    batch.delete_range(&keyspace, range);
    db.write(batch).unwrap().wait().unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = db.snapshot().scan(&keyspace, KeyRange::all(), direction);
        let mut rows = 0;
        while scan.advance().unwrap() {
            rows += 1;
        }
        assert_eq!(rows, 20);
        assert!(
            scan.rows_passed() < 1000,
            "{direction:?}: {} rows passed for 20",
            scan.rows_passed()
        );
    }
    db.compact(&keyspace).unwrap();
    let stats = db.stats();
    assert!(
        stats.sstable_bytes < 10_000,
        "the space comes back: {stats:?}"
    );
}

#[test]
fn overwritten_and_abandoned_values_give_their_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        memtable_bytes_max: 1 << 20,
        value_segment_bytes: 1 << 20,
        level_bytes_base: 4 << 20,
        ..Config::default()
    };
    let (db, keyspace) = open(directory.path(), config.clone());
    let value = vec![7; 100_000];
    let mut choices = Choices::new(1);
    for _ in 0..20 * 50 {
        let mut batch = Batch::new();
        batch.put(&keyspace, &key(choices.below(50)), &value);
        db.write(batch).unwrap().wait().unwrap();
        let mut abandoned = db.value_writer().unwrap();
        abandoned
            .write(&value[..choices.below(50_000) as usize])
            .unwrap();
    }
    db.close().unwrap();
    let mut environment = lazurite_engine::Environment::system(Durability::Process);
    environment.background = lazurite_engine::Background::Stepped;
    let db = Db::open_with(directory.path(), config, environment).unwrap();
    while db.step().unwrap().is_some() {}
    let (stats, live) = (db.stats(), 50 * 100_000);
    assert!(
        stats.value_log_bytes < 2 * live,
        "{} bytes for {live} live: {stats:?}",
        stats.value_log_bytes
    );
    let verified = db.verify().unwrap();
    assert_eq!((verified.rows, verified.value_bytes), (50, live));
    assert_eq!(verified.damages.len(), 0);
}

#[test]
fn garbage_that_is_less_than_half_goes_while_writes_go_on() {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..common::environment(Arc::new(MemoryFs::volatile()))
    };
    let config = Config {
        memtable_bytes_max: 1 << 20,
        value_segment_bytes: 1 << 20,
        ..Config::default()
    };
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let value = vec![7; 100_000];
    // Only a memtable that nothing flushes refers to this value, which is alone in the first
    // segment after the deletion.
    let unflushed = db.keyspace("one", KeyspaceOptions::default()).unwrap();
    fill(&db, &unflushed, 0..1, &value);
    fill(&db, &keyspace, 0..300, &value);
    let mut batch = Batch::new();
    let deleted: Vec<u64> = (0..300).filter(|row| row % 3 == 0 || *row < 30).collect();
    let deletions = deleted.iter();
    deletions.for_each(|row| batch.delete(&keyspace, &key(*row)));
    db.write(batch).unwrap().wait().unwrap();
    // Makes two hundred changes in each quarter of a second.
    for tick in 0..4 * 60 {
        fill(
            &db,
            &keyspace,
            1000 + tick * 200..1200 + tick * 200,
            b"small",
        );
        clock.advance(Duration::from_millis(250));
        while db.step().unwrap().is_some() {}
    }
    let (stats, rows) = (db.stats(), 301 - deleted.len());
    let live = (rows * value.len()) as u64;
    assert!(
        stats.value_log_bytes < live * 12 / 10,
        "{} bytes for {live} live: {stats:?}",
        stats.value_log_bytes
    );
    assert_eq!(db.verify().unwrap().damages.len(), 0);
}

/// A store on a small disk, or in a little memory, whose background work is stepped.
struct Small {
    db: Db,
    keyspace: Keyspace,
    clock: Arc<ManualClock>,
}

impl Small {
    fn open(durability: Durability, bytes_max: u64) -> Small {
        let clock = Arc::new(ManualClock::default());
        let environment = Environment {
            clock: clock.clone(),
            ..common::environment(Arc::new(MemoryFs::volatile_up_to(bytes_max)))
        };
        let config = Config {
            durability,
            ..Config::default()
        };
        let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
        Small {
            db,
            keyspace,
            clock,
        }
    }

    /// Puts rows until there is no space for more. Returns how many there are.
    fn fill_up(&self, value_bytes: usize) -> u64 {
        let mut choices = Choices::new(1);
        for index in 0.. {
            // Random bytes, which do not compress.
            let words = std::iter::repeat_with(|| choices.next().to_le_bytes());
            let value: Vec<u8> = words.take(value_bytes / 8).flatten().collect();
            let mut batch = Batch::new();
            batch.put(&self.keyspace, &key(index), &value);
            match self.db.write(batch) {
                Ok(ticket) => ticket.wait().unwrap(),
                Err(Error::NoSpace { .. }) => return index,
                Err(error) => panic!("row {index}: {error}"),
            }
            if index % 32 == 0 {
                self.step();
            }
        }
        unreachable!("the space has an end")
    }

    /// Runs one job; `false` if there is none, or no space for it.
    fn step(&self) -> bool {
        match self.db.step() {
            Ok(job) => job.is_some(),
            Err(Error::NoSpace { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn delete(&self, act: impl FnOnce(&mut Batch, &Keyspace)) {
        let mut batch = Batch::new();
        act(&mut batch, &self.keyspace);
        self.db.write(batch).unwrap().wait().unwrap();
        self.clock.advance(Duration::from_secs(1));
        while self.step() {}
    }
}

/// Fills the store and deletes a range of its rows, again and again.
fn can_be_filled_again(durability: Durability, bytes_max: u64, value_bytes: usize) {
    let context = format!("{durability:?}, {bytes_max} bytes, values of {value_bytes}");
    let store = Small::open(durability, bytes_max);
    let rows = store.fill_up(value_bytes);
    assert!(
        rows * value_bytes as u64 > bytes_max / 2,
        "{context}: full with {rows} rows"
    );
    for round in 0..3 {
        let all_but_one = KeyRange {
            start: key(1),
            end: None,
        };
        store.delete(|batch, keyspace| batch.delete_range(keyspace, all_but_one));
        let again = store.fill_up(value_bytes);
        let context = format!("{context}, round {round}");
        let stats = store.db.stats();
        assert!(
            again > rows * 8 / 10,
            "{context}: {again} rows of {rows}: {stats}"
        );
        assert_eq!(store.db.verify().unwrap().damages.len(), 0, "{context}");
    }
}

#[test]
fn a_memtable_that_scans_pay_for_is_flushed_at_rest() {
    let small = Small::open(Durability::Memory, 1 << 30);
    let Small {
        db,
        keyspace,
        clock,
    } = &small;
    // Puts a row now and then: if nothing at all is written, a memtable of this size is flushed
    // without any scan.
    let flushes_after = |milliseconds| {
        for _ in 0..milliseconds / 250 {
            fill(db, keyspace, 30_000..30_001, &[3; 300]);
            clock.advance(Duration::from_millis(250));
            while db.step().unwrap().is_some() {}
        }
        db.stats().flushes
    };
    fill(db, keyspace, 0..10_000, &[1; 300]);
    db.flush(keyspace).unwrap();
    fill(db, keyspace, 10_000..20_000, &[2; 300]);
    let unread = (0..5).map(|_| flushes_after(1000));
    assert_eq!(unread.max(), Some(1));
    let snapshot = db.snapshot();
    let mut rows = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
    for index in 0..2_000 {
        rows.seek(&key(index));
        assert!(rows.advance().unwrap());
    }
    drop(rows);
    fill(db, keyspace, 20_000..21_000, &[3; 300]);
    assert_eq!(flushes_after(300), 1, "what is written goes on");
    let rested = (0..5).map(|_| flushes_after(1000));
    assert_eq!(rested.max(), Some(2));
    assert!(db.stats().memtable_bytes < 100 << 10);
}

#[test]
fn a_full_store_in_memory_has_space_again_when_a_range_is_deleted() {
    for (mebibytes, value_bytes) in [(16, 2000), (16, 1 << 20), (64, 50_000)] {
        can_be_filled_again(Durability::Memory, mebibytes << 20, value_bytes);
    }
}

#[test]
fn a_full_store_has_space_again_when_every_other_value_is_deleted() {
    for durability in [Durability::Memory, Durability::Process] {
        let store = Small::open(durability, 64 << 20);
        let rows = store.fill_up(200_000);
        store.delete(|batch, keyspace| {
            (0..rows)
                .step_by(2)
                .for_each(|row| batch.delete(keyspace, &key(row)));
        });
        let stats = store.db.stats();
        assert!(
            stats.value_log_bytes < rows * 200_000 * 3 / 4,
            "{durability:?}: {stats}"
        );
        assert_eq!(store.db.verify().unwrap().rows, rows / 2);
    }
}

#[test]
fn a_full_disk_has_space_again_when_a_range_is_deleted() {
    for (mebibytes, value_bytes) in [(128, 2000), (64, 50_000), (64, 1 << 20)] {
        can_be_filled_again(Durability::Process, mebibytes << 20, value_bytes);
    }
}

#[test]
fn no_job_rewrites_a_large_store_for_a_few_rows() {
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 64 << 10,
        sstable_bytes: 16 << 10,
        level_bytes_base: 64 << 10,
        ..Config::default()
    };
    let job_bytes_max = 16 * config.sstable_bytes + 8 * config.memtable_bytes_max as u64;
    let environment = common::environment(Arc::new(MemoryFs::volatile()));
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let rows = 100_000;
    let mut choices = Choices::new(1);
    let mut put = |batch: &mut Batch, index: u64| {
        let words: Vec<[u8; 8]> = (0..12).map(|_| choices.next().to_le_bytes()).collect();
        batch.put(&keyspace, &key(index), words.as_flattened());
    };
    let largest_job = || {
        let mut written = db.stats().compacted_bytes;
        let jobs = std::iter::from_fn(|| {
            db.step().unwrap()?;
            let before = std::mem::replace(&mut written, db.stats().compacted_bytes);
            Some(written - before)
        });
        jobs.max().unwrap_or(0)
    };
    for index in 0..rows {
        let mut batch = Batch::new();
        put(&mut batch, index * 7919 % rows);
        db.write(batch).unwrap().wait().unwrap();
        assert!(largest_job() < job_bytes_max, "while it is filled");
    }
    db.compact(&keyspace).unwrap();
    let stored = db.stats().sstable_bytes;
    assert!(stored > 10 * job_bytes_max, "{stored} bytes are enough");
    for every in [1000, 100, 10] {
        let mut batch = Batch::new();
        for index in (0..rows).step_by(every) {
            match every {
                100 => put(&mut batch, index),
                _ => batch.delete(&keyspace, &key(index)),
            }
        }
        batch.delete_range(&keyspace, KeyRange::prefix(&key(every as u64)));
        db.write(batch).unwrap().wait().unwrap();
        db.flush(&keyspace).unwrap();
        let before = db.stats().compacted_bytes;
        let largest = largest_job();
        let all = db.stats().compacted_bytes - before;
        println!("one row in {every}: {all} bytes rewritten of {stored}, {largest} in one job");
        assert!(
            largest < job_bytes_max,
            "one row in {every}: {largest} bytes"
        );
    }
    assert_eq!(db.verify().unwrap().damages.len(), 0);
}

#[test]
fn rows_written_and_deleted_in_order_cost_the_same_beside_any_backlog() {
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 256 << 10,
        sstable_bytes: 64 << 10,
        level_bytes_base: 1 << 20,
        ..Config::default()
    };
    // Returns the bytes merged per byte flushed, while every row passes through a queue of
    // `waiting` messages, each with rows in four places.
    let merged = |waiting: u64| {
        let environment = common::environment(Arc::new(MemoryFs::volatile()));
        let db = Db::open_with("/data".as_ref(), config.clone(), environment).unwrap();
        let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
        let mut choices = Choices::new(1);
        let mut place = |batch: &mut Batch, index: u64, is_put: bool| {
            for place in 0..4u64 {
                let key = [&place.to_be_bytes()[..], &index.to_be_bytes()].concat();
                let words: [[u8; 8]; 4] = std::array::from_fn(|_| choices.next().to_le_bytes());
                if is_put {
                    batch.put(&keyspace, &key, words.as_flattened())
                } else {
                    batch.delete(&keyspace, &key)
                }
            }
        };
        let mut before = db.stats();
        for index in 0..2 * waiting {
            if index == waiting {
                before = db.stats();
            }
            let mut batch = Batch::new();
            place(&mut batch, index, true);
            if let Some(head) = index.checked_sub(waiting) {
                place(&mut batch, head, false);
            }
            db.write(batch).unwrap().wait().unwrap();
            while db.step().unwrap().is_some() {}
        }
        let stats = db.stats();
        assert!(stats.sstable_bytes < 3 * waiting * 4 * 48, "{stats}");
        assert_eq!(db.verify().unwrap().damages.len(), 0);
        let merged = stats.compacted_bytes - before.compacted_bytes;
        merged as f64 / (stats.flushed_bytes - before.flushed_bytes) as f64
    };
    let (shallow, deep) = (merged(10_000), merged(80_000));
    println!(
        "{shallow:.2} bytes merged for one flushed, {deep:.2} with eight times as many waiting"
    );
    assert!(deep < 1.5 * shallow && deep < 5.0, "{shallow} and {deep}");
}

#[test]
fn jobs_stay_small_while_more_is_written_than_merged() {
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 64 << 10,
        sstable_bytes: 64 << 10,
        level_bytes_base: 256 << 10,
        ..Config::default()
    };
    let level0_bytes_max = config.level0_files_stop as u64 * config.memtable_bytes_max as u64;
    let job_bytes_max = level0_bytes_max + 4 * config.level_bytes_base;
    let environment = common::environment(Arc::new(MemoryFs::volatile()));
    let db = Db::open_with("/data".as_ref(), config.clone(), environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let mut choices = Choices::new(1);
    let mut largest = 0;
    for _ in 0..200_000 {
        let words: Vec<[u8; 8]> = (0..12).map(|_| choices.next().to_le_bytes()).collect();
        let mut batch = Batch::new();
        batch.put(&keyspace, &key(choices.next()), words.as_flattened());
        db.write(batch).unwrap().wait().unwrap();
        // No job runs before writers would have to wait.
        let mut stats = db.stats();
        while stats.sealed_memtables > 0 || stats.sstables[0] + 1 >= config.level0_files_stop as u64
        {
            let before = stats.compacted_bytes;
            db.step().unwrap();
            stats = db.stats();
            largest = largest.max(stats.compacted_bytes - before);
        }
    }
    let stats = db.stats();
    println!("{largest} bytes in one job; {stats}");
    assert!(stats.put_bytes > 5 * job_bytes_max, "{stats}");
    assert!(largest < job_bytes_max, "{largest} bytes in one job");
    assert!(stats.write_amplification() < 8.0, "{stats}");
}

/// Figures for a person to look at: `cargo test --release --test shape -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
#[allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "figures are times"
)]
fn figures() {
    use std::time::Instant;
    let directory = tempfile::tempdir().unwrap();
    let time = Instant::now();
    let (db, keyspace) = open(directory.path(), Config::default());
    println!("open an empty directory: {:?}", time.elapsed());
    let rows = 1_000_000u64;
    let mut choices = Choices::new(1);
    let time = Instant::now();
    let mut worst = std::time::Duration::ZERO;
    for _ in 0..rows {
        let put = Instant::now();
        let mut batch = Batch::new();
        batch.put(&keyspace, &key(choices.below(rows * 2)), &[7; 100]);
        db.write(batch).unwrap().wait().unwrap();
        worst = worst.max(put.elapsed());
    }
    println!(
        "{} random puts/s, worst {worst:?}",
        (rows as f64 / time.elapsed().as_secs_f64()) as u64
    );
    println!("{:?}", db.stats());
    let time = Instant::now();
    for _ in 0..200_000 {
        db.get(&keyspace, &key(choices.below(rows * 2))).unwrap();
    }
    println!(
        "{} random gets/s",
        (200_000.0 / time.elapsed().as_secs_f64()) as u64
    );
    let time = Instant::now();
    let snapshot = db.snapshot();
    let mut scan = snapshot.scan(&keyspace, KeyRange::all(), Direction::Forward);
    let mut count = 0u64;
    while scan.advance().unwrap() {
        count += 1;
    }
    println!(
        "{} rows/s scanned of {count}",
        (count as f64 / time.elapsed().as_secs_f64()) as u64
    );
    drop(scan);
    drop(snapshot);
    let time = Instant::now();
    for _ in 0..10_000 {
        let range = KeyRange {
            start: key(choices.below(rows * 2)),
            end: None,
        };
        let mut scan = db.snapshot().scan(&keyspace, range, Direction::Forward);
        for _ in 0..50 {
            scan.advance().unwrap();
        }
    }
    println!(
        "{} scans of 50/s",
        (10_000.0 / time.elapsed().as_secs_f64()) as u64
    );
    let time = Instant::now();
    let mut batch = Batch::new();
    batch.delete_range(
        &keyspace,
        KeyRange {
            start: key(0),
            end: Some(key(rows)),
        },
    );
    db.write(batch).unwrap().wait().unwrap();
    println!("delete of half the rows: {:?}", time.elapsed());
    let time = Instant::now();
    println!(
        "first row behind: {:?} {:?}",
        first(&db, &keyspace).is_some(),
        time.elapsed()
    );
    let time = Instant::now();
    db.close().unwrap();
    println!("close: {:?}", time.elapsed());
    let time = Instant::now();
    let (db, keyspace) = open(directory.path(), Config::default());
    println!("open: {:?} {:?}", time.elapsed(), db.stats());
    let queue = db.keyspace("queue", KeyspaceOptions::default()).unwrap();
    fill(&db, &queue, 0..100_000, &[7; 200]);
    let (mut head, mut tail) = (0, 100_000u64);
    for round in 0..8 {
        let time = Instant::now();
        for _ in 0..20_000 {
            let mut batch = Batch::new();
            batch.put(&queue, &key(tail), &[7; 200]);
            db.write(batch).unwrap().wait().unwrap();
            tail += 1;
            let found = first(&db, &queue).unwrap();
            assert_eq!(found, key(head));
            head += 1;
            let mut batch = Batch::new();
            batch.delete(&queue, &found);
            db.write(batch).unwrap().wait().unwrap();
        }
        println!(
            "round {round}: {} push+pop/s",
            (20_000.0 / time.elapsed().as_secs_f64()) as u64
        );
    }
    for size in [64 << 10, 1 << 20] {
        let time = Instant::now();
        let bytes = vec![7; size];
        let count = (256 << 20) / size;
        for index in 0..count {
            let mut batch = Batch::new();
            batch.put(&keyspace, &key(index as u64 % 50), &bytes);
            db.write(batch).unwrap().wait().unwrap();
        }
        println!(
            "{} MB/s in values of {size}",
            (268.0 / time.elapsed().as_secs_f64()) as u64
        );
    }
    println!("{:?}", db.stats());
    drop(db);
    let directory = tempfile::tempdir().unwrap();
    let (db, keyspace) = open(
        directory.path(),
        Config {
            durability: Durability::Disk,
            ..Config::default()
        },
    );
    for threads in [1, 8] {
        let time = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || {
                    for index in 0..2000 {
                        let mut batch = Batch::new();
                        batch.put(keyspace, &key(thread * 10_000 + index), &[7; 100]);
                        db.write(batch).unwrap().wait().unwrap();
                    }
                });
            }
        });
        println!(
            "{} durable commits/s, {threads} threads",
            (threads as f64 * 2000.0 / time.elapsed().as_secs_f64()) as u64
        );
    }
}

#[test]
fn a_full_cache_keeps_blocks_that_are_read_again_and_none_that_is_read_once() {
    const ROWS: u64 = 8000;
    let environment = common::environment(Arc::new(MemoryFs::volatile()));
    let config = Config {
        cache_bytes_max: 8 << 20,
        ..Config::default()
    };
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    let mut choices = Choices::new(1);
    for index in 0..ROWS {
        // Each row fills a block of its own, which does not compress.
        let noise: [[u8; 8]; 512] = std::array::from_fn(|_| choices.next().to_le_bytes());
        fill(&db, &keyspace, index..index + 1, noise.as_flattened());
    }
    db.compact(&keyspace).unwrap();
    // Number of blocks that were read from files for these rows.
    let reads = |rows: std::ops::Range<u64>| {
        let before = db.stats().blocks_read;
        for index in rows {
            assert!(db.get(&keyspace, &key(index)).unwrap().is_some());
        }
        db.stats().blocks_read - before
    };
    assert!(reads(0..ROWS) > ROWS - 10, "the cache is full now");
    let hot = || 7000..7400;
    for _ in 0..5 {
        reads(hot());
    }
    assert!(reads(hot()) < 20, "what is missed again is kept");
    assert!(reads(0..4000) > 2000);
    assert!(
        reads(hot()) < 20,
        "what was read once has not pushed it out"
    );
}

#[test]
fn small_values_of_the_value_log_are_kept_in_memory_but_checked_in_their_files() {
    const VALUES: u64 = 500;
    let fs = MemoryFs::volatile();
    let config = Config {
        value_bytes_separated: 4 << 10,
        ..Config::default()
    };
    let environment = common::environment(Arc::new(fs.clone()));
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("rows", KeyspaceOptions::default()).unwrap();
    fill(&db, &keyspace, 0..VALUES, &[7; 5000]);
    let read = || {
        let before = db.stats().blocks_read;
        for index in 0..VALUES {
            let value = db.snapshot().open_value(&keyspace, &key(index)).unwrap();
            let value = value.unwrap();
            assert_eq!(value.read_at(1000, 5000).unwrap(), &[7; 4000][..]);
        }
        db.stats().blocks_read - before
    };
    assert_eq!((read(), read()), (VALUES, 0));

    let names = fs.list("/data".as_ref()).unwrap();
    let segment = names.iter().find(|name| name.ends_with(".vlog")).unwrap();
    let file = fs.open_log(&Path::new("/data").join(segment), 0, LogWrites::AtOnce);
    file.unwrap().write_at(&[8; 3], 10_000).unwrap();
    assert_eq!(read(), 0);
    assert_eq!(db.verify().unwrap().damages.len(), 1);
}

/// A segment of the value log is not rewritten while at most 16 % of it is garbage.
#[test]
fn files_take_at_most_a_fifth_more_than_the_values_that_are_left() {
    const VALUE_BYTES: usize = 1 << 20;
    for steps_between_deletions in [0, 2] {
        let store = Small::open(Durability::Process, 1 << 30);
        for row in 0..150 {
            fill(&store.db, &store.keyspace, row..row + 1, &[7; VALUE_BYTES]);
            store.step();
        }
        for row in 0..120 {
            let mut batch = Batch::new();
            batch.delete(&store.keyspace, &key(row));
            store.db.write(batch).unwrap().wait().unwrap();
            store.clock.advance(Duration::from_millis(3));
            for _ in 0..steps_between_deletions {
                store.step();
            }
        }
        for _ in 0..150 {
            store.clock.advance(Duration::from_millis(200));
            store.step();
        }
        let stats = store.db.stats();
        let bytes = stats.value_log_bytes + stats.sstable_bytes + stats.memtable_bytes;
        assert!(bytes < 30 * VALUE_BYTES as u64 * 12 / 10, "{stats}");
    }
}
