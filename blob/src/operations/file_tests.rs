//! Leases and properties that change in one step with a write to a file.

use super::path_tests::lake;
use super::tests::*;
use crate::*;

const OWN: Guid = Guid(7);
const OTHER: Guid = Guid(8);

fn acquire(id: Guid, after: AfterWrite) -> LeaseSteps {
    LeaseSteps {
        acquire: Some((LeaseDuration::Infinite, id)),
        after,
    }
}

fn after(after: AfterWrite) -> LeaseSteps {
    LeaseSteps {
        acquire: None,
        after,
    }
}

impl Store {
    fn append_under(&self, position: u64, id: Option<Guid>, lease: &LeaseSteps) -> Result<()> {
        let upload = self.upload(UploadKind::PutBlock, b"more");
        let conditions = Conditions {
            lease_id: id,
            ..Conditions::default()
        };
        let appended = self.append_data(&address("f"), position, upload, &conditions, lease)?;
        Ok(appended.1.wait()?)
    }

    fn flush_under(&self, position: u64, id: Option<Guid>, lease: LeaseSteps) -> Result<Written> {
        let flush = FlushData {
            position,
            lease,
            conditions: Conditions {
                lease_id: id,
                ..Conditions::default()
            },
            ..FlushData::default()
        };
        let (written, ticket) = self.flush_data(&address("f"), &flush)?;
        ticket.wait()?;
        Ok(written)
    }

    fn lease_state(&self) -> LeaseState {
        self.properties("f").unwrap().lease.state(self.now())
    }
}

fn file() -> Store {
    let store = lake();
    store.put("f", b"data").unwrap();
    store
}

#[test]
fn a_write_acquires_renews_and_releases_its_lease() {
    let store = file();
    let hold = acquire(OWN, AfterWrite::Keep);
    store.append_under(4, Some(OWN), &hold).unwrap();
    assert_eq!(store.lease_state(), LeaseState::Leased);
    assert_err!(
        store.append_under(8, Some(OTHER), &acquire(OTHER, AfterWrite::Keep)),
        Error::LeaseAlreadyPresent
    );
    let renew = after(AfterWrite::Renew(OWN));
    store.append_under(8, Some(OWN), &renew).unwrap();
    let release = after(AfterWrite::Release(OWN));
    store.flush_under(12, Some(OWN), release).unwrap();
    assert_eq!(store.lease_state(), LeaseState::Available);
    assert_eq!(store.read("f").unwrap(), b"datamoremore");
    let passing = acquire(OWN, AfterWrite::Release(OWN));
    store.append_under(12, Some(OWN), &passing).unwrap();
    store.flush_under(16, Some(OWN), passing).unwrap();
    assert_eq!(store.lease_state(), LeaseState::Available);
    assert_eq!(store.read("f").unwrap().len(), 16);
}

#[test]
fn a_failed_write_leaves_the_lease_as_it_was() {
    let store = file();
    let passing = acquire(OWN, AfterWrite::Release(OWN));
    assert_err!(
        store.flush_under(5, Some(OWN), passing),
        Error::InvalidFlushPosition
    );
    assert_eq!(store.lease_state(), LeaseState::Available);
    // Held before, by the same id.
    store
        .append_under(4, Some(OWN), &acquire(OWN, AfterWrite::Keep))
        .unwrap();
    let before = store.properties("f").unwrap();
    assert_err!(
        store.flush_under(5, Some(OWN), passing),
        Error::InvalidFlushPosition
    );
    assert_err!(
        store.flush_under(8, Some(OWN), after(AfterWrite::Release(OTHER))),
        Error::LeaseIdMismatchWithLeaseOperation
    );
    assert_eq!(store.properties("f").unwrap(), before);
    let upload = store.upload(UploadKind::PutBlock, b"gap");
    let conditions = Conditions {
        lease_id: Some(OWN),
        ..Conditions::default()
    };
    let gap = store.append_and_flush(&address("f"), 100, upload, &conditions, &passing);
    assert_err!(gap, Error::InvalidFlushPosition);
    assert_eq!(store.properties("f").unwrap(), before);
}

#[test]
fn headers_and_metadata_of_a_path_change_in_one_step() {
    let store = file();
    let none = Conditions::default();
    let headers = BlobHeaders {
        content_type: Some("text/plain".to_string()),
        ..BlobHeaders::default()
    };
    let metadata = vec![("a".to_string(), "1".to_string())];
    let before = store.properties("f").unwrap();
    let leased = Conditions {
        lease_id: Some(OWN),
        ..Conditions::default()
    };
    let refused =
        store.set_path_properties(&address("f"), &headers, Some(metadata.clone()), &leased);
    assert!(refused.is_err());
    assert_eq!(store.properties("f").unwrap(), before);
    let set = store.set_path_properties(&address("f"), &headers, Some(metadata.clone()), &none);
    let (written, ticket) = set.unwrap();
    ticket.wait().unwrap();
    let now = store.properties("f").unwrap();
    let expected = BlobHeaders {
        content_type: headers.content_type,
        ..before.headers
    };
    assert_eq!((now.headers, now.metadata), (expected, metadata));
    assert_eq!(now.etag, written.etag);
    let nothing = store.set_path_properties(&address("f"), &BlobHeaders::default(), None, &none);
    assert_eq!(nothing.unwrap().0.etag, written.etag);
}
