//! Times of writes: read when they are made, in their order, and never going back.

use crate::operations::tests::*;
use crate::*;
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{Config, CountingIds, Db};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A clock that advances by a second each time it is read.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl WallClock for TickingClock {
    fn now(&self) -> SystemTime {
        let now = at(self.0.fetch_add(1, Ordering::SeqCst));
        // An operation that read the clock before it had the lock would be overtaken here.
        std::thread::sleep(Duration::from_micros(50));
        now
    }
}

#[test]
fn the_write_that_is_committed_last_has_the_latest_time() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let ids = Arc::new(CountingIds::default());
    let service = BlobService::open(&db, ids, Arc::new(TickingClock::default())).unwrap();
    let settings = ContainerSettings::default();
    let made = service.create_container_with(ACCOUNT, CONTAINER, settings);
    made.unwrap().1.wait().unwrap();
    let none = Conditions::default();
    let put = || {
        let checksums = Checksums::default();
        let request = PutBlob {
            upload: service
                .begin_upload(UploadKind::PutBlob, checksums)
                .unwrap(),
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: none.clone(),
        };
        let (outcome, ticket) = service.put_blob(&address("name"), request).unwrap();
        ticket.wait().unwrap();
        outcome.written
    };
    let write_many = || (0..100).map(|_| put()).collect::<Vec<Written>>();
    let writes: Vec<Written> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(write_many)).collect();
        let writes = threads.into_iter().map(|thread| thread.join().unwrap());
        writes.flatten().collect()
    });
    let mut in_order: Vec<_> = writes
        .iter()
        .map(|written| (written.etag, written.last_modified))
        .collect();
    in_order.sort();
    assert!(in_order.is_sorted_by(|a, b| a.1 < b.1));
    let blob = service.get_blob_properties(&address("name"), &none);
    let blob = blob.unwrap();
    let last = *in_order.last().unwrap();
    assert_eq!((blob.etag, blob.last_modified), last);
}

#[test]
fn a_lease_that_ends_before_the_write_does_not_admit_it() {
    let store = store();
    store.put("name", b"before").unwrap();
    store.lease("name", SECONDS_15, at(0)).unwrap();
    let request = || PutBlob {
        conditions: leased_by(0xA),
        ..store.put_request(b"after")
    };
    let (in_time, late) = (request(), request());
    assert!(store.put_with("name", in_time, at(14)).is_ok());
    assert_err!(store.put_with("name", late, at(16)), Error::LeaseLost);
}

#[test]
fn last_modified_does_not_go_back_with_the_clock() {
    let store = store();
    let none = Conditions::default();
    let first = store.put_with("name", store.put_request(b"1"), at(100));
    let first = first.unwrap().written;
    let put = store.put_with("name", store.put_request(b"2"), at(40));
    let set = store
        .at(at(30))
        .set_blob_metadata(&address("name"), pairs(&[("a", "1")]), &none);
    for later in [put.unwrap().written, set.unwrap().0] {
        assert!(later.etag > first.etag);
        assert_eq!(later.last_modified, first.last_modified);
    }
    let metadata = |now| {
        let service = store.at(now);
        let set = service.set_container_metadata(ACCOUNT, CONTAINER, Metadata::new(), &none);
        set.unwrap().0.last_modified
    };
    assert_eq!(metadata(at(100)), at(100));
    assert_eq!(metadata(at(40)), at(100));
}

/// A blob that is deleted, and created again by the next process at the same clock time.
#[test]
fn no_etag_comes_back_with_a_restart() {
    let store = store();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        assert!(seen.insert(store.put("name", b"body").unwrap().written.etag));
        store.delete("name").unwrap();
    }
    let service = &store.service;
    for _ in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        let next = Store::over_with(&service.db, directory, service.ids.clone());
        for _ in 0..3 {
            assert!(seen.insert(next.put("name", b"body").unwrap().written.etag));
            next.delete("name").unwrap();
        }
    }
    // A record that is far ahead of the clock was made while the clock was wrong.
    let bound = Some(crate::etag::ticks(at(1000)));
    let clock = crate::etag_clock::EtagClock::open(bound, at(0));
    assert_eq!(clock.next(at(0), None).0, crate::etag::ticks(at(0)));
}
