//! Retention: what an account keeps of overwritten and deleted blobs, and when the sweep removes
//! the kept records.

use crate::operations::tests::*;
use crate::*;
use std::time::SystemTime;

pub(super) const DAY: u64 = 24 * 60 * 60;

/// A service whose account has this policy.
pub(super) fn keeping(policy: AccountPolicy) -> Store {
    let store = store();
    let set = store.service.set_account_policy(ACCOUNT, policy, None);
    set.unwrap().wait().unwrap();
    store
}

pub(super) fn versions() -> AccountPolicy {
    AccountPolicy {
        versioning: true,
        ..AccountPolicy::default()
    }
}

pub(super) fn soft_delete(days: u16) -> AccountPolicy {
    AccountPolicy {
        delete_retention_days: Some(days),
        ..AccountPolicy::default()
    }
}

impl Store {
    /// Names with the kinds of their entries, from a listing of everything.
    pub(super) fn everything(&self, now: SystemTime) -> Vec<String> {
        let request = ListBlobs {
            snapshots: true,
            versions: true,
            deleted: true,
            uncommitted: true,
            ..ListBlobs::default()
        };
        let page = self.at(now).list_blobs(ACCOUNT, CONTAINER, &request);
        let shown = |entry: BlobEntry| {
            let BlobEntry::Blob(listed) = entry else {
                panic!("{entry:?}");
            };
            let Some(blob) = listed.blob else {
                return format!("{} uncommitted", listed.name);
            };
            let deleted = if blob.deleted.is_some() {
                "deleted "
            } else {
                ""
            };
            let kind = match (listed.is_current, blob.snapshot, blob.version) {
                (true, ..) => "current",
                (_, Some(_), _) => "snapshot",
                (_, _, Some(_)) => "version",
                _ => "blob",
            };
            format!("{} {deleted}{kind}", listed.name)
        };
        page.unwrap().entries.into_iter().map(shown).collect()
    }

    pub(super) fn undelete(&self, name: &str, now: SystemTime) -> Result<()> {
        Ok(self.at(now).undelete_blob(&address(name), None)?.wait()?)
    }

    pub(super) fn empty(&self) {
        assert_eq!(self.filed(), (0, 0));
        let keyspaces = &self.service.keyspaces;
        for keyspace in [
            &keyspaces.history,
            &keyspaces.blobs,
            &keyspaces.references,
            &keyspaces.timers,
        ] {
            assert_eq!(self.rows(keyspace), 0, "{keyspace:?}");
        }
    }
}

#[test]
fn undelete_needs_no_lease_id_and_takes_only_that_of_a_lease_that_holds() {
    let store = keeping(soft_delete(3));
    let undelete = |id: Option<u128>, now| -> Result<()> {
        let id = id.map(Guid);
        let undeleted = store.at(now).undelete_blob(&address("name"), id);
        Ok(undeleted?.wait()?)
    };
    assert_err!(undelete(Some(1), at(7)), Error::BlobNotFound);
    store.put("name", b"body").unwrap();
    store.delete("name").unwrap();
    let refused = undelete(Some(1), at(7));
    assert_err!(refused, Error::LeaseNotPresentWithBlobOperation);
    assert_eq!(store.everything(at(7)), ["name deleted blob"]);
    undelete(None, at(7)).unwrap();

    let moment = store.snapshot("name").unwrap();
    store
        .delete_with("name", BlobState::Snapshot(moment), DeleteBlob::default())
        .unwrap();
    let acquire = LeaseAction::Acquire {
        duration: LeaseDuration::Infinite,
        proposed: Some(Guid(1)),
    };
    store.lease("name", acquire, at(7)).unwrap();
    let refused = undelete(Some(2), at(7));
    assert_err!(refused, Error::LeaseIdMismatchWithBlobOperation);
    let deleted = ["name deleted snapshot", "name current"];
    assert_eq!(store.everything(at(7)), deleted);
    undelete(Some(1), at(7)).unwrap();
    assert_eq!(store.everything(at(7)), ["name snapshot", "name current"]);
    undelete(None, at(7)).unwrap();
    let lease = store.properties("name").unwrap().lease;
    assert_eq!(lease.state(at(7)), LeaseState::Leased);
}

