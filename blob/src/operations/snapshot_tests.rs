//! Snapshots: their content and their end.

use crate::operations::tests::*;
use crate::*;

#[test]
fn snapshot_keeps_the_state_of_the_blob() {
    let store = store();
    store.put("name", b"first").unwrap();
    let first = store.snapshot("name").unwrap();
    store.put("name", b"second").unwrap();
    store.put_block("name", "a", b"third").unwrap();
    let second = store.snapshot("name").unwrap();
    store.commit("name", latest(&["a"])).unwrap();
    let third = store.snapshot("name").unwrap();
    store.put_block("name", "b", b"fourth").unwrap();
    store.commit("name", latest(&["b", "a"])).unwrap();
    assert!(first < second && second < third);
    for (moment, body) in [
        (first, &b"first"[..]),
        (second, b"second"),
        (third, b"third"),
    ] {
        let state = BlobState::Snapshot(moment);
        assert_eq!(store.read_state("name", state).unwrap(), body);
    }
    assert_eq!(store.read("name").unwrap(), b"fourththird");
    let unknown = store.read_state("name", BlobState::Snapshot(SnapshotTime::at(at(0))));
    assert_err!(unknown, Error::BlobNotFound);
}

#[test]
fn content_is_dropped_with_its_last_name() {
    let store = store();
    for body in [&b"small"[..], &pattern(40_000, 1)] {
        store.put_block("name", "a", body).unwrap();
        store.put_block("name", "b", b"other").unwrap();
        store.commit("name", latest(&["a", "b"])).unwrap();
        let first = store.snapshot("name").unwrap();
        let second = store.snapshot("name").unwrap();
        assert_eq!(store.filed(), (2, 2), "content is shared, not copied");
        store.commit("name", latest(&["a"])).unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        assert_eq!(store.filed(), (3, 2));
        assert_err!(store.delete("name"), Error::SnapshotsPresent);
        let delete = |moment| {
            let state = BlobState::Snapshot(moment);
            store.delete_with("name", state, DeleteBlob::default())
        };
        assert!(delete(first).unwrap());
        delete(second).unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        store.put("name", b"whole").unwrap();
        assert_eq!(store.filed(), (0, 1));
        store.delete("name").unwrap();
        assert_eq!(store.filed(), (0, 0));
        assert_eq!(store.rows(&store.service.keyspaces.references), 0);
    }
}

#[test]
fn snapshots_are_deleted_with_the_blob_or_without_it() {
    let store = store();
    store.put("name", b"body").unwrap();
    let snapshot = store.snapshot("name").unwrap();
    store.snapshot("name").unwrap();
    let wrong = store.delete_with(
        "name",
        BlobState::Snapshot(snapshot),
        with_snapshots(DeleteSnapshots::Include),
    );
    assert_err!(wrong, Error::InvalidOperation { .. });
    let only = with_snapshots(DeleteSnapshots::Only);
    store.delete_with("name", BlobState::Current, only).unwrap();
    assert_eq!(store.read("name").unwrap(), b"body");
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    store.snapshot("name").unwrap();
    let include = with_snapshots(DeleteSnapshots::Include);
    store
        .delete_with("name", BlobState::Current, include)
        .unwrap();
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn snapshots_are_not_written_to() {
    let store = store();
    store.put("name", b"body").unwrap();
    let state = BlobState::Snapshot(store.snapshot("name").unwrap());
    let address = BlobAddress {
        state,
        ..address("name")
    };
    let none = Conditions::default();
    let service = &store;
    let put = service
        .at(at(9))
        .put_blob(&address, store.put_request(b"x"));
    assert_err!(put, Error::InvalidOperation { .. });
    let set = service
        .at(at(9))
        .set_blob_metadata(&address, Metadata::new(), &none);
    assert_err!(set, Error::InvalidOperation { .. });
    let leased = service.at(at(9)).lease_blob(&address, SECONDS_15, &none);
    assert_err!(leased, Error::InvalidOperation { .. });
}
