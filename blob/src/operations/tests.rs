//! The operations on a real store: what each leaves behind, and what each refuses.

use crate::*;
use lazurite_engine::{Config, CountingIds, Db, Direction, KeyRange, Keyspace};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) const ACCOUNT: &str = "account";
pub(super) const CONTAINER: &str = "container";

pub(super) struct Store {
    pub(super) service: BlobService,
    _directory: tempfile::TempDir,
}

/// A service with one empty container.
pub(super) fn store() -> Store {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let service = BlobService::open(&db, Arc::new(CountingIds::default())).unwrap();
    let store = Store {
        service,
        _directory: directory,
    };
    store.create(CONTAINER).unwrap();
    store
}

pub(super) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

pub(super) fn address(blob: &str) -> BlobAddress<'_> {
    BlobAddress {
        account: ACCOUNT,
        container: CONTAINER,
        blob,
        state: BlobState::Current,
    }
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> Metadata {
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    pairs.iter().map(own).collect()
}

pub(super) fn only_if_missing() -> Conditions {
    Conditions {
        if_none_match: Some(ETags::Any),
        ..Conditions::default()
    }
}

pub(super) fn if_match(etag: ETag) -> Conditions {
    Conditions {
        if_match: ETags::parse(&etag.quoted()),
        ..Conditions::default()
    }
}

pub(super) fn latest(ids: &[&str]) -> PutBlockList {
    let choice = |id: &&str| BlockChoice {
        source: BlockSource::Latest,
        id: id.as_bytes().to_vec(),
    };
    PutBlockList {
        blocks: ids.iter().map(choice).collect(),
        ..PutBlockList::default()
    }
}

impl Store {
    pub(super) fn of(service: BlobService, directory: tempfile::TempDir) -> Store {
        Store {
            service,
            _directory: directory,
        }
    }

    pub(super) fn create(&self, container: &str) -> Result<Written> {
        let create = &self.service;
        let private = PublicAccess::Private;
        let (written, ticket) =
            create.create_container(ACCOUNT, container, private, Metadata::new(), at(0))?;
        ticket.wait()?;
        Ok(written)
    }

    pub(super) fn upload(&self, kind: UploadKind, body: &[u8]) -> Upload {
        let mut upload = self
            .service
            .begin_upload(kind, Checksums::default())
            .unwrap();
        for piece in body.chunks(5000) {
            upload.write(piece).unwrap();
        }
        upload
    }

    pub(super) fn put_request(&self, body: &[u8]) -> PutBlob {
        PutBlob {
            upload: self.upload(UploadKind::PutBlob, body),
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: Conditions::default(),
        }
    }

    pub(super) fn put(&self, name: &str, body: &[u8]) -> Result<PutBlobOutcome> {
        self.put_with(name, self.put_request(body), at(0))
    }

    pub(super) fn put_with(
        &self,
        name: &str,
        request: PutBlob,
        now: SystemTime,
    ) -> Result<PutBlobOutcome> {
        let (outcome, ticket) = self.service.put_blob(&address(name), request, now)?;
        ticket.wait()?;
        Ok(outcome)
    }

    pub(super) fn put_block(&self, name: &str, id: &str, body: &[u8]) -> Result<Checksums> {
        let upload = self.upload(UploadKind::PutBlock, body);
        let address = address(name);
        let (checksums, ticket) =
            self.service
                .put_block(&address, id.as_bytes(), upload, None, at(0))?;
        ticket.wait()?;
        Ok(checksums)
    }

    pub(super) fn commit(&self, name: &str, list: PutBlockList) -> Result<Written> {
        let (written, ticket) = self.service.put_block_list(&address(name), list, at(0))?;
        ticket.wait()?;
        Ok(written)
    }

