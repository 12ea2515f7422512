//! Copies, tags, tiers and what else is set on a blob.

use super::tests::*;
use crate::*;
use std::time::{Duration, SystemTime};

fn in_container<'a>(container: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        container,
        ..address(blob)
    }
}

impl Store {
    fn copy_with(
        &self,
        source: BlobAddress<'_>,
        destination: BlobAddress<'_>,
        request: CopyBlob,
    ) -> Result<CopyOutcome> {
        let (outcome, ticket) = self
            .service
            .copy_blob(&source, &destination, request, at(3))?;
        ticket.wait()?;
        Ok(outcome)
    }

    fn copy(&self, source: &str, destination: &str) -> Result<CopyOutcome> {
        self.copy_with(address(source), address(destination), CopyBlob::default())
    }

    fn tag(&self, name: &str, tags: &[(&str, &str)]) -> Result<()> {
        let none = Conditions::default();
        let set = self
            .service
            .set_blob_tags(&address(name), pairs(tags), &none, at(1))?;
        Ok(set.wait()?)
    }

    fn found(&self, query: &str) -> Vec<String> {
        let mut request = FindBlobsByTags {
            query: TagQuery::parse(query).unwrap(),
            marker: None,
            versions: false,
            max_results: Some(2),
        };
        let mut found = Vec::new();
        loop {
            let page = self.service.find_blobs_by_tags(ACCOUNT, &request, at(9));
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

    fn tier(&self, name: &str, tier: AccessTier, now: SystemTime) -> Result<TierOutcome> {
        let none = Conditions::default();
        let standard = RehydratePriority::Standard;
        let set = self
            .service
            .set_blob_tier(&address(name), tier, standard, &none, now)?;
        set.1.wait()?;
        Ok(set.0)
    }

    fn references(&self) -> usize {
        self.rows(&self.service.keyspaces.references)
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
    // Each goes its own way from here.
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
    let delete = |container| {
        let deleted = store
            .service
            .delete_container(ACCOUNT, container, &none, at(4));
        deleted.unwrap().wait().unwrap();
        while store.service.sweep(at(4), 1).unwrap().steps > 0 {}
    };
    delete(CONTAINER);
    assert_eq!(store.filed(), (0, 1));
    let download = store.service.get_blob(&other, None, &none, at(5)).unwrap();
    assert_eq!(drain(download.body, 1000), body);
    delete("other");
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
    assert_eq!(store.rows(&store.service.keyspaces.history), 0);
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
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
    let service = &store.service;
    let start = || {
        let request = CopyBlob {
            source_url: "http://elsewhere/c/b".to_string(),
            ..CopyBlob::default()
        };
        let (outcome, ticket) = service
            .start_copy(&address("name"), request, 4, at(1))
            .unwrap();
        ticket.wait().unwrap();
        assert_eq!(outcome.status, CopyStatus::Pending);
        outcome.copy_id
    };
    let id = start();
    assert_err!(store.put("name", b"x"), Error::PendingCopyOperation);
    assert_err!(store.snapshot("name"), Error::PendingCopyOperation);
    assert_err!(
        store.lease("name", SECONDS_15, at(1)),
        Error::PendingCopyOperation
    );
    let abort = |id| {
        service
            .abort_copy(&address("name"), id, None, at(2))
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
            .finish_copy(&address("name"), id, fetched(), at(3))
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
    let failed = service.fail_copy(&address("name"), id, "404", at(3));
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
fn pending_copies_that_nobody_goes_on_with_fail_at_the_next_start() {
    let store = store();
    let service = &store.service;
    let request = || CopyBlob {
        source_url: "http://elsewhere/c/b".to_string(),
        ..CopyBlob::default()
    };
    let start = |name| {
        let started = service.start_copy(&address(name), request(), 4, at(1));
        started.unwrap().0.copy_id
    };
    let (ended, _cut_off) = (start("ended"), start("cut off"));
    let aborted = service.abort_copy(&address("ended"), ended, None, at(2));
    aborted.unwrap().wait().unwrap();
    store.create("gone").unwrap();
    let gone = service.start_copy(&in_container("gone", "name"), request(), 4, at(1));
    gone.unwrap().1.wait().unwrap();
    let deleted = service.delete_container(ACCOUNT, "gone", &Conditions::default(), at(2));
    deleted.unwrap().wait().unwrap();
    let fail = || service.fail_interrupted_copies("cut off", at(3)).unwrap();
    assert_eq!((fail(), fail()), (1, 0));
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
        let (copy, url) = (address("copy"), "http://here".to_string());
        let copied = store
            .service
            .incremental_copy_blob(&source, &copy, url, &none, at(9));
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
        .service
        .open_source(&address("source"), range, &none, at(1));
    let mut upload = store.upload(UploadKind::PutBlock, b"");
    upload.write_from(&mut source.unwrap().body).unwrap();
    let put = store
        .service
        .put_block(&address("name"), b"a", upload, None, at(1));
    put.unwrap().1.wait().unwrap();
    store.commit("name", latest(&["a"])).unwrap();
    assert_eq!(store.read("name").unwrap(), b"234");
    let stale = store
        .service
        .open_source(&address("source"), None, &if_match(ETag(1)), at(1));
    assert_err!(stale, Error::SourceConditionNotMet);
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
        .service
        .put_blob(&other, request, at(0))
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
            .service
            .get_blob_tags(&address("name"), &conditions(text), at(1))
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
            .service
            .get_blob(&address(name), None, &none, now)
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
        let set = store
            .service
            .set_blob_expiry(&address(name), expiry, &none, now);
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
            .service
            .get_blob(&address(name), None, &none, now)
            .map(|_| ())
    };
    read("a", at(10)).unwrap();
    assert_err!(read("a", at(11)), Error::BlobNotFound);
    let list = |now| {
        let request = ListBlobs::default();
        let page = store.service.list_blobs(ACCOUNT, CONTAINER, &request, now);
        page.unwrap().entries.len()
    };
    assert_eq!((list(at(10)), list(at(11))), (2, 1));
    store.service.sweep(at(11), 100).unwrap();
    assert_eq!(store.filed(), (2, 2));
    store
        .put_with("a", store.put_request(b"new"), at(12))
        .unwrap();
    read("a", at(12)).unwrap();
}

#[test]
fn protected_blob_is_neither_changed_nor_deleted() {
    let store = store();
    let (service, none) = (&store.service, Conditions::default());
    store.put("name", b"body").unwrap();
    let policy = |until, mode| ImmutabilityPolicy { until, mode };
    let set = |policy, now| {
        let set = service.set_blob_immutability_policy(&address("name"), policy, &none, now);
        set.map(|_| ())
    };
    let refused = |now| {
        let delete = service
            .delete_blob(&address("name"), &DeleteBlob::default(), now)
            .err();
        let put = service
            .put_blob(&address("name"), store.put_request(b"x"), now)
            .err();
        let metadata = service.set_blob_metadata(&address("name"), Metadata::new(), &none, now);
        [delete, put, metadata.err()]
            .iter()
            .all(|error| matches!(error, Some(Error::BlobImmutableDueToPolicy)))
    };
    set(policy(at(100), ImmutabilityMode::Unlocked), at(1)).unwrap();
    assert!(refused(at(2)));
    assert_err!(
        set(policy(at(1), ImmutabilityMode::Unlocked), at(2)),
        Error::InvalidHeaderValue { .. }
    );
    let deleted = service.delete_blob_immutability_policy(&address("name"), at(3));
    deleted.unwrap().wait().unwrap();
    store.put("name", b"new").unwrap();
    set(policy(at(100), ImmutabilityMode::Locked), at(4)).unwrap();
    let shorter = set(policy(at(99), ImmutabilityMode::Locked), at(4));
    assert_err!(shorter, Error::BlobImmutableDueToPolicy);
    set(policy(at(200), ImmutabilityMode::Locked), at(4)).unwrap();
    let delete = service.delete_blob_immutability_policy(&address("name"), at(4));
    assert_err!(delete, Error::BlobImmutableDueToPolicy);
    assert!(refused(at(199)));
    let set = service.set_blob_legal_hold(&address("name"), true, at(5));
    set.unwrap().wait().unwrap();
    assert!(refused(at(300)));
    let set = service.set_blob_legal_hold(&address("name"), false, at(5));
    set.unwrap().wait().unwrap();
    let deleted = service.delete_blob(&address("name"), &DeleteBlob::default(), at(300));
    deleted.unwrap().1.wait().unwrap();
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
                let service = &store.service;
                for i in 0..400 {
                    let step = (i * 7 + thread * 13) ^ (i / 3);
                    let (to, from) = (one_of(step), one_of(step / 4));
                    let now = at(i);
                    match step % 9 {
                        0 => drop(service.put_blob(&to, store.put_request(b"body"), now)),
                        1 => {
                            let upload = store.upload(UploadKind::PutBlock, b"block");
                            drop(service.put_block(&to, b"a", upload, None, now));
                        }
                        2 => drop(service.put_block_list(&to, latest(&["a"]), now)),
                        3 | 4 => drop(service.snapshot_blob(&to, Metadata::new(), none, now)),
                        5 | 6 => drop(service.copy_blob(&from, &to, CopyBlob::default(), now)),
                        7 => {
                            let include = with_snapshots(DeleteSnapshots::Include);
                            drop(service.delete_blob(&to, &include, now));
                        }
                        _ if step % 27 == 8 => {
                            let container = to.container;
                            drop(service.delete_container(ACCOUNT, container, none, now));
                            drop(store.create(container));
                        }
                        _ => drop(service.sweep(now, 2)),
                    }
                }
            });
        }
    });
    for container in [CONTAINER, "other"] {
        let deleted = store
            .service
            .delete_container(ACCOUNT, container, &none, at(999));
        deleted.unwrap().wait().unwrap();
    }
    while store.service.sweep(at(999_999), 9).unwrap().steps > 0 {}
    let keyspaces = &store.service.keyspaces;
    assert_eq!((store.filed(), store.references()), ((0, 0), 0));
    for keyspace in [&keyspaces.blobs, &keyspaces.history, &keyspaces.timers] {
        assert_eq!(store.rows(keyspace), 0, "{keyspace:?}");
    }
}
