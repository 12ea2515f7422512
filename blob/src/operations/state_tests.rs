//! Settings besides the content: tags, tiers, expiry, protection.

use crate::operations::tests::*;
use crate::*;
use lazurite_engine::{Config, Db};
use std::time::{Duration, SystemTime};

impl Store {
    pub(super) fn tag(&self, name: &str, tags: &[(&str, &str)]) -> Result<()> {
        let none = Conditions::default();
        let set = self
            .at(at(1))
            .set_blob_tags(&address(name), pairs(tags), &none)?;
        Ok(set.wait()?)
    }

    pub(super) fn found(&self, query: &str) -> Vec<String> {
        let mut request = FindBlobsByTags {
            query: TagQuery::parse(query).unwrap(),
            marker: None,
            versions: false,
            max_results: Some(2),
        };
        let mut found = Vec::new();
        loop {
            let page = self.at(at(9)).find_blobs_by_tags(ACCOUNT, &request);
            let page = page.unwrap();
            assert!(page.blobs.len() <= 2);
            found.extend(
                page.blobs
                    .into_iter()
                    .map(|blob| format!("{}/{}", blob.container, blob.name)),
            );
            request.marker = page.next_marker;
            if request.marker.is_none() {
                return found;
            }
        }
    }

    pub(super) fn tier(
        &self,
        name: &str,
        tier: AccessTier,
        now: SystemTime,
    ) -> Result<TierOutcome> {
        let none = Conditions::default();
        let standard = RehydratePriority::Standard;
        let set = self
            .at(now)
            .set_blob_tier(&address(name), tier, standard, &none)?;
        set.1.wait()?;
        Ok(set.0)
    }
}

#[test]
fn blobs_are_found_by_their_tags() {
    let store = store();
    store.create("other").unwrap();
    for (name, tags) in [
        ("a", &[("kind", "x"), ("size", "1")][..]),
        ("b", &[("kind", "x"), ("size", "2")]),
        ("c", &[("kind", "y"), ("size", "3")]),
        ("d", &[("kind", "xx")]),
    ] {
        store.put(name, b"").unwrap();
        store.tag(name, tags).unwrap();
    }
    let mut request = store.put_request(b"");
    request.settings.tags = pairs(&[("kind", "x")]);
    let other = in_container("other", "e");
    store
        .at(at(0))
        .put_blob(&other, request)
        .unwrap()
        .1
        .wait()
        .unwrap();
    for (query, expected) in [
        ("kind = 'x'", &["container/a", "container/b", "other/e"][..]),
        (
            "kind = 'x' AND @container = 'container'",
            &["container/a", "container/b"],
        ),
        ("size > '1'", &["container/b", "container/c"]),
        (
            "size >= '1' AND size <= '2'",
            &["container/a", "container/b"],
        ),
        ("size < '2'", &["container/a"]),
        ("kind = 'x' AND size = '2'", &["container/b"]),
        ("kind = 'z'", &[]),
        ("kind = 'x' AND @container = 'nowhere'", &[]),
    ] {
        assert_eq!(store.found(query), expected, "{query}");
    }
    store.tag("a", &[("kind", "new")]).unwrap();
    store.put("b", b"overwritten").unwrap();
    store.delete("d").unwrap();
    assert_eq!(store.found("kind = 'x'"), ["other/e"]);
    let rest = store.found("kind > 'a'");
    assert_eq!(rest, ["container/a", "container/c", "other/e"]);
    for name in ["a", "b", "c"] {
        store.delete(name).unwrap();
    }
    assert_eq!(store.rows(&store.service.keyspaces.tags), 1);
}

#[test]
fn tags_are_demanded_and_leave_the_validators_alone() {
    let store = store();
    let put = store.put("name", b"body").unwrap().written;
    store.tag("name", &[("b", "2"), ("a", "1")]).unwrap();
    let conditions = |text| Conditions {
        if_tags: Some(TagCondition::parse(text).unwrap()),
        ..Conditions::default()
    };
    let get = |text| {
        store
            .at(at(1))
            .get_blob_tags(&address("name"), &conditions(text))
    };
    assert_eq!(get("a = '1'").unwrap(), pairs(&[("a", "1"), ("b", "2")]));
    assert_err!(get("a = '2'"), Error::ConditionNotMet);
    assert_eq!(store.properties("name").unwrap().etag, put.etag);
    let mut request = store.put_request(b"new");
    request.conditions = conditions("a <> '1'");
    assert_err!(
        store.put_with("name", request, at(1)),
        Error::ConditionNotMet
    );
    assert_err!(store.tag("name", &[("a", "é")]), Error::InvalidTag { .. });
}

