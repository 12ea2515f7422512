//! The writes of a store that are under way, counted so that a reset of a part of it can wait for them.
//!
//! A reset first announces its scope: a write that begins now is refused. Then it waits until the writes under way have ended, which have
//! happened before it. A write that takes longer than that is refused at its end: what it wrote to is gone.

use crate::response::error::{Failure, Result};
use crate::service_kind::ServiceKind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Counters of writes. Names share them by their hash.
const SLOTS: usize = 64;
/// The counter of writes whose requests name no container, queue or table.
const UNNAMED: usize = 0;
/// Longest name of a container, queue or table. A longer name in a request is none.
const NAME_BYTES_MAX: usize = 63;
/// How long a reset waits for writes that are under way.
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
    /// A container, queue or table, of one service; `None`: all. Tables are named in lower case.
    pub name: Option<String>,
}

impl Scope {
    /// Whether a request may write within the scope.
    fn covers(&self, target: &WriteTarget<'_>) -> bool {
        let is_named = |name: &String| name.eq_ignore_ascii_case(target.name);
        self.account == target.account
            && self.service.is_none_or(|service| service == target.service)
            && (target.name.is_empty() || self.name.as_ref().is_none_or(is_named))
    }
}

/// The writes of one store.
#[derive(Debug)]
pub struct Writes {
    slots: [Slot; SLOTS],
    /// The scope of the reset that is under way.
    resetting: RwLock<Option<Scope>>,
    is_resetting: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    under_way: AtomicU32,
    /// Resets that stopped waiting for writes under way.
    resets: AtomicU32,
}

/// A write that is under way, until it is dropped.
#[derive(Debug)]
pub struct Write<'a> {
    slot: &'a Slot,
    /// Resets when it began.
    resets: u32,
}

impl Write<'_> {
    /// Refuses to acknowledge the write if its target was reset meanwhile.
    pub fn check(&self) -> Result<()> {
        if self.slot.resets.load(Ordering::SeqCst) == self.resets {
            Ok(())
        } else {
            Err(being_reset())
        }
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.slot.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The counter of writes to a name. Names of tables ignore case.
fn slot_of(service: ServiceKind, name: &str) -> usize {
    let mut key = [0; NAME_BYTES_MAX + 1];
    key[0] = service as u8;
    for (lower, byte) in key[1..].iter_mut().zip(name.bytes()) {
        *lower = byte.to_ascii_lowercase();
    }
    1 + (xxh3_64(&key) % (SLOTS as u64 - 1)) as usize
}

fn being_reset() -> Failure {
    Failure::busy("A part of the store is being reset. Send the request again.".to_owned())
}

impl Default for Writes {
    fn default() -> Writes {
        Writes {
            slots: std::array::from_fn(|_| Slot::default()),
            resetting: RwLock::default(),
            is_resetting: AtomicBool::new(false),
        }
    }
}

impl Writes {
    /// Counts a write to a target; `None` may be any. Errors: `503` if the target is being reset.
    pub fn begin(&self, target: Option<WriteTarget<'_>>) -> Result<Write<'_>> {
        let named = target.filter(|target| !target.name.is_empty());
        let slot =
            &self.slots[named.map_or(UNNAMED, |target| slot_of(target.service, target.name))];
        // Counted before the look at the scope: a reset announces its scope before it looks at the count.
        slot.under_way.fetch_add(1, Ordering::SeqCst);
        let write = Write {
            slot,
            resets: slot.resets.load(Ordering::SeqCst),
        };
        if self.is_resetting.load(Ordering::SeqCst) {
            let scope = self
                .resetting
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let is_covered = |scope: &Scope| target.is_none_or(|target| scope.covers(&target));
            if scope.as_ref().is_some_and(is_covered) {
                return Err(being_reset());
            }
        }
        Ok(write)
    }

    /// Runs the deletion of a scope while no write to it is acknowledged. One at a time. Blocks until the writes under way have ended, for at
    /// most a second.
    pub fn while_resetting<T>(&self, scope: &Scope, delete: impl FnOnce() -> T) -> T {
        *self
            .resetting
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(scope.clone());
        self.is_resetting.store(true, Ordering::SeqCst);
        let _announced = Announced(self);
        let slots = match (scope.service, &scope.name) {
            (Some(service), Some(name)) => {
                vec![&self.slots[UNNAMED], &self.slots[slot_of(service, name)]]
            }
            _ => self.slots.iter().collect(),
        };
        let began = Instant::now();
        let is_busy = |slot: &&Slot| slot.under_way.load(Ordering::SeqCst) > 0;
        while slots.iter().any(is_busy) && began.elapsed() < WAIT_MAX {
            std::thread::sleep(WAIT_STEP);
        }
        for slot in slots.iter().filter(|slot| is_busy(slot)) {
            slot.resets.fetch_add(1, Ordering::SeqCst);
        }
        delete()
    }
}

/// Takes back the scope, also after a panic.
struct Announced<'a>(&'a Writes);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.is_resetting.store(false, Ordering::SeqCst);
        *self
            .0
            .resetting
            .write()
            .unwrap_or_else(PoisonError::into_inner) = None;
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
}
