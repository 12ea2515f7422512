//! Every operation with and without a customer-provided key, on blobs with and without such a key.
//! Source: Provide an encryption key on a request to Blob Storage; and, where that page and the
//! clients differ, the calls of the clients that take a key.

use super::*;
use crate::operations::encryption_tests::{key, with_key};

impl Store {
    /// A blob of a type, made with the key or in the scope of these conditions, if they have one.
    pub(super) fn make_with(&self, name: &str, blob_type: BlobType, conditions: &Conditions) {
        let (service, address) = (self, address(name));
        let conditions = conditions.clone();
        let made = match blob_type {
            BlobType::BlockBlob => {
                let mut request = self.put_request(b"");
                request.upload = self.upload_with(UploadKind::PutBlob, b"body", &conditions);
                request.conditions = conditions;
                done(service.at(at(0)).put_blob(&address, request))
            }
            BlobType::AppendBlob => {
                let request = PutAppendBlob {
                    conditions,
                    ..PutAppendBlob::default()
                };
                done(service.at(at(0)).put_append_blob(&address, request))
            }
            BlobType::PageBlob => {
                let request = PutPageBlob {
                    length: 1024,
                    conditions,
                    ..PutPageBlob::default()
                };
                done(service.at(at(0)).put_page_blob(&address, request))
            }
        };
        made.unwrap();
    }

    /// Which of the two keys the blob has; `None` if it has none, or does not exist.
    fn key_of(&self, name: &str) -> Option<u8> {
        let keys = [1, 2].into_iter();
        let reads = |byte: &u8| {
            let read = self
                .at(at(2))
                .get_blob_properties(&address(name), &with_key(*byte));
            read.is_ok()
        };
        keys.clone().find(reads)
    }
}

/// The outcome of a request with a key or none, on a blob with a key or without one.
fn shown(treats: Key, has: Option<u8>, given: Option<u8>) -> &'static str {
    match (has, given) {
        _ if treats != Key::Needs => "ok",
        (None, None) => "ok",
        (None, Some(_)) => "BlobDoesNotUseCustomerSpecifiedEncryption",
        (Some(_), None) => "BlobUsesCustomerSpecifiedEncryption",
        (Some(has), Some(given)) if has == given => "ok",
        (Some(_), Some(_)) => "BlobCustomerSpecifiedEncryptionMismatch",
    }
}

#[test]
fn every_operation_treats_keys_as_in_its_table() {
    let store = store();
    store.make_sources();
    let conditions = |byte: Option<u8>| byte.map_or_else(Conditions::default, with_key);
    for operation in operations().into_iter().chain(others()) {
        let treats = operation.key;
        for has in [None, Some(1)] {
            for given in [None, Some(1), Some(2)] {
                let cell = format!("{} with {given:?} on {has:?}", operation.name);
                store.make_with(&cell, operation.on, &conditions(has));
                let outcome = (operation.act)(&store, &cell, &conditions(given), at(1));
                let outcome = outcome.map_or_else(|error| format!("{error:?}"), |()| "ok".into());
                assert_eq!(outcome, shown(treats, has, given), "{cell}");
                let expected = match treats {
                    Key::Replaces => given,
                    Key::Drops => None,
                    Key::Ignores if operation.name == "Delete Blob" => None,
                    Key::Needs | Key::Ignores => has,
                };
                assert_eq!(store.key_of(&cell), expected, "the key after {cell}");
            }
        }
    }
}

#[test]
fn content_with_a_customer_key_is_not_copied_without_it() {
    let store = store();
    let service = &store;
    store.make_with("pages", BlobType::PageBlob, &with_key(1));
    let upload = store.sealed(UploadKind::PutPage { start: 0 }, &[1; 512], key(1));
    store
        .put_pages("pages", PageUpdate::Update(upload), &with_key(1), at(0))
        .unwrap();
    let taken = service
        .at(at(0))
        .snapshot_blob(&address("pages"), Metadata::new(), &with_key(1));
    let (moment, _, ticket) = taken.unwrap();
    ticket.wait().unwrap();
    let snapshot = BlobAddress {
        state: BlobState::Snapshot(moment),
        ..address("pages")
    };
    let copy = address("copy");
    let none = Conditions::default();
    let copied = service
        .at(at(1))
        .incremental_copy_blob(&snapshot, &copy, String::new(), &none);
    assert_err!(copied, Error::BlobUsesCustomerSpecifiedEncryption);
    let copied = service
        .at(at(1))
        .copy_blob(&snapshot, &copy, CopyBlob::default());
    assert_err!(copied, Error::BlobUsesCustomerSpecifiedEncryption);
}
