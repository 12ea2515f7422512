//! Names with many snapshots, blobs that expire, policies that change, and clocks that are set back
//! before a restart.

use crate::operations::history::HISTORY_STEP;
use crate::operations::kept_tests::{DAY, keeping, soft_delete, versions};
use crate::operations::tests::*;
use crate::*;
use std::time::{Duration, SystemTime};

const MANY: usize = 2 * HISTORY_STEP + 10;

fn with_many_snapshots(policy: AccountPolicy) -> (Store, Vec<SnapshotTime>) {
    let store = keeping(policy);
    store.put("name", b"body").unwrap();
    let snapshots = (0..MANY).map(|_| store.snapshot("name").unwrap());
    let snapshots = snapshots.collect();
    (store, snapshots)
}

fn include() -> DeleteBlob {
    with_snapshots(DeleteSnapshots::Include)
}

impl Store {
    fn set_policy(&self, policy: AccountPolicy) {
        let set = self.service.set_account_policy(ACCOUNT, policy, None);
        set.unwrap().wait().unwrap();
    }

    /// The same store opened by another process, whose clock shows `now`.
    fn restarted(&self, now: SystemTime) -> Store {
        let store = Store::over(&self.service.db, tempfile::tempdir().unwrap());
        store.at(now);
        store
    }

    fn count(&self, kind: &str, now: SystemTime) -> usize {
        let kind = format!("name {kind}");
        let everything = self.everything(now);
        everything.iter().filter(|shown| **shown == kind).count()
    }
}

#[test]
fn a_blob_with_any_number_of_snapshots_is_deleted_and_undeleted() {
    for only in [false, true] {
        let (store, _) = with_many_snapshots(soft_delete(3));
        let request = if only {
            with_snapshots(DeleteSnapshots::Only)
        } else {
            include()
        };
        let permanent = store
            .delete_with("name", BlobState::Current, request)
            .unwrap();
        assert!(!permanent);
        assert_eq!(store.count("snapshot", at(6)), 0);
        assert_eq!(store.count("deleted snapshot", at(6)), MANY);
        assert_eq!(store.count("current", at(6)), usize::from(only));
        store.undelete("name", at(7)).unwrap();
        assert_eq!(store.count("snapshot", at(7)), MANY);
        assert_eq!(store.read("name").unwrap(), b"body");
    }
}

#[test]
fn an_interrupted_deletion_is_completed_by_the_next_request() {
    let (store, _) = with_many_snapshots(AccountPolicy::default());
    let step = store
        .service
        .delete_in_steps(&address("name"), &include(), 1)
        .unwrap();
    assert!(step.is_none());
    assert_eq!(store.count("snapshot", at(6)), MANY - HISTORY_STEP);
    assert_eq!(store.read("name").unwrap(), b"body");
    store
        .delete_with("name", BlobState::Current, include())
        .unwrap();
    store.empty();
}

#[test]
fn a_protected_snapshot_prevents_the_deletion_of_all() {
    let (store, snapshots) = with_many_snapshots(AccountPolicy::default());
    let last = BlobAddress {
        state: BlobState::Snapshot(*snapshots.last().unwrap()),
        ..address("name")
    };
    let held = store.service.set_blob_legal_hold(&last, true);
    held.unwrap().wait().unwrap();
    let refused = store.delete_with("name", BlobState::Current, include());
    assert_err!(refused, Error::BlobImmutableDueToLegalHold);
    assert_eq!(store.count("snapshot", at(6)), MANY);
}

