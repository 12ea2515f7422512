//! Versions: how they are made, found and restored.

use crate::operations::kept_tests::{DAY, keeping, soft_delete, versions};
use crate::operations::tests::*;
use crate::*;

/// Puts a blob, and returns its version.
fn put_first(store: &Store) -> SnapshotTime {
    let put = store.put("name", b"first").unwrap();
    put.written.version.unwrap()
}

#[test]
fn snapshot_makes_a_version_of_the_blob() {
    let store = keeping(versions());
    let first = put_first(&store);
    let none = Conditions::default();
    let now = at(1);
    let taken = store
        .at(now)
        .snapshot_blob(&address("name"), Metadata::new(), &none);
    let (moment, written, _) = taken.unwrap();
    let second = store.properties("name").unwrap().version.unwrap();
    assert!(first < second);
    assert_eq!(written.version, Some(second));
    let states = [
        BlobState::Current,
        BlobState::Snapshot(moment),
        BlobState::Version(first),
        BlobState::Version(second),
    ];
    for state in states {
        assert_eq!(store.read_state("name", state).unwrap(), b"first");
    }
    store.put("name", b"second").unwrap();
    for state in &states[1..] {
        assert_eq!(store.read_state("name", *state).unwrap(), b"first");
    }
    for state in &states[1..] {
        store
            .delete_with("name", *state, DeleteBlob::default())
            .unwrap();
    }
    assert_eq!(store.everything(at(2)), ["name current"]);
    assert_eq!(store.read("name").unwrap(), b"second");
}

#[test]
fn versions_are_made_by_writes_and_read_by_their_moment() {
    let store = keeping(versions());
    let first = put_first(&store);
    store.put_block("name", "a", b"second").unwrap();
    let second = store
        .commit("name", latest(&["a"]))
        .unwrap()
        .version
        .unwrap();
    store.put_block("name", "b", b"third").unwrap();
    let third = store
        .commit("name", latest(&["a", "b"]))
        .unwrap()
        .version
        .unwrap();
    let none = Conditions::default();
    let set = store
        .at(at(1))
        .set_blob_metadata(&address("name"), pairs(&[("n", "v")]), &none);
    let fourth = set.unwrap().0.version.unwrap();
    assert!(first < second && second < third && third < fourth);
    let read = |moment| {
        store
            .read_state("name", BlobState::Version(moment))
            .unwrap()
    };
    for (moment, body) in [
        (first, &b"first"[..]),
        (second, b"second"),
        (third, b"secondthird"),
        (fourth, b"secondthird"),
    ] {
        assert_eq!(read(moment), body);
    }
    assert_eq!(
        store.everything(at(2)),
        [
            "name version",
            "name version",
            "name version",
            "name current",
        ]
    );
    let current = store.delete_with("name", BlobState::Version(fourth), DeleteBlob::default());
    assert_err!(current, Error::OperationNotAllowedOnRootBlob);
    store.delete("name").unwrap();
    assert_err!(store.read("name"), Error::BlobNotFound);
    assert_eq!(read(fourth), b"secondthird");
    let only = ListBlobs {
        deleted_with_versions: true,
        ..ListBlobs::default()
    };
    let BlobEntry::Blob(listed) = &store.list(&only).entries[0] else {
        panic!();
    };
    assert!(listed.has_versions_only);
    assert_eq!(store.list(&only).entries.len(), 1);
    for moment in [second, first, fourth, third] {
        store
            .delete_with("name", BlobState::Version(moment), DeleteBlob::default())
            .unwrap();
    }
    store.at(at(8 * DAY)).sweep(100).unwrap();
    store.empty();
}

#[test]
fn version_is_promoted_by_a_copy() {
    let store = keeping(versions());
    let first = put_first(&store);
    store.put("name", b"second").unwrap();
    let source = BlobAddress {
        state: BlobState::Version(first),
        ..address("name")
    };
    let copied = store
        .at(at(1))
        .copy_blob(&source, &address("name"), CopyBlob::default());
    copied.unwrap().1.wait().unwrap();
    assert_eq!(store.read("name").unwrap(), b"first");
    assert_eq!(store.everything(at(2)).len(), 3);
}

