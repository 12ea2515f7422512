//! Blocks, and the lists that make blobs of them.

use crate::operations::encryption_tests::{key, with_key};
use crate::operations::tests::*;
use crate::*;

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
        .at(at(0))
        .get_block_list(&address("name"), BlockListType::All, &Conditions::default())
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
        deletion_id: None,
        has_versions_only: false,
    });
    assert_eq!(store.list(&with_uncommitted).entries, [listed]);
    let mut list = latest(&["a"]);
    list.conditions = only_if_missing();
    store.commit("name", list).unwrap();
    assert_eq!(store.read("name").unwrap(), b"Hello World");
}

#[test]
fn get_block_list_returns_the_requested_lists() {
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
            .at(at(0))
            .get_block_list(&address("name"), list_type, &Conditions::default())
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
    let missing = store.at(at(0)).get_block_list(
        &address("none"),
        BlockListType::All,
        &Conditions::default(),
    );
    assert_err!(missing, Error::BlobNotFound);
}

#[test]
fn committing_drops_blocks_that_are_not_listed() {
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
fn block_that_must_be_new_is_put_where_there_is_neither_blob_nor_block() {
    let store = store();
    let put_new = |name: &str, id: &str| {
        let upload = store.upload(UploadKind::PutBlock, b"new");
        let conditions = Conditions {
            must_be_new: true,
            ..Conditions::default()
        };
        let put = store.at(at(0));
        let put = put.put_block(&address(name), id.as_bytes(), upload, &conditions);
        put.map(|(_, ticket)| ticket.wait().unwrap())
    };
    put_new("name", "a").unwrap();
    put_new("name", "b").unwrap();
    assert_err!(put_new("name", "a"), Error::BlobAlreadyExists);
    store.put_block("name", "a", b"old").unwrap();
    assert_err!(put_new("name", "a"), Error::BlobAlreadyExists);
    store.commit("name", latest(&["a"])).unwrap();
    assert_err!(put_new("name", "c"), Error::BlobAlreadyExists);
    assert_eq!(store.read("name").unwrap(), b"old");
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
    list.headers.content_md5 = Some(vec![7; 16]);
    store.commit("name", list).unwrap();
    assert_eq!(
        store.properties("name").unwrap().headers.content_md5,
        Some(vec![7; 16])
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
fn ids_of_uncommitted_blocks_have_one_length_beside_any_committed_blocks() {
    let store = store();
    store.put_block("name", "aa", b"1").unwrap();
    assert_err!(
        store.put_block("name", "a", b"1"),
        Error::InvalidBlobOrBlock
    );
    store.commit("name", latest(&["aa"])).unwrap();
    store.put_block("name", "aaa", b"2").unwrap();
    assert_err!(
        store.put_block("name", "aa", b"2"),
        Error::InvalidBlobOrBlock
    );
    store.commit("name", latest(&["aa", "aaa"])).unwrap();
    assert_eq!(store.read("name").unwrap(), b"12");
    store.put_block("name", "a", b"3").unwrap();
    store.commit("name", latest(&["a"])).unwrap();
    assert_eq!(store.read("name").unwrap(), b"3");
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
        .at(at(0))
        .put_block(&elsewhere, b"a", upload, &Conditions::default());
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
fn bodies_settled_together_are_put_like_those_that_are_not() {
    let store = store();
    let lengths = [
        0, 1, 100, 4095, 4096, 4096, 4096, 4096, 5000, 16_384, 16_385, 70_000,
    ];
    let bodies = || {
        lengths
            .iter()
            .enumerate()
            .map(|(index, &length)| pattern(length, index as u8))
    };
    let mut uploads: Vec<Upload> = bodies()
        .map(|body| store.upload(UploadKind::PutBlob, &body))
        .collect();
    let small: Vec<bool> = uploads.iter().map(Upload::is_small_and_unstored).collect();
    assert_eq!(small, lengths.map(|length| length <= 16_384));
    Upload::store_together(&mut uploads);
    assert!(!uploads.iter().any(Upload::is_small_and_unstored));
    for (index, (body, upload)) in bodies().zip(uploads).enumerate() {
        let alone = store.put(&format!("alone{index}"), &body).unwrap();
        let name = format!("together{index}");
        let request = PutBlob {
            upload,
            ..store.put_request(b"")
        };
        let together = store.put_with(&name, request, at(0)).unwrap();
        assert_eq!(together.checksums, alone.checksums);
        assert_eq!(store.read(&name).unwrap(), body);
    }
}

#[test]
fn settled_bodies_of_all_kinds_keep_their_keys_and_claims() {
    let store = store();
    let body = pattern(5000, 1);
    let wrong = Checksums {
        md5: Some([1; 16]),
        crc64: None,
    };
    let mut claimed = store
        .service
        .begin_upload(UploadKind::PutBlock, wrong)
        .unwrap();
    claimed.write(&body).unwrap();
    let mut uploads = [
        store.upload(UploadKind::PutBlock, &body),
        store.sealed(UploadKind::PutBlob, &body, key(7)),
        store.upload(UploadKind::PutPage { start: 0 }, &body[..512]),
        claimed,
    ];
    Upload::store_together(&mut uploads);
    let [block, sealed, _, claimed] = uploads;
    let put_block = |upload| {
        let none = Conditions::default();
        store
            .at(at(0))
            .put_block(&address("blocks"), b"a", upload, &none)
    };
    let outcome = put_block(block).unwrap().0;
    assert_eq!(outcome.checksums.md5, None);
    let refused = put_block(claimed);
    assert!(matches!(refused, Err(Error::Md5Mismatch { specified, .. }) if specified == [1; 16]));
    store.commit("blocks", latest(&["a"])).unwrap();
    assert_eq!(store.read("blocks").unwrap(), body);
    let request = PutBlob {
        upload: sealed,
        conditions: with_key(7),
        ..store.put_request(b"")
    };
    store.put_with("sealed", request, at(0)).unwrap();
    let download = store
        .at(at(1))
        .get_blob(&address("sealed"), None, &with_key(7));
    assert_eq!(drain(download.unwrap().body, 999), body);
}