#[test]
fn a_refused_deletion_of_many_snapshots_deletes_none() {
    for snapshots in [DeleteSnapshots::Include, DeleteSnapshots::Only] {
        let (store, _) = with_many_snapshots(AccountPolicy::default());
        let acquire = LeaseAction::Acquire {
            duration: LeaseDuration::Infinite,
            proposed: Some(Guid(1)),
        };
        store.lease("name", acquire, at(6)).unwrap();
        let delete = || store.delete_with("name", BlobState::Current, with_snapshots(snapshots));
        assert_err!(delete(), Error::LeaseIdMissing);
        assert_eq!(store.count("snapshot", at(6)), MANY);
        assert_eq!(store.read("name").unwrap(), b"body");
    }
    let (store, _) = with_many_snapshots(AccountPolicy::default());
    let held = store.service.set_blob_legal_hold(&address("name"), true);
    held.unwrap().wait().unwrap();
    let refused = store.delete_with("name", BlobState::Current, include());
    assert_err!(refused, Error::BlobImmutableDueToLegalHold);
    assert_eq!(store.count("snapshot", at(6)), MANY);
}

/// The writer starts once the first snapshot is gone, when the last one may still be there.
#[test]
fn a_writer_between_the_steps_of_a_deletion_waits_for_the_last() {
    for _ in 0..4 {
        let (store, snapshots) = with_many_snapshots(AccountPolicy::default());
        let service = &store.service;
        let [first, last] = [0, MANY - 1].map(|index| BlobAddress {
            state: BlobState::Snapshot(snapshots[index]),
            ..address("name")
        });
        std::thread::scope(|scope| {
            let hold = scope.spawn(|| {
                let none = Conditions::default();
                while service.get_blob_properties(&first, &none).is_ok() {
                    std::hint::spin_loop();
                }
                service.set_blob_legal_hold(&last, true).map(|_| ())
            });
            let deleted = service.delete_blob(&address("name"), &include());
            deleted.unwrap().1.wait().unwrap();
            assert_err!(hold.join().unwrap(), Error::BlobNotFound);
        });
        store.empty();
    }
}

#[test]
fn any_number_of_deletions_of_one_name_are_undeleted() {
    let store = keeping(soft_delete(3));
    for number in 0..MANY {
        store.put("name", number.to_string().as_bytes()).unwrap();
        store.delete("name").unwrap();
    }
    store.undelete("name", at(7)).unwrap();
    let last = (MANY - 1).to_string();
    assert_eq!(store.read("name").unwrap(), last.as_bytes());
    assert_eq!(store.count("snapshot", at(7)), MANY - 1);
    assert_eq!(store.count("deleted blob", at(7)), 0);
}

#[test]
fn snapshots_expire_with_their_blob() {
    let (store, _) = with_many_snapshots(AccountPolicy::default());
    store.expire("name", 5, at(10));
    store.at(at(16)).sweep(100).unwrap();
    store.empty();
}

#[test]
fn a_new_blob_inherits_no_snapshots_of_one_that_has_expired() {
    let (store, snapshots) = with_many_snapshots(AccountPolicy::default());
    store.expire("name", 5, at(10));
    // A snapshot that is deleted with its blob is deleted once.
    store.at(at(16));
    let first = BlobAddress {
        state: BlobState::Snapshot(snapshots[0]),
        ..address("name")
    };
    let gone = store.service.delete_blob(&first, &DeleteBlob::default());
    assert_err!(gone, Error::BlobNotFound);
    let put = store.put_request(b"new");
    store.put_with("name", put, at(16)).unwrap();
    let own =
        store
            .service
            .snapshot_blob(&address("name"), Metadata::new(), &Conditions::default());
    own.unwrap().2.wait().unwrap();
    store.at(at(17)).sweep(100).unwrap();
    assert_eq!(store.everything(at(17)), ["name snapshot", "name current"]);
}

#[test]
fn a_snapshot_with_a_hold_does_not_expire() {
    let store = keeping(AccountPolicy::default());
    store.put("name", b"body").unwrap();
    let state = BlobState::Snapshot(store.snapshot("name").unwrap());
    let snapshot = BlobAddress {
        state,
        ..address("name")
    };
    let held = store.service.set_blob_legal_hold(&snapshot, true);
    held.unwrap().wait().unwrap();
    store.expire("name", 5, at(10));
    store.at(at(16)).sweep(100).unwrap();
    assert_eq!(store.everything(at(17)), ["name snapshot"]);
}

