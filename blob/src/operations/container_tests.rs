//! Containers and accounts: settings, listings, deletion.

use crate::operations::tests::*;
use crate::*;

#[test]
fn deleted_container_takes_everything_with_it_and_frees_its_name() {
    let store = store();
    store.put("whole", b"body").unwrap();
    store.put_block("blocks", "a", b"a").unwrap();
    store.create("other").unwrap();
    let none = Conditions::default();
    let delete = |name| store.at(at(0)).delete_container(ACCOUNT, name, &none);
    delete(CONTAINER).unwrap().wait().unwrap();
    assert_err!(store.read("whole"), Error::ContainerNotFound);
    assert_err!(delete(CONTAINER), Error::ContainerNotFound);
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
    store.create(CONTAINER).unwrap();
    assert_err!(store.read("whole"), Error::BlobNotFound);
    assert!(
        store
            .service
            .get_container_properties(ACCOUNT, "other")
            .is_ok()
    );
}

#[test]
fn writes_racing_with_the_deletion_of_their_container_leave_no_orphans() {
    let store = store();
    let none = Conditions::default();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..300 {
                    let name = format!("{writer}/{}", i % 7);
                    let put = store.put(&name, b"body").map(|_| ());
                    let block = store.put_block(&name, "a", b"block").map(|_| ());
                    for result in [put, block] {
                        assert!(matches!(result, Ok(()) | Err(Error::ContainerNotFound)));
                    }
                }
            });
        }
        for _ in 0..100 {
            let deleted = store.at(at(0)).delete_container(ACCOUNT, CONTAINER, &none);
            deleted.unwrap().wait().unwrap();
            store.create(CONTAINER).unwrap();
        }
    });
    let deleted = store.at(at(0)).delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
}

#[test]
fn container_keeps_its_settings() {
    let store = store();
    let none = Conditions::default();
    assert_err!(store.create(CONTAINER), Error::ContainerAlreadyExists);
    let get = || {
        store
            .service
            .get_container_properties(ACCOUNT, CONTAINER)
            .unwrap()
    };
    let created = get();
    let metadata = pairs(&[("Kind", "x")]);
    let set = |conditions: &Conditions, metadata: &Metadata| {
        let service = &store;
        service
            .at(at(5))
            .set_container_metadata(ACCOUNT, CONTAINER, metadata.clone(), conditions)
    };
    set(&none, &metadata).unwrap().1.wait().unwrap();
    let changed = get();
    assert!(changed.etag > created.etag && changed.last_modified == at(5));
    assert_eq!((&changed.metadata, changed.id), (&metadata, created.id));
    let not_since = Conditions {
        if_modified_since: Some(at(5)),
        ..Conditions::default()
    };
    assert_err!(set(&not_since, &pairs(&[])), Error::ConditionNotMet);
    let unmodified = Conditions {
        if_unmodified_since: Some(at(5)),
        ..Conditions::default()
    };
    assert_err!(
        set(&unmodified, &pairs(&[])),
        Error::ConditionHeadersNotSupported
    );
    store.put("name", b"body").unwrap();
    assert_eq!(get().etag, changed.etag);
}

fn policy(id: &str) -> StoredPolicy {
    StoredPolicy {
        id: id.to_string(),
        start: None,
        expiry: Some(at(100)),
        permission: Some("r".to_string()),
    }
}

#[test]
fn access_policies_are_kept_as_set_and_checked() {
    let store = store();
    let none = Conditions::default();
    let set = |policies: &[StoredPolicy]| {
        let (service, access) = (&store, PublicAccess::Blob);
        service
            .at(at(1))
            .set_container_acl(ACCOUNT, CONTAINER, access, policies.to_vec(), &none)
    };
    let policies = [policy("b"), policy("a")];
    set(&policies).unwrap().1.wait().unwrap();
    let container = store
        .service
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap();
    assert_eq!(container.policies, policies);
    assert_eq!(container.public_access, PublicAccess::Blob);
    let twice = [policy("a"), policy("a")];
    assert_err!(set(&twice), Error::InvalidXmlDocument { .. });
    let unknown = StoredPolicy {
        permission: Some("rz".to_string()),
        ..policy("a")
    };
    assert_err!(set(&[unknown]), Error::InvalidXmlDocument { .. });
}