    pub(super) fn open(&self, name: &str, range: Option<ByteRange>) -> Result<Download> {
        self.service
            .get_blob(&address(name), range, &Conditions::default(), at(0))
    }

    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(drain(self.open(name, None)?.body, 1000))
    }

    pub(super) fn properties(&self, name: &str) -> Result<Blob> {
        self.service
            .get_blob_properties(&address(name), &Conditions::default(), at(0))
    }

    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let request = DeleteBlob::default();
        let (_, ticket) = self.service.delete_blob(&address(name), &request, at(0))?;
        Ok(ticket.wait()?)
    }

    /// Ids and lengths of the committed and the uncommitted list.
    pub(super) fn block_lists(&self, name: &str) -> Result<[Vec<(String, u64)>; 2]> {
        let lists = self.service.get_block_list(
            &address(name),
            BlockListType::All,
            &Conditions::default(),
            at(0),
        )?;
        Ok([lists.committed, lists.uncommitted].map(|list| {
            let plain = |block: BlobBlock| (String::from_utf8(block.id).unwrap(), block.length);
            list.into_iter().map(plain).collect()
        }))
    }

    pub(super) fn list(&self, request: &ListBlobs) -> ListBlobsPage {
        self.service
            .list_blobs(ACCOUNT, CONTAINER, request, at(0))
            .unwrap()
    }

    pub(super) fn rows(&self, keyspace: &Keyspace) -> usize {
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
        std::iter::from_fn(|| rows.advance().unwrap().then_some(())).count()
    }

    /// How many rows there are of blocks and of contents.
    pub(super) fn filed(&self) -> (usize, usize) {
        let keyspaces = &self.service.keyspaces;
        (self.rows(&keyspaces.blocks), self.rows(&keyspaces.content))
    }
}

pub(super) fn drain(mut body: BlobReader, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next_chunk(bytes_max).unwrap() {
        assert!((1..=bytes_max).contains(&chunk.len()));
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(body.remaining(), 0);
    bytes
}

/// Bytes that differ from place to place, so that a wrong offset shows.
pub(super) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| (i / 251) as u8 ^ i as u8 ^ seed)
        .collect()
}

macro_rules! assert_err {
    ($result:expr, $pattern:pat) => {
        match $result {
            Err($pattern) => {}
            Err(other) => panic!("another error: {other:?}"),
            Ok(_) => panic!("no error"),
        }
    };
}
pub(super) use assert_err;

#[test]
fn bodies_of_all_sizes_come_back() {
    let store = store();
    for length in [0, 1, 16 << 10, (16 << 10) + 1, 1 << 20] {
        let body = pattern(length, 3);
        let outcome = store.put("name", &body).unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        let blob = store.properties("name").unwrap();
        assert_eq!(blob.length, length as u64);
        assert_eq!(blob.headers.content_md5, outcome.checksums.md5);
        assert_eq!(
            (blob.etag, blob.last_modified),
            (outcome.written.etag, at(0))
        );
    }
}

#[test]
fn overwriting_replaces_all_but_the_time_of_creation() {
    let store = store();
    let mut request = store.put_request(b"old");
    request.headers.content_type = Some("text/plain".to_string());
    request.metadata = pairs(&[("Kind", "old")]);
    let old = store.put_with("name", request, at(0)).unwrap();
    let new = store
        .put_with("name", store.put_request(b"newer"), at(60))
        .unwrap();
    assert!(new.written.etag > old.written.etag);
    let blob = store.properties("name").unwrap();
    assert_eq!((blob.created_at, blob.last_modified), (at(0), at(60)));
    assert_eq!(blob.headers.content_type, None);
    assert!(blob.metadata.is_empty());
    assert_eq!(store.filed(), (0, 1));

    store.delete("name").unwrap();
    assert_eq!(store.filed(), (0, 0));
    store
        .put_with("name", store.put_request(b""), at(90))
        .unwrap();
    assert_eq!(store.properties("name").unwrap().created_at, at(90));
    assert_eq!(store.filed(), (0, 0));
}