#[test]
fn versions_are_kept_when_versioning_is_disabled() {
    let both = AccountPolicy {
        delete_retention_days: Some(3),
        ..versions()
    };
    let changes: [fn(&Store); 3] = [
        |store| store.delete("name").unwrap(),
        |store| drop(store.put("name", b"second").unwrap()),
        |store| {
            let name = address("name");
            let metadata = pairs(&[("a", "b")]);
            let none = Conditions::default();
            let set = store.service.set_blob_metadata(&name, metadata, &none);
            set.unwrap().1.wait().unwrap();
        },
    ];
    for policies in [
        [versions(), AccountPolicy::default()],
        [both, soft_delete(3)],
    ] {
        for change in changes {
            let store = keeping(policies[0]);
            let first = store.put("name", b"first").unwrap().written.version;
            store.set_policy(policies[1]);
            change(&store);
            let state = BlobState::Version(first.unwrap());
            assert_eq!(store.read_state("name", state).unwrap(), b"first");
            assert_eq!(store.count("version", at(6)), 1);
            if let Ok(blob) = store.properties("name") {
                assert_eq!(blob.version, None);
            }
        }
    }
}

#[test]
fn undelete_restores_a_record_in_its_previous_state() {
    // If the deletion made the blob a version, it stays a version. With retention alone, it becomes
    // the current blob again.
    let store = keeping(AccountPolicy {
        delete_retention_days: Some(3),
        ..versions()
    });
    store.put("name", b"first").unwrap();
    store.set_policy(soft_delete(3));
    store.delete("name").unwrap();
    store.undelete("name", at(7)).unwrap();
    assert_eq!(store.everything(at(7)), ["name version"]);
    assert_err!(store.undelete("none", at(7)), Error::BlobNotFound);
    store.put("name", b"second").unwrap();
    store.delete("name").unwrap();
    store.undelete("name", at(7)).unwrap();
    assert_eq!(store.read("name").unwrap(), b"second");
    assert_eq!(store.everything(at(7)), ["name version", "name current"]);
}

#[test]
fn snapshots_of_a_blob_that_has_expired_are_not_restored_without_a_blob() {
    for (deleted_before, sweeps) in [(false, false), (false, true), (true, false), (true, true)] {
        let store = keeping(soft_delete(3));
        if deleted_before {
            store.put("name", b"deleted").unwrap();
            store.delete("name").unwrap();
        }
        store.put("name", b"overwritten").unwrap();
        store.put("name", b"body").unwrap();
        store.expire("name", 5, at(10));
        if sweeps {
            store.at(at(16)).sweep(100).unwrap();
        }
        let undeleted = store.undelete("name", at(20));
        if deleted_before {
            // The blob that was deleted before comes back, with all that was kept with it.
            undeleted.unwrap();
            assert_eq!(store.read("name").unwrap(), b"deleted");
        } else {
            assert_err!(undeleted, Error::BlobNotFound);
            assert_eq!(store.everything(at(20)), ["name deleted snapshot"]);
            store.put("name", b"new").unwrap();
            store.delete("name").unwrap();
        }
    }
}

#[test]
fn undelete_after_the_retention_restores_nothing_whether_swept_or_not() {
    for sweeps in [false, true] {
        let store = keeping(soft_delete(3));
        store.put("name", b"first").unwrap();
        store.snapshot("name").unwrap();
        store.put("name", b"second").unwrap();
        store
            .delete_with("name", BlobState::Current, include())
            .unwrap();
        let later = at(5 * DAY);
        if sweeps {
            store.at(later).sweep(100).unwrap();
        }
        assert_eq!(store.everything(later), [""; 0]);
        assert_err!(store.undelete("name", later), Error::BlobNotFound);
        let put = store.put_request(b"new");
        store.put_with("name", put, later).unwrap();
        let deleted = store
            .at(later)
            .delete_blob(&address("name"), &DeleteBlob::default());
        deleted.unwrap().1.wait().unwrap();
    }
}

