//! Copies: their properties, the content they share, and pending copies.

use crate::operations::tests::*;
use crate::*;
use crate::{codec, keys};
use lazurite_engine::{Direction, KeyRange};
use std::collections::BTreeMap;

impl Store {
    pub(super) fn copy_with(
        &self,
        source: BlobAddress<'_>,
        destination: BlobAddress<'_>,
        request: CopyBlob,
    ) -> Result<CopyOutcome> {
        let (outcome, ticket) = self.at(at(3)).copy_blob(&source, &destination, request)?;
        ticket.wait()?;
        Ok(outcome)
    }

    pub(super) fn copy(&self, source: &str, destination: &str) -> Result<CopyOutcome> {
        self.copy_with(address(source), address(destination), CopyBlob::default())
    }

    fn references(&self) -> usize {
        self.rows(&self.service.keyspaces.references)
    }

    /// Checks the foreign references that each container counts against the records of all
    /// containers.
    fn check_foreign_references(&self) {
        let (keyspaces, snapshot) = (&self.service.keyspaces, self.service.db.snapshot());
        let mut expected = BTreeMap::<u128, u64>::new();
        for keyspace in [&keyspaces.blobs, &keyspaces.history] {
            let mut rows = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
            while rows.advance().unwrap() {
                let home = keys::container_of(rows.key()).unwrap();
                let is_marker =
                    keyspace == &keyspaces.history && keys::is_uncommitted_marker(rows.key());
                if is_marker {
                    continue;
                }
                let blob = codec::decode_blob(&rows.value().unwrap(), home).unwrap();
                let foreign = blob.layers.iter().filter(|layer| layer.file.home != home);
                for layer in foreign {
                    *expected.entry(home).or_default() += 1;
                    *expected.entry(layer.file.home).or_default() += 1;
                }
            }
        }
        let mut counted = BTreeMap::new();
        let mut rows = snapshot.scan(&keyspaces.references, KeyRange::all(), Direction::Forward);
        while rows.advance().unwrap() {
            if let Ok(home) = rows.key().try_into() {
                let count = codec::decode_count(&rows.value().unwrap()).unwrap();
                counted.insert(u128::from_be_bytes(home), count);
            }
        }
        assert_eq!(counted, expected);
    }

    /// Deletes the container and sweeps until nothing is due.
    fn delete_container(&self, container: &str) {
        let service = self.at(at(4));
        let deleted = service.delete_container(ACCOUNT, container, &Conditions::default());
        deleted.unwrap().wait().unwrap();
        while self.at(at(4)).sweep(1).unwrap().steps > 0 {}
    }
}

#[test]
fn copy_has_all_of_its_source_and_shares_its_content() {
    let store = store();
    store.put_block("source", "a", &pattern(40_000, 1)).unwrap();
    store.put_block("source", "b", b"end").unwrap();
    let mut list = latest(&["a", "b"]);
    list.headers.content_type = Some("text/plain".to_string());
    list.metadata = pairs(&[("Kind", "x")]);
    store.commit("source", list).unwrap();
    let outcome = store.copy("source", "copy").unwrap();
    assert_eq!(outcome.status, CopyStatus::Success);
    assert_eq!(store.filed(), (2, 2), "content is shared, not copied");
    assert_eq!(store.read("copy").unwrap(), store.read("source").unwrap());
    assert_eq!(
        store.block_lists("copy").unwrap(),
        store.block_lists("source").unwrap()
    );
    let (copy, source) = (
        store.properties("copy").unwrap(),
        store.properties("source").unwrap(),
    );
    assert_eq!(
        (&copy.headers, &copy.metadata),
        (&source.headers, &source.metadata)
    );
    assert_eq!(copy.copy.unwrap().id, outcome.copy_id);
    assert_ne!(copy.etag, source.etag);
    // Source and copy change independently from here on.
    store.put_block("copy", "c", b"more").unwrap();
    store.commit("copy", latest(&["b", "c"])).unwrap();
    store.put("source", b"other").unwrap();
    assert_eq!(store.read("copy").unwrap(), b"endmore");
    store.delete("copy").unwrap();
    store.delete("source").unwrap();
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
}

