//! Operations on a disk whose calls hang. Some operations must return at once, and no write may
//! hold a lock while it waits for the store.

use crate::operations::kept_tests::versions;
use crate::operations::tests::*;
use crate::*;
use lazurite_base::wall_clock::ManualWallClock;
use lazurite_engine::fs::{FaultFs, MemoryFs, Operation};
use lazurite_engine::{Config, CountingIds, Db, Durability, Environment};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const OTHER: &str = "another";
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of `answer`, which must not wait for the disk.
fn at_once<T: Send + 'static>(answer: impl FnOnce() -> T + Send + 'static) -> T {
    let (answered, answers) = mpsc::channel();
    std::thread::spawn(move || answered.send(answer()));
    answers.recv_timeout(PATIENCE).expect("it has to wait")
}

/// Drop guard: releases the disk, also when the test fails.
struct Release(FaultFs);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(None);
    }
}

struct HeldStore {
    service: Arc<BlobService>,
    db: Db,
    clock: Arc<ManualWallClock>,
    disk: FaultFs,
    _release: Release,
}

impl HeldStore {
    /// Two containers with some blobs each, on a disk that can be held up.
    fn new() -> HeldStore {
        let disk = FaultFs::new(Arc::new(MemoryFs::crashable()));
        let config = Config {
            durability: Durability::Process,
            memtable_bytes_max: 64 << 10,
            ..Config::default()
        };
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            ..Environment::system(Durability::Process)
        };
        let db = Db::open_with("data".as_ref(), config, environment).unwrap();
        let ids = Arc::new(CountingIds::default());
        let clock = Arc::new(ManualWallClock::new(at(0)));
        let service = Arc::new(BlobService::open(&db, ids, clock.clone()).unwrap());
        let held = HeldStore {
            service,
            db,
            clock,
            _release: Release(disk.clone()),
            disk,
        };
        for container in [CONTAINER, OTHER] {
            let settings = ContainerSettings::default();
            let made = held
                .service
                .create_container_with(ACCOUNT, container, settings);
            drop(made.unwrap());
            for name in ["a", "b"] {
                put(&held.service, &in_container(container, name)).unwrap();
            }
            put_pages(&held.service, &in_container(container, "pages")).unwrap();
        }
        held
    }

    fn begin<T: Send + 'static>(
        &self,
        write: impl FnOnce(&BlobService) -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let service = self.service.clone();
        std::thread::spawn(move || write(&service))
    }

    /// Holds up the disk, and writes to both containers until all writers wait.
    fn hold(&self, operation: Operation) -> Vec<std::thread::JoinHandle<()>> {
        self.disk.hold(Some(operation));
        let mut writers = Vec::new();
        for container in [CONTAINER, OTHER] {
            writers.push(self.begin(move |service| {
                for _ in 0..200 {
                    // The container may be gone by then.
                    let _ = put(service, &in_container(container, "a"));
                    let _ = put_pages(service, &in_container(container, "pages"));
                    let (from, to) = (in_container(OTHER, "b"), in_container(container, "copy"));
                    let _ = service.copy_blob(&from, &to, CopyBlob::default());
                    std::thread::sleep(Duration::from_millis(1));
                }
            }));
        }
        while self.disk.held() == 0
            || (operation == Operation::Sync && !self.db.makes_writers_wait())
        {
            std::thread::yield_now();
        }
        // By now all writers wait.
        std::thread::sleep(Duration::from_millis(300));
        writers
    }
}

fn put(service: &BlobService, address: &BlobAddress<'_>) -> Result<()> {
    let mut upload = service.begin_upload(UploadKind::PutBlob, Checksums::default())?;
    upload.write(b"body")?;
    let request = PutBlob {
        upload,
        headers: BlobHeaders::default(),
        metadata: Metadata::new(),
        settings: BlobSettings::default(),
        conditions: Conditions::default(),
    };
    service.put_blob(address, request).map(drop)
}

/// Makes the page blob unless it is there, and writes a page.
fn put_pages(service: &BlobService, address: &BlobAddress<'_>) -> Result<()> {
    let request = PutPageBlob {
        length: 1024,
        sequence: 0,
        headers: BlobHeaders::default(),
        metadata: Metadata::new(),
        settings: BlobSettings::default(),
        conditions: only_if_missing(),
    };
    let _ = service.put_page_blob(address, request);
    let mut upload =
        service.begin_upload(UploadKind::PutPage { start: 0 }, Checksums::default())?;
    upload.write(&[1; 512])?;
    let request = PutPage {
        range: 0..512,
        update: PageUpdate::Update(upload),
        sequence: SequenceConditions::default(),
        conditions: Conditions::default(),
    };
    service.put_page(address, request).map(drop)
}

