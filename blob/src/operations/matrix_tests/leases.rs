//! Every operation with and without a lease id, in every state of the lease. Source: Lease Blob and
//! Lease Container, "Remarks", the tables of outcomes by state.

use super::*;
use crate::{Guid, LeaseState};

const A: Guid = Guid(0xA);
const B: Guid = Guid(0xB);
const STATES: [LeaseState; 5] = [
    LeaseState::Available,
    LeaseState::Leased,
    LeaseState::Breaking,
    LeaseState::Broken,
    LeaseState::Expired,
];
/// The time of the operations, in seconds.
const NOW: u64 = 100;

const FOREVER: LeaseAction = LeaseAction::Acquire {
    duration: LeaseDuration::Infinite,
    proposed: Some(A),
};

/// The actions that bring lease A to a state, each with its time in seconds.
fn ways_to(state: LeaseState) -> Vec<(LeaseAction, u64)> {
    let for_15_seconds = LeaseAction::Acquire {
        duration: LeaseDuration::Seconds(15),
        proposed: Some(A),
    };
    match state {
        LeaseState::Available => vec![],
        LeaseState::Leased => vec![(FOREVER, 10)],
        LeaseState::Expired => vec![(for_15_seconds, 10)],
        LeaseState::Breaking => vec![(FOREVER, 10), (LeaseAction::Break(Some(60)), 90)],
        LeaseState::Broken => vec![(FOREVER, 10), (LeaseAction::Break(Some(60)), 20)],
    }
}

fn with_id(lease_id: Option<Guid>) -> Conditions {
    Conditions {
        lease_id,
        ..Conditions::default()
    }
}

/// One row of the table: the outcomes in the five states for an operation that `needs` the lease id
/// or not, and is `given` no id, A or B. `of` is `Blob` or `Container`.
fn expected(needs: bool, given: Option<Guid>, of: &str) -> [String; 5] {
    let (ok, missing) = ("ok".to_string(), "LeaseIdMissing".to_string());
    let absent = format!("LeaseNotPresentWith{of}Operation");
    let mismatch = format!("LeaseIdMismatchWith{of}Operation");
    let lost = "LeaseLost".to_string();
    let row = match (needs, given) {
        (true, None) => [&ok, &missing, &missing, &ok, &ok],
        (false, None) => [&ok, &ok, &ok, &ok, &ok],
        (_, Some(A)) => [&absent, &ok, &ok, &lost, &lost],
        (_, Some(_)) => [&absent, &mismatch, &mismatch, &absent, &absent],
    };
    row.map(String::clone)
}

