//! Every operation on a blob that something keeps as it is: a policy, a legal hold, a copy under way, the archive. Sources: Overview of
//! immutable storage for blob data; Copy Blob, "Remarks"; Archive access tier.

use super::*;
use crate::ListBlobs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Unlocked,
    Locked,
    /// With a legal hold from its first write on.
    MadeWithHold,
    /// With a locked policy from its first write on.
    MadeLocked,
    /// A copy to it is under way.
    Pending,
    Archived,
}

const STATES: [State; 7] = [
    State::Hold,
    State::Unlocked,
    State::Locked,
    State::MadeWithHold,
    State::MadeLocked,
    State::Pending,
    State::Archived,
];

const NOW: u64 = 100;
/// Until when policies last.
const UNTIL: u64 = 1000;

/// What an operation is told where a policy or hold protects, where a copy is under way, and where the content is archived.
fn row(operation: &str) -> [&'static str; 3] {
    const PROTECTED: &str = "BlobImmutableDueToPolicy";
    const PENDING: &str = "PendingCopyOperation";
    const ARCHIVED: &str = "BlobArchived";
    match operation {
        "Get Blob" => ["ok", "ok", ARCHIVED],
        "Get Blob Properties"
        | "Get Blob Tags"
        | "Get Page Ranges"
        | "Get Block List"
        | "Undelete Blob"
        | "Put Block"
        | "Put Blob, before its body" => ["ok"; 3],
        "Put Blob"
        | "Put Blob, append"
        | "Put Blob, pages"
        | "Copy Blob"
        | "Copy Blob From URL"
        | "Copy Blob from elsewhere"
        | "Delete Blob"
        | "Set Blob Expiry" => [PROTECTED, PENDING, "ok"],
        "Put Block List"
        | "Append Block"
        | "Append Blob Seal"
        | "Put Page"
        | "Put Page, clear"
        | "Set Blob Properties, length"
        | "Set Blob Properties, number"
        | "Set Blob Properties"
        | "Set Blob Metadata" => [PROTECTED, PENDING, ARCHIVED],
        "Snapshot Blob" => ["ok", PENDING, ARCHIVED],
        "Set Blob Tags"
        | "Set Blob Tier"
        | "Set Blob Immutability Policy"
        | "Set Blob Legal Hold"
        | "Lease Blob" => ["ok", PENDING, "ok"],
        other => panic!("{other} is in no row"),
    }
}

/// What has neither conditions nor a lease id, and so is in no other matrix.
fn more_settings() -> Vec<Operation> {
    vec![
        operation!(
            "Set Blob Immutability Policy",
            BlockBlob,
            Compares,
            Nothing,
            |s, name, _, now| { s.protect_until(name, ImmutabilityMode::Locked, now) }
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
            Nothing,
            |s, name, _, now| {
                let action = LeaseAction::Acquire {
                    duration: LeaseDuration::Infinite,
                    proposed: None,
                };
                let none = Conditions::default();
                let leased = s.at(now).lease_blob(&address(name), action, &none)?;
                Ok(leased.2.wait()?)
            }
        ),
    ]
}

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

    /// A blob of this type in this state; `false` if blobs of the type are never in it.
    fn make_in(&self, state: State, name: &str, blob_type: BlobType) -> bool {
        let is_blocks = blob_type == BlobType::BlockBlob;
        match state {
            State::Hold | State::Unlocked | State::Locked => {
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
                let (tier, soon) = (AccessTier::Archive, RehydratePriority::Standard);
                let none = Conditions::default();
                done(
                    self.at(at(1))
                        .set_blob_tier(&address(name), tier, soon, &none),
                )
                .unwrap();
            }
        }
        match state {
            State::Hold => {
                let set = self.at(at(1)).set_blob_legal_hold(&address(name), true);
                set.unwrap().wait().unwrap();
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

fn told(outcome: Result<()>) -> String {
    match outcome {
        Ok(()) => "ok".to_string(),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn every_operation_is_told_what_keeps_a_blob_as_its_table_says() {
    let store = store();
    store.make_sources();
    let mut all = operations();
    all.extend(more_settings());
    let mut cells = 0;
    for operation in all {
        let [protected, pending, archived] = row(operation.name);
        for state in STATES {
            let cell = format!("{} on {state:?}", operation.name);
            if !store.make_in(state, &cell, operation.on) {
                continue;
            }
            let expected = match state {
                State::Pending => pending,
                State::Archived => archived,
                State::Hold | State::MadeWithHold if protected != "ok" => {
                    "BlobImmutableDueToLegalHold"
                }
                _ => protected,
            };
            let before = store.properties(&cell).unwrap();
            let outcome = (operation.act)(&store, &cell, &Conditions::default(), at(NOW));
            assert_eq!(told(outcome), expected, "{cell}");
            if expected != "ok" {
                assert_eq!(store.properties(&cell).unwrap(), before, "{cell}");
            }
            cells += 1;
        }
    }
    assert!(cells > 150, "{cells}");
}

/// Delete Container, with a blob of each state in it.
#[test]
fn a_container_stays_for_what_a_policy_or_a_hold_keeps() {
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
        assert_eq!(told(outcome), expected, "{state:?}");
        let listed = store
            .at(at(NOW))
            .list_blobs(ACCOUNT, CONTAINER, &ListBlobs::default());
        assert_eq!(listed.is_err(), expected == "ok", "{state:?}");
    }
}
