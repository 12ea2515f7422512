//! Every operation with and without a customer-provided key, on blobs with and without such a key.
//! Source: Provide an encryption key on a request to Blob Storage; and, where that page and the
//! clients differ, the calls of the clients that take a key.

use super::*;
use crate::operations::encryption_tests::{key, with_key};
use std::time::Duration;

/// How an operation treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The operation needs the key of the blob.
    Needs,
    /// The operation makes the blob anew with the key of the request, whatever there was.
    Replaces,
    /// The operation needs no key and ignores one: the clients send none with it.
    Ignores,
    /// The operation makes the blob anew and without a key: the clients send none with it.
    ReplacesPlain,
}

fn treats(name: &str) -> Key {
    match name {
        "Get Blob"
        | "Get Blob Properties"
        | "Append Block"
        | "Put Page"
        | "Put Page, clear"
        | "Set Blob Properties, length"
        | "Set Blob Properties, length and number"
        | "Set Blob Metadata"
        | "Snapshot Blob" => Key::Needs,
        "Put Blob" | "Put Blob, append" | "Put Blob, pages" | "Put Block List" => Key::Replaces,
        "Copy Blob" | "Copy Blob From URL" | "Copy Blob from elsewhere" => Key::ReplacesPlain,
        "Get Blob Tags"
        | "Get Page Ranges"
        | "Get Block List"
        | "Put Blob, before its body"
        | "Append Blob Seal"
        | "Set Blob Properties"
        | "Set Blob Properties, number"
        | "Delete Blob"
        | "Set Blob Tags"
        | "Set Blob Tier"
        | "Set Blob Expiry"
        | "Set Blob Immutability Policy"
        | "Set Blob Legal Hold"
        | "Lease Blob"
        | "Undelete Blob"
        // The first uncommitted block sets the key for the others, whatever key the blob has.
        | "Put Block" => Key::Ignores,
        other => panic!("the treatment of a key by {other} is undecided"),
    }
}

/// Operations without conditions or lease ids, and one with two effects.
pub(super) fn others() -> Vec<Operation> {
    vec![
        operation!(
            "Set Blob Properties, length and number",
            PageBlob,
            Changes,
            Change,
            |s, name, c, now| {
                let increment = Some(SequenceAction::Increment);
                s.set_pages(name, Some(512), increment, c, now)
            }
        ),
        operation!(
            "Set Blob Immutability Policy",
            BlockBlob,
            Compares,
            Nothing,
            |s, name, c, now| {
                let policy = ImmutabilityPolicy {
                    until: now + Duration::from_secs(60),
                    mode: ImmutabilityMode::Unlocked,
                };
                let service = &s;
                let set =
                    service
                        .at(now)
                        .set_blob_immutability_policy(&address(name), policy, c)?;
                Ok(set.1.wait()?)
            }
        ),
        operation!(
            "Set Blob Legal Hold",
            BlockBlob,
            Compares,
            Nothing,
            |s, name, _, now| {
                let set = s.at(now).set_blob_legal_hold(&address(name), true)?;
                Ok(set.wait()?)
            }
        ),
        operation!(
            "Lease Blob",
            BlockBlob,
            Compares,
            Change,
            |s, name, c, now| {
                let acquire = LeaseAction::Acquire {
                    duration: LeaseDuration::Infinite,
                    proposed: None,
                };
                Ok(s.at(now).lease_blob(&address(name), acquire, c)?.2.wait()?)
            }
        ),
    ]
}

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
        let treats = treats(operation.name);
        for has in [None, Some(1)] {
            for given in [None, Some(1), Some(2)] {
                let cell = format!("{} with {given:?} on {has:?}", operation.name);
                store.make_with(&cell, operation.on, &conditions(has));
                let outcome = (operation.act)(&store, &cell, &conditions(given), at(1));
                let outcome = outcome.map_or_else(|error| format!("{error:?}"), |()| "ok".into());
                assert_eq!(outcome, shown(treats, has, given), "{cell}");
                let expected = match treats {
                    Key::Replaces => given,
                    Key::ReplacesPlain => None,
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