#[test]
fn deleted_blob_comes_back_with_its_snapshots_and_blocks_do_not() {
    let store = keeping(soft_delete(3));
    store.put("name", b"first").unwrap();
    store.snapshot("name").unwrap();
    store.put("name", b"second").unwrap();
    store.put_block("name", "a", b"block").unwrap();
    let include = with_snapshots(DeleteSnapshots::Include);
    let permanent = store
        .delete_with("name", BlobState::Current, include)
        .unwrap();
    assert!(!permanent);
    assert_err!(store.read("name"), Error::BlobNotFound);
    let deleted = [
        "name deleted snapshot",
        "name deleted snapshot",
        "name deleted blob",
    ];
    assert_eq!(store.everything(at(7)), deleted);
    assert!(store.list(&ListBlobs::default()).entries.is_empty());
    store.undelete("name", at(7)).unwrap();
    assert_eq!(store.read("name").unwrap(), b"second");
    assert_eq!(
        store.everything(at(7)),
        ["name snapshot", "name snapshot", "name current"]
    );
    assert_eq!(store.block_lists("name").unwrap(), [vec![], vec![]]);
    store.undelete("name", at(7)).unwrap();
    assert_err!(store.undelete("none", at(7)), Error::BlobNotFound);
}

#[test]
fn deleted_name_is_used_again_and_the_old_blob_is_then_a_snapshot() {
    let store = keeping(soft_delete(3));
    store.put("name", b"old").unwrap();
    store.delete("name").unwrap();
    store.put("name", b"new").unwrap();
    assert_eq!(
        store.everything(at(7)),
        ["name deleted snapshot", "name current"]
    );
    store.undelete("name", at(7)).unwrap();
    assert_eq!(store.read("name").unwrap(), b"new");
    assert_eq!(store.everything(at(7)), ["name snapshot", "name current"]);
}

#[test]
fn kept_records_are_removed_after_their_retention() {
    let store = keeping(soft_delete(3));
    store.put("name", &pattern(40_000, 1)).unwrap();
    store.put("name", b"second").unwrap();
    store.delete("name").unwrap();
    let swept = store.at(at(3 * DAY - 1)).sweep(100).unwrap();
    assert_eq!(swept.steps, 0);
    assert_eq!(swept.next_due, Some(at(3 * DAY)));
    assert_eq!(store.everything(at(3 * DAY - 1)).len(), 2);
    assert_err!(store.undelete("name", at(4 * DAY)), Error::BlobNotFound);
    let swept = store.at(at(4 * DAY)).sweep(1).unwrap();
    assert_eq!(swept.steps, 1);
    assert!(swept.next_due.is_some(), "a sweep is taken in steps");
    store.at(at(4 * DAY)).sweep(100).unwrap();
    store.empty();
}

#[test]
fn kept_snapshots_are_deleted_for_good_where_the_account_allows_it() {
    let permanent = DeleteBlob {
        permanent: true,
        ..DeleteBlob::default()
    };
    for allowed in [false, true] {
        let store = keeping(AccountPolicy {
            permanent_delete: allowed,
            ..soft_delete(3)
        });
        store.put("name", b"first").unwrap();
        let state = BlobState::Snapshot(store.snapshot("name").unwrap());
        store
            .delete_with("name", state, DeleteBlob::default())
            .unwrap();
        let unmet = DeleteBlob {
            conditions: Conditions {
                if_match: ETags::parse("0x1"),
                ..Conditions::default()
            },
            ..permanent.clone()
        };
        let refused = store.delete_with("name", state, unmet);
        if allowed {
            assert_err!(refused, Error::ConditionNotMet)
        } else {
            assert_err!(refused, Error::InvalidOperation { .. })
        }
        let deleted = store.delete_with("name", state, permanent.clone());
        if allowed {
            assert!(deleted.unwrap())
        } else {
            assert_err!(deleted, Error::InvalidOperation { .. })
        }
        assert_eq!(store.everything(at(7)).len(), if allowed { 1 } else { 2 });
    }
}

#[test]
fn deleted_container_is_restored_with_all_it_held() {
    let store = keeping(AccountPolicy {
        container_retention_days: Some(2),
        ..AccountPolicy::default()
    });
    let none = Conditions::default();
    let service = &store;
    store.put("name", b"body").unwrap();
    let delete = |now| {
        let deleted = service.at(now).delete_container(ACCOUNT, CONTAINER, &none);
        deleted.unwrap().wait().unwrap();
    };
    delete(at(1));
    assert_err!(store.read("name"), Error::ContainerNotFound);
    let list = |now| {
        let request = ListContainers {
            deleted: true,
            ..ListContainers::default()
        };
        service
            .at(now)
            .list_containers(ACCOUNT, &request)
            .unwrap()
            .containers
    };
    let version = list(at(2))[0].1.deleted_version().unwrap();
    let restore = |version| {
        service
            .at(at(3))
            .restore_container(ACCOUNT, CONTAINER, version)
    };
    assert_err!(restore(SnapshotTime::at(at(99))), Error::ContainerNotFound);
    store.create(CONTAINER).unwrap();
    assert_err!(restore(version), Error::ContainerAlreadyExists);
    assert_eq!(list(at(2)).len(), 2);
    delete(at(4));
    restore(version).unwrap().1.wait().unwrap();
    assert_eq!(store.read("name").unwrap(), b"body");
    delete(at(5));
    assert_eq!((list(at(2 * DAY)).len(), list(at(3 * DAY)).len()), (2, 0));
    service.at(at(3 * DAY)).sweep(100).unwrap();
    assert_eq!(store.rows(&service.keyspaces.containers), 0);
    store.empty();
}

