//! KeyLocks: who may change which keys. They guard nothing inside the engine: transactions hold them from the first read to the commit.
//!
//! Keys are told apart by a hash of 128 bits: a transaction that locks two keys of one hash has one lock, and one that waits for a
//! key of the same hash waits longer than it had to. A key that nobody locks takes no memory.
//!
//! Invariants: a lock has a holder, or it is not in its shard; who waits is served in the order of arrival. Transactions wait for
//! keys in ascending order only, so no circle of them waits for each other.

use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread, ThreadId};
use crate::base::sync::{AtomicBool, Mutex, Ordering};
use crate::{Error, Result};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

const SHARDS: usize = 64;

/// A key, in the order in which keys are locked: first those of the keyspace that was made first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockedKey {
    pub(crate) keyspace: u32,
    pub(crate) hash: u128,
}

/// Who else may hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Others that only rely on the key to stay as it is.
    Shared,
    /// Nobody.
    Exclusive,
}

#[derive(Debug)]
pub(crate) struct KeyLocks {
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<LockedKey, KeyLock, Xxh3DefaultBuilder>;

#[derive(Debug)]
struct KeyLock {
    mode: Mode,
    first: ThreadId,
    /// More holders of a shared lock.
    others: Vec<ThreadId>,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    mode: Mode,
    thread: Thread,
    has_lock: AtomicBool,
}

/// The locks of one transaction. Released when they are dropped.
#[derive(Debug)]
pub(crate) struct HeldLocks<'l> {
    locks: &'l KeyLocks,
    /// The thread that took them, as which they are released: a transaction may be handed to another one.
    thread: ThreadId,
    /// In ascending order.
    keys: Vec<LockedKey>,
}

/// What became of a request for a lock.
enum Request {
    Granted,
    Waiting(Arc<Waiter>),
    Refused,
}

impl Default for KeyLocks {
    fn default() -> Self {
        KeyLocks {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }
}

impl KeyLocks {
    pub(crate) fn begin(&self) -> HeldLocks<'_> {
        HeldLocks {
            locks: self,
            thread: thread::current().id(),
            keys: Vec::new(),
        }
    }

    fn shard(&self, key: LockedKey) -> &Mutex<Shard> {
        &self.shards[(key.hash as usize ^ key.keyspace as usize) % SHARDS]
    }

    /// Asks for a lock; queues for it if `waits`, unless it is free. Errors: `Deadlock`.
    fn request(&self, key: LockedKey, mode: Mode, waits: bool) -> Result<Request> {
        let mut shard = lock(self.shard(key));
        let current = thread::current();
        let held = match shard.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(KeyLock::new(mode, current.id()));
                return Ok(Request::Granted);
            }
            Entry::Occupied(held) => held.into_mut(),
        };
        let is_mine = held.first == current.id() || held.others.contains(&current.id());
        let is_shared = held.mode == Mode::Shared && mode == Mode::Shared;
        if is_mine && !is_shared {
            return Err(Error::Deadlock);
        }
        // Who came before is not overtaken, but by a thread that has the lock: it would wait for itself.
        if is_shared && (is_mine || held.waiting.is_empty()) {
            held.others.push(current.id());
            return Ok(Request::Granted);
        }
        if !waits {
            return Ok(Request::Refused);
        }
        let waiter = Arc::new(Waiter {
            mode,
            thread: current,
            has_lock: AtomicBool::new(false),
        });
        held.waiting.push_back(waiter.clone());
        Ok(Request::Waiting(waiter))
    }

    fn release(&self, key: LockedKey, thread: ThreadId) {
        let mut shard = lock(self.shard(key));
        let Entry::Occupied(mut held) = shard.entry(key) else {
            return;
        };
        if !held.get_mut().release(thread) {
            held.remove();
        }
    }
}