#[test]
fn append_and_page_blobs_are_copied_and_grow_apart() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"first").unwrap();
    store.copy("log", "log2").unwrap();
    store.append("log", b"+").unwrap();
    store.append("log2", b"-").unwrap();
    assert_eq!(store.read("log").unwrap(), b"first+");
    assert_eq!(store.read("log2").unwrap(), b"first-");
    store.put_page_blob("pages", 1024);
    store.put_page("pages", 0, &[1; 1024]).unwrap();
    store.copy("pages", "pages2").unwrap();
    store.put_page("pages", 0, &[2; 512]).unwrap();
    store.put_page("pages2", 512, &[3; 512]).unwrap();
    assert_eq!(store.read("pages").unwrap(), [[2; 512], [1; 512]].concat());
    assert_eq!(store.read("pages2").unwrap(), [[1; 512], [3; 512]].concat());
    assert_eq!(
        store.properties("pages2").unwrap().sequence_number(),
        Some(7)
    );
    assert_err!(store.copy("log", "pages"), Error::InvalidBlobType);
    for name in ["log", "log2", "pages", "pages2"] {
        store.delete(name).unwrap();
    }
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
}

#[test]
fn blob_is_copied_onto_itself_and_snapshots_are_promoted() {
    let store = store();
    for body in [&b"small"[..], &pattern(40_000, 1)] {
        store.put("name", body).unwrap();
        let request = CopyBlob {
            metadata: pairs(&[("New", "1")]),
            ..CopyBlob::default()
        };
        store
            .copy_with(address("name"), address("name"), request)
            .unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        assert_eq!(
            store.properties("name").unwrap().metadata,
            pairs(&[("New", "1")])
        );
        let snapshot = BlobAddress {
            state: BlobState::Snapshot(store.snapshot("name").unwrap()),
            ..address("name")
        };
        store.put("name", b"other").unwrap();
        store
            .copy_with(snapshot, address("name"), CopyBlob::default())
            .unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        let include = with_snapshots(DeleteSnapshots::Include);
        store
            .delete_with("name", BlobState::Current, include)
            .unwrap();
        assert_eq!((store.filed(), store.references()), ((0, 0), 0));
    }
}

#[test]
fn copies_between_containers_outlive_the_container_of_their_source() {
    let store = store();
    store.create("other").unwrap();
    let none = Conditions::default();
    let body = pattern(40_000, 1);
    store.put("name", &body).unwrap();
    let other = in_container("other", "copy");
    store
        .copy_with(address("name"), other, CopyBlob::default())
        .unwrap();
    store.put_block("staged", "a", b"block").unwrap();
    store.put("unshared", b"body").unwrap();
    store.snapshot("unshared").unwrap();
    store.delete_container(CONTAINER);
    assert_eq!(store.filed(), (0, 1));
    let download = store.at(at(5)).get_blob(&other, None, &none).unwrap();
    assert_eq!(drain(download.body, 1000), body);
    store.delete_container("other");
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
}

#[test]
fn uncommitted_blocks_in_a_shared_file_go_with_their_container() {
    let store = store();
    store.create("other").unwrap();
    store.put_block("name", "listed", b"listed").unwrap();
    store.commit("name", latest(&["listed"])).unwrap();
    for id in ["later1", "later2"] {
        store.put_block("name", id, b"never listed").unwrap();
    }
    let other = in_container("other", "copy");
    store
        .copy_with(address("name"), other, CopyBlob::default())
        .unwrap();
    store.delete_container(CONTAINER);
    assert_eq!(store.filed(), (1, 1), "the copy keeps its one block");
    let none = Conditions::default();
    let download = store.at(at(5)).get_blob(&other, None, &none).unwrap();
    assert_eq!(drain(download.body, 1000), b"listed");
    store.delete_container("other");
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
}

