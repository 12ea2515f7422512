//! Random operations on blobs of all types, and on the history of their names: snapshots, versions,
//! deleted blobs, copies. The store is closed, killed or loses power in between. At the end
//! everything is deleted, and nothing of it may be left.

mod elsewhere;
mod past;
mod reads;
mod writes;

use crate::store::{Store, start};
use crate::{ACCOUNT, Random, Result, agree, setting, with_seeds};
use lazurite_blob::*;
use lazurite_engine::fs::Keep;
use lazurite_engine::{Direction, KeyRange, KeyspaceOptions};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CONTAINERS: [&str; 2] = ["one", "two"];
const NAMES: [&str; 4] = ["a", "a/b", "b", "c"];
const IDS: [&str; 3] = ["x", "y", "z"];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const RETENTION_DAYS: u16 = 2;

/// The expected state of a blob, snapshot or version.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    kind: BlobType,
    bytes: Vec<u8>,
    blocks: Vec<(String, Vec<u8>)>,
    tags: Tags,
    version: Option<SnapshotTime>,
    /// Whether the record has a legal hold.
    held: bool,
    immutability: Option<ImmutabilityPolicy>,
    /// When the record expires; `None` for never.
    expires: Option<SystemTime>,
}

impl Known {
    fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|at| at <= now) && !self.is_protected(now)
    }

    fn is_immutable(&self, now: SystemTime) -> bool {
        self.immutability.is_some_and(|policy| policy.until > now)
    }

    fn is_protected(&self, now: SystemTime) -> bool {
        self.check_unprotected(now).is_err()
    }

    /// The error of a change to a protected record.
    fn check_unprotected(&self, now: SystemTime) -> Result<(), &'static str> {
        if self.held {
            Err(HELD)
        } else if self.is_immutable(now) {
            Err(IMMUTABLE)
        } else {
            Ok(())
        }
    }

    /// Ends hold and policy: a record that takes the place of this one has neither.
    fn end_protection(&mut self) {
        (self.held, self.immutability) = (false, None);
    }
}

const HELD: &str = "BlobImmutableDueToLegalHold";
const IMMUTABLE: &str = "BlobImmutableDueToPolicy";

/// The state of a deleted blob before its deletion and after its undeletion.
#[derive(Debug, Clone)]
enum Was {
    Current,
    Snapshot,
    Version(SnapshotTime),
}

#[derive(Debug, Clone, Default)]
struct Name {
    current: Option<Known>,
    snapshots: BTreeMap<SnapshotTime, Known>,
    versions: BTreeMap<SnapshotTime, Known>,
    deleted: Vec<(SystemTime, Was, Known)>,
    staged: BTreeMap<String, Vec<u8>>,
    staged_at: Option<SystemTime>,
}

impl Name {
    /// Removes an expired blob with its uncommitted blocks and its unprotected snapshots.
    fn end_if_expired(&mut self, now: SystemTime) {
        if self
            .current
            .take_if(|known| known.is_expired(now))
            .is_some()
        {
            self.snapshots.retain(|_, known| known.is_protected(now));
            self.staged.clear();
            self.staged_at = None;
        }
    }
}

type At = (usize, usize);