#[test]
fn archived_blob_is_read_when_it_is_back() {
    let store = store();
    store.put("name", b"body").unwrap();
    assert_eq!(store.properties("name").unwrap().tiering.tier(at(0)), None);
    assert_eq!(
        store.tier("name", AccessTier::Archive, at(0)).unwrap(),
        TierOutcome::Set
    );
    assert_err!(store.read("name"), Error::BlobArchived);
    assert_err!(store.snapshot("name"), Error::BlobArchived);
    assert!(store.properties("name").is_ok());
    assert_err!(store.copy("name", "copy"), Error::BlobArchived);
    let mut online = CopyBlob::default();
    online.settings.tier = Some(AccessTier::Cool);
    store
        .copy_with(address("name"), address("copy"), online)
        .unwrap();
    let none = Conditions::default();
    let read = |name, now| {
        store
            .at(now)
            .get_blob(&address(name), None, &none)
            .map(|_| ())
    };
    assert_err!(read("copy", at(4)), Error::BlobBeingRehydrated);
    read("copy", at(5)).unwrap();
    assert_eq!(
        store.tier("name", AccessTier::Hot, at(10)).unwrap(),
        TierOutcome::Pending
    );
    assert_err!(read("name", at(11)), Error::BlobBeingRehydrated);
    assert_err!(
        store.tier("name", AccessTier::Cool, at(11)),
        Error::BlobBeingRehydrated
    );
    read("name", at(12)).unwrap();
    assert_eq!(
        store.tier("name", AccessTier::Cool, at(12)).unwrap(),
        TierOutcome::Set
    );
    let premium = store.tier("name", AccessTier::Premium(4), at(13));
    assert_err!(premium, Error::InvalidBlobTier);
    store.put_append_blob("log");
    assert_err!(
        store.tier("log", AccessTier::Hot, at(0)),
        Error::InvalidBlobTier
    );
}

#[test]
fn expired_blob_is_as_if_it_were_not_there() {
    let store = store();
    let none = Conditions::default();
    let expire = |name, expiry, now| {
        let set = store.at(now).set_blob_expiry(&address(name), expiry, &none);
        set.map(|(_, ticket)| ticket.wait().unwrap())
    };
    for name in ["a", "b"] {
        store.put(name, b"body").unwrap();
        store.put_block(name, "a", b"block").unwrap();
    }
    expire("a", Expiry::RelativeToNow(Duration::from_secs(10)), at(1)).unwrap();
    expire("b", Expiry::Absolute(at(5)), at(1)).unwrap();
    expire("b", Expiry::Never, at(2)).unwrap();
    let past = expire("a", Expiry::Absolute(at(1)), at(2));
    assert_err!(past, Error::InvalidHeaderValue { .. });
    let read = |name, now| {
        store
            .at(now)
            .get_blob(&address(name), None, &none)
            .map(|_| ())
    };
    read("a", at(10)).unwrap();
    assert_err!(read("a", at(11)), Error::BlobNotFound);
    let list = |now| {
        let request = ListBlobs::default();
        let page = store.at(now).list_blobs(ACCOUNT, CONTAINER, &request);
        page.unwrap().entries.len()
    };
    assert_eq!((list(at(10)), list(at(11))), (2, 1));
    store.at(at(11)).sweep(100).unwrap();
    assert_eq!(store.filed(), (2, 2));
    store
        .put_with("a", store.put_request(b"new"), at(12))
        .unwrap();
    read("a", at(12)).unwrap();
}