#[test]
fn a_container_whose_foreign_copies_are_gone_is_dropped_at_once() {
    let store = store();
    for container in ["other", "third"] {
        store.create(container).unwrap();
    }
    store.put("name", b"body").unwrap();
    let other = in_container("other", "copy");
    let third = in_container("third", "copy");
    for (from, to) in [(address("name"), other), (other, third), (third, other)] {
        store.copy_with(from, to, CopyBlob::default()).unwrap();
        store.check_foreign_references();
    }
    for copy in [other, third] {
        let deleted = store.at(at(4)).delete_blob(&copy, &DeleteBlob::default());
        deleted.unwrap().1.wait().unwrap();
        store.check_foreign_references();
    }
    let none = Conditions::default();
    for container in [CONTAINER, "other", "third"] {
        let deleted = store.at(at(4)).delete_container(ACCOUNT, container, &none);
        deleted.unwrap().wait().unwrap();
        assert_eq!(store.rows(&store.service.keyspaces.timers), 0);
    }
    store.empty();
}

#[test]
fn files_outlive_their_container_as_long_as_a_copy_refers_to_them() {
    let store = store();
    for container in ["other", "third"] {
        store.create(container).unwrap();
    }
    store.put("name", b"body").unwrap();
    let other = in_container("other", "copy");
    let third = in_container("third", "copy");
    store
        .copy_with(address("name"), other, CopyBlob::default())
        .unwrap();
    store.delete_container(CONTAINER);
    store.copy_with(other, third, CopyBlob::default()).unwrap();
    store.delete_container("other");
    let none = Conditions::default();
    let download = store.at(at(5)).get_blob(&third, None, &none).unwrap();
    assert_eq!(drain(download.body, 1000), b"body");
    store.delete_container("third");
    store.empty();
}

#[test]
fn copies_meet_the_conditions_of_both_sides() {
    let store = store();
    let source = store.put("source", b"body").unwrap().written;
    store.put("there", b"old").unwrap();
    let request = |conditions, source_conditions| CopyBlob {
        conditions,
        source_conditions,
        ..CopyBlob::default()
    };
    let none = Conditions::default;
    let copy = |request| store.copy_with(address("source"), address("there"), request);
    assert_err!(
        copy(request(only_if_missing(), none())),
        Error::BlobAlreadyExists
    );
    let stale = if_match(ETag(1));
    assert_err!(copy(request(none(), stale)), Error::SourceConditionNotMet);
    let not_modified = Conditions {
        if_none_match: ETags::parse(&source.etag.quoted()),
        ..Conditions::default()
    };
    assert_err!(
        copy(request(none(), not_modified)),
        Error::SourceConditionNotMet
    );
    copy(request(none(), if_match(source.etag))).unwrap();
    assert_err!(store.copy("none", "there"), Error::BlobNotFound);
    let nowhere = in_container("nowhere", "name");
    let from = store.copy_with(nowhere, address("there"), CopyBlob::default());
    assert_err!(from, Error::BlobNotFound);
    let to = store.copy_with(address("source"), nowhere, CopyBlob::default());
    assert_err!(to, Error::ContainerNotFound);
    store.lease("there", SECONDS_15, at(3)).unwrap();
    let leased = request(leased_by(0xA), none());
    assert_err!(copy(leased), Error::InfiniteLeaseDurationRequired);
}

