//! Blobs with customer-provided keys, and encryption scopes.

use crate::operations::tests::*;
use crate::*;
use lazurite_engine::{Direction, KeyRange};
use sha2::{Digest, Sha256};

pub(super) fn key(byte: u8) -> CustomerKey {
    let key = [byte; 32];
    CustomerKey::new(key, Sha256::digest(key).into()).unwrap()
}

pub(super) fn with_key(byte: u8) -> Conditions {
    Conditions {
        customer_key: Some(key(byte)),
        ..Conditions::default()
    }
}

impl Store {
    pub(super) fn sealed(&self, kind: UploadKind, body: &[u8], key: CustomerKey) -> Upload {
        let none = Checksums::default();
        let upload = self.service.begin_encrypted_upload(kind, none, key);
        let mut upload = upload.unwrap();
        for piece in body.chunks(777) {
            upload.write(piece).unwrap();
        }
        upload
    }

    fn unseal(&self, name: &str, byte: u8, range: Option<ByteRange>) -> Result<Vec<u8>> {
        let conditions = with_key(byte);
        let download = self
            .at(at(1))
            .get_blob(&address(name), range, &conditions)?;
        Ok(drain(download.body, 999))
    }

    /// Whether any stored content contains these bytes.
    fn stores(&self, needle: &[u8]) -> bool {
        let snapshot = self.service.db.snapshot();
        let content = &self.service.keyspaces.content;
        let mut rows = snapshot.scan(content, KeyRange::all(), Direction::Forward);
        let mut found = false;
        while rows.advance().unwrap() {
            let value = rows.value().unwrap();
            found |= value.windows(needle.len()).any(|window| window == needle);
        }
        found
    }
}

const SECRET: &[u8] = b"not to be found in the store";

#[test]
fn blob_put_whole_is_read_with_its_key_only() {
    let store = store();
    for length in [0, 100, 100_000] {
        let body = [SECRET, &pattern(length, 1)[..]].concat();
        let request = PutBlob {
            upload: store.sealed(UploadKind::PutBlob, &body, key(1)),
            ..store.put_request(b"")
        };
        store.put_with("name", request, at(0)).unwrap();
        assert_eq!(store.unseal("name", 1, None).unwrap(), body);
        let range = ByteRange {
            first: 5,
            last: Some(20),
        };
        assert_eq!(store.unseal("name", 1, Some(range)).unwrap(), body[5..=20]);
        assert!(!store.stores(SECRET));
    }
    assert_err!(
        store.unseal("name", 2, None),
        Error::BlobCustomerSpecifiedEncryptionMismatch
    );
    assert_err!(
        store.read("name"),
        Error::BlobUsesCustomerSpecifiedEncryption
    );
    assert_err!(
        store.properties("name"),
        Error::BlobUsesCustomerSpecifiedEncryption
    );
    let none = Conditions::default();
    let service = &store;
    let set = service
        .at(at(1))
        .set_blob_metadata(&address("name"), Metadata::new(), &none);
    assert_err!(set, Error::BlobUsesCustomerSpecifiedEncryption);
    assert_err!(
        store.snapshot("name"),
        Error::BlobUsesCustomerSpecifiedEncryption
    );
    let copy = address("copy");
    let request = CopyBlob::default();
    let copied = service
        .at(at(1))
        .copy_blob(&address("name"), &copy, request);
    assert_err!(copied, Error::BlobUsesCustomerSpecifiedEncryption);
    store.put("name", b"plain").unwrap();
    assert_err!(
        store.unseal("name", 1, None),
        Error::BlobDoesNotUseCustomerSpecifiedEncryption
    );
    assert_eq!(store.read("name").unwrap(), b"plain");
}