#[test]
fn protected_blob_is_neither_changed_nor_deleted() {
    let store = store();
    let (service, none) = (&store, Conditions::default());
    store.put("name", b"body").unwrap();
    let policy = |until, mode| ImmutabilityPolicy { until, mode };
    let set = |policy, now| {
        let set = service
            .at(now)
            .set_blob_immutability_policy(&address("name"), policy, &none);
        set.map(|_| ())
    };
    let refused = |now| {
        let delete = service
            .at(now)
            .delete_blob(&address("name"), &DeleteBlob::default())
            .err();
        let put = service
            .at(now)
            .put_blob(&address("name"), store.put_request(b"x"))
            .err();
        let metadata = service
            .at(now)
            .set_blob_metadata(&address("name"), Metadata::new(), &none);
        [delete, put, metadata.err()].iter().all(|error| {
            matches!(
                error,
                Some(Error::BlobImmutableDueToPolicy | Error::BlobImmutableDueToLegalHold)
            )
        })
    };
    set(policy(at(100), ImmutabilityMode::Unlocked), at(1)).unwrap();
    assert!(refused(at(2)));
    assert_err!(
        set(policy(at(1), ImmutabilityMode::Unlocked), at(2)),
        Error::InvalidHeaderValue { .. }
    );
    let deleted = service
        .at(at(3))
        .delete_blob_immutability_policy(&address("name"));
    deleted.unwrap().wait().unwrap();
    store.put("name", b"new").unwrap();
    set(policy(at(100), ImmutabilityMode::Locked), at(4)).unwrap();
    let shorter = set(policy(at(99), ImmutabilityMode::Locked), at(4));
    assert_err!(shorter, Error::BlobImmutableDueToPolicy);
    set(policy(at(200), ImmutabilityMode::Locked), at(4)).unwrap();
    let delete = service
        .at(at(4))
        .delete_blob_immutability_policy(&address("name"));
    assert_err!(delete, Error::BlobImmutableDueToPolicy);
    assert!(refused(at(199)));
    let set = service
        .at(at(5))
        .set_blob_legal_hold(&address("name"), true);
    set.unwrap().wait().unwrap();
    assert!(refused(at(300)));
    let set = service
        .at(at(5))
        .set_blob_legal_hold(&address("name"), false);
    set.unwrap().wait().unwrap();
    let deleted = service
        .at(at(300))
        .delete_blob(&address("name"), &DeleteBlob::default());
    deleted.unwrap().1.wait().unwrap();
}

/// A protection of a blob.
#[derive(Debug, Clone, Copy)]
enum Protection {
    Hold,
    Locked,
    Unlocked,
}

/// No operation changes or deletes a protected blob.
#[test]
fn no_operation_bypasses_a_policy_or_a_hold() {
    for protection in [Protection::Hold, Protection::Locked, Protection::Unlocked] {
        let store = store();
        let none = Conditions::default();
        store.put("name", b"body").unwrap();
        store.put("other", b"new").unwrap();
        let expire = |now| {
            let expiry = Expiry::RelativeToNow(Duration::from_secs(1));
            let set = store
                .at(now)
                .set_blob_expiry(&address("name"), expiry, &none);
            set.map(|_| ())
        };
        // An expiry that was set before the protection does not end the blob either.
        expire(at(1)).unwrap();
        let until = at(100);
        let policy = |mode| {
            let policy = ImmutabilityPolicy { until, mode };
            let set = store
                .at(at(1))
                .set_blob_immutability_policy(&address("name"), policy, &none);
            set.map(|_| ())
        };
        match protection {
            Protection::Hold => {
                let set = store.at(at(1)).set_blob_legal_hold(&address("name"), true);
                set.map(|_| ())
            }
            Protection::Locked => policy(ImmutabilityMode::Locked),
            Protection::Unlocked => policy(ImmutabilityMode::Unlocked),
        }
        .unwrap();
        let service = store.at(at(10));
        service.sweep(100).unwrap();
        let delete = DeleteBlob::default();
        let copy = CopyBlob {
            source_url: "url".to_owned(),
            ..CopyBlob::default()
        };
        let outcomes: [(&str, Result<()>); 9] = [
            (
                "delete",
                service.delete_blob(&address("name"), &delete).map(|_| ()),
            ),
            ("overwrite", store.put("name", b"x").map(|_| ())),
            (
                "commit",
                store.commit("name", PutBlockList::default()).map(|_| ()),
            ),
            (
                "metadata",
                service
                    .set_blob_metadata(&address("name"), Metadata::new(), &none)
                    .map(|_| ()),
            ),
            (
                "properties",
                service
                    .set_blob_properties(&address("name"), BlobHeaders::default(), &none)
                    .map(|_| ()),
            ),
            ("expire", expire(at(10))),
            ("copy", store.copy("other", "name").map(|_| ())),
            (
                "start a copy",
                service.start_copy(&address("name"), copy, 4).map(|_| ()),
            ),
            (
                "delete the container",
                service
                    .delete_container(ACCOUNT, CONTAINER, &none)
                    .map(|_| ()),
            ),
        ];
        for (action, outcome) in outcomes {
            let is_by_hold = matches!(protection, Protection::Hold);
            let expected = match action {
                "delete the container" => Error::BlobImmutableDueToPolicy,
                _ if is_by_hold => Error::BlobImmutableDueToLegalHold,
                _ => Error::BlobImmutableDueToPolicy,
            };
            let shown = outcome.as_ref().err().map(ToString::to_string);
            assert_eq!(
                shown,
                Some(expected.to_string()),
                "{action} with {protection:?}"
            );
        }
        assert_eq!(store.read("name").unwrap(), b"body");
        if let Protection::Hold = protection {
            let lifted = store
                .at(at(11))
                .set_blob_legal_hold(&address("name"), false);
            lifted.unwrap().wait().unwrap();
        }
        // The protection has ended and the expiry is past: now the blob is gone.
        let later = at(200);
        assert_err!(
            store.at(later).get_blob(&address("name"), None, &none),
            Error::BlobNotFound
        );
        let gone = store.at(later).delete_container(ACCOUNT, CONTAINER, &none);
        gone.unwrap().wait().unwrap();
        assert_eq!(store.rows(&store.service.keyspaces.protected), 0);
    }
}

