//! KeyLocks: which transaction may change which keys. They guard nothing inside the engine:
//! transactions hold them from the first read to the commit.
//!
//! A lock belongs to the 128-bit hash of a key. A transaction that locks two keys with the same
//! hash holds one lock, and a transaction may wait for another key with the same hash. A key that
//! is not locked takes no memory.
//!
//! A released lock wakes the first waiter, but a running thread may take the lock before it. To
//! hand over each lock would cost a thread switch for each holder: five times the time of a short
//! transaction. A waiter that was passed [`PASSED_MAX`] times is handed the lock.
//!
//! Invariants: a lock in a shard has a holder or a waiter; waiters get it in the order of arrival.
//! Threads never wait for each other in a circle: a thread waits only for keys that come after all
//! that it holds, and only if it holds none in another transaction.

use crate::base::mutex::lock;
use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, thread_local};
use crate::{Error, Result};
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

const SHARDS: usize = 64;

/// Number of times that others may pass the first waiter.
const PASSED_MAX: u64 = 64;

/// Number of keys of a transaction that are stored inline, without allocating memory: most writes
/// lock a container and a blob, or a table and an entity.
const INLINE_KEYS: usize = 2;

type Keys = SmallVec<[(LockedKey, Mode); INLINE_KEYS]>;

thread_local! {
    /// Number of transactions of this thread that hold a lock, in any store.
    static HOLDING: Cell<usize> = const { Cell::new(0) };
}

/// A key, in the order in which keys are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockedKey {
    /// Identifies the keyspace: see `Tree::lock_rank`.
    pub(crate) rank: u32,
    pub(crate) hash: u128,
}

/// Which other transactions may hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Transactions that also only need the key to stay as it is.
    Shared,
    /// No other transaction.
    Exclusive,
}

#[derive(Debug)]
pub(crate) struct KeyLocks {
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<LockedKey, KeyLock, BuildHasherDefault<IsHashed>>;

/// A hasher for keys that are hashes already: it takes the half that does not choose the shard.
#[derive(Debug, Default)]
struct IsHashed(u64);

impl Hash for LockedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.hash >> 64) as u64 ^ u64::from(self.rank));
    }
}

impl Hasher for IsHashed {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a key is hashed as one number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug)]
struct KeyLock {
    mode: Mode,
    /// Number of holders. More than one only if the lock is shared; zero if the first waiter was
    /// woken and has not taken the lock yet.
    holders: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    mode: Mode,
    thread: Thread,
    has_lock: AtomicBool,
    /// Number of times that the waiter was woken. Changed under the lock of the shard.
    passed: AtomicU64,
}

/// The locks of one transaction. Released when they are dropped. They stay with the thread that
/// took them, as a mutex guard does: [`HOLDING`] counts them there.
#[derive(Debug)]
pub(crate) struct HeldLocks<'l> {
    locks: &'l KeyLocks,
    /// The locked keys, in ascending order.
    keys: Keys,
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
            keys: Keys::new(),
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
        if held.holders == 0 {
            (held.mode, held.holders) = (mode, 1);
            // A shared request has passed the waiters. The shared waiters in front get the lock
            // with it: otherwise they, and all waiters after them, would wait for it.
            held.admit_readers();
            return Request::Granted;
        }
        let is_shared = held.mode == Mode::Shared && mode == Mode::Shared;
        // Shared requests do not overtake waiters: a stream of them would keep an exclusive waiter
        // waiting for ever.
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
            passed: AtomicU64::new(0),
        });
        held.waiting.push_back(waiter.clone());
        Request::Waiting(waiter)
    }

    fn wait(&self, key: LockedKey, waiter: &Arc<Waiter>) {
        loop {
            thread::park();
            if waiter.has_lock.load(Ordering::Acquire) || self.try_take(key, waiter) {
                return;
            }
        }
    }

    /// Takes the lock for a waiter that was woken. Returns whether the waiter has it.
    fn try_take(&self, key: LockedKey, waiter: &Arc<Waiter>) -> bool {
        let mut shard = lock(self.shard(key));
        if waiter.has_lock.load(Ordering::Acquire) {
            return true;
        }
        let held = shard.get_mut(&key).expect("its waiters keep it there");
        let is_first = held
            .waiting
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, waiter));
        if held.holders > 0 || !is_first {
            return false;
        }
        held.hand_over();
        true
    }

    /// Makes a shared lock exclusive if it has one holder. Returns whether it did.
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
        if !held.get_mut().release() {
            held.remove();
        }
    }
}