struct Walk {
    random: Random,
    policy: AccountPolicy,
    store: Store,
    now: SystemTime,
    names: BTreeMap<At, Name>,
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
        };
        for container in CONTAINERS {
            walk.create(container);
        }
        walk
    }

    fn create(&self, container: &str) {
        let (private, none) = (PublicAccess::Private, Metadata::new());
        let made = self
            .at(self.now)
            .create_container(ACCOUNT, container, private, none);
        made.unwrap().1.wait().unwrap();
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.random.below(3000) as u64);
        self.end_expired();
        let at = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        match self.random.below(200) {
            0..20 => self.put_blob(at),
            20..40 => self.put_block(at),
            40..60 => self.put_block_list(at),
            60..66 => self.put_append_blob(at),
            66..86 => self.append(at),
            86..92 => self.put_page_blob(at),
            92..117 => self.put_page(at),
            117..121 => self.resize(at),
            121..139 => self.snapshot(at),
            139..157 => self.copy(at),
            157..170 => self.delete(at),
            170..173 => self.step_elsewhere(at),
            173..179 => self.set_tags(at),
            179..185 => self.undelete(at),
            185..189 => self.set_metadata(at),
            189 => self.delete_container(at.0),
            190..194 => self.pass_days(),
            194 => self.interrupt(),
            195 => self.set_immutability(at),
            196 => self.set_hold(at),
            197 => self.set_expiry(at),
            _ => self.compare_listing(at.0),
        }
        self.compare(at);
    }

    fn step_elsewhere(&mut self, at: At) {
        match self.random.below(8) {
            0 => drop(self.take_container_away(at.0)),
            1 => self.rename_container(at.0),
            _ => self.copy_from_elsewhere(at),
        }
    }

    /// Like [`Walk::step`], but mostly of page blobs, with steps of the sweep in between.
    fn step_of_pages(&mut self) {
        self.now += Duration::from_millis(self.random.below(3000) as u64);
        let at = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        match self.random.below(200) {
            0..8 => self.put_page_blob(at),
            8..90 => self.put_page(at),
            90..95 => self.resize(at),
            95..125 => self.snapshot(at),
            125..150 => self.copy(at),
            150..172 => self.delete(at),
            172..176 => self.undelete(at),
            176..184 => self.set_metadata(at),
            184 => self.delete_container(at.0),
            185..188 => self.pass_days(),
            188..191 => self.interrupt(),
            191..197 => drop(self.at(self.now).sweep(2).unwrap()),
            _ => self.compare_listing(at.0),
        }
        self.compare(at);
    }

    /// Returns the expected result of a write that replaces the current blob. A blob that becomes a
    /// version is kept, so its protection does not matter.
    fn may_replace(&self, at: At) -> Result<(), &'static str> {
        match self.known(at) {
            Some(known) if !self.policy.versioning && known.version.is_none() => {
                known.check_unprotected(self.now)
            }
            _ => Ok(()),
        }
    }

    /// The expected result of a write that changes the current blob.
    fn may_change(&self, at: At) -> Result<(), &'static str> {
        self.known(at)
            .map_or(Ok(()), |known| known.check_unprotected(self.now))
    }

    fn name(&mut self, at: At) -> &mut Name {
        self.names.entry(at).or_default()
    }

    fn known(&self, at: At) -> Option<&Known> {
        self.names.get(&at)?.current.as_ref()
    }

    fn kind(&self, at: At) -> Option<BlobType> {
        self.known(at).map(|known| known.kind)
    }

    /// The expected result of a write that needs a blob of this type.
    fn needs(&self, at: At, kind: BlobType) -> Result<(), &'static str> {
        match self.kind(at) {
            None => Err("BlobNotFound"),
            Some(there) if there != kind => Err("InvalidBlobType"),
            Some(_) => Ok(()),
        }
    }

    /// Replaces the current blob.
    fn replace(&mut self, at: At, known: Option<Known>, deleted: bool) {
        let (policy, now) = (self.policy, self.now);
        let name = self.name(at);
        name.staged.clear();
        name.staged_at = None;
        let Some(old) = std::mem::replace(&mut name.current, known) else {
            return;
        };
        if policy.versioning || old.version.is_some() {
            self.keep_version(at, old);
        } else if policy.delete_retention_days.is_some() {
            let was = if deleted { Was::Current } else { Was::Snapshot };
            let expires = old.expires.filter(|_| deleted);
            let old = Known { expires, ..old };
            name.deleted
                .push((now + DAY * RETENTION_DAYS.into(), was, old));
        }
    }

    /// Makes the current blob a version. The version of a blob that was written before the account
    /// kept versions gets its moment now, which only a listing shows.
    fn keep_version(&mut self, at: At, old: Known) {
        let listed = self.listed(at).1;
        let name = self.name(at);
        let moment = old.version.unwrap_or_else(|| {
            let new = listed
                .iter()
                .find(|moment| !name.versions.contains_key(moment));
            *new.expect("the version is listed")
        });
        let version = Some(moment);
        let kept = Known {
            version,
            expires: None,
            ..old
        };
        let before = name.versions.insert(moment, kept);
        assert!(before.is_none(), "each version has a moment of its own");
    }

    /// Decides at random whether versions and deleted blobs are kept from now on.
    fn change_policy(&mut self) {
        self.policy.versioning = self.random.below(2) == 0;
        self.policy.delete_retention_days = match self.random.below(2) {
            0 => None,
            _ => Some(RETENTION_DAYS),
        };
        self.set_policy(self.policy);
    }

    /// Like [`Walk::step`], but also changes policies, and sets the clock back while the store is
    /// closed.
    fn step_of_policies(&mut self) {
        match self.random.below(40) {
            0..2 => self.change_policy(),
            2 => {
                self.now -= Duration::from_secs(self.random.below(10_000) as u64);
                self.interrupt();
            }
            _ => self.step(),
        }
    }

    fn pass_days(&mut self) {
        self.now += DAY * self.random.below(4) as u32;
        self.sweep();
    }

    /// Sweeps if a blob has expired: the sweep removes its snapshots.
    fn end_expired(&mut self) {
        let now = self.now;
        let mut current = self.names.values().filter_map(|name| name.current.as_ref());
        if current.any(|known| known.is_expired(now)) {
            self.sweep();
        }
    }

    /// The blobs that expired while a policy kept them.
    fn expired_late(&self) -> Vec<At> {
        let is_late = |known: &Known| known.immutability.is_some() && known.is_expired(self.now);
        let late = self
            .names
            .iter()
            .filter(|(_, name)| name.current.as_ref().is_some_and(is_late));
        late.map(|(at, _)| *at).collect()
    }

    fn sweep(&mut self) {
        let late = self.expired_late();
        while self.at(self.now).sweep(3).unwrap().steps > 0 {}
        self.store.wait_for_disk();
        let now = self.now;
        for name in self.names.values_mut() {
            name.deleted.retain(|kept| kept.0 > now);
            name.end_if_expired(now);
            if name.staged_at.is_some_and(|at| at + DAY * 7 <= now) {
                name.staged.clear();
                name.staged_at = None;
            }
        }
        // The sweep put these blobs off for a day; the next write ends them with their snapshots.
        for at in late {
            self.put_blob(at);
        }
    }

    /// Closes the store, kills its process or cuts its power, and opens it again.
    fn interrupt(&mut self) {
        let seed = self.random.next();
        match self.random.below(3) {
            0 => {
                self.store.db.close().unwrap();
                self.store.reopen();
            }
            1 => self.store.crash(seed, Keep::Everything),
            _ => {
                let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors];
                self.store.crash(seed, *self.random.one(&keep));
            }
        }
        self.now += Duration::from_secs(1);
        self.end_expired();
        self.compare_everything();
    }
}