#[test]
fn a_container_with_immutable_versions_goes_when_it_is_empty() {
    let store = store_with(ContainerSettings {
        immutable_versions: true,
        ..ContainerSettings::default()
    });
    let none = Conditions::default();
    store.put("name", b"body").unwrap();
    let delete = || store.at(at(1)).delete_container(ACCOUNT, CONTAINER, &none);
    assert_err!(delete(), Error::BlobImmutableDueToPolicy);
    store.delete("name").unwrap();
    delete().unwrap().wait().unwrap();
}

/// An unreadable row is put off and reported; later work that is due is done.
#[test]
fn a_sweep_continues_past_a_bad_row() {
    let store = store();
    let none = Conditions::default();
    for name in ["bad", "good"] {
        store.put(name, b"body").unwrap();
        let expiry = Expiry::Absolute(at(5));
        let set = store
            .at(at(1))
            .set_blob_expiry(&address(name), expiry, &none);
        set.unwrap().1.wait().unwrap();
    }
    let home = store
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap()
        .id;
    let mut batch = lazurite_engine::Batch::new();
    let keyspaces = &store.service.keyspaces;
    batch.put(
        &keyspaces.blobs,
        &crate::keys::blob(home, "bad"),
        b"\xff\xff",
    );
    batch.put(&keyspaces.timers, b"\0", b"");
    store.db.write(batch).unwrap().wait().unwrap();
    let swept = store.at(at(10)).sweep(100).unwrap();
    assert_eq!(swept.failures.len(), 1, "{swept:?}");
    assert!(swept.failures[0].contains("bad"), "{swept:?}");
    assert_eq!(store.rows(&keyspaces.blobs), 1, "the bad one");
    assert_eq!(store.at(at(11)).sweep(100).unwrap().failures.len(), 0);
}

/// A timer whose value is corrupt on disk is skipped and reported once; later work that is due is
/// done.
#[test]
fn a_sweep_continues_past_a_timer_with_a_corrupt_value() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_path_buf();
    let open = |directory| Store::over(&Db::open(&path, Config::default()).unwrap(), directory);
    let store = open(directory);
    let private = PublicAccess::Private;
    let none = Conditions::default();
    let made = store.create_container(ACCOUNT, CONTAINER, private, Metadata::new());
    made.unwrap().1.wait().unwrap();
    store.put("good", b"body").unwrap();
    let set = store.set_blob_expiry(&address("good"), Expiry::Absolute(at(5)), &none);
    set.unwrap().1.wait().unwrap();
    let home = store.get_container_properties(ACCOUNT, CONTAINER);
    let subject = crate::keys::blob(home.unwrap().id, "bad");
    let timer = crate::keys::timer(
        SnapshotTime::at(at(1)),
        crate::keys::Timer::Expiry,
        &subject,
    );
    let mut batch = lazurite_engine::Batch::new();
    // A value that is long enough for the value log.
    let value = vec![0xab; 100_000];
    batch.put(&store.service.keyspaces.timers, &timer, &value);
    store.db.write(batch).unwrap().wait().unwrap();
    let directory = store.close();
    corrupt_value(directory.path(), &value);

    let store = open(directory);
    let swept = store.at(at(10)).sweep(100).unwrap();
    assert_eq!(swept.failures.len(), 1, "{swept:?}");
    assert!(swept.failures[0].contains("bad"), "{swept:?}");
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
    assert_eq!(store.at(at(11)).sweep(100).unwrap().failures.len(), 0);
}

/// Changes a byte of `value` in the file that contains it.
fn corrupt_value(directory: &std::path::Path, value: &[u8]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            corrupt_value(&path, value);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(value.len())
            .position(|window| window[0] == value[0] && window == value);
        if let Some(start) = found {
            bytes[start + value.len() / 2] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
}
