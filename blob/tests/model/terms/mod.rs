//! The terms on which a blob may be used: leases of blobs and containers, access tiers and
//! rehydration, expiry, customer-provided keys, encryption scopes. Time moves with every step.

mod evaluator;
mod lease;
mod reads;
mod settings;
mod writes;

use crate::store::{Store, start};
use crate::{ACCOUNT, Random, Result, code, setting, with_seeds};
use evaluator::{Known, Name, Rank, Refusals, Secret, Tier, has_tier};
use lazurite_blob::*;
use lazurite_engine::fs::Keep;
use lease::Lease;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The second container has an encryption scope, and denies all others.
const CONTAINERS: [&str; 2] = ["free", "scoped"];
const OWN_SCOPE: [Option<&str>; 2] = [None, Some("ours")];
const NAMES: [&str; 2] = ["a", "b"];
const LEASE_IDS: [Guid; 3] = [Guid(0xA << 120), Guid(0xB << 120), Guid(0xC << 120)];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const RETENTION_DAYS: u16 = 2;
const REHYDRATE_SECONDS: u32 = 40;

type At = (usize, usize);

struct Walk {
    random: Random,
    policy: AccountPolicy,
    store: Store,
    now: SystemTime,
    names: BTreeMap<At, Name>,
    leases: [Lease; 2],
}

/// The lease id, key and scope that a request names.
#[derive(Debug, Clone, Copy, Default)]
struct RequestEncryption {
    lease: Option<Guid>,
    key: Option<u8>,
    scope: Option<&'static str>,
}

fn customer_key(byte: u8) -> CustomerKey {
    let key = [byte; 32];
    CustomerKey::new(key, Sha256::digest(key).into()).unwrap()
}

fn address(at: At, state: BlobState) -> BlobAddress<'static> {
    BlobAddress {
        account: ACCOUNT,
        container: CONTAINERS[at.0],
        blob: NAMES[at.1],
        state,
        caller: None,
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    UNIX_EPOCH + Duration::from_secs(seconds)
}

impl RequestEncryption {
    fn conditions(self) -> Conditions {
        Conditions {
            lease_id: self.lease,
            customer_key: self.key.map(customer_key),
            encryption_scope: self.scope.map(str::to_string),
            ..Conditions::default()
        }
    }

    /// Names the encryption of the blocks instead, for Put Block and Put Block List.
    fn with(self, secret: Secret) -> RequestEncryption {
        let (key, scope) = match secret {
            Secret::Nothing => (None, None),
            Secret::Key(key) => (Some(key), None),
            Secret::Scope(scope) => (None, Some(scope)),
        };
        RequestEncryption { key, scope, ..self }
    }

    fn names_encryption(self) -> bool {
        self.key.is_some() || self.scope.is_some()
    }
}

impl Walk {
    /// The service, with its clock set to `now`.
    fn at(&self, now: SystemTime) -> &BlobService {
        self.store.at(now)
    }

    fn new(seed: u64, policy: AccountPolicy) -> Walk {
        let walk = Walk {
            random: Random(seed),
            policy,
            store: Store::new(policy),
            now: start(),
            names: BTreeMap::new(),
            leases: [Lease::Available; 2],
        };
        (0..CONTAINERS.len()).for_each(|container| walk.create(container));
        walk
    }

    fn create(&self, container: usize) {
        let settings = ContainerSettings {
            default_encryption_scope: OWN_SCOPE[container].map(str::to_string),
            deny_encryption_scope_override: OWN_SCOPE[container].is_some(),
            ..ContainerSettings::default()
        };
        let name = CONTAINERS[container];
        let made = self
            .at(self.now)
            .create_container_with(ACCOUNT, name, settings);
        made.unwrap().1.wait().unwrap();
    }

    fn step(&mut self) {
        let millis = self.random.below(4000) as u64;
        self.pass(Duration::from_millis(millis));
        let at = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        match self.random.below(100) {
            0..22 => self.lease_blob(at),
            22..28 => self.lease_container(at.0),
            28..36 => self.put_blob(at),
            36..38 => self.put_append_blob(at),
            38..40 => self.put_page_blob(at),
            40..45 => self.put_block(at),
            45..51 => self.put_block_list(at),
            51..55 => self.append(at),
            55..59 => self.put_page(at),
            59..63 => self.set_metadata(at),
            63..66 => self.set_properties(at),
            66..68 => self.set_tags(at),
            68..77 => self.set_tier(at),
            77..79 => self.set_expiry(at),
            79..83 => self.snapshot(at),
            83..90 => self.copy(at),
            90..92 => self.delete(at),
            92 => self.undelete(at),
            93..96 => self.change_container(at.0),
            96 => self.delete_container(at.0),
            97 => self.wait(),
            98 => self.put_block(at),
            _ => self.reopen(),
        }
        (0..NAMES.len()).for_each(|name| self.compare((at.0, name)));
        self.compare_container(at.0);
    }