#[test]
fn moments_increase_though_the_clock_was_set_back_over_a_restart() {
    let store = keeping(soft_delete(30));
    let late = at(20 * DAY);
    store
        .put_with("name", store.put_request(b"old"), late)
        .unwrap();
    let first = store.snapshot("name").unwrap();
    let deletion = store.at(late);
    let deleted = deletion.delete_blob(&address("name"), &include());
    deleted.unwrap().1.wait().unwrap();

    let store = store.restarted(at(DAY));
    let new = store.put_request(b"new");
    store.put_with("name", new, at(DAY)).unwrap();
    let none = Conditions::default();
    let taken = store
        .at(at(DAY))
        .snapshot_blob(&address("name"), Metadata::new(), &none);
    assert!(taken.unwrap().0 > first);
    let deleted = store.at(at(DAY)).delete_blob(&address("name"), &include());
    deleted.unwrap().1.wait().unwrap();
    store.undelete("name", at(2 * DAY)).unwrap();
    assert_eq!(store.read("name").unwrap(), b"new");
}

#[test]
fn versions_increase_though_the_clock_was_set_back_over_a_restart() {
    let store = keeping(versions());
    let late = at(20 * DAY);
    let put = store.put_request(b"first");
    let first = store.put_with("name", put, late).unwrap().written.version;
    store.at(late);
    store.delete("name").unwrap();
    let store = store.restarted(at(DAY));
    let put = store.put_request(b"second");
    let second = store.put_with("name", put, at(DAY)).unwrap();
    assert!(second.written.version > first);
    let state = BlobState::Version(first.unwrap());
    assert_eq!(store.read_state("name", state).unwrap(), b"first");
}

/// A blob was written before versions were kept, a version has the same ETag, and the clock was set
/// back: the new version and the current blob get different ids.
#[test]
fn a_snapshot_gives_the_version_and_the_current_blob_different_ids() {
    let store = keeping(AccountPolicy::default());
    let late = at(20 * DAY);
    let put = store.put_request(b"body");
    let etag = store.put_with("name", put, late).unwrap().written.etag;
    let home = store
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap()
        .id;
    let keyspaces = &store.service.keyspaces;
    let current = crate::keys::blob(home, "name");
    let record = store.db.get(&keyspaces.blobs, &current).unwrap().unwrap();
    let version = SnapshotTime(etag.0);
    let key = crate::keys::history(home, crate::keys::History::Version, "name", version);
    let mut batch = lazurite_engine::Batch::new();
    batch.put(&keyspaces.history, &key, &record);
    store.db.write(batch).unwrap().wait().unwrap();
    let store = store.restarted(at(DAY));
    store.set_policy(versions());
    store.at(at(DAY));
    let taken =
        store
            .service
            .snapshot_blob(&address("name"), Metadata::new(), &Conditions::default());
    let (snapshot, written, _) = taken.unwrap();
    let request = ListBlobs {
        versions: true,
        snapshots: true,
        ..ListBlobs::default()
    };
    let page = store.at(at(DAY)).list_blobs(ACCOUNT, CONTAINER, &request);
    let mut ids = Vec::new();
    for entry in page.unwrap().entries {
        let BlobEntry::Blob(listed) = entry else {
            panic!("{entry:?}");
        };
        let blob = listed.blob.unwrap();
        if blob.snapshot.is_none() {
            ids.push(blob.version);
        }
    }
    assert!(written.version > Some(snapshot));
    assert_eq!(
        ids.iter().filter(|id| **id == written.version).count(),
        1,
        "{ids:?}"
    );
}

