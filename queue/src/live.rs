//! In-memory state of the queues in use, and the locks of their operations.
//!
//! - The **slot** of a queue name says whether the queue exists. Readers take this state without a
//!   lock that a writer holds. The slot's lock is held shared by operations that write messages,
//!   until `Transaction::commit` returns, and exclusively by operations that create, change, clear
//!   or delete the queue.
//! - The **consumer** lock is held by every operation that selects messages or changes one: Get,
//!   Update, Delete, sweep. Peek takes it only if it is free, to record how far it scanned.
//! - A producer holds one of several **cells**, so producers do not wait for consumers and rarely
//!   wait for each other.
//!
//! No lock is held while a writer waits: it is admitted before it locks, and awaits its ticket
//! after it unlocks. Everything here can be read back from the store. Unused slots are therefore
//! dropped when there are many, and a queue is read again after a panic under one of its locks,
//! which may have left a change half applied. A commit that fails has written nothing: it leaves the
//! queue as it was.

use crate::codec::CounterRow;
use crate::frontier::Frontier;
use crate::keys::{MessageId, PRODUCER_CELLS, Position, QueueId, REMOVED_CELL};
use lazurite_base::locks::{self, lock, try_lock};
use lazurite_base::ticks::Ticks;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Each time this many slots have been added, the slots that were not used in the meantime are
/// dropped. Besides the slots in use, memory holds a few megabytes of others.
const SLOTS_PER_GENERATION: usize = 4 * 1024;

/// Maximum number of remembered expiries of dropped slots: some ten megabytes. The sweep finds
/// other queues only in its round over all queues.
const REMEMBERED_EXPIRIES_MAX: usize = 128 * 1024;

/// The slots of all queues in use, by the key of the queue's row.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<SlotTable>);

#[derive(Debug, Default)]
struct SlotTable {
    slots: HashMap<Box<[u8]>, Arc<Slot>>,
    /// Number of slots added since unused ones were last dropped.
    added: usize,
    /// For queues with dropped slots: when the sweep has to look at the queue, and its key. A queue
    /// may be listed several times, and may have a slot again.
    remembered: BTreeSet<(Ticks, Box<[u8]>)>,
}

/// The known state of the queue of one name.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    order: RwLock<()>,
    /// Locked only while the state is read or replaced.
    state: Mutex<Existence>,
    used: AtomicBool,
    /// After a failure the sweep skips the queue until this time, in ticks.
    sweep_not_before: AtomicU64,
}

/// Exclusive access to a slot.
#[derive(Debug)]
pub(crate) struct ExclusiveAccess<'a> {
    slot: &'a Slot,
    _order: RwLockWriteGuard<'a, ()>,
}

impl ExclusiveAccess<'_> {
    pub(crate) fn state(&self) -> Existence {
        self.slot.state()
    }

    pub(crate) fn publish(&self, state: Existence) {
        *lock(&self.slot.state) = state;
    }
}

impl Drop for ExclusiveAccess<'_> {
    /// Runs before the lock is released, so that the next holder reads the queue again after a
    /// panic.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.publish(Existence::Unknown);
        }
    }
}

/// A queue that the sweep has to look at.
#[derive(Debug)]
pub(crate) struct DueQueue {
    pub(crate) key: Box<[u8]>,
    since: Ticks,
}

/// Whether the queue exists.
#[derive(Debug, Default, Clone)]
pub(crate) enum Existence {
    /// The row of the queue has not been read yet.
    #[default]
    Unknown,
    /// There is no such queue.
    Missing,
    /// The queue exists.
    Present(Arc<Live>),
}

impl Slots {
    /// The slot of a name. All concurrent holders of a name share one slot.
    pub(crate) fn get(&self, key: &[u8]) -> Arc<Slot> {
        let slot = lock(&self.0).get_or_add(key);
        slot.used.store(true, Ordering::Relaxed);
        slot
    }

    /// Returns the queues that have, or may have, expired messages at `now`, the longest overdue
    /// first: queues in memory, and at most `dropped_max` queues with dropped slots. Does not mark
    /// slots as used.
    pub(crate) fn due(&self, now: Ticks, dropped_max: usize) -> Vec<DueQueue> {
        let table = lock(&self.0);
        let in_memory = table.slots.iter().filter_map(|(key, slot)| {
            let since = slot.due_since().filter(|since| *since <= now)?;
            let key = key.clone();
            Some(DueQueue { key, since })
        });
        let mut due: Vec<_> = in_memory.collect();
        let overdue = table
            .remembered
            .iter()
            .take_while(|(since, _)| *since <= now);
        due.extend(overdue.take(dropped_max).map(|(since, key)| DueQueue {
            key: key.clone(),
            since: *since,
        }));
        drop(table);
        due.sort_unstable_by_key(|due| due.since);
        due
    }

    /// The slot of a due queue, which the caller is about to sweep.
    pub(crate) fn start_sweep(&self, due: &DueQueue) -> Arc<Slot> {
        let mut table = lock(&self.0);
        table.remembered.remove(&(due.since, due.key.clone()));
        table.get_or_add(&due.key)
    }
}

