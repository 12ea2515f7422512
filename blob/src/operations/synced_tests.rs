//! Where contents lie at each level of durability, which decides how many syncs a write waits for.

use crate::operations::tests::*;
use crate::*;
use lazurite_engine::{Config, Db, Durability};

/// Bytes in the value log once a blob of `length` bytes was put and read back.
fn value_bytes_after_put(durability: Durability, length: usize) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        durability,
        ..Config::default()
    };
    let db = Db::open(directory.path(), config).unwrap();
    let store = Store::over(&db, directory);
    let made =
        store
            .at(at(0))
            .create_container_with(ACCOUNT, CONTAINER, ContainerSettings::default());
    made.unwrap().1.wait().unwrap();
    let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
    let mut uploads = [store.upload(UploadKind::PutBlob, &body)];
    Upload::store_together(&mut uploads);
    let [upload] = uploads;
    let request = PutBlob {
        upload,
        ..store.put_request(&[])
    };
    store.put_with("a", request, at(0)).unwrap();
    assert_eq!(store.read("a").unwrap(), body);
    db.stats().value_bytes
}

#[test]
fn small_contents_are_synced_with_the_log_where_writes_wait_for_the_disk() {
    for length in [4 << 10, 16 << 10] {
        assert_eq!(value_bytes_after_put(Durability::Disk, length), 0);
        assert!(value_bytes_after_put(Durability::Process, length) >= length as u64);
    }
    assert!(value_bytes_after_put(Durability::Disk, (16 << 10) + 1) > 16 << 10);
}