#[test]
fn a_deletion_reports_whether_it_is_permanent() {
    let off = AccountPolicy::default();
    for (policy, snapshots, permanent) in [
        (off, None, true),
        (off, Some(DeleteSnapshots::Only), true),
        (off, Some(DeleteSnapshots::Include), true),
        (soft_delete(3), None, false),
        (soft_delete(3), Some(DeleteSnapshots::Only), false),
        (versions(), None, false),
        // Versioning does not keep deleted snapshots.
        (versions(), Some(DeleteSnapshots::Only), true),
        (versions(), Some(DeleteSnapshots::Include), false),
    ] {
        let store = keeping(policy);
        store.put("name", b"body").unwrap();
        if snapshots.is_some() {
            store.snapshot("name").unwrap();
        }
        let request = DeleteBlob {
            snapshots,
            ..DeleteBlob::default()
        };
        let said = store.delete_with("name", BlobState::Current, request);
        assert_eq!(said.unwrap(), permanent, "{policy:?} {snapshots:?}");
    }
}

#[test]
fn a_name_with_versions_only_is_listed_once_with_any_page_size() {
    let store = keeping(AccountPolicy {
        delete_retention_days: Some(3),
        ..versions()
    });
    let put = |body: &[u8]| store.put("name", body).unwrap().written.version.unwrap();
    let _first = put(b"first");
    let second = put(b"second");
    put(b"third");
    store.delete("name").unwrap();
    let state = BlobState::Version(second);
    store
        .delete_with("name", state, DeleteBlob::default())
        .unwrap();
    let mut request = ListBlobs {
        deleted: true,
        deleted_with_versions: true,
        ..ListBlobs::default()
    };
    let versions_of = |page: ListBlobsPage| {
        let version = |entry: BlobEntry| match entry {
            BlobEntry::Blob(listed) => listed.blob.unwrap().version,
            BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
        };
        page.entries.into_iter().map(version).collect::<Vec<_>>()
    };
    let whole = versions_of(store.list(&request));
    assert_eq!(whole.len(), 2);
    request.max_results = Some(1);
    let mut paged = Vec::new();
    loop {
        let page = store.list(&request);
        request.marker = page.next_marker.clone();
        paged.extend(versions_of(page));
        if request.marker.is_none() {
            break;
        }
    }
    assert_eq!(paged, whole);
}

#[test]
fn a_pending_copy_fails_when_its_container_is_restored() {
    let store = keeping(AccountPolicy {
        container_retention_days: Some(3),
        ..AccountPolicy::default()
    });
    let request = CopyBlob {
        source_url: "http://elsewhere/c/b".to_string(),
        ..CopyBlob::default()
    };
    let started = store.service.start_copy(&address("name"), request, 4);
    let id = started.unwrap().0.copy_id;
    let none = Conditions::default();
    for changed in [
        store.tag("name", &[("a", "b")]),
        store.tier("name", AccessTier::Cool, at(1)).map(|_| ()),
        store
            .service
            .set_blob_legal_hold(&address("name"), true)
            .map(|_| ()),
    ] {
        assert_err!(changed, Error::PendingCopyOperation);
    }
    let deleted = store.service.delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
    let failed = store.service.fail_copy(&address("name"), id, "gone");
    assert_err!(failed, Error::ContainerNotFound);
    let request = ListContainers {
        deleted: true,
        ..ListContainers::default()
    };
    let listed = store.service.list_containers(ACCOUNT, &request).unwrap();
    let version = listed.containers[0].1.deleted_version().unwrap();
    let restored = store.service.restore_container(ACCOUNT, CONTAINER, version);
    restored.unwrap().1.wait().unwrap();
    let copy = store.properties("name").unwrap().copy.unwrap();
    assert_eq!(copy.status, CopyStatus::Failed);
    store.put("name", b"written").unwrap();
    assert_eq!(store.rows(&store.service.keyspaces.copies), 0);
}