#[test]
fn put_blob_checks_the_md5_property_before_content_md5() {
    let store = store();
    let right = store.put("right", b"body").unwrap().checksums.md5.unwrap();
    let wrong = [7; 16];
    for (property, transport, accepted) in [
        (Some(right), Some(right), true),
        (Some(right), Some(wrong), true),
        (Some(wrong), Some(right), false),
        (None, Some(wrong), false),
        (None, Some(right), true),
    ] {
        let claimed = Checksums {
            md5: transport,
            crc64: None,
        };
        let mut request = store.put_request(b"");
        request.upload = store
            .service
            .begin_upload(UploadKind::PutBlob, claimed)
            .unwrap();
        request.upload.write(b"body").unwrap();
        request.headers.content_md5 = property;
        let result = store.put_with("name", request, at(0));
        match accepted {
            true => assert_eq!(result.unwrap().checksums.md5, Some(right)),
            false => assert_err!(result, Error::Md5Mismatch { .. }),
        }
    }
    let both = Checksums {
        md5: Some(right),
        crc64: Some(1),
    };
    let begun = store.service.begin_upload(UploadKind::PutBlob, both);
    assert_err!(begun, Error::BothCrc64AndMd5HeaderPresent);
}

#[test]
fn creation_race_has_one_winner() {
    let store = store();
    let mut request = store.put_request(b"first");
    request.conditions = only_if_missing();
    store.put_with("name", request, at(0)).unwrap();
    let mut request = store.put_request(b"second");
    request.conditions = only_if_missing();
    assert_err!(
        store.put_with("name", request, at(0)),
        Error::BlobAlreadyExists
    );
    assert_err!(
        store
            .service
            .check_put(&address("name"), &only_if_missing(), at(0)),
        Error::BlobAlreadyExists
    );
    assert_eq!(store.read("name").unwrap(), b"first");
}