fn read_everything(service: &BlobService, container: &str) {
    let none = Conditions::default();
    let blob = service.get_blob(&in_container(container, "b"), None, &none);
    assert_eq!(drain(blob.unwrap().body, 1000), b"body");
    let properties = service.get_blob_properties(&in_container(container, "a"), &none);
    assert_eq!(properties.unwrap().length, 4);
    let listed = service.list_blobs(ACCOUNT, container, &ListBlobs::default());
    assert!(listed.unwrap().entries.len() >= 3);
    let ranges = GetPageRanges::default();
    let found = service.get_page_ranges(&in_container(container, "pages"), &ranges);
    assert_eq!(found.unwrap().ranges.len(), 1);
    service
        .get_container_properties(ACCOUNT, container)
        .unwrap();
    let listed = service.list_containers(ACCOUNT, &ListContainers::default());
    assert_eq!(listed.unwrap().containers.len(), 2);
    service.get_account_policy(ACCOUNT).unwrap();
}

#[test]
fn reads_continue_while_writers_and_a_deletion_of_their_container_wait_for_the_disk() {
    for operation in [Operation::Sync, Operation::Write] {
        let held = HeldStore::new();
        let mut writers = held.hold(operation);
        writers.push(held.begin(|service| {
            let none = Conditions::default();
            drop(service.delete_container(ACCOUNT, CONTAINER, &none).unwrap());
        }));
        writers.push(held.begin(|service| {
            drop(
                service
                    .set_account_policy(ACCOUNT, versions(), None)
                    .unwrap(),
            );
        }));
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..40 {
            for container in [CONTAINER, OTHER] {
                let service = held.service.clone();
                at_once(move || read_everything(&service, container));
            }
        }
        assert!(held.disk.held() > 0);
        held.disk.hold(None);
        for writer in writers {
            writer.join().unwrap();
        }
        let gone = held.service.get_container_properties(ACCOUNT, CONTAINER);
        assert_err!(gone, Error::ContainerNotFound);
    }
}

/// A write that has its locks was admitted before: it does not wait for a disk that hangs later.
#[test]
fn a_write_that_holds_locks_does_not_wait_for_a_late_sync() {
    let held = HeldStore::new();
    let (began, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (committed, commits) = mpsc::channel();
    let writer = held.begin(move |service| {
        let mut write = service.begin_write(&in_container(OTHER, "b")).unwrap();
        began.send(()).unwrap();
        goes_on.recv().unwrap();
        let blob = write.existing().unwrap();
        let permit = write.permit_current(super::Action::Change).unwrap();
        write.put(&permit, &blob);
        drop(write.commit().unwrap());
        let _ = committed.send(());
    });
    has_begun.recv().unwrap();
    let writers = held.hold(Operation::Sync);
    go_on.send(()).unwrap();
    let outcome = commits.recv_timeout(PATIENCE);
    held.disk.hold(None);
    writer.join().unwrap();
    for writer in writers {
        writer.join().unwrap();
    }
    outcome.expect("it waited for the disk and held its locks");
}

/// All locks are free while writers wait for their turn.
#[test]
fn writers_that_wait_for_the_store_hold_no_locks() {
    let held = HeldStore::new();
    let (began, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (locked, locks) = mpsc::channel();
    let admitted = held.begin(move |service| {
        let mut transaction = service.db.begin().unwrap();
        began.send(()).unwrap();
        goes_on.recv().unwrap();
        let keys = [CONTAINER, OTHER].map(|name| crate::keys::container(ACCOUNT, name));
        let containers = &service.keyspaces.containers;
        let both = keys.iter().map(|key| (containers, &key[..]));
        transaction.lock(both).unwrap();
        let _ = locked.send(());
    });
    has_begun.recv().unwrap();
    let writers = held.hold(Operation::Sync);
    go_on.send(()).unwrap();
    let outcome = locks.recv_timeout(PATIENCE);
    held.disk.hold(None);
    admitted.join().unwrap();
    for writer in writers {
        writer.join().unwrap();
    }
    outcome.expect("a writer waits for the store with locks");
}

/// Due timers are processed while writers keep the store at its limit.
#[test]
fn due_work_is_swept_under_lasting_load() {
    let held = HeldStore::new();
    let address = in_container(OTHER, "b");
    let none = Conditions::default();
    let expiry = Expiry::RelativeToNow(Duration::from_secs(1));
    let set = held.service.set_blob_expiry(&address, expiry, &none);
    drop(set.unwrap());
    held.clock.set(at(5));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let stop = stop.clone();
            held.begin(move |service| {
                let name = format!("load{number}");
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    put(service, &in_container(CONTAINER, &name)).unwrap();
                }
            })
        })
        .collect();
    let began = std::time::Instant::now();
    let mut swept = 0;
    while swept == 0 && began.elapsed() < PATIENCE {
        swept += held.service.sweep(64).unwrap().steps;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(swept > 0);
    let container = held
        .service
        .get_container_properties(ACCOUNT, OTHER)
        .unwrap();
    let key = crate::keys::blob(container.id, "b");
    let row = held.db.get(&held.service.keyspaces.blobs, &key);
    assert!(row.unwrap().is_none());
}