#[test]
fn a_search_for_tags_reads_a_bounded_number_of_rows_a_page() {
    let store = keeping(AccountPolicy::default());
    for number in 0..350 {
        let name = format!("{number:03}");
        store.put(&name, b"").unwrap();
        let value = (number / 50).to_string();
        store
            .tag(&name, &[("all", "1"), ("group", &value)])
            .unwrap();
    }
    store.tag("349", &[("all", "1"), ("one", "2")]).unwrap();
    let pages = |query: &str| {
        let mut request = FindBlobsByTags {
            query: TagQuery::parse(query).unwrap(),
            marker: None,
            versions: false,
            max_results: None,
        };
        let (mut pages, mut found, mut examined) = (0, Vec::new(), 0);
        loop {
            let page = store.service.find_blobs_by_tags(ACCOUNT, &request).unwrap();
            assert!(page.rows_examined <= 102);
            pages += 1;
            examined += page.rows_examined;
            found.extend(page.blobs.into_iter().map(|blob| blob.name));
            request.marker = page.next_marker;
            if request.marker.is_none() {
                return (pages, found, examined);
            }
        }
    };
    let (count, found, _) = pages("all = '1' AND one = '2'");
    assert_eq!((count, found), (4, vec!["349".to_string()]));
    // Both bounds of the query limit the rows that are read.
    for query in ["group > '2' AND group < '4'", "group < '4' AND group > '2'"] {
        let (_, found, examined) = pages(query);
        assert_eq!(found.len(), 50);
        assert!(examined <= 105, "{query}: {examined}");
    }
}

#[test]
fn a_search_for_tags_counts_containers_without_any() {
    let store = store();
    for number in 0..250 {
        store.create(&format!("empty{number:03}")).unwrap();
    }
    store.create("last").unwrap();
    let put = store.put_request(b"body");
    let to = in_container("last", "name");
    store
        .at(at(1))
        .put_blob(&to, put)
        .unwrap()
        .1
        .wait()
        .unwrap();
    let tags = vec![("a".to_string(), "1".to_string())];
    let none = Conditions::default();
    let set = store.service.set_blob_tags(&to, tags, &none);
    set.unwrap().wait().unwrap();
    let mut request = FindBlobsByTags {
        query: TagQuery::parse("a = '1'").unwrap(),
        marker: None,
        versions: false,
        max_results: None,
    };
    let (mut pages, mut found) = (0, Vec::new());
    loop {
        let page = store.service.find_blobs_by_tags(ACCOUNT, &request).unwrap();
        assert!(page.rows_examined <= 102, "{}", page.rows_examined);
        pages += 1;
        found.extend(page.blobs.into_iter().map(|blob| blob.name));
        request.marker = page.next_marker;
        if request.marker.is_none() {
            break;
        }
    }
    assert_eq!((pages, found), (3, vec!["name".to_string()]));
}

#[test]
fn set_blob_expiry_checks_conditions_and_the_range_of_times() {
    let store = store();
    let etag = store.put("name", b"body").unwrap().written.etag;
    let set = |expiry, conditions: &Conditions| {
        let set = store
            .at(at(1))
            .set_blob_expiry(&address("name"), expiry, conditions);
        set.map(|_| ())
    };
    let none = Conditions::default();
    // The present counts as past: at the time of its expiry a blob has already expired.
    for milliseconds in [0, u64::MAX, 253_402_300_800_000] {
        let far = Expiry::RelativeToNow(Duration::from_millis(milliseconds));
        assert_err!(set(far, &none), Error::InvalidHeaderValue { .. });
    }
    let soon = Expiry::RelativeToNow(Duration::from_secs(9));
    let other = if_match(ETag(etag.0 + 1));
    assert_err!(set(soon, &other), Error::ConditionNotMet);
    set(soon, &if_match(etag)).unwrap();
}

const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn put_blocks(store: &Store, name: &str) {
    for (number, id) in IDS.iter().enumerate() {
        let body = pattern(5000, number as u8);
        store.put_block(name, id, &body).unwrap();
    }
    store.commit(name, latest(&IDS)).unwrap();
}