impl KeyLock {
    /// Takes one holder away. Returns whether the lock is still in use.
    fn release(&mut self) -> bool {
        self.holders -= 1;
        if self.holders > 0 {
            return true;
        }
        let Some(next) = self.waiting.front() else {
            return false;
        };
        if next.passed.fetch_add(1, Ordering::Relaxed) < PASSED_MAX {
            next.thread.unpark();
        } else {
            self.hand_over();
        }
        true
    }

    /// Gives the lock to the first waiter. If it wants the lock shared, the shared waiters directly
    /// behind it in the queue get it too.
    fn hand_over(&mut self) {
        let next = self.waiting.pop_front().expect("there is a waiter");
        self.mode = next.mode;
        self.grant(&next);
        self.admit_readers();
    }

    /// Gives a shared lock to the waiters in front that want it shared.
    fn admit_readers(&mut self) {
        while self.mode == Mode::Shared
            && let Some(next) = self
                .waiting
                .pop_front_if(|waiter| waiter.mode == Mode::Shared)
        {
            self.grant(&next);
        }
    }

    fn grant(&mut self, waiter: &Waiter) {
        self.holders += 1;
        waiter.has_lock.store(true, Ordering::Release);
        waiter.thread.unpark();
    }
}

impl HeldLocks<'_> {
    /// Locks keys. Waits for keys that are not free if all new keys come after those that the
    /// transaction holds, and the thread holds no key in another transaction. A key that the
    /// transaction holds shared and now requests exclusively becomes exclusive if it has no other
    /// holder.
    ///
    /// Errors: `Conflict` for a key that is not free and may not be waited for; `Deadlock` instead
    /// if the thread holds keys in another transaction. After an error the transaction holds the
    /// keys that it held before; some that were shared may have become exclusive.
    pub(crate) fn lock(
        &mut self,
        keys: impl IntoIterator<Item = Result<(LockedKey, Mode)>>,
    ) -> Result<()> {
        let mut keys = keys.into_iter();
        let Some(first) = keys.next().transpose()? else {
            return Ok(());
        };
        // A single key, the usual case, is not moved into a list and out again.
        let Some(second) = keys.next().transpose()? else {
            return self.lock_all(&mut [first]);
        };
        let mut wanted = Keys::from_slice(&[first, second]);
        for key in keys {
            wanted.push(key?);
        }
        self.lock_all(&mut wanted)
    }

    fn lock_all(&mut self, wanted: &mut [(LockedKey, Mode)]) -> Result<()> {
        // If a key is named in both modes, the exclusive one comes first.
        wanted.sort_unstable_by_key(|(key, mode)| (*key, Reverse(*mode)));
        let had = self.keys.len();
        let mut new = wanted
            .iter()
            .filter(|(key, _)| self.find(had, *key).is_none());
        let is_behind = |(first, _): &(LockedKey, Mode)| {
            let last = self.keys.last();
            last.is_none_or(|(last, _)| last < first)
        };
        let others = HOLDING.with(Cell::get) - usize::from(had > 0);
        let waits = others == 0 && new.next().is_none_or(is_behind);
        let locked = self.take(had, wanted, waits) && self.upgrade(had, wanted);
        if !locked {
            self.release_from(had);
            return Err(if others > 0 {
                Error::Deadlock
            } else {
                Error::Conflict
            });
        }
        // The new keys are in order; only keys that were held before may belong after them.
        if !waits && had > 0 {
            self.keys.sort_unstable();
        }
        Ok(())
    }

    /// The place of a key among the first `had` locks.
    fn find(&self, had: usize, key: LockedKey) -> Option<usize> {
        let held = self.keys[..had].binary_search_by_key(&key, |(held, _)| *held);
        held.ok()
    }

    /// Takes the keys that are not among the first `had` locks, up to the first that is refused.
    /// Returns whether it took all.
    fn take(&mut self, had: usize, wanted: &[(LockedKey, Mode)], waits: bool) -> bool {
        let mut previous = None;
        for &(key, mode) in wanted {
            if previous.replace(key) == Some(key) || self.find(had, key).is_some() {
                continue;
            }
            match self.locks.request(key, mode, waits) {
                Request::Granted => {}
                Request::Waiting(waiter) => self.locks.wait(key, &waiter),
                Request::Refused => return false,
            }
            if self.keys.is_empty() {
                HOLDING.with(|holding| holding.set(holding.get() + 1));
            }
            self.keys.push((key, mode));
        }
        true
    }

    /// Among the first `had` locks, makes the shared ones exclusive that are wanted exclusively.
    /// Returns `false` if one of them has another holder.
    fn upgrade(&mut self, had: usize, wanted: &[(LockedKey, Mode)]) -> bool {
        wanted.iter().all(|&(key, mode)| {
            let Some(at) = self.find(had, key) else {
                return true;
            };
            if self.keys[at].1 >= mode {
                return true;
            }
            let is_upgraded = self.locks.upgrade(key);
            if is_upgraded {
                self.keys[at].1 = mode;
            }
            is_upgraded
        })
    }

    /// Unlocks the keys of the keyspaces from this rank on.
    pub(crate) fn unlock_from(&mut self, rank: u32) {
        let first = self.keys.partition_point(|(key, _)| key.rank < rank);
        self.release_from(first);
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
    fn reader_that_was_passed_by_a_reader_reads_beside_it() {
        let locks = KeyLocks::default();
        let mut writer = locks.begin();
        lock_one(&mut writer, 1, Mode::Exclusive).unwrap();
        let Request::Waiting(waiter) = locks.request(key(1), Mode::Shared, true) else {
            panic!("the writer has the lock");
        };
        drop(writer);
        // This reader comes before the waiter that was woken takes the lock.
        assert!(matches!(
            locks.request(key(1), Mode::Shared, false),
            Request::Granted
        ));
        assert!(waiter.has_lock.load(Ordering::Acquire));
        // No waiter is left for a third reader to queue behind.
        assert!(matches!(
            locks.request(key(1), Mode::Shared, false),
            Request::Granted
        ));
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

    /// Two threads that each hold a key in one transaction and want the key of the other in a
    /// second transaction.
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

    #[test]
    fn waiter_is_passed_a_limited_number_of_times() {
        let locks = Arc::new(KeyLocks::default());
        let mut held = locks.begin();
        lock_one(&mut held, 1, Mode::Exclusive).unwrap();
        let waiting = {
            let locks = locks.clone();
            std::thread::spawn(move || lock_one(&mut locks.begin(), 1, Mode::Exclusive).unwrap())
        };
        let is_queued = || {
            let shard = lock(locks.shard(key(1)));
            !shard[&key(1)].waiting.is_empty()
        };
        while !is_queued() {
            std::thread::yield_now();
        }
        // This thread takes the lock again at once. Either it does so each time before the waiter
        // runs, or the waiter has the lock by now.
        for _ in 0..=PASSED_MAX {
            drop(held);
            held = locks.begin();
            lock_one(&mut held, 1, Mode::Exclusive).unwrap();
        }
        waiting.join().unwrap();
    }
}