#[test]
fn many_writers_with_one_etag_have_one_winner() {
    let store = store();
    let etag = store.put("name", b"0").unwrap().written.etag;
    let winners: usize = std::thread::scope(|scope| {
        let writer = |body: u8| {
            let store = &store;
            scope.spawn(move || {
                let mut request = store.put_request(&[body]);
                request.conditions = if_match(etag);
                store.put_with("name", request, at(0)).is_ok() as usize
            })
        };
        let writers: Vec<_> = (0..8).map(writer).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    assert_eq!(winners, 1);
}

#[test]
fn readers_read_on_while_the_blob_is_overwritten_and_deleted() {
    let store = store();
    let old = pattern(300_000, 1);
    store.put("whole", &old).unwrap();
    store.put_block("blocks", "a", &old[..200_000]).unwrap();
    store.put_block("blocks", "b", &old[200_000..]).unwrap();
    store.commit("blocks", latest(&["a", "b"])).unwrap();
    for name in ["whole", "blocks"] {
        let mut download = store.open(name, None).unwrap();
        let mut read = download.body.next_chunk(10).unwrap().unwrap().to_vec();
        store.put(name, b"new").unwrap();
        store.delete(name).unwrap();
        read.extend(drain(download.body, 70_000));
        assert!(read == old, "{name}");
    }
}

fn range(first: u64, last: Option<u64>) -> Option<ByteRange> {
    Some(ByteRange { first, last })
}

#[test]
fn ranges_are_the_same_for_a_whole_body_and_for_blocks() {
    let store = store();
    let body = pattern(100, 9);
    store.put("whole", &body).unwrap();
    for (id, piece) in [("a", &body[..1]), ("b", &body[1..40]), ("c", &body[40..])] {
        store.put_block("blocks", id, piece).unwrap();
    }
    store.commit("blocks", latest(&["a", "b", "c"])).unwrap();
    for name in ["whole", "blocks"] {
        for first in 0..100 {
            for last in (first..102).map(Some).chain([None, Some(u64::MAX)]) {
                let download = store.open(name, range(first, last)).unwrap();
                let end = last.map_or(100, |last| last.saturating_add(1).min(100));
                assert_eq!(download.range, Some(first..end));
                assert_eq!(download.blob.length, 100);
                let expected = &body[first as usize..end as usize];
                assert_eq!(drain(download.body, 7), expected, "{name} {first} {last:?}");
            }
        }
        for (first, last) in [(100, None), (u64::MAX, None), (5, Some(4))] {
            let result = store.open(name, range(first, last));
            assert_err!(result, Error::InvalidRange { length: 100 });
        }
    }
}

#[test]
fn empty_blob_has_no_range() {
    let store = store();
    store.put("whole", b"").unwrap();
    store.commit("blocks", latest(&[])).unwrap();
    for name in ["whole", "blocks"] {
        assert_eq!(store.read(name).unwrap(), b"");
        let result = store.open(name, range(0, Some(33_554_431)));
        assert_err!(result, Error::InvalidRange { length: 0 });
    }
}

#[test]
fn uncommitted_blob_is_known_to_get_block_list_only() {
    let store = store();
    let checksums = store.put_block("name", "a", b"Hello World").unwrap();
    assert_eq!(checksums.crc64, Some(0x6596_32CB_7E4B_E261));
    assert_eq!(checksums.md5, None);
    assert_err!(store.read("name"), Error::BlobNotFound);
    assert_err!(store.properties("name"), Error::BlobNotFound);
    assert_err!(store.delete("name"), Error::BlobNotFound);
    let lists = store
        .service
        .get_block_list(
            &address("name"),
            BlockListType::All,
            &Conditions::default(),
            at(0),
        )
        .unwrap();
    assert!(lists.blob.is_none() && lists.committed.is_empty());
    assert_eq!(lists.uncommitted[0].length, 11);
    assert!(store.list(&ListBlobs::default()).entries.is_empty());
    let with_uncommitted = ListBlobs {
        uncommitted: true,
        ..ListBlobs::default()
    };
    let listed = BlobEntry::Blob(ListedBlob {
        name: "name".to_string(),
        blob: None,
        is_current: false,
        has_versions_only: false,
    });
    assert_eq!(store.list(&with_uncommitted).entries, [listed]);
    let mut list = latest(&["a"]);
    list.conditions = only_if_missing();
    store.commit("name", list).unwrap();
    assert_eq!(store.read("name").unwrap(), b"Hello World");
}

#[test]
fn get_block_list_answers_the_lists_it_is_asked_for() {
    let store = store();
    for id in ["b", "a"] {
        store.put_block("name", id, id.as_bytes()).unwrap();
    }
    store.commit("name", latest(&["b", "a", "b"])).unwrap();
    for id in ["z", "c"] {
        store.put_block("name", id, b"22").unwrap();
    }
    let committed = ["b", "a", "b"].map(|id| (id.to_string(), 1)).to_vec();
    let uncommitted = ["c", "z"].map(|id| (id.to_string(), 2)).to_vec();
    assert_eq!(store.block_lists("name").unwrap(), [committed, uncommitted]);
    let ask = |list_type| {
        store
            .service
            .get_block_list(&address("name"), list_type, &Conditions::default(), at(0))
            .unwrap()
    };
    let only_committed = ask(BlockListType::Committed);
    assert_eq!(
        (
            only_committed.committed.len(),
            only_committed.uncommitted.len()
        ),
        (3, 0)
    );
    let only_uncommitted = ask(BlockListType::Uncommitted);
    assert_eq!(
        (
            only_uncommitted.committed.len(),
            only_uncommitted.uncommitted.len()
        ),
        (0, 2)
    );
    assert_eq!(store.read("name").unwrap(), b"bab");
    let missing = store.service.get_block_list(
        &address("none"),
        BlockListType::All,
        &Conditions::default(),
        at(0),
    );
    assert_err!(missing, Error::BlobNotFound);
}

#[test]
fn committing_drops_what_is_not_listed() {
    let store = store();
    store.put("name", b"whole").unwrap();
    for id in ["a", "b", "c"] {
        store.put_block("name", id, id.as_bytes()).unwrap();
    }
    assert_eq!(store.read("name").unwrap(), b"whole");
    assert_eq!(store.filed(), (1 + 3, 1 + 3));
    store.commit("name", latest(&["a", "b", "a"])).unwrap();
    assert_eq!(store.filed(), (3, 2));
    store.put_block("name", "d", b"d").unwrap();
    store.commit("name", latest(&["d", "b"])).unwrap();
    assert_eq!(store.filed(), (2, 2));
    assert_eq!(store.read("name").unwrap(), b"db");
    assert_err!(
        store.commit("name", latest(&["a"])),
        Error::InvalidBlockList
    );
    assert_eq!(store.read("name").unwrap(), b"db");
    store.commit("name", latest(&[])).unwrap();
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.block_lists("name").unwrap(), [vec![], vec![]]);
}

#[test]
fn block_put_again_replaces_the_uncommitted_one() {
    let store = store();
    store.put_block("name", "a", b"first").unwrap();
    store.put_block("name", "a", b"second").unwrap();
    assert_eq!(store.filed(), (2, 1));
    store.commit("name", latest(&["a"])).unwrap();
    store.put_block("name", "a", b"third").unwrap();
    let mut both = latest(&["a", "a"]);
    both.blocks[0].source = BlockSource::Committed;
    store.commit("name", both).unwrap();
    assert_eq!(store.read("name").unwrap(), b"secondthird");
}

#[test]
fn block_list_replaces_properties_and_does_not_verify_its_md5() {
    let store = store();
    let mut request = store.put_request(b"old");
    request.metadata = pairs(&[("Kind", "old")]);
    store.put_with("name", request, at(0)).unwrap();
    store.put_block("name", "a", b"new").unwrap();
    store.commit("name", latest(&["a"])).unwrap();
    let blob = store.properties("name").unwrap();
    assert_eq!((blob.headers.content_md5, blob.metadata.len()), (None, 0));
    let mut list = latest(&["a"]);
    list.headers.content_md5 = Some([7; 16]);
    store.commit("name", list).unwrap();
    assert_eq!(
        store.properties("name").unwrap().headers.content_md5,
        Some([7; 16])
    );
}

#[test]
fn put_blob_and_delete_drop_all_blocks() {
    let store = store();
    let blocks = || {
        store.put_block("name", "a", b"a").unwrap();
        store.commit("name", latest(&["a"])).unwrap();
        store.put_block("name", "b", b"b").unwrap();
    };
    blocks();
    store.put("name", b"whole").unwrap();
    assert_eq!(store.filed(), (0, 1));
    assert_eq!(store.block_lists("name").unwrap(), [vec![], vec![]]);
    blocks();
    store.delete("name").unwrap();
    assert_eq!(store.filed(), (0, 0));
    assert_err!(store.block_lists("name"), Error::BlobNotFound);
}

#[test]
fn block_ids_of_one_blob_have_one_length() {
    let store = store();
    store.put_block("name", "aa", b"1").unwrap();
    assert_err!(
        store.put_block("name", "a", b"1"),
        Error::InvalidBlobOrBlock
    );
    store.commit("name", latest(&["aa"])).unwrap();
    assert_err!(
        store.put_block("name", "aaa", b"1"),
        Error::InvalidBlobOrBlock
    );
    store.put("name", b"whole").unwrap();
    store.put_block("name", "aaa", b"1").unwrap();
}

#[test]
fn blocks_need_a_body_an_id_and_a_container() {
    let store = store();
    let empty = store.put_block("name", "a", b"");
    assert_err!(
        empty,
        Error::InvalidHeaderValue {
            header: "Content-Length",
            ..
        }
    );
    assert_err!(store.put_block("name", "", b"1"), Error::InvalidBlockId);
    let elsewhere = BlobAddress {
        container: "elsewhere",
        ..address("name")
    };
    let upload = store.upload(UploadKind::PutBlock, b"1");
    let result = store
        .service
        .put_block(&elsewhere, b"a", upload, None, at(0));
    assert_err!(result, Error::ContainerNotFound);
}

#[test]
fn block_list_over_50_000_is_refused() {
    let store = store();
    store.put_block("name", "a", b"1").unwrap();
    let error = store.commit("name", latest(&["a"; 50_001]));
    assert_err!(error, Error::BlockListTooLong { limit: 50_000 });
    store.commit("name", latest(&["a"; 50_000])).unwrap();
    let download = store.open("name", range(49_990, None)).unwrap();
    assert_eq!(drain(download.body, 100), b"1111111111");
    assert_eq!(store.filed(), (50_000, 1));
}

#[test]
fn properties_and_metadata_change_the_etag_and_nothing_else() {
    let store = store();
    let put = store.put("name", b"body").unwrap();
    let headers = BlobHeaders {
        content_type: Some("text/plain".to_string()),
        ..BlobHeaders::default()
    };
    let none = Conditions::default();
    let set = store
        .service
        .set_blob_properties(&address("name"), headers.clone(), &none, at(1));
    let (first, _) = set.unwrap();
    assert!(first.etag > put.written.etag);
    let metadata = pairs(&[("B", "2"), ("a", "1")]);
    let stale = if_match(put.written.etag);
    let set = store
        .service
        .set_blob_metadata(&address("name"), metadata.clone(), &stale, at(2));
    assert_err!(set, Error::ConditionNotMet);
    let fresh = if_match(first.etag);
    let set = store
        .service
        .set_blob_metadata(&address("name"), metadata.clone(), &fresh, at(2));
    let (second, _) = set.unwrap();
    let blob = store.properties("name").unwrap();
    assert_eq!((blob.etag, blob.last_modified), (second.etag, at(2)));
    assert_eq!((blob.headers, blob.metadata), (headers, metadata));
    assert_eq!(store.read("name").unwrap(), b"body");
    let set = store
        .service
        .set_blob_metadata(&address("none"), pairs(&[]), &none, at(2));
    assert_err!(set, Error::BlobNotFound);
}

#[test]
fn not_modified_carries_the_validators() {
    let store = store();
    let written = store.put("name", b"body").unwrap().written;
    let conditions = Conditions {
        if_none_match: ETags::parse(&written.etag.quoted()),
        ..Conditions::default()
    };
    let result = store
        .service
        .get_blob(&address("name"), None, &conditions, at(0));
    let Err(Error::NotModified {
        etag,
        last_modified,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!((etag, last_modified), (written.etag, written.last_modified));
}

#[test]
fn body_over_the_limit_is_refused_before_it_is_taken() {
    let store = store();
    let mut upload = store.upload(UploadKind::PutBlock, b"");
    upload.pretend_length(PUT_BLOCK_BYTES_MAX - 1);
    upload.write(b"1").unwrap();
    assert_err!(
        upload.write(b"2"),
        Error::RequestBodyTooLarge {
            limit: PUT_BLOCK_BYTES_MAX
        }
    );
}

#[test]
fn names_are_checked_on_every_operation() {
    let store = store();
    let bad_container = BlobAddress {
        container: "Bad",
        ..address("name")
    };
    let none = Conditions::default();
    let read = store
        .service
        .get_blob_properties(&bad_container, &none, at(0));
    assert_err!(read, Error::InvalidResourceName);
    let write = store
        .service
        .delete_blob(&bad_container, &DeleteBlob::default(), at(0));
    assert_err!(write, Error::InvalidResourceName);
    assert_err!(store.put("a/../b", b""), Error::InvalidUri);
    store.put("a\\b", b"body").unwrap();
    assert_eq!(store.read("a/b").unwrap(), b"body");
}

#[test]
fn deleted_container_takes_everything_with_it_and_frees_its_name() {
    let store = store();
    store.put("whole", b"body").unwrap();
    store.put_block("blocks", "a", b"a").unwrap();
    store.create("other").unwrap();
    let none = Conditions::default();
    let delete = |name| store.service.delete_container(ACCOUNT, name, &none, at(0));
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
            let deleted = store
                .service
                .delete_container(ACCOUNT, CONTAINER, &none, at(0));
            deleted.unwrap().wait().unwrap();
            store.create(CONTAINER).unwrap();
        }
    });
    let deleted = store
        .service
        .delete_container(ACCOUNT, CONTAINER, &none, at(0));
    deleted.unwrap().wait().unwrap();
    assert_eq!(store.filed(), (0, 0));
    assert_eq!(store.rows(&store.service.keyspaces.blobs), 0);
}