#[test]
fn blocks_that_no_list_names_go_with_the_last_snapshot_that_did() {
    let store = store();
    put_blocks(&store, "name");
    let snapshot = BlobState::Snapshot(store.snapshot("name").unwrap());
    store.commit("name", latest(&["c"])).unwrap();
    let before = store.read_state("name", snapshot).unwrap();
    store.at(at(6)).sweep(100).unwrap();
    assert_eq!(store.read_state("name", snapshot).unwrap(), before);
    store
        .delete_with("name", snapshot, DeleteBlob::default())
        .unwrap();
    store.put_block("name", "later", b"block").unwrap();
    store.at(at(6)).sweep(100).unwrap();
    assert_eq!(store.filed().1, 2);
    assert_eq!(store.rows(&store.service.keyspaces.references), 0);
    store.commit("name", latest(&["c", "later"])).unwrap();
    let expected = [&pattern(5000, 2)[..], b"block"].concat();
    assert_eq!(store.read("name").unwrap(), expected);
    store.delete("name").unwrap();
    store.at(at(9 * DAY)).sweep(100).unwrap();
    store.empty();
}

#[test]
fn blocks_that_only_an_older_snapshot_listed_go_with_it() {
    for replace in [false, true] {
        let store = store();
        put_blocks(&store, "name");
        let older = BlobState::Snapshot(store.snapshot("name").unwrap());
        store.commit("name", latest(&["c"])).unwrap();
        let newer = BlobState::Snapshot(store.snapshot("name").unwrap());
        let state = if replace {
            store.put("name", b"other").unwrap();
            newer
        } else {
            BlobState::Current
        };
        store
            .delete_with("name", older, DeleteBlob::default())
            .unwrap();
        if !replace {
            store
                .delete_with("name", newer, DeleteBlob::default())
                .unwrap();
        }
        store.at(at(6)).sweep(100).unwrap();
        assert_eq!(store.filed().1, 1 + usize::from(replace));
        assert_eq!(store.read_state("name", state).unwrap(), pattern(5000, 2));
    }
}

#[test]
fn blocks_that_only_the_source_of_a_copy_listed_go_with_the_copys_next_list() {
    let store = store();
    put_blocks(&store, "name");
    store.copy("name", "copy").unwrap();
    store.delete("name").unwrap();
    store.commit("copy", latest(&["c", "d"])).unwrap();
    assert_eq!(store.filed().1, 2);
    let expected = [pattern(5000, 2), pattern(5000, 3)].concat();
    assert_eq!(store.read("copy").unwrap(), expected);
    store.delete("copy").unwrap();
    store.at(at(9 * DAY)).sweep(100).unwrap();
    store.empty();
}

#[test]
fn an_interrupted_undeletion_is_completed_by_the_next_request() {
    let (store, _) = with_many_snapshots(soft_delete(3));
    let deleted = store.delete_with("name", BlobState::Current, include());
    assert!(!deleted.unwrap());
    let step = store.at(at(7)).undelete_in_steps(&address("name"), None, 1);
    assert!(step.unwrap().is_none());
    let back = store.count("snapshot", at(7));
    assert!((1..MANY).contains(&back), "{back}");
    assert_err!(store.read("name"), Error::BlobNotFound);
    store.undelete("name", at(8)).unwrap();
    assert_eq!(store.count("snapshot", at(8)), MANY);
    assert_eq!(store.count("deleted snapshot", at(8)), 0);
    assert_eq!(store.read("name").unwrap(), b"body");
}

/// The search of a container before its lock counts only if nothing has become protected since.
#[test]
fn a_hold_set_after_the_search_keeps_the_container() {
    let store = keeping(AccountPolicy::default());
    store.put("name", b"body").unwrap();
    let hold = |is_held| {
        let set = store.service.set_blob_legal_hold(&address("name"), is_held);
        set.unwrap().wait().unwrap();
    };
    let container = || store.get_container_properties(ACCOUNT, CONTAINER).unwrap();
    for before in [false, true] {
        if before {
            hold(true);
            hold(false);
        }
        let found = store.find_unprotected(&container(), at(1)).unwrap();
        assert!(found.is_some());
        let permit = store.permit_container(&container(), found.as_ref(), at(1));
        assert!(permit.is_ok());
        hold(true);
        let permit = store.permit_container(&container(), found.as_ref(), at(1));
        assert_err!(permit, Error::BlobImmutableDueToPolicy);
        assert!(
            store
                .find_unprotected(&container(), at(1))
                .unwrap()
                .is_none()
        );
        hold(false);
    }
}

