//! A store as it was written before records had a second version is read, listed and written to.

use crate::keys::{self, File};
use crate::operations::tests::*;
use crate::*;
use lazurite_engine::{Batch, Config, Db, Keyspace, KeyspaceOptions};

const HOME: u128 = 0x11;
const CONTAINER_1: &str = "0100000000000000000000000000000011de080000000000000080aa8ddd72df0801010170000180ca0793dd72df080102727701044b696e64036f6c64";
const WHOLE_1: &str = "010100000000000000000000000000000022df080000000000008016438edd72df080080aa8ddd72df0804210a746578742f706c61696e0707070707070707070707070707070701016e0176";
const BLOCKS_1: &str = "01020000000000000000000000000000003302df080000000000008016438edd72df080080aa8ddd72df0805210a746578742f706c61696e0707070707070707070707070707070701016e0176";
const UNCOMMITTED_1: &str = "010000000000000000000000000000000044";
const BLOCK_A_1: &str = "0100000000000000000000000000000055020161";
const BLOCK_B_1: &str = "0100000000000000000000000000000066030162";
const STAGING_1: &str = "01010100addb8edd72df08";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// One blob put whole, one of the blocks a and b, and a name with the uncommitted block a.
fn old_store() -> Store {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let keyspace = |name| db.keyspace(name, KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    let mut put = |keyspace: &Keyspace, key: Vec<u8>, hex: &str| {
        batch.put(keyspace, &key, &bytes(hex));
    };
    let file = |id| File { home: HOME, id };
    put(
        &keyspace("blob.containers"),
        keys::container(ACCOUNT, CONTAINER),
        CONTAINER_1,
    );
    let blobs = keyspace("blob.blobs");
    put(&blobs, keys::blob(HOME, "whole"), WHOLE_1);
    put(&blobs, keys::blob(HOME, "blocks"), BLOCKS_1);
    put(&blobs, keys::blob(HOME, "staged"), UNCOMMITTED_1);
    let blocks = keyspace("blob.blocks");
    put(&blocks, file(0x33).committed(2), BLOCK_A_1);
    put(&blocks, file(0x33).committed(5), BLOCK_B_1);
    put(&blocks, file(0x44).uncommitted(b"a"), BLOCK_A_1);
    put(&blocks, file(0x44).staging(), STAGING_1);
    let content = keyspace("blob.content");
    put(&content, file(0x22).whole_content(), "77686f6c");
    put(&content, file(0x33).block_content(0x55), "6162");
    put(&content, file(0x33).block_content(0x66), "636465");
    put(&content, file(0x44).block_content(0x55), "7879");
    db.write(batch).unwrap().wait().unwrap();
    Store::over(&db, directory)
}

#[test]
fn keys_are_where_they_were() {
    let id = bytes("00000000000000000000000000000011");
    let with = |tail: &str| [&id[..], &bytes(tail)].concat();
    assert_eq!(keys::container("a", "c"), bytes("61000163"));
    assert_eq!(keys::blob(HOME, "n"), with("6e0001ff"));
    let file = File {
        home: HOME,
        id: 0x33,
    };
    let other = "00000000000000000000000000000033";
    assert_eq!(file.whole_content(), with(other));
    assert_eq!(file.staging(), with(&format!("{other}00")));
    assert_eq!(file.uncommitted(b"a"), with(&format!("{other}0161")));
    assert_eq!(
        file.committed(5),
        with(&format!("{other}020000000000000005"))
    );
    assert_eq!(file.block_content(0x33), with(&format!("{other}{other}")));
}

#[test]
fn old_blobs_are_read_and_listed() {
    let store = old_store();
    assert_eq!(store.read("whole").unwrap(), b"whol");
    assert_eq!(store.read("blocks").unwrap(), b"abcde");
    assert_err!(store.read("staged"), Error::BlobNotFound);
    let [committed, uncommitted] = store.block_lists("staged").unwrap();
    assert_eq!(
        (committed.len(), &uncommitted[..]),
        (0, &[("a".to_string(), 2)][..])
    );
    let blob = store.properties("blocks").unwrap();
    assert_eq!(
        (blob.etag, blob.last_modified, blob.created_at),
        (ETag(0x8DF), at(1), at(0))
    );
    assert_eq!(blob.headers.content_md5, Some(vec![7; 16]));
    assert_eq!(blob.metadata, pairs(&[("n", "v")]));
    for (uncommitted, count) in [(false, 2), (true, 3)] {
        let request = ListBlobs {
            uncommitted,
            ..ListBlobs::default()
        };
        assert_eq!(store.list(&request).entries.len(), count);
    }
    let container = store
        .service
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap();
    assert_eq!((container.etag, container.policies.len()), (ETag(0x8DE), 1));
}

#[test]
fn old_blobs_are_overwritten_and_leave_nothing() {
    let store = old_store();
    store.snapshot("blocks").unwrap();
    store.put_block("blocks", "c", b"f").unwrap();
    store.commit("blocks", latest(&["b", "c"])).unwrap();
    assert_eq!(store.read("blocks").unwrap(), b"cdef");
    store.put_block("staged", "b", b"z").unwrap();
    store.commit("staged", latest(&["a", "b"])).unwrap();
    assert_eq!(store.read("staged").unwrap(), b"xyz");
    store.put("whole", b"new").unwrap();
    assert_eq!(store.read("whole").unwrap(), b"new");
    let include = DeleteBlob {
        snapshots: Some(DeleteSnapshots::Include),
        ..DeleteBlob::default()
    };
    for name in ["blocks", "staged", "whole"] {
        store
            .delete_with(name, BlobState::Current, include.clone())
            .unwrap();
    }
    assert_eq!(store.filed(), (0, 0));
}

/// A container of a store that had no marks of protected records yet.
#[test]
fn an_old_container_with_a_protected_blob_is_not_deleted() {
    let store = old_store();
    let none = Conditions::default();
    let hold = |is_held| {
        let set = store
            .service
            .set_blob_legal_hold(&address("whole"), is_held);
        set.unwrap().wait().unwrap();
        let mut batch = Batch::new();
        let protected = &store.service.keyspaces.protected;
        batch.delete(protected, &HOME.to_be_bytes());
        store.db.write(batch).unwrap().wait().unwrap();
    };
    let delete = || store.at(at(9)).delete_container(ACCOUNT, CONTAINER, &none);
    hold(true);
    assert_err!(delete(), Error::BlobImmutableDueToPolicy);
    hold(false);
    delete().unwrap().wait().unwrap();
}

/// A container that an older program deleted although one of its blobs was protected.
#[test]
fn a_deleted_container_with_a_protected_blob_is_swept_once_the_protection_ends() {
    let store = old_store();
    let policy = AccountPolicy {
        container_retention_days: Some(1),
        ..AccountPolicy::default()
    };
    let set = store.set_account_policy(ACCOUNT, policy, None);
    set.unwrap().wait().unwrap();
    let held = store.service.set_blob_legal_hold(&address("whole"), true);
    held.unwrap().wait().unwrap();
    let keyspaces = &store.service.keyspaces;
    let key = keys::blob(HOME, "whole");
    let record = store.db.get(&keyspaces.blobs, &key).unwrap().unwrap();
    let put = |value: &[u8]| {
        let mut batch = Batch::new();
        batch.put(&keyspaces.blobs, &key, value);
        store.db.write(batch).unwrap().wait().unwrap();
    };
    put(&bytes(WHOLE_1));
    let none = Conditions::default();
    let deleted = store.at(at(1)).delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
    put(&record);
    let day = 24 * 60 * 60;
    let swept = store.at(at(2 * day)).sweep(100).unwrap();
    assert_eq!(
        (swept.failures.len(), store.rows(&keyspaces.containers)),
        (0, 1)
    );
    assert_eq!(store.rows(&keyspaces.blobs), 3);
    put(&bytes(WHOLE_1));
    store.at(at(4 * day)).sweep(100).unwrap();
    assert_eq!(
        (store.rows(&keyspaces.containers), store.filed()),
        (0, (0, 0))
    );
}