#[test]
fn containers_are_listed_by_name_and_account() {
    let store = store();
    for name in ["zebra", "conta", "$logs", "$root"] {
        store.create(name).unwrap();
    }
    let none = Metadata::new();
    let private = PublicAccess::Private;
    let create = store
        .at(at(0))
        .create_container("account2", "theirs", private, none);
    create.unwrap().1.wait().unwrap();
    let page = |request: &ListContainers| {
        let page = store.at(at(0)).list_containers(ACCOUNT, request).unwrap();
        let names = page.containers.into_iter().map(|(name, _)| name);
        (names.collect::<Vec<_>>(), page.next_marker)
    };
    let all = ListContainers::default();
    assert_eq!(page(&all).0, ["$root", "conta", "container", "zebra"]);
    let system = ListContainers {
        system: true,
        max_results: Some(1),
        ..all.clone()
    };
    assert_eq!(page(&system).0, ["$logs"]);
    let two = ListContainers {
        prefix: "c".to_string(),
        max_results: Some(1),
        ..all
    };
    let (first, marker) = page(&two);
    assert_eq!(first, ["conta"]);
    let (second, marker) = page(&ListContainers { marker, ..two });
    assert_eq!((second, marker), (vec!["container".to_string()], None));
}

#[test]
fn delimiter_listing_over_10_000_names_looks_at_one_row_a_prefix() {
    let store = store();
    for group in ["a", "b", "c"] {
        for i in 0..3334 {
            store.put(&format!("{group}/{i}"), b"").unwrap();
        }
    }
    store.put("d", b"").unwrap();
    let request = ListBlobs {
        delimiter: "/".to_string(),
        ..ListBlobs::default()
    };
    let page = store.list(&request);
    let prefix = |name: &str| BlobEntry::Prefix(name.to_string());
    assert_eq!(page.entries[..3], ["a/", "b/", "c/"].map(prefix));
    assert_eq!((page.entries.len(), page.rows_examined), (4, 4));
}

#[test]
fn lists_have_metadata_only_when_asked() {
    let store = store();
    let mut request = store.put_request(b"");
    request.metadata = pairs(&[("Kind", "x")]);
    store.put_with("name", request, at(0)).unwrap();
    for metadata in [false, true] {
        let request = ListBlobs {
            metadata,
            ..ListBlobs::default()
        };
        let page = store.list(&request);
        let [
            BlobEntry::Blob(ListedBlob {
                blob: Some(blob), ..
            }),
        ] = &page.entries[..]
        else {
            panic!("{page:?}");
        };
        assert_eq!(blob.metadata.len(), metadata as usize);
    }
}

#[test]
fn pages_without_a_meaning_are_refused() {
    let store = store();
    let list = |request| store.at(at(0)).list_blobs(ACCOUNT, CONTAINER, &request);
    let none = ListBlobs {
        max_results: Some(0),
        ..ListBlobs::default()
    };
    assert_err!(
        list(none),
        Error::OutOfRangeQueryParameterValue {
            parameter: "maxresults",
            ..
        }
    );
    for marker in ["name", "1!%%", "1!_w", "2!YQ"] {
        let request = ListBlobs {
            marker: Some(marker.to_string()),
            ..ListBlobs::default()
        };
        assert_err!(
            list(request),
            Error::InvalidQueryParameterValue {
                parameter: "marker",
                ..
            }
        );
    }
}

#[test]
fn snapshots_are_listed_before_the_blob_of_their_name_and_page_by_page() {
    let store = store();
    let mut expected = Vec::new();
    for name in ["a", "b"] {
        store.put(name, b"body").unwrap();
        for _ in 0..3 {
            expected.push((name, Some(store.snapshot(name).unwrap())));
        }
        expected.push((name, None));
    }
    for max_results in 1..=9 {
        let mut request = ListBlobs {
            snapshots: true,
            max_results: Some(max_results),
            ..ListBlobs::default()
        };
        let mut found = Vec::new();
        loop {
            let page = store.list(&request);
            for entry in page.entries {
                let BlobEntry::Blob(listed) = entry else {
                    panic!("{entry:?}");
                };
                found.push((listed.name, listed.blob.unwrap().snapshot));
            }
            request.marker = page.next_marker;
            if request.marker.is_none() {
                break;
            }
        }
        let found: Vec<_> = found.iter().map(|(name, at)| (&name[..], *at)).collect();
        assert_eq!(found, expected, "{max_results} a page");
    }
    let plain = store.list(&ListBlobs::default());
    assert_eq!((plain.entries.len(), plain.rows_examined), (2, 2));
}