/// One of the two names of a copy is left, and lists one block of the file that both shared.
#[test]
fn blocks_that_only_the_other_name_of_a_copy_listed_go_with_it() {
    for (left, container) in [("copy", CONTAINER), ("name", CONTAINER), ("copy", "other")] {
        let store = store();
        store.create("other").unwrap();
        put_blocks(&store, "name");
        let to = in_container(container, "copy");
        let snapshot = store.snapshot("name").unwrap();
        store.commit("name", latest(&["c"])).unwrap();
        let of_snapshot = BlobState::Snapshot(snapshot);
        let of_blob = BlobState::Current;
        // The remaining record lists one block; the deleted one listed all.
        let copied = if left == "copy" { of_blob } else { of_snapshot };
        let source = BlobAddress {
            state: copied,
            ..address("name")
        };
        let none = Conditions::default();
        let made = store.at(at(5)).copy_blob(&source, &to, CopyBlob::default());
        made.unwrap().1.wait().unwrap();
        let read = |now| {
            let address = if left == "copy" { to } else { address("name") };
            let blob = store.at(now).get_blob(&address, None, &none).unwrap();
            drain(blob.body, 1000)
        };
        if left == "copy" {
            store.delete_with("name", of_blob, include()).unwrap();
        } else {
            store
                .delete_with("name", of_snapshot, DeleteBlob::default())
                .unwrap();
            store.at(at(6)).sweep(100).unwrap();
            assert_eq!(store.filed().1, IDS.len());
            store.delete("copy").unwrap();
        }
        store.at(at(7)).sweep(100).unwrap();
        assert_eq!(store.filed().1, 1, "{left} in {container}");
        assert_eq!(read(at(8)), pattern(5000, 2));
        for address in [to, address("name")] {
            let _ = store.at(at(9)).delete_blob(&address, &include());
        }
        store.at(at(9 * DAY)).sweep(100).unwrap();
        store.empty();
    }
}

#[test]
fn the_previous_state_of_a_deleted_record_is_stored() {
    let store = keeping(AccountPolicy {
        delete_retention_days: Some(3),
        ..versions()
    });
    store.put("name", b"first").unwrap();
    let snapshot = store.snapshot("name").unwrap();
    let state = BlobState::Snapshot(snapshot);
    store
        .delete_with("name", state, DeleteBlob::default())
        .unwrap();
    let version = store.properties("name").unwrap().version.unwrap();
    store.put("name", b"second").unwrap();
    let state = BlobState::Version(version);
    store
        .delete_with("name", state, DeleteBlob::default())
        .unwrap();
    store.set_policy(soft_delete(3));
    store.put("other", b"third").unwrap();
    store.delete("other").unwrap();
    store.put("other", b"fourth").unwrap();
    store.put("other", b"fifth").unwrap();
    let request = ListBlobs {
        deleted: true,
        snapshots: true,
        versions: true,
        ..ListBlobs::default()
    };
    let page = store.at(at(7)).list_blobs(ACCOUNT, CONTAINER, &request);
    let mut stored = Vec::new();
    for entry in page.unwrap().entries {
        let BlobEntry::Blob(listed) = entry else {
            panic!("{entry:?}");
        };
        stored.extend(listed.blob.and_then(|blob| blob.deleted));
    }
    use crate::model::PreviousState;
    let was = |one: PreviousState| stored.iter().any(|deleted| deleted.previous == Some(one));
    assert!(
        was(PreviousState::Snapshot(snapshot))
            && was(PreviousState::Version(version))
            && was(PreviousState::Blob)
    );
    assert!(stored.iter().all(|deleted| deleted.previous.is_some()));
}