#[test]
fn uncommitted_blocks_go_a_week_after_the_last() {
    let store = store();
    store.put("there", b"body").unwrap();
    let put = |name: &str, id: &str, now| {
        let upload = store.upload(UploadKind::PutBlock, b"block");
        let put = store.at(now).put_block(
            &address(name),
            id.as_bytes(),
            upload,
            &Conditions::default(),
        );
        put.unwrap().1.wait().unwrap();
    };
    for name in ["there", "new"] {
        put(name, "a", at(0));
        put(name, "b", at(2 * DAY));
    }
    store.at(at(7 * DAY)).sweep(100).unwrap();
    assert_eq!(store.block_lists("new").unwrap()[1].len(), 2);
    let swept = store.at(at(9 * DAY)).sweep(100).unwrap();
    assert_eq!(swept.next_due, None);
    assert_err!(store.block_lists("new"), Error::BlobNotFound);
    assert_eq!(store.block_lists("there").unwrap(), [vec![], vec![]]);
    assert_eq!(store.read("there").unwrap(), b"body");
    assert_eq!(store.filed(), (0, 1));
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    put("there", "other", at(10 * DAY));
    store.commit("there", latest(&["other"])).unwrap();
    assert_eq!(store.read("there").unwrap(), b"block");
}

#[test]
fn policy_of_an_account_is_kept_and_another_has_its_own() {
    let policy = AccountPolicy {
        delete_retention_days: Some(7),
        rehydrate_seconds: 9,
        ..versions()
    };
    let store = keeping(policy);
    let service = &store;
    assert_eq!(service.get_account_policy(ACCOUNT).unwrap(), policy);
    let other = service.get_account_policy("account2").unwrap();
    assert_eq!(other, AccountPolicy::default());
    let set = service.set_account_policy(ACCOUNT, other, Some(b"properties"));
    set.unwrap().wait().unwrap();
    let properties = service.get_service_properties(ACCOUNT).unwrap();
    assert_eq!(properties.as_deref(), Some(&b"properties"[..]));
    assert_eq!(service.get_account_policy(ACCOUNT).unwrap(), other);
}

#[test]
fn listing_of_deleted_blobs_reads_nothing_else() {
    let store = keeping(soft_delete(1));
    for number in 0..200 {
        store.put(&format!("there/{number:03}"), b"body").unwrap();
    }
    for name in ["a", "dir/x", "dir/y", "there/100", "z"] {
        store.put(name, b"body").unwrap();
        store.delete(name).unwrap();
    }
    store.put("z", b"again").unwrap();
    let page = |delimiter: &str, marker| {
        let request = ListBlobs {
            delimiter: delimiter.to_string(),
            max_results: Some(2),
            only_deleted: true,
            marker,
            ..ListBlobs::default()
        };
        store.list(&request)
    };
    let all = |delimiter: &str| {
        let (mut shown, mut examined, mut marker) = (Vec::new(), 0, None);
        loop {
            let page = page(delimiter, marker);
            shown.extend(page.entries.into_iter().map(|entry| match entry {
                BlobEntry::Prefix(prefix) => prefix,
                BlobEntry::Directory(listed) => listed.name,
                BlobEntry::Blob(listed) => {
                    let blob = listed.blob.unwrap();
                    assert!(blob.deleted.is_some() && !listed.is_current);
                    let kind = blob.snapshot.map_or("", |_| " as a snapshot");
                    format!("{}{kind}", listed.name)
                }
            }));
            examined += page.rows_examined;
            marker = page.next_marker;
            if marker.is_none() {
                return (shown, examined);
            }
        }
    };
    let (shown, examined) = all("");
    // Overwriting there/100 kept the earlier blob, which would come back as a snapshot.
    let of_100 = ["there/100 as a snapshot", "there/100"];
    let expected = [
        "a",
        "dir/x",
        "dir/y",
        of_100[0],
        of_100[1],
        "z as a snapshot",
    ];
    assert_eq!(shown, expected);
    assert!(examined < 12, "{examined}");
    assert_eq!(all("/").0, ["a", "dir/", "there/", "z as a snapshot"]);
}
