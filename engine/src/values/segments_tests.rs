//! Syncs of segments: once, before the manifest names a segment, and never again after one failed.
//! Not in `segments.rs`, which also runs under loom, where there is no file system.

use super::segments::{Room, Segments, Writable};
use crate::base::health::Health;
use crate::format::edit::SegmentMeta;
use crate::fs::directory::Directory;
use crate::fs::name::{FileKind, FileName};
use crate::fs::{Failure, Fault, FaultFs, MemoryFs, Operation};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const ROOM: Room = Room {
    length: 100,
    preferred: None,
    filler: |_| 0,
};

/// A disk, and segments with one that is active there and has unsynced bytes.
fn written() -> (FaultFs, Segments, Arc<Health>) {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let directory = Directory::new(Arc::new(disk.clone()), "/data".as_ref());
    directory.make().unwrap();
    let name = FileName::Numbered(FileKind::ValueLog, 7);
    let fresh = Writable::new(7, directory.create(name).unwrap(), 0);
    let health = Arc::<Health>::default();
    let segments = Segments::new(BTreeMap::new(), 1 << 20, health.clone());
    let place = segments.begin(fresh, ROOM).unwrap();
    segments.settle(&place, Ok(1)).unwrap();
    (disk, segments, health)
}

/// Counts syncs from now on, and lets the one with this number fail.
fn fail_sync(disk: &FaultFs, nth: u64, failure: Failure) {
    disk.set(Some(Fault {
        operation: Some(Operation::Sync),
        path: String::new(),
        nth,
        failure,
        sticky: false,
    }));
}

fn count_syncs(disk: &FaultFs) {
    fail_sync(disk, u64::MAX, Failure::Panic);
}

#[test]
fn what_was_written_is_synced_once() {
    let (disk, segments, _health) = written();
    count_syncs(&disk);
    assert!(segments.is_unsynced());
    for _ in 0..2 {
        segments.sync().unwrap();
        assert!(!segments.is_unsynced() && disk.seen().0 == 1);
    }
    let place = segments.reserve(ROOM, false).unwrap().unwrap();
    segments.settle(&place, Ok(1)).unwrap();
    assert!(segments.is_unsynced());
    segments.sync().unwrap();
    assert!(!segments.is_unsynced() && disk.seen().0 == 2);
}

#[test]
fn a_failed_sync_stops_all_writing_and_is_not_tried_again() {
    let (disk, segments, health) = written();
    fail_sync(&disk, 1, Failure::Error(ErrorKind::Other));
    let first = segments.sync().unwrap_err().to_string();
    let failure = health.failure().unwrap().to_string();
    let second = segments.sync().unwrap_err().to_string();
    assert_eq!((&first, &second), (&failure, &failure));
    assert!(disk.seen().0 == 1 && segments.is_unsynced());
}

#[test]
fn a_panic_of_a_sync_stops_all_writing() {
    let (disk, segments, health) = written();
    fail_sync(&disk, 1, Failure::Panic);
    assert!(catch_unwind(AssertUnwindSafe(|| segments.sync())).is_err());
    assert!(health.failure().is_some());
}

#[test]
fn a_segment_is_synced_before_the_manifest_names_it() {
    let (disk, segments, _health) = written();
    count_syncs(&disk);
    segments.fill_all();
    let record = |number, meta: SegmentMeta| {
        assert_eq!((disk.seen().0, segments.is_unsynced()), (1, false));
        assert_eq!((number, meta.size, meta.checksum), (7, 100, Some(1)));
        Ok(())
    };
    assert!(segments.seal_idle(record).unwrap());
    assert_eq!(segments.sealed_size(7), Some(100));
    assert!(!segments.seal_idle(record).unwrap());
}