#[test]
fn pending_copy_keeps_writers_out_until_it_ends() {
    let store = store();
    let service = &store;
    let start = || {
        let request = CopyBlob {
            source_url: "http://elsewhere/c/b".to_string(),
            ..CopyBlob::default()
        };
        let (outcome, ticket) = service
            .at(at(1))
            .start_copy(&address("name"), request, 4)
            .unwrap();
        ticket.wait().unwrap();
        assert_eq!(outcome.status, CopyStatus::Pending);
        outcome.copy_id
    };
    let id = start();
    assert_err!(store.put("name", b"x"), Error::PendingCopyOperation);
    assert_err!(store.snapshot("name"), Error::PendingCopyOperation);
    assert_err!(store.copy("name", "other"), Error::PendingCopyOperation);
    let opened = service
        .at(at(1))
        .open_source(&address("name"), None, &Conditions::default());
    assert_err!(opened, Error::PendingCopyOperation);
    let expiry = Expiry::Absolute(at(9));
    let none = Conditions::default();
    assert_err!(
        service
            .at(at(1))
            .set_blob_expiry(&address("name"), expiry, &none),
        Error::PendingCopyOperation
    );
    assert_err!(
        store.lease("name", SECONDS_15, at(1)),
        Error::PendingCopyOperation
    );
    let abort = |id| {
        service
            .at(at(2))
            .abort_copy(&address("name"), id, None)
            .map(|_| ())
    };
    assert_err!(abort(Guid(0)), Error::CopyIdMismatch);
    abort(id).unwrap();
    assert_err!(abort(id), Error::NoPendingCopyOperation);
    let fetched = || FetchedCopy {
        upload: store.upload(UploadKind::PutBlob, b"body"),
        headers: BlobHeaders::default(),
        metadata: Metadata::new(),
    };
    let finish = |id| {
        service
            .at(at(3))
            .finish_copy(&address("name"), id, fetched())
            .map(|_| ())
    };
    assert_err!(finish(id), Error::NoPendingCopyOperation);
    let copy = store.properties("name").unwrap().copy.unwrap();
    assert_eq!((copy.status, copy.total), (CopyStatus::Aborted, 4));
    let id = start();
    finish(id).unwrap();
    assert_eq!(store.read("name").unwrap(), b"body");
    let copy = store.properties("name").unwrap().copy.unwrap();
    assert_eq!((copy.status, copy.copied), (CopyStatus::Success, 4));
    let id = start();
    let failed = service.at(at(3)).fail_copy(&address("name"), id, "404");
    failed.unwrap().1.wait().unwrap();
    let copy = store.properties("name").unwrap().copy.unwrap();
    assert_eq!(
        (copy.status, copy.description.as_deref()),
        (CopyStatus::Failed, Some("404"))
    );
    store.delete("name").unwrap();
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn interrupted_copies_fail_at_the_next_start() {
    let store = store();
    let service = &store;
    let request = || CopyBlob {
        source_url: "http://elsewhere/c/b".to_string(),
        ..CopyBlob::default()
    };
    let start = |name| {
        let started = service.at(at(1)).start_copy(&address(name), request(), 4);
        started.unwrap().0.copy_id
    };
    let (ended, _cut_off) = (start("ended"), start("cut off"));
    let aborted = service.at(at(2)).abort_copy(&address("ended"), ended, None);
    aborted.unwrap().wait().unwrap();
    store.create("gone").unwrap();
    let gone = service
        .at(at(1))
        .start_copy(&in_container("gone", "name"), request(), 4);
    gone.unwrap().1.wait().unwrap();
    let deleted = service
        .at(at(2))
        .delete_container(ACCOUNT, "gone", &Conditions::default());
    deleted.unwrap().wait().unwrap();
    let fail = || {
        service
            .at(at(3))
            .fail_interrupted_copies("cut off")
            .unwrap()
    };
    assert_eq!((fail().count, fail().count), (1, 0));
    let status = |name| store.properties(name).unwrap().copy.unwrap();
    assert_eq!(status("ended").status, CopyStatus::Aborted);
    let failed = status("cut off");
    assert_eq!(failed.status, CopyStatus::Failed);
    assert_eq!(failed.description.as_deref(), Some("cut off"));
    assert_eq!(failed.completed_at, Some(at(3)));
    assert_eq!(store.rows(&service.keyspaces.copies), 0);
    store.put("cut off", b"written again").unwrap();
}

#[test]
fn an_unreadable_record_does_not_stop_the_end_of_other_copies() {
    let store = store();
    let service = &store;
    for name in ["bad", "good"] {
        let request = CopyBlob::default();
        let started = service.at(at(1)).start_copy(&address(name), request, 4);
        started.unwrap().1.wait().unwrap();
    }
    let home = service.get_container_properties(ACCOUNT, CONTAINER);
    let key = crate::keys::blob(home.unwrap().id, "bad");
    let mut batch = lazurite_engine::Batch::new();
    batch.put(&service.keyspaces.blobs, &key, b"\xff\xff");
    service.db.write(batch).unwrap().wait().unwrap();
    let failed = service
        .at(at(2))
        .fail_interrupted_copies("cut off")
        .unwrap();
    assert_eq!((failed.count, failed.failures.len()), (1, 1), "{failed:?}");
    assert!(failed.failures[0].contains("bad"), "{failed:?}");
    let copy = store.properties("good").unwrap().copy.unwrap();
    assert_eq!(copy.status, CopyStatus::Failed);
}

/// An unreadable row stays and is reported; everything else of the container is removed.
#[test]
fn a_purge_removes_everything_but_a_bad_row() {
    let store = store();
    store.create("other").unwrap();
    for name in ["a", "bad", "z"] {
        store.put(name, b"body").unwrap();
    }
    let none = Conditions::default();
    let to = in_container("other", "copy");
    let copied = store
        .at(at(1))
        .copy_blob(&address("a"), &to, CopyBlob::default());
    copied.unwrap().1.wait().unwrap();
    let home = store
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap()
        .id;
    let deleted = store.at(at(2)).delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
    let keyspaces = &store.service.keyspaces;
    let mut batch = lazurite_engine::Batch::new();
    batch.put(
        &keyspaces.blobs,
        &crate::keys::blob(home, "bad"),
        b"\xff\xff",
    );
    store.db.write(batch).unwrap().wait().unwrap();
    let swept = store.at(at(10)).sweep(100).unwrap();
    assert_eq!(swept.failures.len(), 1, "{swept:?}");
    assert!(swept.failures[0].contains("bad"), "{swept:?}");
    assert_eq!(store.rows(&keyspaces.blobs), 2, "the bad one and the copy");
    assert_eq!(store.at(at(11)).sweep(100).unwrap().failures.len(), 0);
    let blob = store.at(at(11)).get_blob(&to, None, &none).unwrap();
    assert_eq!(drain(blob.body, 1000), b"body");
}

#[test]
fn counts_never_go_below_zero() {
    let store = store();
    let file = crate::keys::File { home: 1, id: 2 };
    // A file without a row is named by one record.
    assert_eq!(store.references_after(&file, -1).unwrap(), 0);
    assert_err!(
        store.references_after(&file, -2),
        Error::InternalError { .. }
    );
    let mut batch = lazurite_engine::Batch::new();
    let changes = std::collections::BTreeMap::from([(0, -2)]);
    let settled = store.settle_roots(&mut batch, file, &changes, at(0));
    assert_err!(settled, Error::InternalError { .. });
    let container = store.get_container_properties(ACCOUNT, CONTAINER).unwrap();
    let mut settle = |id: u128| store.settle_foreign_references(&mut batch, id.to_be_bytes(), -1);
    assert_err!(settle(container.id), Error::InternalError { .. });
    // The count of a container that does not exist is not checked.
    settle(77).unwrap();
}

#[test]
fn incremental_copies_take_later_snapshots_of_one_blob() {
    let store = store();
    let none = Conditions::default();
    store.put_page_blob("pages", 1024);
    let mut snapshots = Vec::new();
    for byte in 1..4 {
        store.put_page("pages", 0, &[byte; 512]).unwrap();
        snapshots.push(store.snapshot("pages").unwrap());
    }
    let copy = |state| {
        let source = BlobAddress {
            state,
            ..address("pages")
        };
        let copy = address("copy");
        let url = "http://here".to_string();
        let copied = store
            .at(at(9))
            .incremental_copy_blob(&source, &copy, url, &none);
        copied.map(|(outcome, _)| outcome)
    };
    assert_err!(
        copy(BlobState::Current),
        Error::IncrementalCopySourceMustBeSnapshot
    );
    copy(BlobState::Snapshot(snapshots[1])).unwrap();
    let earlier = copy(BlobState::Snapshot(snapshots[0]));
    assert_err!(earlier, Error::IncrementalCopyOfEarlierSnapshotNotAllowed);
    copy(BlobState::Snapshot(snapshots[2])).unwrap();
    let state = store.properties("copy").unwrap().copy.unwrap();
    let made = BlobState::Snapshot(state.destination_snapshot.unwrap());
    assert_eq!(
        store.read_state("copy", made).unwrap(),
        [[3; 512], [0; 512]].concat()
    );
    let write = store.put_page("copy", 0, &[1; 512]);
    assert_err!(write, Error::OperationNotAllowedOnIncrementalCopyBlob);
    assert_err!(
        store.copy("pages", "copy"),
        Error::OperationNotAllowedOnIncrementalCopyBlob
    );
    let include = with_snapshots(DeleteSnapshots::Include);
    for name in ["copy", "pages"] {
        store
            .delete_with(name, BlobState::Current, include.clone())
            .unwrap();
    }
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
}

#[test]
fn blocks_and_pages_are_taken_from_other_blobs() {
    let store = store();
    store.put("source", b"0123456789").unwrap();
    let none = Conditions::default();
    let range = Some(ByteRange {
        first: 2,
        last: Some(4),
    });
    let source = store
        .at(at(1))
        .open_source(&address("source"), range, &none);
    let mut upload = store.upload(UploadKind::PutBlock, b"");
    upload.write_from(&mut source.unwrap().body).unwrap();
    let put = store
        .at(at(1))
        .put_block(&address("name"), b"a", upload, &Conditions::default());
    put.unwrap().1.wait().unwrap();
    store.commit("name", latest(&["a"])).unwrap();
    assert_eq!(store.read("name").unwrap(), b"234");
    let stale = store
        .at(at(1))
        .open_source(&address("source"), None, &if_match(ETag(1)));
    assert_err!(stale, Error::ConditionNotMet);
}

#[test]
fn racing_copies_snapshots_and_deletions_leave_nothing_behind() {
    let store = store();
    store.create("other").unwrap();
    let none = Conditions::default();
    let places = [
        (CONTAINER, "a"),
        (CONTAINER, "b"),
        ("other", "a"),
        ("other", "b"),
    ];
    let one_of = |at: u64| {
        let (container, name) = places[(at % 4) as usize];
        in_container(container, name)
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, none) = (&store, &none);
            scope.spawn(move || {
                let service = &store;
                for i in 0..400 {
                    let step = (i * 7 + thread * 13) ^ (i / 3);
                    let (to, from) = (one_of(step), one_of(step / 4));
                    let now = at(i);
                    match step % 9 {
                        0 => drop(service.at(now).put_blob(&to, store.put_request(b"body"))),
                        1 => {
                            let upload = store.upload(UploadKind::PutBlock, b"block");
                            drop(service.at(now).put_block(
                                &to,
                                b"a",
                                upload,
                                &Conditions::default(),
                            ));
                        }
                        2 => drop(service.at(now).put_block_list(&to, latest(&["a"]))),
                        3 | 4 => drop(service.at(now).snapshot_blob(&to, Metadata::new(), none)),
                        5 | 6 => drop(service.at(now).copy_blob(&from, &to, CopyBlob::default())),
                        7 => {
                            let include = with_snapshots(DeleteSnapshots::Include);
                            drop(service.at(now).delete_blob(&to, &include));
                        }
                        _ if step % 27 == 8 => {
                            let container = to.container;
                            drop(service.at(now).delete_container(ACCOUNT, container, none));
                            drop(store.create(container));
                        }
                        _ => drop(service.at(now).sweep(2)),
                    }
                }
            });
        }
    });
    store.check_foreign_references();
    for container in [CONTAINER, "other"] {
        let deleted = store
            .at(at(999))
            .delete_container(ACCOUNT, container, &none);
        deleted.unwrap().wait().unwrap();
    }
    while store.at(at(999_999)).sweep(9).unwrap().steps > 0 {}
    let keyspaces = &store.service.keyspaces;
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
    for keyspace in [&keyspaces.blobs, &keyspaces.history, &keyspaces.timers] {
        assert_eq!(store.rows(keyspace), 0, "{keyspace:?}");
    }
}

/// Source: Copy Blob, "Request headers", `x-ms-seal-blob`.
#[test]
fn a_copy_of_an_append_blob_is_sealed_as_its_request_says() {
    let store = store();
    store.put_append_blob("log");
    store.append("log", b"first").unwrap();
    let copy = |source: &str, destination: &str, seal| {
        let request = CopyBlob {
            seal,
            ..CopyBlob::default()
        };
        let copied = store.copy_with(address(source), address(destination), request);
        copied.unwrap();
        let blob = store.properties(destination).unwrap();
        assert_eq!(blob.committed_block_count(), Some(1));
        blob.is_sealed()
    };
    assert!(!copy("log", "same", None) && !copy("log", "open", Some(false)));
    assert!(copy("log", "sealed", Some(true)));
    assert!(copy("sealed", "sealed2", None) && !copy("sealed", "open2", Some(false)));
    assert_err!(store.append("sealed", b"+"), Error::BlobIsSealed);
    store.append("open2", b"+").unwrap();
}
