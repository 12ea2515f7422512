//! KeyLocks: which transaction may change which keys. They guard nothing inside the engine: transactions hold them from the first
//! read to the commit.
//!
//! A lock is that of the 128-bit hash of a key. A transaction that locks two keys of one hash holds one lock, and one that waits for
//! a key of the same hash waits longer than it has to. A key that is not locked takes no memory.
//!
//! Invariants: a lock in a shard has a holder; waiters get the lock in the order of arrival. No circle of threads waits for each
//! other: a thread waits only for keys that come after all that it holds, and only if it holds none in another transaction.

use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{AtomicBool, Mutex, MutexGuard, Ordering, thread_local};
use crate::{Error, Result};
use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

const SHARDS: usize = 64;

thread_local! {
    /// How many transactions of this thread hold a lock, in any store.
    static HOLDING: Cell<usize> = const { Cell::new(0) };
}

/// A key, in the order in which keys are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockedKey {
    /// Identifies the keyspace: see `Tree::lock_rank`.
    pub(crate) rank: u32,
    pub(crate) hash: u128,
}

/// Which other transactions may hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Those that rely on the key to stay as it is.
    Shared,
    /// None.
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
    /// More than one only if the lock is shared.
    holders: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    mode: Mode,
    thread: Thread,
    has_lock: AtomicBool,
}

/// The locks of one transaction. Released when they are dropped. They stay with the thread that took them, as a mutex guard does:
/// [`HOLDING`] counts them there.
#[derive(Debug)]
pub(crate) struct HeldLocks<'l> {
    locks: &'l KeyLocks,
    /// In ascending order.
    keys: Vec<(LockedKey, Mode)>,
    /// The keys of one call. Kept for the memory.
    wanted: Vec<(LockedKey, Mode)>,
    stays_with_thread: PhantomData<MutexGuard<'l, ()>>,
}

/// The outcome of a request for a lock.
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
            keys: Vec::new(),
            wanted: Vec::new(),
            stays_with_thread: PhantomData,
        }
    }

    fn shard(&self, key: LockedKey) -> &Mutex<Shard> {
        &self.shards[(key.hash as usize ^ key.rank as usize) % SHARDS]
    }

    /// Takes a lock if it is free, or queues for it if `waits`.
    fn request(&self, key: LockedKey, mode: Mode, waits: bool) -> Request {
        let mut shard = lock(self.shard(key));
        let held = match shard.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(KeyLock {
                    mode,
                    holders: 1,
                    waiting: VecDeque::new(),
                });
                return Request::Granted;
            }
            Entry::Occupied(held) => held.into_mut(),
        };
        let is_shared = held.mode == Mode::Shared && mode == Mode::Shared;
        // Readers do not overtake a writer that waits: a stream of them would keep it waiting for ever.
        if is_shared && held.waiting.is_empty() {
            held.holders += 1;
            return Request::Granted;
        }
        if !waits {
            return Request::Refused;
        }
        let waiter = Arc::new(Waiter {
            mode,
            thread: thread::current(),
            has_lock: AtomicBool::new(false),
        });
        held.waiting.push_back(waiter.clone());
        Request::Waiting(waiter)
    }

    /// Makes a shared lock exclusive if it has one holder. Answers whether it did.
    fn upgrade(&self, key: LockedKey) -> bool {
        let mut shard = lock(self.shard(key));
        match shard.get_mut(&key) {
            Some(held) if held.holders == 1 => {
                held.mode = Mode::Exclusive;
                true
            }
            _ => false,
        }
    }

    fn release(&self, key: LockedKey) {
        let mut shard = lock(self.shard(key));
        let Entry::Occupied(mut held) = shard.entry(key) else {
            return;
        };
        if held.get_mut().release() == 0 {
            held.remove();
        }
    }
}