impl Slot {
    /// The published state. A stale queue counts as unknown.
    pub(crate) fn state(&self) -> Existence {
        match &*lock(&self.state) {
            Existence::Present(live) if live.is_stale() => Existence::Unknown,
            state => state.clone(),
        }
    }

    /// Locks out operations on the queue itself, but not other writers of messages.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        locks::read(&self.order)
    }

    /// Locks out all other operations that write the queue or its messages.
    pub(crate) fn exclusive(&self) -> ExclusiveAccess<'_> {
        ExclusiveAccess {
            slot: self,
            _order: locks::write(&self.order),
        }
    }

    /// The time since which the sweep may find expired messages in the queue; `None` if it cannot
    /// find any.
    fn due_since(&self) -> Option<Ticks> {
        let since = match self.state() {
            Existence::Missing => return None,
            Existence::Unknown => Ticks(0),
            Existence::Present(live) => live.next_expiry.start().at,
        };
        Some(self.not_before(since))
    }

    /// The times at which the sweep has to look at this queue if its slot is dropped.
    fn sweep_times(&self) -> impl Iterator<Item = Ticks> {
        let times = match &*lock(&self.state) {
            Existence::Present(live) => live.sweep_times(),
            Existence::Missing | Existence::Unknown => [None; 2],
        };
        times
            .into_iter()
            .flatten()
            .map(|time| self.not_before(time))
    }

    fn not_before(&self, time: Ticks) -> Ticks {
        time.max(Ticks(self.sweep_not_before.load(Ordering::Relaxed)))
    }

    /// Makes the sweep skip the queue until `time`.
    pub(crate) fn do_not_sweep_before(&self, time: Ticks) {
        self.sweep_not_before.store(time.0, Ordering::Relaxed);
    }
}

impl SlotTable {
    fn get_or_add(&mut self, key: &[u8]) -> Arc<Slot> {
        if let Some(slot) = self.slots.get(key) {
            return slot.clone();
        }
        if self.added == SLOTS_PER_GENERATION {
            self.drop_unused();
            self.added = 0;
        }
        self.added += 1;
        self.slots.entry(key.into()).or_default().clone()
    }

    /// Drops slots that no operation holds and that were not used since the last call. A held slot
    /// must stay: two slots of one name would be two locks.
    fn drop_unused(&mut self) {
        let remembered = &mut self.remembered;
        self.slots.retain(|key, slot| {
            if Arc::strong_count(slot) > 1 || slot.used.swap(false, Ordering::Relaxed) {
                return true;
            }
            remembered.extend(slot.sweep_times().map(|time| (time, key.clone())));
            false
        });
        while remembered.len() > REMEMBERED_EXPIRIES_MAX {
            remembered.pop_last();
        }
    }
}

/// One generation of a queue.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: QueueId,
    /// The frontier of the order of delivery, which is scanned under the consumer lock.
    pub(crate) head: Frontier,
    /// The frontier of the order of expiry, which is scanned under the consumer lock.
    pub(crate) next_expiry: Frontier,
    /// A lower bound, in ticks, of the expiries of messages added since the sweep last passed this
    /// bound. `next_expiry` cannot replace it: the sweep moves that frontier to the end of its
    /// look-ahead, at which no message need expire.
    first_added_expiry: AtomicU64,
    /// Rows taken from the head, or swept, since a range delete last covered the tombstones behind
    /// the head.
    pub(crate) consumed_rows: AtomicU64,
    last_sequence: AtomicU64,
    next_cell: AtomicUsize,
    /// Messages added, one number per cell. The queue holds their sum less `removed`.
    added: [Mutex<u64>; PRODUCER_CELLS as usize],
    removed: Mutex<u64>,
    stale: AtomicBool,
}

/// Holds the lock of one counter: the counter of a producer's cell, or the counter of the removed
/// messages, whose lock is the consumer lock.
#[derive(Debug)]
pub(crate) struct QueueGuard<'a> {
    live: &'a Live,
    pub(crate) cell: u8,
    pub(crate) messages: MutexGuard<'a, u64>,
}

impl Drop for QueueGuard<'_> {
    /// Runs before the lock is released, so that the next holder reads the queue again after a
    /// panic.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.live.mark_stale();
        }
    }
}