fn known(kind: BlobType, bytes: Vec<u8>, written: Written) -> Known {
    Known {
        kind,
        bytes,
        blocks: Vec::new(),
        tags: Tags::new(),
        version: written.version,
        held: false,
        immutability: None,
        expires: None,
    }
}

fn walks(policy: AccountPolicy) {
    with_seeds(
        4,
        setting("LAZURITE_MODEL_STEPS", 700),
        |seed| Walk::new(seed, policy),
        Walk::step,
        Walk::leave_nothing,
    );
}

#[test]
fn histories_without_retention_agree_with_plain_maps() {
    walks(AccountPolicy::default());
}

#[test]
fn histories_with_deleted_blobs_agree_with_plain_maps() {
    walks(AccountPolicy {
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    });
}

#[test]
fn histories_with_versions_agree_with_plain_maps() {
    walks(AccountPolicy {
        versioning: true,
        ..AccountPolicy::default()
    });
}

#[test]
fn histories_with_versions_and_deleted_blobs_agree_with_plain_maps() {
    walks(AccountPolicy {
        versioning: true,
        delete_retention_days: Some(RETENTION_DAYS),
        ..AccountPolicy::default()
    });
}

#[test]
fn histories_over_changes_of_policies_and_clocks_agree_with_plain_maps() {
    with_seeds(
        6,
        setting("LAZURITE_MODEL_STEPS", 700),
        |seed| Walk::new(seed, AccountPolicy::default()),
        Walk::step_of_policies,
        Walk::leave_nothing,
    );
}

#[test]
fn histories_of_page_blobs_agree_with_arrays() {
    let policies = [None, Some(RETENTION_DAYS)].map(|delete_retention_days| AccountPolicy {
        versioning: delete_retention_days.is_none(),
        delete_retention_days,
        ..AccountPolicy::default()
    });
    for policy in policies {
        with_seeds(
            3,
            setting("LAZURITE_MODEL_STEPS", 500),
            |seed| Walk::new(seed, policy),
            Walk::step_of_pages,
            Walk::leave_nothing,
        );
    }
}
