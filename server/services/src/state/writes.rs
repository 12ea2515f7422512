//! Counts the writes of a store that are under way, so that a reset of a part of the store can wait
//! for them.
//!
//! A reset first announces its scope. From then on, a write that begins in the scope is refused.
//! Next the reset waits until the writes under way have ended, for at most a second. A write that
//! lasts longer is refused at its end: the data that it wrote is gone.

use lazurite_base::locks::{self, lock};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Number of counters of writes. Targets share them by hash.
const SLOTS: usize = 64;
/// The index of the counter for writes that name no container, queue or table.
const UNNAMED: usize = 0;
/// Maximum length of a valid name of a container, queue or table. Of a longer name, only this many
/// bytes are hashed.
const NAME_BYTES_MAX: usize = 63;
/// Maximum time for which a reset waits for writes under way.
const WAIT_MAX: Duration = Duration::from_secs(1);
const WAIT_STEP: Duration = Duration::from_millis(1);

/// The resource that a request writes to.
#[derive(Debug, Clone, Copy)]
pub struct WriteTarget<'a> {
    pub account: &'a str,
    pub service: ServiceKind,
    /// The container, queue or table; empty if the request names none.
    pub name: &'a str,
}

/// The part of a store that a reset covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub account: String,
    /// `None`: all services.
    pub service: Option<ServiceKind>,
    /// The container, queue or table, in any case of letters; `None`: all. Needs a service.
    pub name: Option<String>,
}

/// The writes under way in one store, and the resets that refuse them.
#[derive(Debug)]
pub struct Writes {
    /// Number of writes under way, by the hash of their target.
    slots: [AtomicU32; SLOTS],
    /// The scopes of resets that stopped waiting for writes under way, oldest first.
    overtaking: Mutex<Vec<Hashes>>,
    /// The length of `overtaking`, which each write reads without the lock.
    overtaken: AtomicU32,
    /// The scope of the reset under way; `None` if there is none.
    resetting: RwLock<Option<Hashes>>,
    is_resetting: AtomicBool,
}

/// A target or a scope, as hashes of its account, its service and its name; 0 means no service or
/// no name. Equal hashes of different names only cause an unneeded `503`.
#[derive(Debug, Clone, Copy)]
struct Hashes {
    account: u32,
    service: u32,
    name: u32,
}

impl Hashes {
    fn new(account: &str, service: Option<ServiceKind>, name: &str) -> Hashes {
        let of_account = xxh3_64(account.as_bytes());
        let of_service = service.map_or(0, |service| service as u64 + 1);
        // Hashed in lower case, because names of tables ignore case.
        let mut lower = [0; NAME_BYTES_MAX];
        for (lower, byte) in lower.iter_mut().zip(name.bytes()) {
            *lower = byte.to_ascii_lowercase();
        }
        let seed = of_account ^ of_service;
        let of_name = xxh3_64_with_seed(&lower, seed);
        Hashes {
            account: of_account as u32,
            service: of_service as u32,
            name: if name.is_empty() {
                0
            } else {
                of_name as u32 | 1
            },
        }
    }

    /// Whether a write to `target` may be within this scope. An absent service or name, on either
    /// side, matches every other.
    fn may_cover(self, target: Hashes) -> bool {
        let is_same = |own: u32, other: u32| own == 0 || other == 0 || own == other;
        self.account == target.account
            && is_same(self.service, target.service)
            && is_same(self.name, target.name)
    }

    fn slot(self) -> usize {
        if self.name == 0 {
            UNNAMED
        } else {
            1 + (self.name >> 1) as usize % (SLOTS - 1)
        }
    }
}

/// Drop guard: counts a write that is under way.
#[derive(Debug)]
pub struct Write<'a> {
    writes: &'a Writes,
    slot: u32,
    /// The length of `overtaking` when the write began.
    overtaken: u32,
    /// The target; `None` if the write may be to any target.
    target: Option<Hashes>,
}

