//! What a store says about itself: its figures, the cost of a scan, the identity of its keyspaces.

use crate::fs::MemoryFs;
use crate::{Batch, Config, Db, Direction, Environment, KeyRange, Keyspace, KeyspaceOptions};
use std::sync::Arc;

fn open() -> Db {
    let environment = Environment::stepped(Arc::new(MemoryFs::volatile()));
    Db::open_with("/data".as_ref(), Config::default(), environment).unwrap()
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    db.keyspace(name, KeyspaceOptions::default()).unwrap()
}

fn put(db: &Db, keyspace: &Keyspace, keys: &[&[u8]]) {
    let mut batch = Batch::new();
    for key in keys {
        batch.put(keyspace, key, b"value");
    }
    db.write(batch).unwrap().wait().unwrap();
}

#[test]
fn figures_follow_rows_from_the_log_into_an_sstable() {
    let db = open();
    let rows = keyspace(&db, "rows");
    let before = db.stats();
    assert_eq!((before.memtable_bytes, before.wal_bytes), (0, 0));
    put(&db, &rows, &[b"a", b"b", b"c"]);
    let written = db.stats();
    // Three keys of one byte, with values of five.
    assert_eq!(written.put_bytes - before.put_bytes, 18);
    assert!(written.logged_bytes - before.logged_bytes > 18);
    assert!(written.memtable_bytes > 18 && written.wal_bytes > 18);
    assert_eq!(written.last_sequence - before.last_sequence, 3);
    assert_eq!(
        (written.sstables[0], written.sstable_bytes, written.flushes),
        (0, 0, 0)
    );
    db.flush_all().unwrap();
    let flushed = db.stats();
    assert_eq!((flushed.memtable_bytes, flushed.sealed_memtables), (0, 0));
    assert_eq!((flushed.sstables[0], flushed.flushes), (1, 1));
    assert!(flushed.sstable_bytes > 0 && flushed.sstable_bytes == flushed.level_bytes[0]);
    assert!(flushed.flushed_bytes >= flushed.sstable_bytes);
}

#[test]
fn a_snapshot_counts_until_it_is_dropped() {
    let db = open();
    let rows = keyspace(&db, "rows");
    let count = || (db.stats().snapshots, db.stats().oldest_snapshot_age);
    let none = count().0;
    let snapshot = db.snapshot();
    put(&db, &rows, &[b"a", b"b"]);
    assert_eq!(count(), (none + 1, 2));
    drop(snapshot);
    assert_eq!(count(), (none, 0));
}

#[test]
fn a_scan_passes_the_rows_that_it_shows_and_those_that_are_deleted() {
    for is_flushed in [false, true] {
        let db = open();
        let rows = keyspace(&db, "rows");
        put(&db, &rows, &[b"a", b"b", b"c"]);
        let mut batch = Batch::new();
        batch.delete(&rows, b"b");
        db.write(batch).unwrap().wait().unwrap();
        if is_flushed {
            db.flush_all().unwrap();
        }
        let mut scan = db
            .snapshot()
            .scan(&rows, KeyRange::all(), Direction::Forward);
        let mut shown = 0;
        while scan.advance().unwrap() {
            let value = scan.open_value().unwrap();
            assert_eq!(value.length(), 5);
            assert_eq!(&value.read_at(1, 3).unwrap()[..], b"alu");
            shown += 1;
        }
        assert_eq!(shown, 2);
        assert!(
            (3..=5).contains(&scan.rows_passed()),
            "{}",
            scan.rows_passed()
        );
    }
}

#[test]
fn keyspaces_are_equal_if_they_are_the_same_of_one_store() {
    let (db, other) = (open(), open());
    let rows = keyspace(&db, "rows");
    assert_eq!(rows, keyspace(&db, "rows"));
    assert_ne!(rows, keyspace(&db, "columns"));
    assert_ne!(rows, keyspace(&other, "rows"));
}
