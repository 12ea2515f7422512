//! Blobs put whole, their ranges, properties and metadata, and errors that blobs of all types
//! share.

use crate::operations::tests::*;
use crate::*;

#[test]
fn bodies_of_all_sizes_come_back() {
    let store = store();
    for length in [0, 1, 16 << 10, (16 << 10) + 1, 1 << 20] {
        let body = pattern(length, 3);
        let outcome = store.put("name", &body).unwrap();
        assert_eq!(store.read("name").unwrap(), body);
        let blob = store.properties("name").unwrap();
        assert_eq!(blob.length, length as u64);
        assert_eq!(
            blob.headers.content_md5,
            outcome.checksums.md5.map(Vec::from)
        );
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
        request.headers.content_md5 = property.map(Vec::from);
        let result = store.put_with("name", request, at(0));
        if accepted {
            assert_eq!(result.unwrap().checksums.md5, Some(right))
        } else {
            assert_err!(result, Error::Md5Mismatch { .. })
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
            .at(at(0))
            .check_upload(&address("name"), UploadKind::PutBlob, &only_if_missing()),
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
fn properties_and_metadata_change_the_etag_and_nothing_else() {
    let store = store();
    let put = store.put("name", b"body").unwrap();
    let headers = BlobHeaders {
        content_type: Some("text/plain".to_string()),
        ..BlobHeaders::default()
    };
    let none = Conditions::default();
    let set = store
        .at(at(1))
        .set_blob_properties(&address("name"), headers.clone(), &none);
    let (first, _) = set.unwrap();
    assert!(first.etag > put.written.etag);
    let metadata = pairs(&[("B", "2"), ("a", "1")]);
    let stale = if_match(put.written.etag);
    let set = store
        .at(at(2))
        .set_blob_metadata(&address("name"), metadata.clone(), &stale);
    assert_err!(set, Error::ConditionNotMet);
    let fresh = if_match(first.etag);
    let set = store
        .at(at(2))
        .set_blob_metadata(&address("name"), metadata.clone(), &fresh);
    let (second, _) = set.unwrap();
    let blob = store.properties("name").unwrap();
    assert_eq!((blob.etag, blob.last_modified), (second.etag, at(2)));
    assert_eq!((blob.headers, blob.metadata), (headers, metadata));
    assert_eq!(store.read("name").unwrap(), b"body");
    let set = store
        .at(at(2))
        .set_blob_metadata(&address("none"), pairs(&[]), &none);
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
        .at(at(0))
        .get_blob(&address("name"), None, &conditions);
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
    let read = store.at(at(0)).get_blob_properties(&bad_container, &none);
    assert_err!(read, Error::InvalidResourceName);
    let write = store
        .at(at(0))
        .delete_blob(&bad_container, &DeleteBlob::default());
    assert_err!(write, Error::InvalidResourceName);
    assert_err!(store.put("a/../b", b""), Error::InvalidUri);
    store.put("a\\b", b"body").unwrap();
    assert_eq!(store.read("a/b").unwrap(), b"body");
}

#[test]
fn headers_that_set_blob_properties_does_not_name_are_cleared() {
    let store = store();
    let mut request = store.put_request(b"body");
    request.headers.content_type = Some("text/plain".to_string());
    request.headers.cache_control = Some("no-cache".to_string());
    store.put_with("name", request, at(0)).unwrap();
    assert!(
        store
            .properties("name")
            .unwrap()
            .headers
            .content_md5
            .is_some()
    );
    let (cleared, none) = (BlobHeaders::default(), Conditions::default());
    let set = store
        .at(at(1))
        .set_blob_properties(&address("name"), cleared.clone(), &none);
    set.unwrap().1.wait().unwrap();
    assert_eq!(store.properties("name").unwrap().headers, cleared);
}
