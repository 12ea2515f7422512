//! Every operation on a blob that is protected from changes: by a policy, a legal hold, a pending
//! copy, or the archive tier. Sources: Overview of immutable storage for blob data; Copy Blob,
//! "Remarks"; Archive access tier.

use super::*;
use crate::keys::{self, History};
use crate::operations::kept_tests::{DAY, keeping, soft_delete, versions};
use crate::operations::permit::RecordSlot;
use crate::{ListBlobs, codec};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Unlocked,
    Locked,
    /// A blob with a legal hold from its first write on.
    MadeWithHold,
    /// A blob with a locked policy from its first write on.
    MadeLocked,
    /// A blob with a legal hold and a lease, whose id the request does not have.
    HoldAndLease,
    /// The destination of a pending copy.
    Pending,
    Archived,
}

const STATES: [State; 8] = [
    State::Hold,
    State::Unlocked,
    State::Locked,
    State::MadeWithHold,
    State::MadeLocked,
    State::HoldAndLease,
    State::Pending,
    State::Archived,
];

const NOW: u64 = 100;

impl Store {
    fn protect_until(&self, name: &str, mode: ImmutabilityMode, now: SystemTime) -> Result<()> {
        let policy = ImmutabilityPolicy {
            until: at(UNTIL),
            mode,
        };
        let none = Conditions::default();
        let service = self.at(now);
        done(service.set_blob_immutability_policy(&address(name), policy, &none))
    }

    fn put_protected(&self, name: &str, settings: BlobSettings) {
        let request = PutBlob {
            settings,
            ..self.put_request(b"body")
        };
        done(self.at(at(1)).put_blob(&address(name), request)).unwrap();
    }

    /// Makes a blob of this type in this state; `false` if blobs of the type are never in it.
    fn make_in(&self, state: State, name: &str, blob_type: BlobType) -> bool {
        let is_blocks = blob_type == BlobType::BlockBlob;
        match state {
            State::Hold | State::HoldAndLease | State::Unlocked | State::Locked => {
                self.make(name, blob_type);
            }
            _ if !is_blocks => return false,
            State::MadeWithHold => self.put_protected(
                name,
                BlobSettings {
                    legal_hold: true,
                    ..BlobSettings::default()
                },
            ),
            State::MadeLocked => self.put_protected(
                name,
                BlobSettings {
                    immutability: Some(ImmutabilityPolicy {
                        until: at(UNTIL),
                        mode: ImmutabilityMode::Locked,
                    }),
                    ..BlobSettings::default()
                },
            ),
            State::Pending => {
                let request = self.copy_request(&Conditions::default());
                done(self.at(at(1)).start_copy(&address(name), request, 4)).unwrap();
            }
            State::Archived => {
                self.make(name, blob_type);
                let tier = AccessTier::Archive;
                let soon = RehydratePriority::Standard;
                let none = Conditions::default();
                done(
                    self.at(at(1))
                        .set_blob_tier(&address(name), tier, soon, &none),
                )
                .unwrap();
            }
        }
        match state {
            State::Hold | State::HoldAndLease => {
                let set = self.at(at(1)).set_blob_legal_hold(&address(name), true);
                set.unwrap().wait().unwrap();
                if state == State::HoldAndLease {
                    let action = LeaseAction::Acquire {
                        duration: LeaseDuration::Infinite,
                        proposed: None,
                    };
                    self.lease(name, action, at(1)).unwrap();
                }
            }
            State::Unlocked => self
                .protect_until(name, ImmutabilityMode::Unlocked, at(1))
                .unwrap(),
            State::Locked => self
                .protect_until(name, ImmutabilityMode::Locked, at(1))
                .unwrap(),
            _ => {}
        }
        true
    }
}

fn shown(outcome: Result<()>) -> String {
    match outcome {
        Ok(()) => "ok".to_string(),
        Err(error) => format!("{error:?}"),
    }
}

/// Policies of accounts: nothing is kept; deleted blobs are kept; overwritten and deleted blobs
/// become versions.
fn accounts() -> [AccountPolicy; 3] {
    [AccountPolicy::default(), soft_delete(3), versions()]
}

/// True if the operation makes a version of the blob in an account that keeps versions. Source:
/// Immutable storage for blobs, "Version-level scope".
fn makes_version(operation: &str) -> bool {
    matches!(
        operation,
        "Put Blob"
            | "Put Blob, before its body"
            | "Put Blob, append"
            | "Put Blob, pages"
            | "Put Block List"
            | "Copy Blob"
            | "Copy Blob From URL"
            | "Copy Blob, elsewhere"
            | "Set Blob Metadata"
            | "Delete Blob"
    )
}

