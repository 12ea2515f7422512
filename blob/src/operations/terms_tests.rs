//! Expiry, tiers and leases in interaction with other operations. The random model `terms` compares
//! the rest.

use crate::operations::tests::*;
use crate::*;
use std::time::{Duration, SystemTime};

impl Store {
    pub(super) fn expire(&self, name: &str, seconds: u64, now: SystemTime) {
        let none = Conditions::default();
        let time = Duration::from_secs(seconds);
        let expiry = Expiry::RelativeToNow(time);
        let set = self.at(now).set_blob_expiry(&address(name), expiry, &none);
        set.unwrap().1.wait().unwrap();
    }

    fn read_at(&self, name: &str, state: BlobState, now: SystemTime) -> Result<Vec<u8>> {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let none = Conditions::default();
        let download = self.at(now).get_blob(&address, None, &none)?;
        Ok(drain(download.body, 1000))
    }
}

#[test]
fn block_put_after_the_blob_expired_is_not_swept_with_it() {
    let store = store();
    store.put("name", b"body").unwrap();
    store.put_block("name", "a", b"old").unwrap();
    store.expire("name", 10, at(1));
    let upload = store.upload(UploadKind::PutBlock, b"new");
    let service = &store;
    let put = service
        .at(at(20))
        .put_block(&address("name"), b"b", upload, &Conditions::default());
    put.unwrap().1.wait().unwrap();
    service.at(at(20)).sweep(100).unwrap();
    let none = Conditions::default();
    let list = service
        .at(at(20))
        .get_block_list(&address("name"), BlockListType::All, &none);
    let ids = list.unwrap().uncommitted.into_iter().map(|block| block.id);
    assert!(ids.eq([b"b"]), "what was put before went with the blob");
    store.commit("name", latest(&["b"])).unwrap();
    assert_eq!(store.read("name").unwrap(), b"new");
    assert_eq!(store.filed(), (1, 1));
}

#[test]
fn snapshots_and_versions_do_not_inherit_the_expiry_of_their_blob() {
    let store = store();
    store.put("name", b"body").unwrap();
    store.expire("name", 10, at(1));
    let moment = store.snapshot("name").unwrap();
    let policy = AccountPolicy {
        versioning: true,
        ..AccountPolicy::default()
    };
    let set = store.service.set_account_policy(ACCOUNT, policy, None);
    set.unwrap().wait().unwrap();
    store.put("name", b"more").unwrap();
    store.at(at(20)).sweep(100).unwrap();
    let snapshot = store.read_at("name", BlobState::Snapshot(moment), at(20));
    assert_eq!(snapshot.unwrap(), b"body");
    let request = ListBlobs {
        versions: true,
        ..ListBlobs::default()
    };
    assert_eq!(store.list(&request).entries.len(), 2);
}

#[test]
fn undeleted_blob_expires_when_it_would_have() {
    let store = store();
    let policy = AccountPolicy {
        delete_retention_days: Some(1),
        ..AccountPolicy::default()
    };
    let service = &store;
    let set = service.set_account_policy(ACCOUNT, policy, None);
    set.unwrap().wait().unwrap();
    for name in ["back", "late"] {
        store.put(name, b"body").unwrap();
        store.expire(name, 100, at(1));
        store.delete(name).unwrap();
    }
    // The timer for the expiry does nothing while the blob is deleted.
    service.at(at(50)).sweep(100).unwrap();
    let undelete = |name, now| {
        let undeleted = service.at(now).undelete_blob(&address(name), None);
        undeleted.map(|ticket| ticket.wait().unwrap())
    };
    undelete("back", at(60)).unwrap();
    let read = |now| store.read_at("back", BlobState::Current, now);
    assert_eq!(read(at(100)).unwrap(), b"body");
    assert_err!(read(at(101)), Error::BlobNotFound);
    assert_err!(undelete("late", at(101)), Error::BlobNotFound);
    service.at(at(2 * 24 * 60 * 60)).sweep(100).unwrap();
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.rows(&service.keyspaces.timers), 0);
}

#[test]
fn rehydration_is_made_faster_and_never_slower() {
    let store = store();
    store.put("name", b"body").unwrap();
    let none = Conditions::default();
    let set = |tier, priority| {
        let address = address("name");
        let set = store
            .at(at(1))
            .set_blob_tier(&address, tier, priority, &none);
        set.map(|(outcome, ticket)| {
            ticket.wait().unwrap();
            outcome
        })
    };
    let (standard, high) = (RehydratePriority::Standard, RehydratePriority::High);
    set(AccessTier::Archive, standard).unwrap();
    for priority in [standard, standard, high, high] {
        let outcome = set(AccessTier::Cool, priority).unwrap();
        assert_eq!(outcome, TierOutcome::Pending);
    }
    assert_err!(set(AccessTier::Cool, standard), Error::BlobBeingRehydrated);
    assert_err!(set(AccessTier::Hot, high), Error::BlobBeingRehydrated);
}

#[test]
fn copy_over_a_finite_lease_asks_for_its_id_first() {
    let store = store();
    for name in ["from", "to"] {
        store.put(name, b"body").unwrap();
    }
    store.lease("to", SECONDS_15, at(1)).unwrap();
    let copy = |conditions| {
        let request = CopyBlob {
            conditions,
            ..CopyBlob::default()
        };
        let (from, to) = (address("from"), address("to"));
        store.at(at(2)).copy_blob(&from, &to, request).map(|_| ())
    };
    assert_err!(copy(Conditions::default()), Error::LeaseIdMissing);
    let other = copy(leased_by(0xB));
    assert_err!(other, Error::LeaseIdMismatchWithBlobOperation);
    let own = copy(leased_by(0xA));
    assert_err!(own, Error::InfiniteLeaseDurationRequired);
}
