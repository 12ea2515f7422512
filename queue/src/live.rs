//! What is kept in memory of a queue in use, and which locks its operations hold.
//!
//! - The **slot** of a name says whether the queue exists. What it says is published: readers take it without a lock that a writer
//!   holds. Its lock is held shared by operations that write messages, from there to `Db::write_admitted`, and exclusively by
//!   those that make, change, clear or delete the queue.
//! - The **consumer** lock is held by all that choose among messages or change one: Get, Update, Delete, sweep. Peek takes it if
//!   nobody has it, to leave behind how far it came.
//! - A producer holds one of several **cells**, so producers wait neither for consumers nor, mostly, for each other.
//!
//! No lock is held while a writer waits: for its admission it waits before, for its ticket after. Everything here can be read back
//! from the store, so slots not in use are forgotten when there are many, and a queue is read again after a failed write or a
//! panic under one of its locks: both leave open how much of a change has happened. A poisoned lock is therefore taken like any
//! other.

use crate::codec::CounterRow;
use crate::frontier::Frontier;
use crate::keys::{MessageId, PRODUCER_CELLS, QueueId, REMOVED_CELL};
use crate::time::Ticks;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

/// How many slots are added before those not used in the meantime are forgotten. Up to twice as many are kept, besides
/// those in use: a few megabytes.
const SLOTS_PER_ROUND: usize = 4 * 1024;

/// The slots of all queues in use, by the key of their row.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Round>);

#[derive(Debug, Default)]
struct Round {
    slots: HashMap<Box<[u8]>, Arc<Slot>>,
    added: usize,
}

/// What is known about the queue of one name.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    order: RwLock<()>,
    /// Locked for as long as it takes to read or replace it.
    state: Mutex<State>,
    used: AtomicBool,
    /// After a failure the sweep leaves the queue alone until then, in ticks.
    sweep_not_before: AtomicU64,
}

/// Holds a slot exclusively.
#[derive(Debug)]
pub(crate) struct Alone<'a> {
    slot: &'a Slot,
    _order: RwLockWriteGuard<'a, ()>,
}

impl Alone<'_> {
    pub(crate) fn state(&self) -> State {
        self.slot.state()
    }

    pub(crate) fn publish(&self, state: State) {
        *locked(&self.slot.state) = state;
    }
}

impl Drop for Alone<'_> {
    /// Comes before the lock is released, so that the next holder knows of the panic.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.publish(State::Unknown);
        }
    }
}

/// A queue that the sweep is to look at.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) key: Box<[u8]>,
    pub(crate) slot: Arc<Slot>,
    since: Ticks,
}

/// Whether the queue exists.
#[derive(Debug, Default, Clone)]
pub(crate) enum State {
    /// Not read yet.
    #[default]
    Unknown,
    /// There is no such queue.
    Missing,
    /// There is.
    Present(Arc<Live>),
}

impl Slots {
    /// The slot of a name; the same for everyone who holds one at the same time.
    pub(crate) fn get(&self, key: &[u8]) -> Arc<Slot> {
        let mut round = locked(&self.0);
        let slot = match round.slots.get(key) {
            Some(slot) => slot.clone(),
            None => round.add(key),
        };
        slot.used.store(true, Ordering::Relaxed);
        slot
    }

    /// The queues in memory that may have expired messages or have not been looked at, the longest overdue first. Does not
    /// count as use of their slots.
    pub(crate) fn due(&self, now: Ticks) -> Vec<Due> {
        let round = locked(&self.0);
        let due = round.slots.iter().filter_map(|(key, slot)| {
            let since = slot.due_since().filter(|since| *since <= now)?;
            Some(Due {
                key: key.clone(),
                slot: slot.clone(),
                since,
            })
        });
        let mut due: Vec<_> = due.collect();
        drop(round);
        due.sort_unstable_by_key(|due| due.since);
        due
    }
}

impl Slot {
    /// What is published. A queue that is to be read again is unknown.
    pub(crate) fn state(&self) -> State {
        match &*locked(&self.state) {
            State::Present(live) if live.is_stale() => State::Unknown,
            state => state.clone(),
        }
    }

    /// For operations that write messages.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For operations on the queue itself.
    pub(crate) fn alone(&self) -> Alone<'_> {
        let order = self.order.write();
        Alone {
            slot: self,
            _order: order.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Since when the sweep may find something here.
    fn due_since(&self) -> Option<Ticks> {
        let since = match self.state() {
            State::Missing => return None,
            State::Unknown => Ticks(0),
            State::Present(live) => live.next_expiry.start().at,
        };
        Some(since.max(Ticks(self.sweep_not_before.load(Ordering::Relaxed))))
    }

    /// Keeps the sweep away until `time`.
    pub(crate) fn do_not_sweep_before(&self, time: Ticks) {
        self.sweep_not_before.store(time.0, Ordering::Relaxed);
    }
}

impl Round {
    fn add(&mut self, key: &[u8]) -> Arc<Slot> {
        if self.added == SLOTS_PER_ROUND {
            self.forget_unused();
            self.added = 0;
        }
        self.added += 1;
        self.slots.entry(key.into()).or_default().clone()
    }