fn expected(operation: &Operation, state: State, account: AccountPolicy) -> &'static str {
    let [protected, pending, archived] = operation.protection.outcomes();
    let needs_lease = !matches!(operation.lease, Lease::Compares);
    let is_kept = account.versioning && makes_version(operation.name);
    match state {
        State::Pending => pending,
        State::Archived => archived,
        State::HoldAndLease if needs_lease => "LeaseIdMissing",
        State::HoldAndLease if operation.name == "Lease Blob" => "LeaseAlreadyPresent",
        // A hold keeps a blob from being deleted, even if it would stay as a version.
        State::Hold | State::MadeWithHold if operation.name == "Delete Blob" => {
            "BlobImmutableDueToLegalHold"
        }
        _ if is_kept => "ok",
        State::Hold | State::MadeWithHold | State::HoldAndLease if protected != "ok" => {
            "BlobImmutableDueToLegalHold"
        }
        _ => protected,
    }
}

#[test]
fn every_operation_meets_protections_as_in_its_table() {
    let mut cells = 0;
    for account in accounts() {
        let store = keeping(account);
        store.make_sources();
        for operation in operations().into_iter().chain(others()) {
            for state in STATES {
                let cell = format!("{} on {state:?}", operation.name);
                if !store.make_in(state, &cell, operation.on) {
                    continue;
                }
                let expected = expected(&operation, state, account);
                let before = store.properties(&cell).unwrap();
                let outcome = (operation.act)(&store, &cell, &Conditions::default(), at(NOW));
                assert_eq!(shown(outcome), expected, "{cell}, {account:?}");
                if expected != "ok" {
                    assert_eq!(store.properties(&cell).unwrap(), before, "{cell}");
                }
                cells += 1;
            }
        }
    }
    assert!(cells > 500, "{cells}");
}

impl Store {
    fn set_hold(&self, name: &str, state: BlobState, is_held: bool) {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let set = self.service.set_blob_legal_hold(&address, is_held);
        set.unwrap().wait().unwrap();
    }

    fn protect_state(&self, name: &str, state: BlobState, protection: State) {
        let address = BlobAddress {
            state,
            ..address(name)
        };
        let mode = match protection {
            State::Hold => return self.set_hold(name, state, true),
            State::Locked => ImmutabilityMode::Locked,
            _ => ImmutabilityMode::Unlocked,
        };
        let policy = ImmutabilityPolicy {
            until: at(UNTIL),
            mode,
        };
        let none = Conditions::default();
        let service = self.at(at(6));
        done(service.set_blob_immutability_policy(&address, policy, &none)).unwrap();
    }

    fn home(&self) -> u128 {
        self.get_container_properties(ACCOUNT, CONTAINER)
            .unwrap()
            .id
    }

    /// Sets or ends a hold of the record at a place. No operation does this for deleted records.
    fn force_hold(&self, home: u128, name: &str, place: RecordSlot, is_held: bool) {
        let keyspaces = &self.service.keyspaces;
        let (keyspace, key) = match place {
            RecordSlot::Current => (&keyspaces.blobs, keys::blob(home, name)),
            RecordSlot::Past(kind, moment) => {
                (&keyspaces.history, keys::history(home, kind, name, moment))
            }
        };
        let record = self.db.get(keyspace, &key).unwrap().unwrap();
        let mut blob = codec::decode_blob(&record, home).unwrap();
        blob.legal_hold = is_held;
        let mut batch = lazurite_engine::Batch::new();
        batch.put(keyspace, &key, &codec::encode_blob(&blob, home));
        batch.put(&keyspaces.protected, &home.to_be_bytes(), b"held");
        self.db.write(batch).unwrap().wait().unwrap();
    }
}

/// Snapshots and versions with a policy or hold, and all operations that would delete them.
#[test]
fn protected_snapshots_and_versions_are_not_deleted() {
    for account in accounts() {
        for protection in [State::Hold, State::Unlocked, State::Locked] {
            let store = keeping(account);
            store.put("name", b"body").unwrap();
            let snapshot = BlobState::Snapshot(store.snapshot("name").unwrap());
            let version = store.properties("name").unwrap().version;
            let version = version.map(BlobState::Version);
            store.put("name", b"next").unwrap();
            let expected = match protection {
                State::Hold => "BlobImmutableDueToLegalHold",
                _ => "BlobImmutableDueToPolicy",
            };
            for state in [Some(snapshot), version].into_iter().flatten() {
                let cell = format!("{state:?} with {protection:?}, {account:?}");
                store.protect_state("name", state, protection);
                let before = store.read_state("name", state).unwrap();
                let current = BlobState::Current;
                let mut deletions = vec![(state, DeleteBlob::default())];
                if state == snapshot {
                    for snapshots in [DeleteSnapshots::Include, DeleteSnapshots::Only] {
                        deletions.push((current, with_snapshots(snapshots)));
                    }
                }
                for (of, request) in deletions {
                    let outcome = store.delete_with("name", of, request.clone());
                    assert_eq!(shown(outcome.map(drop)), expected, "{cell}, {request:?}");
                    assert_eq!(store.read_state("name", state).unwrap(), before, "{cell}");
                    assert_eq!(store.read("name").unwrap(), b"next", "{cell}");
                }
            }
            let none = Conditions::default();
            let deleted = store.at(at(7)).delete_container(ACCOUNT, CONTAINER, &none);
            assert_err!(deleted, crate::Error::BlobImmutableDueToPolicy);
            // Protection follows the container to its new name.
            let renamed = store.rename_container(ACCOUNT, CONTAINER, "renamed", None);
            renamed.unwrap().1.wait().unwrap();
            let deleted = store.at(at(7)).delete_container(ACCOUNT, "renamed", &none);
            assert_err!(deleted, crate::Error::BlobImmutableDueToPolicy);
        }
    }
}