impl Live {
    /// A queue with these counters; a new queue has none.
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
            first_added_expiry: AtomicU64::new(u64::MAX),
            consumed_rows: AtomicU64::new(0),
            last_sequence: AtomicU64::new(last_sequence.unwrap_or(0)),
            next_cell: AtomicUsize::new(0),
            added: std::array::from_fn(|cell| messages(cell as u8)),
            removed: messages(REMOVED_CELL),
            stale: AtomicBool::new(false),
        }
    }

    /// Records the positions of a message that is now in the store.
    pub(crate) fn message_added(&self, delivery: Position, expiry: Position) {
        self.head.added(delivery);
        if expiry.at < Ticks::NEVER {
            self.next_expiry.added(expiry);
            self.first_added_expiry
                .fetch_min(expiry.at.0, Ordering::Relaxed);
        }
    }

    /// Called before the sweep scans the order of expiry up to `now` or further.
    pub(crate) fn sweep_begins(&self, now: Ticks) {
        if self.first_added_expiry.load(Ordering::Relaxed) <= now.0 {
            self.first_added_expiry.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Returns when the sweep has to look for expired messages, as far as that is known without a
    /// scan: at the place of the frontier, and at the first expiry of an added message.
    fn sweep_times(&self) -> [Option<Ticks>; 2] {
        let start = self.next_expiry.start();
        // Before the first scan the frontier is at the very beginning. After a scan that ended at a
        // message it is at that message. Anywhere else it is at the end of a look-ahead that found
        // no message.
        let is_known = start == Position::MIN || start.id != MessageId(0);
        let added = Ticks(self.first_added_expiry.load(Ordering::Relaxed));
        [
            is_known.then_some(start.at),
            (added < Ticks::NEVER).then_some(added),
        ]
    }

    /// The id of the next message, greater than all before.
    pub(crate) fn next_message_id(&self, now: Ticks, random: u128) -> MessageId {
        let next = |last| Some(MessageId::next_sequence(last, now));
        let (Ok(last) | Err(last)) =
            self.last_sequence
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        MessageId::new(MessageId::next_sequence(last, now), random)
    }

    /// Locks a free cell, or waits for one if all are taken.
    pub(crate) fn lock_cell(&self) -> QueueGuard<'_> {
        let count = self.added.len();
        let first = self.next_cell.fetch_add(1, Ordering::Relaxed) % count;
        let free = (first..first + count)
            .map(|cell| cell % count)
            .find_map(|cell| Some((cell, try_lock(&self.added[cell])?)));
        let (cell, messages) = free.unwrap_or_else(|| (first, lock(&self.added[first])));
        QueueGuard {
            live: self,
            cell: cell as u8,
            messages,
        }
    }

    /// Locks out other consumers. The guarded number counts the messages removed so far.
    pub(crate) fn lock_consumer(&self) -> QueueGuard<'_> {
        self.consumer_guard(lock(&self.removed))
    }

    /// Like [`Live::lock_consumer`]; `None` if another consumer has the lock.
    pub(crate) fn try_lock_consumer(&self) -> Option<QueueGuard<'_>> {
        Some(self.consumer_guard(try_lock(&self.removed)?))
    }

    fn consumer_guard<'a>(&'a self, messages: MutexGuard<'a, u64>) -> QueueGuard<'a> {
        QueueGuard {
            live: self,
            cell: REMOVED_CELL,
            messages,
        }
    }

    /// After a panic the state in the store is unknown: the queue is read again.
    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_slots_survive_when_unused_ones_are_dropped() {
        let slots = Slots::default();
        let held = slots.get(b"held");
        let known = Arc::downgrade(&slots.get(b"asked for"));
        for number in 0..5 * SLOTS_PER_GENERATION {
            slots.get(&number.to_be_bytes());
            slots.get(b"asked for");
        }
        assert!(Arc::ptr_eq(&held, &slots.get(b"held")));
        assert!(known.upgrade().is_some());
        assert!(slots.0.lock().unwrap().slots.len() <= 2 * SLOTS_PER_GENERATION + 2);
    }

    #[test]
    fn dropped_slot_is_due_when_its_first_message_expires() {
        let slots = Slots::default();
        let live = Arc::new(Live::new(QueueId(1), &[]));
        live.next_expiry.finish(Position::after(Ticks(10)));
        for expires_at in [300, 200] {
            let position = Position {
                at: Ticks(expires_at),
                id: MessageId(1),
            };
            live.message_added(position, position);
        }
        // Does the same as a sweep that looks ahead and finds no expiry.
        live.next_expiry.begin();
        live.next_expiry.finish(Position::after(Ticks(100)));
        let slot = slots.get(b"queue");
        slot.exclusive().publish(Existence::Present(live));
        drop(slot);
        for number in 0..3 * SLOTS_PER_GENERATION {
            let slot = slots.get(&number.to_be_bytes());
            slot.exclusive().publish(Existence::Missing);
        }
        assert!(!lock(&slots.0).slots.contains_key(&b"queue"[..]));
        assert!(slots.due(Ticks(199), usize::MAX).is_empty());
        let due = slots.due(Ticks(200), usize::MAX);
        assert_eq!(due.len(), 1, "{due:?}");
        assert_eq!(*due[0].key, *b"queue");
        slots.start_sweep(&due[0]);
        assert!(lock(&slots.0).remembered.is_empty());
    }

    #[test]
    fn concurrent_producers_get_different_cells() {
        let live = Live::new(QueueId(1), &[]);
        let guards: Vec<_> = (0..PRODUCER_CELLS).map(|_| live.lock_cell()).collect();
        let mut numbers: Vec<_> = guards.iter().map(|guard| guard.cell).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..PRODUCER_CELLS).collect::<Vec<_>>());
    }

    #[test]
    fn message_ids_continue_after_the_stored_counters() {
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