impl KeyLock {
    /// Takes one holder away; after the last one, gives the lock to the next waiters. Answers how many holders it has then.
    fn release(&mut self) -> usize {
        self.holders -= 1;
        if self.holders > 0 {
            return self.holders;
        }
        let Some(next) = self.waiting.pop_front() else {
            return 0;
        };
        self.mode = next.mode;
        self.grant(&next);
        while self.mode == Mode::Shared
            && let Some(next) = self
                .waiting
                .pop_front_if(|waiter| waiter.mode == Mode::Shared)
        {
            self.grant(&next);
        }
        self.holders
    }

    fn grant(&mut self, waiter: &Waiter) {
        self.holders += 1;
        waiter.has_lock.store(true, Ordering::Release);
        waiter.thread.unpark();
    }
}

impl Waiter {
    fn wait(&self) {
        while !self.has_lock.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

impl HeldLocks<'_> {
    /// Locks keys. Waits for them if all come after those that the transaction holds, and the thread holds none in another
    /// transaction; otherwise takes them only if they are free. A key that it holds shared becomes exclusive if it has no other
    /// holder. Errors: `Conflict` for a key that is not free; `Deadlock` if the thread holds keys in another transaction. After an
    /// error the transaction holds the keys that it held; some that were shared may have become exclusive.
    pub(crate) fn lock(
        &mut self,
        keys: impl IntoIterator<Item = Result<(LockedKey, Mode)>>,
    ) -> Result<()> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        let collected = keys
            .into_iter()
            .try_for_each(|key| key.map(|key| wanted.push(key)));
        let locked = collected.and_then(|()| self.lock_all(&mut wanted));
        self.wanted = wanted;
        locked
    }

    fn lock_all(&mut self, wanted: &mut Vec<(LockedKey, Mode)>) -> Result<()> {
        let shared = self.leave_new(wanted);
        let had = self.keys.len();
        let is_behind = |(first, _): &(LockedKey, Mode)| {
            let last = self.keys.last();
            last.is_none_or(|(last, _)| last < first)
        };
        let others = HOLDING.with(Cell::get) - usize::from(had > 0);
        let waits = others == 0 && wanted.first().is_none_or(is_behind);
        let locked = self.take(wanted, waits) && self.upgrade_all(&shared);
        if !locked {
            self.release_from(had);
            return Err(if others > 0 {
                Error::Deadlock
            } else {
                Error::Conflict
            });
        }
        if !waits {
            self.keys.sort_unstable();
        }
        Ok(())
    }

    /// Orders `wanted` and leaves in it what is not held yet. Answers which held keys are shared and wanted exclusive.
    fn leave_new(&self, wanted: &mut Vec<(LockedKey, Mode)>) -> Vec<usize> {
        // Of a key that is named in both modes the exclusive one is left.
        wanted.sort_unstable_by(|a, b| b.cmp(a));
        wanted.dedup_by_key(|(key, _)| *key);
        wanted.reverse();
        let mut shared = Vec::new();
        wanted.retain(|(key, mode)| {
            let Ok(at) = self.keys.binary_search_by_key(key, |(held, _)| *held) else {
                return true;
            };
            if self.keys[at].1 < *mode {
                shared.push(at);
            }
            false
        });
        shared
    }

    /// Answers whether it took all. It takes those before the first that is refused.
    fn take(&mut self, wanted: &[(LockedKey, Mode)], waits: bool) -> bool {
        for &(key, mode) in wanted {
            match self.locks.request(key, mode, waits) {
                Request::Granted => {}
                Request::Waiting(waiter) => waiter.wait(),
                Request::Refused => return false,
            }
            if self.keys.is_empty() {
                HOLDING.with(|holding| holding.set(holding.get() + 1));
            }
            self.keys.push((key, mode));
        }
        true
    }

    fn upgrade_all(&mut self, shared: &[usize]) -> bool {
        shared.iter().all(|at| {
            let (key, mode) = &mut self.keys[*at];
            let is_upgraded = self.locks.upgrade(*key);
            if is_upgraded {
                *mode = Mode::Exclusive;
            }
            is_upgraded
        })
    }