    /// Drops slots that nobody holds and nobody asked for in this round. A held one must stay: two slots of one name would
    /// be two locks.
    fn forget_unused(&mut self) {
        self.slots.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.used.swap(false, Ordering::Relaxed)
        });
    }
}

/// One generation of a queue.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: QueueId,
    /// Over the order of delivery. Scanned under the consumer lock.
    pub(crate) head: Frontier,
    /// Over the order of expiry. Scanned under the consumer lock.
    pub(crate) next_expiry: Frontier,
    /// Rows taken from the head, or swept, since the tombstones behind it were last covered by a range delete.
    pub(crate) consumed_rows: AtomicU64,
    last_sequence: AtomicU64,
    next_cell: AtomicUsize,
    /// Messages added, one number per cell; the queue's total is their sum less `removed`.
    added: [Mutex<u64>; PRODUCER_CELLS as usize],
    removed: Mutex<u64>,
    stale: AtomicBool,
}

/// The lock of one counter: of a producer's cell, or of the removed messages, which is the consumer lock.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    live: &'a Live,
    pub(crate) cell: u8,
    pub(crate) messages: MutexGuard<'a, u64>,
}

impl Drop for Hold<'_> {
    /// Comes before the lock is released, so that the next holder knows of the panic.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.live.mark_stale();
        }
    }
}

impl Live {
    /// The queue whose counters these are; none for a new one.
    pub(crate) fn new(id: QueueId, counters: &[(u8, CounterRow)]) -> Live {
        let messages = |cell| {
            let row = counters.iter().find(|(number, _)| *number == cell);
            Mutex::new(row.map_or(0, |(_, row)| row.messages))
        };
        let last_sequence = counters.iter().map(|(_, row)| row.last_sequence).max();
        Live {
            id,
            head: Frontier::new(),
            next_expiry: Frontier::new(),
            consumed_rows: AtomicU64::new(0),
            last_sequence: AtomicU64::new(last_sequence.unwrap_or(0)),
            next_cell: AtomicUsize::new(0),
            added: std::array::from_fn(|cell| messages(cell as u8)),
            removed: messages(REMOVED_CELL),
            stale: AtomicBool::new(false),
        }
    }

    /// The id of the next message, greater than all before.
    pub(crate) fn next_message_id(&self, now: Ticks, random: u128) -> MessageId {
        let next = |last| Some(MessageId::next_sequence(last, now));
        let (Ok(last) | Err(last)) =
            self.last_sequence
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        MessageId::new(MessageId::next_sequence(last, now), random)
    }

    /// Locks a cell nobody holds, if there is one.
    pub(crate) fn lock_cell(&self) -> Hold<'_> {
        let count = self.added.len();
        let first = self.next_cell.fetch_add(1, Ordering::Relaxed) % count;
        let free = (first..first + count)
            .map(|cell| cell % count)
            .find_map(|cell| Some((cell, try_locked(&self.added[cell])?)));
        let (cell, messages) = free.unwrap_or_else(|| (first, locked(&self.added[first])));
        Hold {
            live: self,
            cell: cell as u8,
            messages,
        }
    }

    /// Locks out other consumers; the number is that of messages removed so far.
    pub(crate) fn lock_consumer(&self) -> Hold<'_> {
        Hold {
            live: self,
            cell: REMOVED_CELL,
            messages: locked(&self.removed),
        }
    }

    /// As [`Live::lock_consumer`]; `None` if another consumer has the lock.
    pub(crate) fn try_lock_consumer(&self) -> Option<Hold<'_>> {
        Some(Hold {
            live: self,
            cell: REMOVED_CELL,
            messages: try_locked(&self.removed)?,
        })
    }

    /// After a write that failed, or a panic, it is open what the store holds: the queue is to be read again.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }
}

/// Locks what is valid after every statement, or is read again after a panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_in_use_survive_when_unused_ones_are_forgotten() {
        let slots = Slots::default();
        let held = slots.get(b"held");
        let known = Arc::downgrade(&slots.get(b"asked for"));
        for number in 0..5 * SLOTS_PER_ROUND {
            slots.get(&number.to_be_bytes());
            slots.get(b"asked for");
        }
        assert!(Arc::ptr_eq(&held, &slots.get(b"held")));
        assert!(known.upgrade().is_some());
        assert!(slots.0.lock().unwrap().slots.len() <= 2 * SLOTS_PER_ROUND + 2);
    }

    #[test]
    fn producers_get_different_cells_while_there_are_some() {
        let live = Live::new(QueueId(1), &[]);
        let holds: Vec<_> = (0..PRODUCER_CELLS).map(|_| live.lock_cell()).collect();
        let mut numbers: Vec<_> = holds.iter().map(|hold| hold.cell).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..PRODUCER_CELLS).collect::<Vec<_>>());
    }

    #[test]
    fn message_ids_continue_behind_the_counters_read_at_start() {
        let row = |messages, last_sequence| CounterRow {
            messages,
            last_sequence,
        };
        let counters = [(0, row(3, 10)), (7, row(4, 12)), (REMOVED_CELL, row(5, 0))];
        let live = Live::new(QueueId(1), &counters);
        assert_eq!(*live.lock_consumer().messages, 5);
        assert_eq!(live.next_message_id(Ticks(0), 0).sequence(), 13);
        assert_eq!(live.next_message_id(Ticks(0), 0).sequence(), 14);
    }
}