#[test]
fn deleted_versions_come_back_as_versions() {
    let store = keeping(AccountPolicy {
        versioning: true,
        ..soft_delete(3)
    });
    let first = put_first(&store);
    store.put("name", b"second").unwrap();
    let state = BlobState::Version(first);
    store
        .delete_with("name", state, DeleteBlob::default())
        .unwrap();
    assert_err!(store.read_state("name", state), Error::BlobNotFound);
    assert_eq!(
        store.everything(at(7)),
        ["name deleted version", "name current"]
    );
    store.undelete("name", at(7)).unwrap();
    assert_eq!(store.read_state("name", state).unwrap(), b"first");
}

#[test]
fn search_for_tags_finds_versions_when_asked() {
    let store = keeping(versions());
    let put = |name: &str, tags: &[(&str, &str)]| {
        let mut request = store.put_request(b"body");
        request.settings.tags = pairs(tags);
        store
            .put_with(name, request, at(1))
            .unwrap()
            .written
            .version
            .unwrap()
    };
    let first = put("name", &[("kind", "lake"), ("size", "1")]);
    let second = put("name", &[("kind", "lake"), ("size", "2")]);
    let third = put("name", &[("kind", "river")]);
    put("other", &[("kind", "lake")]);
    let find = |query: &str, versions| {
        let request = FindBlobsByTags {
            query: TagQuery::parse(query).unwrap(),
            marker: None,
            max_results: None,
            versions,
        };
        let page = store
            .at(at(2))
            .find_blobs_by_tags(ACCOUNT, &request)
            .unwrap();
        let shown = |blob: TaggedBlob| (blob.name, blob.version, blob.is_current);
        let shown: Vec<_> = page.blobs.into_iter().map(shown).collect();
        (shown, page.rows_examined)
    };
    let (current, examined) = find("kind >= 'a'", false);
    assert_eq!(
        (current.len(), examined),
        (2, 3),
        "two rows of the index and the container: versions cost nothing unasked"
    );
    let named = |version, is_current| ("name".to_string(), Some(version), is_current);
    let (found, _) = find("kind = 'lake'", true);
    assert_eq!(found[..2], [named(first, false), named(second, false)]);
    assert!(found.len() == 3 && found[2].2);
    assert_eq!(find("kind > 'lake'", true).0, [named(third, true)]);
    assert_eq!(
        find("kind = 'lake' AND size = '2'", true).0,
        [named(second, false)]
    );
    let none = Conditions::default();
    let version = BlobState::Version(first);
    let address = BlobAddress {
        state: version,
        ..address("name")
    };
    let set = store
        .at(at(3))
        .set_blob_tags(&address, pairs(&[("kind", "pond")]), &none);
    set.unwrap().wait().unwrap();
    assert_eq!(find("kind = 'pond'", true).0, [named(first, false)]);
    assert_eq!(find("kind = 'lake' AND size = '1'", true).0, []);
    let deleted = store.delete_with("name", version, DeleteBlob::default());
    deleted.unwrap();
    assert_eq!(find("kind = 'pond'", true).0, []);
}

/// Source: recorded answers of the hosted service.
#[test]
fn a_legal_hold_keeps_a_blob_from_deletion_also_where_versions_are_kept() {
    let store = keeping(versions());
    put_first(&store);
    let hold = |holds| {
        let set = store
            .at(at(1))
            .set_blob_legal_hold(&address("name"), holds)
            .unwrap();
        set.wait().unwrap();
    };
    hold(true);
    let delete = || store.delete_with("name", BlobState::Current, DeleteBlob::default());
    assert_err!(delete(), Error::BlobImmutableDueToLegalHold);
    assert_eq!(
        store.read_state("name", BlobState::Current).unwrap(),
        b"first"
    );
    hold(false);
    delete().unwrap();
}