#[test]
fn container_keeps_what_it_was_given() {
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
        let service = &store.service;
        service.set_container_metadata(ACCOUNT, CONTAINER, metadata.clone(), conditions, at(5))
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
fn access_policy_is_kept_as_set_and_limited() {
    let store = store();
    let none = Conditions::default();
    let set = |policies: &[StoredPolicy]| {
        let (service, access) = (&store.service, PublicAccess::Blob);
        service.set_container_acl(ACCOUNT, CONTAINER, access, policies.to_vec(), &none, at(1))
    };
    let policies = [policy("b"), policy("a")];
    set(&policies).unwrap().1.wait().unwrap();
    let container = store
        .service
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap();
    assert_eq!(container.policies, policies);
    assert_eq!(container.public_access, PublicAccess::Blob);
    let six = ["1", "2", "3", "4", "5", "6"].map(policy);
    assert_err!(set(&six), Error::InvalidXmlDocument { .. });
    assert_err!(
        set(&[policy(&"x".repeat(65))]),
        Error::InvalidXmlDocument { .. }
    );
    assert_err!(set(&[policy("a"), policy("a")]), Error::InvalidInput { .. });
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
        .service
        .create_container("account2", "theirs", private, none, at(0));
    create.unwrap().1.wait().unwrap();
    let page = |request: &ListContainers| {
        let page = store
            .service
            .list_containers(ACCOUNT, request, at(0))
            .unwrap();
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
fn listing_answers_metadata_only_when_asked() {
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
    let list = |request| {
        store
            .service
            .list_blobs(ACCOUNT, CONTAINER, &request, at(0))
    };
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

pub(super) const SECONDS_15: LeaseAction = LeaseAction::Acquire {
    duration: LeaseDuration::Seconds(15),
    proposed: Some(Guid(0xA)),
};

impl Store {
    pub(super) fn lease(
        &self,
        name: &str,
        action: LeaseAction,
        now: SystemTime,
    ) -> Result<LeaseOutcome> {
        let none = Conditions::default();
        let leased = self
            .service
            .lease_blob(&address(name), action, &none, now)?;
        leased.2.wait()?;
        Ok(leased.0)
    }

    pub(super) fn snapshot(&self, name: &str) -> Result<Moment> {
        let (none, metadata) = (Conditions::default(), Metadata::new());
        let service = &self.service;
        let (moment, _, ticket) = service.snapshot_blob(&address(name), metadata, &none, at(5))?;
        ticket.wait()?;
        Ok(moment)
    }

    pub(super) fn read_state(&self, name: &str, state: BlobState) -> Result<Vec<u8>> {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let none = Conditions::default();
        let download = self.service.get_blob(&address, None, &none, at(0))?;
        Ok(drain(download.body, 1000))
    }

    pub(super) fn delete_with(
        &self,
        name: &str,
        state: BlobState,
        request: DeleteBlob,
    ) -> Result<bool> {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let (deletion, ticket) = self.service.delete_blob(&address, &request, at(6))?;
        ticket.wait()?;
        Ok(deletion.permanent)
    }
}

pub(super) fn with_snapshots(snapshots: DeleteSnapshots) -> DeleteBlob {
    DeleteBlob {
        snapshots: Some(snapshots),
        ..DeleteBlob::default()
    }
}

pub(super) fn leased_by(id: u128) -> Conditions {
    Conditions {
        lease_id: Some(Guid(id)),
        ..Conditions::default()
    }
}

#[test]
fn snapshot_keeps_what_the_blob_was() {
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
    let unknown = store.read_state("name", BlobState::Snapshot(Moment::at(at(0))));
    assert_err!(unknown, Error::BlobNotFound);
}

#[test]
fn content_goes_with_the_last_that_names_it() {
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
    let service = &store.service;
    let put = service.put_blob(&address, store.put_request(b"x"), at(9));
    assert_err!(put, Error::InvalidOperation { .. });
    let set = service.set_blob_metadata(&address, Metadata::new(), &none, at(9));
    assert_err!(set, Error::InvalidOperation { .. });
    let leased = service.lease_blob(&address, SECONDS_15, &none, at(9));
    assert_err!(leased, Error::InvalidOperation { .. });
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
    // a499, a5, a50 to a59, and so on to a99, and b.
    assert_eq!(store.list(&request).entries.len(), 1 + 5 * 11 + 1);
}