/// A deleted record with a hold stays until the hold ends. No operation makes such a record, so the
/// test writes it.
#[test]
fn a_deleted_record_with_a_hold_is_not_gone_before_the_hold() {
    let account = AccountPolicy {
        permanent_delete: true,
        ..soft_delete(3)
    };
    for undeletes in [false, true] {
        let store = keeping(account);
        store.put("name", b"body").unwrap();
        let moment = store.snapshot("name").unwrap();
        let state = BlobState::Snapshot(moment);
        store
            .delete_with("name", state, DeleteBlob::default())
            .unwrap();
        let place = RecordSlot::Past(History::Deleted, moment);
        store.force_hold(store.home(), "name", place, true);
        let permanent = DeleteBlob {
            permanent: true,
            ..DeleteBlob::default()
        };
        let outcome = store.delete_with("name", state, permanent);
        assert_eq!(shown(outcome.map(drop)), "BlobImmutableDueToLegalHold");
        let history = &store.service.keyspaces.history;
        if undeletes {
            store.undelete("name", at(8)).unwrap();
            let outcome = store.delete_with("name", state, DeleteBlob::default());
            assert_eq!(shown(outcome.map(drop)), "BlobImmutableDueToLegalHold");
            assert_eq!(store.read_state("name", state).unwrap(), b"body");
        } else {
            store.at(at(9 * DAY)).sweep(100).unwrap();
            assert_eq!(store.rows(history), 1);
            store.force_hold(store.home(), "name", place, false);
            store.at(at(12 * DAY)).sweep(100).unwrap();
            assert_eq!(store.rows(history), 0);
        }
    }
}

/// A purge passes over a record with a hold until the hold ends.
#[test]
fn a_purge_leaves_a_record_with_a_hold() {
    let store = keeping(AccountPolicy::default());
    store.create("other").unwrap();
    for name in ["held", "name"] {
        store.put(name, b"body").unwrap();
    }
    let none = Conditions::default();
    let to = in_container("other", "copy");
    let copied = store
        .at(at(1))
        .copy_blob(&address("name"), &to, CopyBlob::default());
    done(copied).unwrap();
    let home = store.home();
    let deleted = store.at(at(2)).delete_container(ACCOUNT, CONTAINER, &none);
    deleted.unwrap().wait().unwrap();
    store.force_hold(home, "held", RecordSlot::Current, true);
    let blobs = &store.service.keyspaces.blobs;
    let swept = store.at(at(3)).sweep(100).unwrap();
    assert_eq!((store.rows(blobs), swept.failures.len()), (2, 0));
    store.force_hold(home, "held", RecordSlot::Current, false);
    store.at(at(3 * DAY)).sweep(100).unwrap();
    assert_eq!(store.rows(blobs), 1);
}

/// Incremental copies onto a destination that is protected.
#[test]
fn an_incremental_copy_replaces_a_protected_blob_only_where_versions_are_kept() {
    for account in accounts() {
        for protection in [State::Hold, State::Locked] {
            let store = keeping(account);
            let none = Conditions::default();
            store.put_page_blob("pages", 1024);
            let copy = || {
                let source = BlobAddress {
                    state: BlobState::Snapshot(store.snapshot("pages").unwrap()),
                    ..address("pages")
                };
                let url = "http://here".to_string();
                let service = store.at(at(9));
                done(service.incremental_copy_blob(&source, &address("copy"), url, &none))
            };
            copy().unwrap();
            store.protect_state("copy", BlobState::Current, protection);
            store.put_page("pages", 0, &[1; 512]).unwrap();
            let expected = match protection {
                _ if account.versioning => "ok",
                State::Hold => "BlobImmutableDueToLegalHold",
                _ => "BlobImmutableDueToPolicy",
            };
            assert_eq!(shown(copy()), expected, "{protection:?}, {account:?}");
        }
    }
}

/// Delete Container, with a blob of each state in it.
#[test]
fn a_container_with_protected_blobs_is_not_deleted() {
    for state in STATES {
        let store = store();
        assert!(store.make_in(state, "name", BlobType::BlockBlob));
        let expected = match state {
            State::Pending | State::Archived => "ok",
            _ => "BlobImmutableDueToPolicy",
        };
        let none = Conditions::default();
        let deleted = store
            .at(at(NOW))
            .delete_container(ACCOUNT, CONTAINER, &none);
        let outcome = deleted.and_then(|ticket| Ok(ticket.wait()?));
        assert_eq!(shown(outcome), expected, "{state:?}");
        let listed = store
            .at(at(NOW))
            .list_blobs(ACCOUNT, CONTAINER, &ListBlobs::default());
        assert_eq!(listed.is_err(), expected == "ok", "{state:?}");
    }
}