    fn name(&mut self, at: At) -> &mut Name {
        self.names.entry(at).or_default()
    }

    fn known(&mut self, at: At) -> &mut Known {
        self.name(at)
            .current
            .as_mut()
            .expect("the service found one")
    }

    /// Moves time in the service and in the model. The snapshots of an expired blob stay until the
    /// sweep, which runs at once.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        let expires = self.names.values().any(|name| name.has_expired(now));
        self.names.values_mut().for_each(|name| name.pass(now));
        self.leases.iter_mut().for_each(|lease| lease.pass(now));
        if expires {
            self.sweep();
        }
    }

    /// Lets seconds or days pass, and runs the sweep.
    fn wait(&mut self) {
        let time = match self.random.below(4) {
            0 => DAY * (1 + self.random.below(4)) as u32,
            _ => Duration::from_secs(self.random.below(70) as u64),
        };
        self.pass(time);
        self.sweep();
    }

    fn sweep(&mut self) {
        while self.at(self.now).sweep(3).unwrap().steps > 0 {}
        let now = self.now;
        for name in self.names.values_mut() {
            if name.staged_at.is_some_and(|at| at + DAY * 7 <= now) {
                name.unstage();
            }
        }
    }

    /// Kills the process and opens the store again: nothing may differ afterwards.
    fn reopen(&mut self) {
        self.store.wait_for_disk();
        self.store.crash(self.random.next(), Keep::Everything);
        self.pass(Duration::from_secs(1));
    }

    /// A random lease id: mostly the one that fits, if there is one.
    fn lease_id(&mut self, lease: Lease) -> Option<Guid> {
        match self.random.below(8) {
            0..2 => None,
            2 => Some(*self.random.one(&LEASE_IDS)),
            _ => lease
                .id()
                .filter(|_| lease.refuses_read(lease.id(), "Blob").is_none()),
        }
    }

    /// Random headers of a request to the blob, mostly valid ones.
    fn brought(&mut self, at: At) -> RequestEncryption {
        let name = self.name(at);
        let (lease, known) = (name.lease(), name.current.clone());
        let secret = known.map(|known| known.secret).unwrap_or_default();
        let mut brought = RequestEncryption {
            lease: self.lease_id(lease),
            ..RequestEncryption::default()
        };
        match (self.random.below(10), secret) {
            (0, _) => brought.key = Some(self.random.below(2) as u8),
            (1, _) => brought.scope = Some(*self.random.one(&["ours", "theirs"])),
            (2, _) => {}
            (_, Secret::Key(key)) => brought.key = Some(key),
            (_, Secret::Scope(scope)) => brought.scope = Some(scope),
            (_, Secret::Nothing) => {}
        }
        brought
    }

    /// The result of a write, if it succeeded in the service and in the model.
    fn settle<T>(&self, refusals: Refusals, actual: Result<(T, Ticket)>) -> Option<T> {
        match actual {
            Ok((outcome, ticket)) => {
                assert!(refusals.is_empty(), "done in spite of {refusals:?}");
                ticket.wait().unwrap();
                Some(outcome)
            }
            Err(error) => {
                let code = code(error);
                assert!(refusals.admit(&code), "{code} instead of {refusals:?}");
                None
            }
        }
    }
}

fn walks(policy: AccountPolicy) {
    let policy = AccountPolicy {
        rehydrate_seconds: REHYDRATE_SECONDS,
        ..policy
    };
    with_seeds(
        4,
        setting("LAZURITE_MODEL_STEPS", 2500),
        |seed| Walk::new(seed, policy),
        Walk::step,
        drop,
    );
}

#[test]
fn terms_of_use_agree_with_the_tables_of_the_protocol() {
    walks(AccountPolicy::default());
}

#[test]
fn terms_of_use_agree_where_deleted_blobs_are_kept() {
    walks(AccountPolicy {
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    });
}

#[test]
fn terms_of_use_agree_where_versions_are_kept() {
    walks(AccountPolicy {
        versioning: true,
        ..AccountPolicy::default()
    });
}