impl KeyLock {
    fn new(mode: Mode, thread: ThreadId) -> KeyLock {
        KeyLock {
            mode,
            first: thread,
            others: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes one holder away, and gives the lock to who waits for it. `false` if nobody has it then.
    fn release(&mut self, thread: ThreadId) -> bool {
        if let Some(at) = self.others.iter().position(|other| *other == thread) {
            self.others.swap_remove(at);
            return true;
        }
        if let Some(other) = self.others.pop() {
            self.first = other;
            return true;
        }
        let Some(next) = self.waiting.pop_front() else {
            return false;
        };
        self.mode = next.mode;
        self.first = next.thread.id();
        next.wake();
        while self.mode == Mode::Shared
            && let Some(next) = self
                .waiting
                .pop_front_if(|waiter| waiter.mode == Mode::Shared)
        {
            self.others.push(next.thread.id());
            next.wake();
        }
        true
    }
}

impl Waiter {
    fn wake(&self) {
        self.has_lock.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) {
        while !self.has_lock.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

impl HeldLocks<'_> {
    /// Locks keys that are not locked by this transaction yet. Waits for them if all come after those that it has; otherwise
    /// takes them only if they are free. Errors: `Conflict` if one is not; `Deadlock` if this thread has one of them in another
    /// transaction. After an error the transaction has the locks that it had.
    pub(crate) fn lock(&mut self, keys: &mut Vec<(LockedKey, Mode)>) -> Result<()> {
        // Of a key that is named in both modes the exclusive one is left.
        keys.sort_unstable_by(|a, b| b.cmp(a));
        keys.dedup_by_key(|(key, _)| *key);
        keys.reverse();
        let had = self.keys.len();
        let last = self.keys.last().copied();
        let held = &self.keys;
        keys.retain(|(key, _)| held.binary_search(key).is_err());
        let waits = keys
            .first()
            .is_none_or(|(first, _)| last.is_none_or(|last| last < *first));
        for &(key, mode) in keys.iter() {
            let granted = match self.locks.request(key, mode, waits) {
                Ok(Request::Granted) => Ok(()),
                Ok(Request::Waiting(waiter)) => {
                    waiter.wait();
                    Ok(())
                }
                Ok(Request::Refused) => Err(Error::Conflict),
                Err(error) => Err(error),
            };
            if let Err(error) = granted {
                self.release_from(had);
                return Err(error);
            }
            self.keys.push(key);
        }
        if !waits {
            self.keys.sort_unstable();
        }
        Ok(())
    }

    fn release_from(&mut self, first: usize) {
        for key in self.keys.drain(first..) {
            self.locks.release(key, self.thread);
        }
    }
}

impl Drop for HeldLocks<'_> {
    fn drop(&mut self) {
        self.release_from(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u128) -> LockedKey {
        LockedKey {
            keyspace: 0,
            hash: number,
        }
    }

    fn lock_one(held: &mut HeldLocks<'_>, number: u128, mode: Mode) -> Result<()> {
        held.lock(&mut vec![(key(number), mode)])
    }

    fn count(locks: &KeyLocks) -> usize {
        locks.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    #[test]
    fn a_lock_that_nobody_has_takes_no_memory() {
        let locks = KeyLocks::default();
        let mut held = locks.begin();
        held.lock(&mut vec![
            (key(2), Mode::Shared),
            (key(1), Mode::Exclusive),
            (key(2), Mode::Exclusive),
            (key(1), Mode::Exclusive),
        ])
        .unwrap();
        assert_eq!(count(&locks), 2);
        // Once more is no wait for oneself.
        lock_one(&mut held, 1, Mode::Exclusive).unwrap();
        drop(held);
        assert_eq!(count(&locks), 0);
    }

    #[test]
    fn a_thread_does_not_wait_for_itself() {
        let locks = KeyLocks::default();
        let (mut first, mut second) = (locks.begin(), locks.begin());
        lock_one(&mut first, 1, Mode::Exclusive).unwrap();
        for mode in [Mode::Shared, Mode::Exclusive] {
            let refused = second.lock(&mut vec![(key(0), mode), (key(1), mode)]);
            assert!(matches!(refused, Err(Error::Deadlock)));
        }
        assert_eq!(count(&locks), 1, "what was taken on the way is given back");
        lock_one(&mut second, 2, Mode::Shared).unwrap();
        lock_one(&mut first, 2, Mode::Shared).unwrap();
    }

    #[test]
    fn locks_out_of_order_are_taken_only_if_they_are_free() {
        let locks = KeyLocks::default();
        let mut first = locks.begin();
        lock_one(&mut first, 1, Mode::Exclusive).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut second = locks.begin();
                lock_one(&mut second, 2, Mode::Exclusive).unwrap();
                let refused = lock_one(&mut second, 1, Mode::Shared);
                assert!(matches!(refused, Err(Error::Conflict)));
                lock_one(&mut second, 0, Mode::Exclusive).unwrap();
                // In the order of the keys now, so that this waits for nobody that it holds up.
                let refused = lock_one(&mut second, 1, Mode::Shared);
                assert!(matches!(refused, Err(Error::Conflict)));
            });
        });
    }
}