#[test]
fn blocks_of_one_list_have_one_key() {
    let store = store();
    let service = &store;
    let put = |id: &str, upload| {
        let put = service.at(at(0)).put_block(
            &address("name"),
            id.as_bytes(),
            upload,
            &Conditions::default(),
        );
        put.map(|(_, ticket)| ticket.wait().unwrap())
    };
    let body = [SECRET, &pattern(40_000, 2)[..]].concat();
    put("a", store.sealed(UploadKind::PutBlock, &body, key(1))).unwrap();
    let other = put("b", store.sealed(UploadKind::PutBlock, b"other", key(2)));
    assert_err!(other, Error::BlobCustomerSpecifiedEncryptionMismatch);
    let plain = put("b", store.upload(UploadKind::PutBlock, b"plain"));
    assert_err!(plain, Error::BlobUsesCustomerSpecifiedEncryption);
    put("b", store.sealed(UploadKind::PutBlock, b"end", key(1))).unwrap();
    assert_err!(
        store.commit("name", latest(&["a"])),
        Error::BlobUsesCustomerSpecifiedEncryption
    );
    let list = |ids| PutBlockList {
        conditions: with_key(1),
        ..latest(ids)
    };
    store.commit("name", list(&["a", "b", "a"])).unwrap();
    let whole = [&body[..], b"end", &body].concat();
    assert_eq!(store.unseal("name", 1, None).unwrap(), whole);
    store.commit("name", list(&["b", "a"])).unwrap();
    assert_eq!(
        store.unseal("name", 1, None).unwrap(),
        [b"end", &body[..]].concat()
    );
    // Only the listed blocks must have the key of the request, so a list of new blocks can change
    // the key of the blob.
    put("a", store.sealed(UploadKind::PutBlock, b"rekeyed", key(2))).unwrap();
    let rekeyed = |ids| PutBlockList {
        conditions: with_key(2),
        ..latest(ids)
    };
    let both = store.commit("name", rekeyed(&["a", "b"]));
    assert_err!(both, Error::BlobCustomerSpecifiedEncryptionMismatch);
    store.commit("name", rekeyed(&["a"])).unwrap();
    assert_eq!(store.unseal("name", 2, None).unwrap(), b"rekeyed");
    assert!(!store.stores(SECRET));
}

#[test]
fn appends_and_pages_are_encrypted_one_by_one() {
    let store = store();
    let service = &store;
    let request = PutAppendBlob {
        conditions: with_key(1),
        ..PutAppendBlob::default()
    };
    service
        .at(at(0))
        .put_append_blob(&address("log"), request)
        .unwrap()
        .1
        .wait()
        .unwrap();
    let append = |upload| {
        let request = AppendBlock {
            upload,
            max_size: None,
            append_position: None,
            conditions: Conditions::default(),
        };
        let put = service.at(at(0)).append_block(&address("log"), request);
        put.map(|(_, ticket)| ticket.wait().unwrap())
    };
    append(store.sealed(UploadKind::AppendBlock, SECRET, key(1))).unwrap();
    append(store.sealed(UploadKind::AppendBlock, SECRET, key(1))).unwrap();
    let plain = append(store.upload(UploadKind::AppendBlock, b"plain"));
    assert_err!(plain, Error::BlobUsesCustomerSpecifiedEncryption);
    assert_eq!(store.unseal("log", 1, None).unwrap(), SECRET.repeat(2));

    let request = PutPageBlob {
        length: 512 * 400,
        conditions: with_key(1),
        ..PutPageBlob::default()
    };
    service
        .at(at(0))
        .put_page_blob(&address("pages"), request)
        .unwrap()
        .1
        .wait()
        .unwrap();
    let mut expected = vec![0; 512 * 400];
    let put = |start: usize, end: usize, update| {
        let request = PutPage {
            range: start as u64..end as u64,
            update,
            sequence: SequenceConditions::default(),
            conditions: with_key(1),
        };
        let put = service.at(at(0)).put_page(&address("pages"), request);
        put.unwrap().1.wait().unwrap();
    };
    let page = |i: usize| i * 512;
    let body = SECRET.repeat(page(300) / SECRET.len() + 1);
    let upload = store.sealed(UploadKind::PutPage { start: 0 }, &body[..page(300)], key(1));
    put(0, page(300), PageUpdate::Update(upload));
    expected[..page(300)].copy_from_slice(&body[..page(300)]);
    // The clears leave ends of contents, which are copied without the key, some more than once.
    for (start, end) in [(20, 120), (130, 140), (5, 6), (8, 10), (250, 290)] {
        put(page(start), page(end), PageUpdate::Clear);
        expected[page(start)..page(end)].fill(0);
    }
    assert!(store.unseal("pages", 1, None).unwrap() == expected);
    assert!(!store.stores(SECRET));
}