fn shown(outcome: Result<()>) -> String {
    match outcome {
        Ok(()) => "ok".to_string(),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn every_operation_treats_the_lease_id_as_in_its_table() {
    let store = store();
    store.make_sources();
    for operation in operations() {
        for given in [None, Some(A), Some(B)] {
            let needs = operation.lease != Lease::Compares;
            let row = expected(needs, given, "Blob");
            for (state, expected) in STATES.into_iter().zip(row) {
                let cell = format!("{} with {given:?} on {state:?}", operation.name);
                store.make(&cell, operation.on);
                for (action, now) in ways_to(state) {
                    store.lease(&cell, action, at(now)).unwrap();
                }
                let outcome = (operation.act)(&store, &cell, &with_id(given), at(NOW));
                assert_eq!(shown(outcome), expected, "{cell}");
                let left = store
                    .properties(&cell)
                    .map(|blob| blob.lease.state(at(NOW)));
                let Ok(left) = left else {
                    assert_eq!(operation.name, "Delete Blob");
                    continue;
                };
                let forgotten = expected == "ok"
                    && operation.lease == Lease::Changes
                    && matches!(state, LeaseState::Broken | LeaseState::Expired);
                let after = if forgotten {
                    LeaseState::Available
                } else {
                    state
                };
                assert_eq!(left, after, "the lease after {cell}");
                if state == LeaseState::Expired {
                    let renewed = store.lease(&cell, LeaseAction::Renew(A), at(NOW));
                    // The holder of an expired lease cannot renew it after a write by another
                    // client.
                    assert_eq!(renewed.is_err(), forgotten, "renewal after {cell}");
                }
            }
        }
    }
}

/// Clients without an overwrite option send `If-None-Match: *`.
#[test]
fn lease_that_holds_decides_before_the_existence_of_its_blob() {
    let store = store();
    for given in [None, Some(A), Some(B)] {
        for state in STATES {
            let cell = format!("with {given:?} on {state:?}");
            store.make(&cell, BlobType::BlockBlob);
            for (action, now) in ways_to(state) {
                store.lease(&cell, action, at(now)).unwrap();
            }
            let conditions = Conditions {
                if_none_match: Some(ETags::Any),
                ..with_id(given)
            };
            let request = PutBlob {
                conditions,
                ..store.put_request(b"new")
            };
            let holds = matches!(state, LeaseState::Leased | LeaseState::Breaking);
            let expected = match given {
                _ if !holds => "BlobAlreadyExists",
                None => "LeaseIdMissing",
                Some(A) => "ok",
                Some(_) => "LeaseIdMismatchWithBlobOperation",
            };
            let outcome = store.put_with(&cell, request, at(NOW));
            assert_eq!(shown(outcome.map(|_| ())), expected, "{cell}");
        }
    }
}

#[test]
fn lease_id_for_a_blob_that_is_not_there_is_refused_or_the_blob_is_missed() {
    let store = store();
    store.make_sources();
    for operation in operations() {
        let outcome = (operation.act)(&store, "none", &with_id(Some(A)), at(NOW));
        let creates = operation.honoured_conditions == HonouredConditions::Create
            || operation.name == "Put Block";
        let expected = if creates {
            "LeaseNotPresentWithBlobOperation"
        } else {
            "BlobNotFound"
        };
        assert_eq!(shown(outcome), expected, "{}", operation.name);
    }
}

#[test]
fn every_call_on_a_container_treats_the_lease_id_as_in_its_table() {
    type Call = fn(&Store, &str, &Conditions) -> Result<()>;
    let calls: [(&str, bool, Call); 4] = [
        ("Delete Container", true, |s, name, c| {
            let deleted = s.at(at(NOW)).delete_container(ACCOUNT, name, c)?;
            Ok(deleted.wait()?)
        }),
        ("Set Container Metadata", false, |s, name, c| {
            let metadata = Metadata::new();
            let service = &s;
            done(
                service
                    .at(at(NOW))
                    .set_container_metadata(ACCOUNT, name, metadata, c),
            )
        }),
        ("Set Container ACL", false, |s, name, c| {
            let private = PublicAccess::Private;
            let none = Vec::new();
            let service = &s;
            done(
                service
                    .at(at(NOW))
                    .set_container_acl(ACCOUNT, name, private, none, c),
            )
        }),
        ("Get Container Properties", false, |s, name, c| {
            let container = s.service.get_container_properties(ACCOUNT, name)?;
            s.at(at(NOW)).check_container_lease(&container, c.lease_id)
        }),
    ];
    let store = store();
    let none = Conditions::default();
    let mut count = 0;
    for (call, needs, act) in calls {
        for given in [None, Some(A), Some(B)] {
            let row = expected(needs, given, "Container");
            for (state, expected) in STATES.into_iter().zip(row) {
                count += 1;
                let name = format!("leased-{count}");
                store.create(&name).unwrap();
                for (action, now) in ways_to(state) {
                    let service = &store;
                    let leased = service
                        .at(at(now))
                        .lease_container(ACCOUNT, &name, action, &none);
                    leased.unwrap().2.wait().unwrap();
                }
                let outcome = act(&store, &name, &with_id(given));
                assert_eq!(
                    shown(outcome),
                    expected,
                    "{call} with {given:?} on {state:?}"
                );
            }
        }
    }
}

#[test]
fn leases_of_the_blobs_do_not_keep_their_container() {
    let store = store();
    store.put("name", b"body").unwrap();
    store.lease("name", FOREVER, at(0)).unwrap();
    let none = Conditions::default();
    let deleted = store.at(at(1)).delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
}

#[test]
fn lease_operations_leave_the_validators_as_they_are() {
    let store = store();
    let none = Conditions::default();
    let put = store.put("name", b"body").unwrap().written;
    let service = &store;
    let container = service
        .get_container_properties(ACCOUNT, CONTAINER)
        .unwrap();
    for action in [
        FOREVER,
        LeaseAction::Renew(A),
        LeaseAction::Change(A, B),
        LeaseAction::Break(Some(10)),
        LeaseAction::Release(B),
    ] {
        let (_, written, ticket) = service
            .at(at(NOW))
            .lease_blob(&address("name"), action, &none)
            .unwrap();
        ticket.wait().unwrap();
        assert_eq!(written.etag, put.etag, "{action:?}");
        let (_, written, ticket) = service
            .at(at(NOW))
            .lease_container(ACCOUNT, CONTAINER, action, &none)
            .unwrap();
        ticket.wait().unwrap();
        assert_eq!(written, container.written(), "{action:?}");
    }
    assert_eq!(
        store.properties("name").unwrap().last_modified,
        put.last_modified
    );
}

#[test]
fn snapshots_and_versions_are_not_leased() {
    let store = store();
    store.put("name", b"body").unwrap();
    store.lease("name", FOREVER, at(0)).unwrap();
    let moment = store.snapshot("name").unwrap();
    let none = Conditions::default();
    for state in [BlobState::Snapshot(moment), BlobState::Version(moment)] {
        let address = BlobAddress {
            state,
            ..address("name")
        };
        let leased = store.at(at(NOW)).lease_blob(&address, FOREVER, &none);
        assert_err!(leased, Error::InvalidOperation { .. });
    }
    let snapshot = BlobAddress {
        state: BlobState::Snapshot(moment),
        ..address("name")
    };
    let blob = store.at(at(NOW)).get_blob_properties(&snapshot, &none);
    assert_eq!(blob.unwrap().lease.state(at(NOW)), LeaseState::Available);
}