#[test]
fn listing_stays_within_its_bounds_with_any_page_size() {
    let store = store();
    for name in ["a", "b/1", "b/2", "c", "d"] {
        store.put(name, b"").unwrap();
    }
    for (start_from, end_before, expected) in [
        ("", "", &["a", "b/1", "b/2", "c", "d"][..]),
        ("b", "d", &["b/1", "b/2", "c"]),
        ("b/2", "b/3", &["b/2"]),
        ("c", "c", &[]),
    ] {
        for size in 1..6 {
            let mut request = ListBlobs {
                start_from: start_from.to_string(),
                end_before: end_before.to_string(),
                max_results: Some(size),
                ..ListBlobs::default()
            };
            let mut found = Vec::new();
            loop {
                let page = store.list(&request);
                found.extend(page.entries.into_iter().map(|entry| match entry {
                    BlobEntry::Blob(listed) | BlobEntry::Directory(listed) => listed.name,
                    BlobEntry::Prefix(prefix) => prefix,
                }));
                request.marker = page.next_marker;
                if request.marker.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{start_from} {end_before} {size}");
        }
    }
}

#[test]
fn listing_does_not_look_at_uncommitted_blobs_unasked() {
    let store = store();
    for i in 0..500 {
        store.put_block(&format!("a{i}"), "a", b"block").unwrap();
    }
    store.put("b", b"body").unwrap();
    let page = store.list(&ListBlobs::default());
    assert_eq!((page.entries.len(), page.rows_examined), (1, 1));
    let request = ListBlobs {
        uncommitted: true,
        start_from: "a499".to_string(),
        ..ListBlobs::default()
    };
    // The names are a499, a5, a50 to a59, and so on to a99, and b.
    assert_eq!(store.list(&request).entries.len(), 1 + 5 * 11 + 1);
}

#[test]
fn service_properties_are_kept_by_account() {
    let store = store();
    let get = |account| store.service.get_service_properties(account).unwrap();
    assert_eq!(get(ACCOUNT), None);
    for properties in [&b"first"[..], b"", b"second"] {
        let set = store.service.set_service_properties(ACCOUNT, properties);
        set.unwrap().wait().unwrap();
        assert_eq!(get(ACCOUNT).as_deref(), Some(properties));
    }
    assert_eq!(get("account2"), None);
}

/// A page reads a bounded number of rows, even if their blobs have expired.
#[test]
fn listing_reads_a_bounded_number_of_rows_a_page() {
    let store = store();
    let none = Conditions::default();
    for number in 0..2500 {
        let name = format!("{number:04}");
        store.put(&name, b"").unwrap();
        let expiry = Expiry::Absolute(at(5));
        let set = store
            .at(at(1))
            .set_blob_expiry(&address(&name), expiry, &none);
        set.unwrap().1.wait().unwrap();
    }
    store.put("last", b"").unwrap();
    let mut request = ListBlobs::default();
    let (mut pages, mut found) = (0, Vec::new());
    loop {
        let page = store
            .at(at(10))
            .list_blobs(ACCOUNT, CONTAINER, &request)
            .unwrap();
        assert!(page.rows_examined <= 1002);
        pages += 1;
        found.extend(page.entries);
        request.marker = page.next_marker;
        if request.marker.is_none() {
            break;
        }
    }
    assert_eq!((pages, found.len()), (3, 1));
}

#[test]
fn a_renamed_container_has_all_that_it_had() {
    let store = keeping_days();
    store.create("taken").unwrap();
    let none = Conditions::default();
    store.put("name", b"body").unwrap();
    store.put("gone", b"body").unwrap();
    let expiry = Expiry::Absolute(at(50));
    let set = store
        .at(at(1))
        .set_blob_expiry(&address("name"), expiry, &none);
    set.unwrap().1.wait().unwrap();
    store.delete("gone").unwrap();
    let request = CopyBlob {
        source_url: "url".to_string(),
        ..CopyBlob::default()
    };
    let pending = store.at(at(1)).start_copy(&address("copy"), request, 4);
    pending.unwrap().1.wait().unwrap();
    let before = store.service.get_container_properties(ACCOUNT, CONTAINER);
    let before = before.unwrap();
    let rename = |from: &str, to: &str| {
        let renamed = store.at(at(10)).rename_container(ACCOUNT, from, to, None);
        renamed.map(|(written, ticket)| {
            ticket.wait().unwrap();
            written
        })
    };
    assert_err!(rename("absent", "new"), Error::ContainerNotFound);
    assert_err!(rename(CONTAINER, "taken"), Error::ContainerAlreadyExists);
    assert_err!(rename(CONTAINER, CONTAINER), Error::ContainerAlreadyExists);
    assert_err!(rename("$root", "new"), Error::InvalidInput { .. });
    let written = rename(CONTAINER, "new").unwrap();
    let found = store.service.get_container_properties(ACCOUNT, "new");
    let found = found.unwrap();
    assert_eq!((found.id, found.etag), (before.id, written.etag));
    assert!(found.etag != before.etag);
    assert_err!(
        store.service.get_container_properties(ACCOUNT, CONTAINER),
        Error::ContainerNotFound
    );
    let copy = in_container("new", "copy");
    let copy = store.at(at(11)).get_blob_properties(&copy, &none).unwrap();
    assert_eq!(copy.copy.unwrap().status, CopyStatus::Failed);
    // The old name is free, and the two containers do not mix.
    store.create(CONTAINER).unwrap();
    store.put("name", b"other").unwrap();
    rename("new", "newer").unwrap();
    let moved = in_container("newer", "name");
    let download = store.at(at(12)).get_blob(&moved, None, &none).unwrap();
    assert_eq!(drain(download.body, 1000), b"body");
    // Work that was due under the old name is done under the new one.
    let swept = store.at(at(60)).sweep(100).unwrap();
    assert_eq!(swept.failures, Vec::<String>::new());
    assert_err!(
        store.at(at(60)).get_blob(&moved, None, &none),
        Error::BlobNotFound
    );
    let rows = store.rows(&store.service.keyspaces.timers);
    store.at(at(10 * 24 * 60 * 60)).sweep(100).unwrap();
    assert!(store.rows(&store.service.keyspaces.timers) < rows);
    for container in [CONTAINER, "newer", "taken"] {
        let deleted = store
            .at(at(10 * 24 * 60 * 60))
            .delete_container(ACCOUNT, container, &none);
        deleted.unwrap().wait().unwrap();
    }
    store.at(at(99 * 24 * 60 * 60)).sweep(100).unwrap();
    store.empty();
    assert_eq!(store.rows(&store.service.keyspaces.moved), 0);
}

fn keeping_days() -> Store {
    let store = store();
    let policy = AccountPolicy {
        delete_retention_days: Some(1),
        ..AccountPolicy::default()
    };
    let set = store.service.set_account_policy(ACCOUNT, policy, None);
    set.unwrap().wait().unwrap();
    store
}

#[test]
fn a_leased_container_is_renamed_with_its_lease_id() {
    let store = store();
    let action = LeaseAction::Acquire {
        duration: LeaseDuration::Infinite,
        proposed: Some(Guid(7)),
    };
    let none = Conditions::default();
    let leased = store
        .at(at(1))
        .lease_container(ACCOUNT, CONTAINER, action, &none);
    leased.unwrap().2.wait().unwrap();
    let rename = |lease_id| {
        let service = store.at(at(2));
        service.rename_container(ACCOUNT, CONTAINER, "new", lease_id)
    };
    assert_err!(rename(None), Error::LeaseIdMissing);
    let renamed = rename(Some(Guid(7)));
    renamed.unwrap().1.wait().unwrap();
}

#[test]
fn a_list_of_containers_has_metadata_only_on_request() {
    let store = store();
    let metadata = pairs(&[("a", "1")]);
    let (service, access) = (store.at(at(0)), PublicAccess::default());
    let created = service.create_container(ACCOUNT, "named", access, metadata.clone());
    created.unwrap().1.wait().unwrap();
    for is_wanted in [false, true] {
        let request = ListContainers {
            prefix: "named".to_string(),
            metadata: is_wanted,
            ..ListContainers::default()
        };
        let page = service.list_containers(ACCOUNT, &request).unwrap();
        let found = &page.containers[0].1.metadata;
        assert_eq!(
            *found,
            if is_wanted {
                metadata.clone()
            } else {
                Metadata::new()
            }
        );
    }
}