impl Write<'_> {
    /// Fails, so that the write is not acknowledged, if its target was reset in the meantime.
    pub fn check(&self) -> Result<()> {
        if self.writes.overtaken.load(Ordering::SeqCst) == self.overtaken {
            return Ok(());
        }
        let overtaking = lock(&self.writes.overtaking);
        let later = overtaking.get(self.overtaken as usize..);
        let covers = |scope: &Hashes| self.target.is_none_or(|target| scope.may_cover(target));
        if later.unwrap_or_default().iter().any(covers) {
            Err(being_reset())
        } else {
            Ok(())
        }
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let slot = &self.writes.slots[self.slot as usize];
        slot.fetch_sub(1, Ordering::SeqCst);
    }
}

fn being_reset() -> Failure {
    Failure::busy("A part of the store is being reset. Send the request again.".to_owned())
}

impl Default for Writes {
    fn default() -> Writes {
        Writes {
            slots: [const { AtomicU32::new(0) }; SLOTS],
            overtaking: Mutex::default(),
            overtaken: AtomicU32::new(0),
            resetting: RwLock::default(),
            is_resetting: AtomicBool::new(false),
        }
    }
}

impl Writes {
    /// Counts a write to `target` (`None`: any). Error: `503` if the target is being reset.
    pub fn begin(&self, target: Option<WriteTarget<'_>>) -> Result<Write<'_>> {
        let hashes =
            target.map(|target| Hashes::new(target.account, Some(target.service), target.name));
        let slot = hashes.map_or(UNNAMED, Hashes::slot);
        // Order matters: increment first, then read the scope. A reset does the reverse, so one of
        // the two always sees the other.
        self.slots[slot].fetch_add(1, Ordering::SeqCst);
        let write = Write {
            writes: self,
            slot: slot as u32,
            overtaken: self.overtaken.load(Ordering::SeqCst),
            target: hashes,
        };
        if self.is_resetting.load(Ordering::SeqCst) {
            let scope = locks::read(&self.resetting);
            let covers = |scope: Hashes| hashes.is_none_or(|target| scope.may_cover(target));
            if scope.is_some_and(covers) {
                return Err(being_reset());
            }
        }
        Ok(write)
    }

    /// Runs the deletion of a scope while no write to the scope is acknowledged. Call it for one
    /// scope at a time. Blocks until the writes under way have ended, for at most a second.
    pub fn while_resetting<T>(&self, scope: &Scope, delete: impl FnOnce() -> T) -> T {
        let name = scope.name.as_deref().unwrap_or_default();
        let hashes = Hashes::new(&scope.account, scope.service, name);
        *locks::write(&self.resetting) = Some(hashes);
        self.is_resetting.store(true, Ordering::SeqCst);
        let _announced = Announced(self);
        let slots = match &scope.name {
            Some(_) => vec![&self.slots[UNNAMED], &self.slots[hashes.slot()]],
            None => self.slots.iter().collect(),
        };
        let is_busy = || slots.iter().any(|slot| slot.load(Ordering::SeqCst) > 0);
        let began = Instant::now();
        while is_busy() && began.elapsed() < WAIT_MAX {
            std::thread::sleep(WAIT_STEP);
        }
        if is_busy() {
            let mut overtaking = lock(&self.overtaking);
            overtaking.push(hashes);
            self.overtaken.fetch_add(1, Ordering::SeqCst);
        }
        delete()
    }
}

/// Drop guard: ends the announcement of a reset's scope, also after a panic.
struct Announced<'a>(&'a Writes);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.is_resetting.store(false, Ordering::SeqCst);
        *locks::write(&self.0.resetting) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Option<WriteTarget<'_>> {
        Some(WriteTarget {
            account: "a",
            service: ServiceKind::Table,
            name,
        })
    }

    fn scope(name: Option<&str>) -> Scope {
        Scope {
            account: "a".to_owned(),
            service: Some(ServiceKind::Table),
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn writes_within_a_scope_and_those_that_name_nothing_are_refused_while_it_is_reset() {
        let writes = Writes::default();
        let is_refused = |target| writes.begin(target).is_err();
        writes.while_resetting(&scope(Some("things")), || {
            assert!(is_refused(target("Things")) && is_refused(target("")) && is_refused(None));
            assert!(!is_refused(target("others")));
            let other = target("things").map(|target| WriteTarget {
                account: "b",
                ..target
            });
            assert!(!is_refused(other));
            let other = target("things").map(|target| WriteTarget {
                service: ServiceKind::Blob,
                ..target
            });
            assert!(!is_refused(other));
        });
        writes.while_resetting(&scope(None), || assert!(is_refused(target("others"))));
        assert!(!is_refused(target("things")));
        writes.begin(target("things")).unwrap().check().unwrap();
    }

    #[test]
    fn reset_waits_for_writes_under_way_and_refuses_those_that_take_longer() {
        let writes = Writes::default();
        let short = writes.begin(target("things")).unwrap();
        std::thread::scope(|threads| {
            let resetting = threads.spawn(|| writes.while_resetting(&scope(None), || ()));
            while writes.begin(target("things")).is_ok() {
                std::thread::yield_now();
            }
            assert!(!resetting.is_finished());
            short.check().unwrap();
            drop(short);
            resetting.join().unwrap();
        });
        let long = writes.begin(target("things")).unwrap();
        writes.while_resetting(&scope(Some("things")), || ());
        let refused = long.check().unwrap_err();
        assert_eq!(refused.status, 503);
    }

    #[test]
    fn writes_that_have_ended_hold_up_no_reset() {
        let writes = Writes::default();
        let count = |slot: usize| writes.slots[slot].load(Ordering::SeqCst);
        let under_way = [None, target(""), target("things")].map(|target| writes.begin(target));
        // A reset of any name waits for writes that name nothing.
        assert_eq!(count(UNNAMED), 2);
        assert_eq!((0..SLOTS).map(count).sum::<u32>(), 3);
        drop(under_way);
        assert!((0..SLOTS).all(|slot| count(slot) == 0));
    }

    #[test]
    fn names_share_all_counters_but_that_of_writes_without_a_name() {
        let of_name = |name| Hashes {
            account: 1,
            service: 1,
            name,
        };
        // Hashes of names are odd.
        let mut slots: Vec<_> = (1..=u32::MAX)
            .step_by(2)
            .take(SLOTS - 1)
            .chain([u32::MAX])
            .map(|name| of_name(name).slot())
            .collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.into_iter().eq(1..SLOTS));
        assert_eq!(of_name(0).slot(), UNNAMED);
    }

    #[test]
    fn reset_that_does_not_wait_longer_refuses_no_write_to_anything_else() {
        let writes = Writes::default();
        let of = |account, service, name| {
            let target = WriteTarget {
                account,
                service,
                name,
            };
            writes.begin(Some(target)).unwrap()
        };
        let others = [
            of("b", ServiceKind::Table, "things"),
            of("a", ServiceKind::Blob, "things"),
            of("a", ServiceKind::Table, "others"),
        ];
        let unnamed = of("a", ServiceKind::Table, "");
        let any = writes.begin(None).unwrap();
        let own = of("a", ServiceKind::Table, "Things");
        writes.while_resetting(&scope(Some("things")), || ());
        others.iter().for_each(|write| write.check().unwrap());
        for write in [unnamed, any, own] {
            assert_eq!(write.check().unwrap_err().status, 503);
        }
        writes.while_resetting(&scope(None), || ());
        others[..2].iter().for_each(|write| write.check().unwrap());
        assert!(others[2].check().is_err());
        assert!(target("things").is_some_and(|target| {
            let later = writes.begin(Some(target)).unwrap();
            later.check().is_ok()
        }));
    }
}