    fn release_from(&mut self, first: usize) {
        if first == 0 && !self.keys.is_empty() {
            HOLDING.with(|holding| holding.set(holding.get() - 1));
        }
        for (key, _) in self.keys.drain(first..) {
            self.locks.release(key);
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
            rank: 0,
            hash: number,
        }
    }

    fn lock_all(held: &mut HeldLocks<'_>, keys: &[(u128, Mode)]) -> Result<()> {
        let keys = keys.iter().map(|(number, mode)| Ok((key(*number), *mode)));
        held.lock(keys)
    }

    fn lock_one(held: &mut HeldLocks<'_>, number: u128, mode: Mode) -> Result<()> {
        lock_all(held, &[(number, mode)])
    }

    fn count(locks: &KeyLocks) -> usize {
        locks.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    #[test]
    fn free_lock_takes_no_memory() {
        let locks = KeyLocks::default();
        let mut held = locks.begin();
        let keys = [
            (2, Mode::Shared),
            (1, Mode::Exclusive),
            (2, Mode::Exclusive),
            (1, Mode::Exclusive),
        ];
        lock_all(&mut held, &keys).unwrap();
        assert_eq!(count(&locks), 2);
        lock_one(&mut held, 1, Mode::Exclusive).unwrap();
        drop(held);
        assert_eq!(count(&locks), 0);
    }

    #[test]
    fn thread_does_not_wait_for_a_key_of_its_other_transaction() {
        let locks = KeyLocks::default();
        let (mut first, mut second) = (locks.begin(), locks.begin());
        lock_one(&mut first, 1, Mode::Exclusive).unwrap();
        for mode in [Mode::Shared, Mode::Exclusive] {
            let refused = lock_all(&mut second, &[(0, mode), (1, mode)]);
            assert!(matches!(refused, Err(Error::Deadlock)));
        }
        assert_eq!(count(&locks), 1, "locks taken before the error are kept");
        lock_one(&mut second, 2, Mode::Shared).unwrap();
        lock_one(&mut first, 2, Mode::Shared).unwrap();
    }

    /// Two threads that each hold a key in one transaction and want the key of the other in a second transaction.
    #[test]
    fn thread_with_two_transactions_waits_in_neither() {
        let locks = KeyLocks::default();
        let mut first = locks.begin();
        lock_one(&mut first, 5, Mode::Exclusive).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (mut other, mut second) = (locks.begin(), locks.begin());
                lock_one(&mut other, 3, Mode::Exclusive).unwrap();
                let refused = lock_one(&mut second, 5, Mode::Exclusive);
                assert!(matches!(refused, Err(Error::Deadlock)));
                drop(other);
                lock_one(&mut second, 4, Mode::Exclusive).unwrap();
            });
            other.join().unwrap();
        });
        assert_eq!(HOLDING.get(), 1);
        drop(first);
        assert_eq!(HOLDING.get(), 0);
    }

    #[test]
    fn shared_lock_becomes_exclusive_only_without_other_holders() {
        let locks = KeyLocks::default();
        let mut held = locks.begin();
        lock_one(&mut held, 1, Mode::Shared).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut other = locks.begin();
                lock_one(&mut other, 1, Mode::Shared).unwrap();
                let refused = lock_all(&mut other, &[(1, Mode::Exclusive), (2, Mode::Shared)]);
                assert!(matches!(refused, Err(Error::Conflict)));
                lock_one(&mut other, 1, Mode::Shared).unwrap();
            });
            other.join().unwrap();
        });
        assert_eq!(count(&locks), 1);
        lock_one(&mut held, 1, Mode::Exclusive).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut other = locks.begin();
                lock_one(&mut other, 2, Mode::Shared).unwrap();
                let refused = lock_one(&mut other, 1, Mode::Shared);
                assert!(matches!(refused, Err(Error::Conflict)));
            });
            other.join().unwrap();
        });
    }

    #[test]
    fn locks_out_of_order_are_taken_only_if_free() {
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
                // The keys are in order again, so this does not wait either.
                let refused = lock_one(&mut second, 1, Mode::Shared);
                assert!(matches!(refused, Err(Error::Conflict)));
            });
        });
    }
}
