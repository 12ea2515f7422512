//! The Queue service: messages that a consumer takes, which hides them for a while, and then deletes or lets reappear.
//!
//! Synchronous and free of HTTP. Supported: every operation on queues and messages, stored access policies, and storage of the
//! service properties. Left to the server: the meaning of the properties, statistics, signatures, CORS.
//!
//! # How a queue lies in a log-structured store
//!
//! Pushing at one end and deleting at the other is the worst case of an LSM tree: every consumed row leaves a tombstone in
//! front of the head. Each message therefore has four small rows under the id of its queue (`keys.rs`): its place in the order
//! of delivery (time of next visibility, then insertion); by id, that place and the receipt; its text, which deliveries do not
//! rewrite; and its place in the order of expiry. The operations use them as follows:
//!
//! - **Get** scans the order of delivery from the *frontier*, before which no message can be delivered (`frontier.rs`), up to
//!   the present, and moves the messages it returns to their new time of visibility. At any depth it reads only the rows it
//!   returns. It steps over neither the tombstones behind the frontier nor those ahead of the present, which consumers leave
//!   when they delete in time. When nothing is due it reads nothing. After a restart the first scan finds the frontier; an
//!   occasional range delete covers the rows behind it, so that this scan is short, too.
//! - **Put** only writes: it reads no row and takes no lock that a consumer holds.
//! - **Update** and **Delete** find the message by its id and check the receipt there.
//! - **Clear** and **Delete Queue** write one range delete, and the queue gets a new id: no operation waits for the removal of
//!   the rows or scans the range where they were.
//! - **Expiry** is not an event. Delivery and peek skip expired messages, a few thousand per step so that the locks are held
//!   only briefly, and the frontier moves past them. A message disappears from delivery, peek and count at the same instant;
//!   [`QueueService::sweep`] removes its rows later.
//! - The **count** is the number of messages added, less those removed, less the expired ones that still have rows, all from one
//!   snapshot and without a lock. The first two are counters that each Put and Delete writes in its batch. The third is counted
//!   from the rows in the order of expiry that the sweep has not reached.
//!
//! # Time
//!
//! The service reads its own clock, which never goes back within a process, once for each operation, under the lock that orders
//! the operation. An expired or visible message therefore stays so until a restart. If the machine's clock is set back between
//! two runs, expired messages whose rows were not yet removed reappear.
//!
//! # Durability and locks
//!
//! Each write is one batch and returns its [`Ticket`](lazurite_engine::Ticket): the change is visible at once and may be
//! acknowledged when the ticket completes. An operation with nothing to write also returns a ticket, which completes once every
//! change its answer depends on is durable. Reads (Peek, List, count, metadata, policies) return what is visible and never wait
//! for the disk: at `Durability::Disk` they may show a change that is not acknowledged yet and that a power cut undoes.
//!
//! Every write has one shape, in [`QueueService::with_queue`] for messages and [`QueueService::with_exclusive_queue`] for queues:
//! begin a transaction, which waits to be admitted -> lock (`live.rs`) -> read and check -> fill the transaction's batch -> commit ->
//! change the state in memory -> unlock. Only [`QueueService::set_service_properties`] writes blindly.
//!
//! The locks are not those of the engine's transactions. Each guards state in memory that a transaction does not know: a counter
//! that is written without being read, or whether a queue exists. A reader takes them too, also when the store accepts no writes and
//! admits no transaction. Producers take any free one of several locks, where a transaction names its keys.
//!
//! Memory is bounded: a few hundred bytes for each recently used queue, whatever its depth.

mod check;
mod codec;
mod error;
mod frontier;
mod keys;
mod live;
mod lock;
mod model;
mod operations;
mod receipt;
mod rows;
mod sweep;
mod time;
mod visibility;

pub use check::queue_name as check_queue_name;
pub use error::{Error, Result};
pub use lazurite_policies::StoredPolicy;
pub use model::*;

use codec::{CounterRow, QueueRow};
use keys::QueueId;
use lazurite_engine::{
    Compression, Db, Direction, IdSource, Keyspace, KeyspaceOptions, Ticket, Transaction, WallClock,
};
use live::{ExclusiveAccess, Live, QueueGuard, Slot, Slots, State};
use receipt::Receipt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use time::Ticks;

/// The Queue service of every account of one store. All methods take `&self` and may run concurrently.
#[derive(Debug)]
pub struct QueueService {
    db: Db,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn WallClock>,
    queues: Keyspace,
    messages: Keyspace,
    slots: Slots,
    /// The key of the last queue that the sweep loaded into memory.
    sweep_position: Mutex<Vec<u8>>,
    rows_examined: AtomicU64,
}

impl QueueService {
    /// Opens the service's keyspaces in `db`. Reads no queue and no message. Every operation takes its time from `clock`.
    pub fn open(
        db: &Db,
        ids: Arc<dyn IdSource>,
        clock: Arc<dyn WallClock>,
    ) -> Result<QueueService> {
        Ok(QueueService {
            queues: db.keyspace("queues", KeyspaceOptions::default())?,
            messages: db.keyspace("queue_messages", message_options())?,
            db: db.clone(),
            ids,
            clock,
            slots: Slots::default(),
            sweep_position: Mutex::default(),
            rows_examined: AtomicU64::new(0),
        })
    }

    /// Rows of the orders of delivery and expiry that were read since the service was opened. This measure of work per message
    /// must not grow with the depth of a queue.
    pub fn rows_examined(&self) -> u64 {
        self.rows_examined.load(Ordering::Relaxed)
    }

    /// Runs `operate`, which fills and commits `transaction`, on an existing queue under the lock that `lock` takes. Operations
    /// under its other locks run concurrently.
    fn with_queue<T>(
        &self,
        account: &str,
        queue: &str,
        lock: fn(&Live) -> QueueGuard<'_>,
        transaction: Transaction<'_>,
        operate: impl FnOnce(&Live, QueueGuard<'_>, Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        self.with_slot(&key, &self.slots.get(&key), lock, transaction, operate)
    }

    fn with_slot<T>(
        &self,
        key: &[u8],
        slot: &Slot,
        lock: fn(&Live) -> QueueGuard<'_>,
        transaction: Transaction<'_>,
        operate: impl FnOnce(&Live, QueueGuard<'_>, Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let shared = slot.shared();
            match slot.state() {
                State::Present(live) => {
                    let guard = lock(&live);
                    // Checked under the lock: its previous holder may have failed.
                    if !live.is_stale() {
                        return operate(&live, guard, transaction);
                    }
                }
                State::Missing => return Err(Error::QueueNotFound),
                State::Unknown => {}
            }
            drop(shared);
            self.read_if_unknown(key, &slot.exclusive())?;
        }
    }

    /// The queue of a slot. Takes no lock that a writer holds, unless the queue has to be read first.
    fn published_queue(&self, key: &[u8], slot: &Slot) -> Result<Arc<Live>> {
        loop {
            match slot.state() {
                State::Present(live) => return Ok(live),
                State::Missing => return Err(Error::QueueNotFound),
                State::Unknown => self.read_if_unknown(key, &slot.exclusive())?,
            }
        }
    }

    /// Runs `operate`, which fills and commits `transaction`, with exclusive access to the slot of a queue, whether or not the queue
    /// exists. `operate` gets the key of the queue's row, and publishes the new state after a write that changes it.
    fn with_exclusive_queue<T>(
        &self,
        account: &str,
        queue: &str,
        transaction: Transaction<'_>,
        operate: impl FnOnce(&[u8], &ExclusiveAccess<'_>, Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        let slot = self.slots.get(&key);
        self.with_exclusive_slot(&key, &slot, transaction, |access, transaction| {
            operate(&key, access, transaction)
        })
    }

    fn with_exclusive_slot<T>(
        &self,
        key: &[u8],
        slot: &Slot,
        transaction: Transaction<'_>,
        operate: impl FnOnce(&ExclusiveAccess<'_>, Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let access = slot.exclusive();
        self.read_if_unknown(key, &access)?;
        operate(&access, transaction)
    }

    fn read_if_unknown(&self, key: &[u8], access: &ExclusiveAccess<'_>) -> Result<()> {
        if let State::Unknown = access.state() {
            access.publish(match self.queue_row(key)? {
                Some(row) => State::Present(Arc::new(self.read_live(row.id)?)),
                None => State::Missing,
            });
        }
        Ok(())
    }

    fn read_live(&self, id: QueueId) -> Result<Live> {
        let mut counters = Vec::new();
        let range = keys::counters(id);
        let mut scan = self
            .db
            .snapshot()
            .scan(&self.messages, range, Direction::Forward);
        while scan.advance()? {
            let cell = keys::counter_cell(scan.key())
                .ok_or_else(|| codec::corrupt("a counter", 0, "its key is too short"))?;
            counters.push((cell, CounterRow::decode(&scan.value()?)?));
        }
        Ok(Live::new(id, &counters))
    }

    fn queue_row(&self, key: &[u8]) -> Result<Option<QueueRow>> {
        let value = self.db.get(&self.queues, key)?;
        Ok(value.map(|value| QueueRow::decode(&value)).transpose()?)
    }

    /// Commits the batch of a message operation. The caller updates `live` only if that succeeds.
    fn commit(&self, live: &Live, transaction: &mut Transaction<'_>) -> Result<Ticket> {
        let committed = transaction.commit();
        if committed.is_err() {
            live.mark_stale();
        }
        Ok(committed?)
    }

    /// The time of an operation. Read once per operation, under the lock that orders it and after everything that may wait: the
    /// times of one queue are then in the order of its operations, and no timeout begins before its operation does.
    fn now(&self) -> Ticks {
        Ticks::from_system(self.clock.now())
    }

    fn new_receipt(&self) -> Receipt {
        Receipt(self.ids.next_id() as u64)
    }

    fn new_queue_id(&self) -> QueueId {
        QueueId(self.ids.next_id())
    }
}

/// A message is deleted soon after it was written, so strong compression of its rows does not pay. Rows are added and deleted at
/// a few places of the key space, so small SSTables let compactions skip the ranges between them. No scan steps over the
/// tombstones, thanks to the frontiers, so they do not justify compactions of their own.
fn message_options() -> KeyspaceOptions {
    KeyspaceOptions {
        sstable_bytes: Some(4 << 20),
        tombstone_percent_max: Some(100),
        compression: Some(Compression::Lz4),
        ..KeyspaceOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{DeliveryRow, MessageRow};
    use crate::keys::{MessageId, Position};
    use lazurite_engine::{CountingIds, ManualWallClock};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::SystemTime;
    use tempfile::TempDir;

    pub(crate) const ACCOUNT: &str = "account";

    /// A service on its own store, with a clock that only the test moves.
    pub(crate) fn service() -> (TempDir, QueueService, Arc<ManualWallClock>) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Default::default()).unwrap();
        let clock = Arc::new(ManualWallClock::new(SystemTime::UNIX_EPOCH));
        let ids = Arc::new(CountingIds::default());
        let service = QueueService::open(&db, ids, clock.clone()).unwrap();
        (directory, service, clock)
    }

    #[test]
    fn row_written_before_a_panic_is_found_by_the_next_scan() {
        let (_directory, service, _clock) = service();
        drop(service.create_queue(ACCOUNT, "queue", Vec::new()));
        let peek = || service.peek_messages(ACCOUNT, "queue", None).unwrap();
        assert!(peek().is_empty());
        let transaction = service.db.begin().unwrap();
        let write_and_panic =
            |live: &Live, _cell: QueueGuard<'_>, mut transaction: Transaction<'_>| -> Result<()> {
                let position = Position {
                    at: service.now(),
                    id: MessageId::new(1, 1),
                };
                let row = MessageRow {
                    visible_at: position.at,
                    expires_at: Ticks::NEVER,
                    receipt: service.new_receipt(),
                };
                let delivery = DeliveryRow {
                    inserted_at: position.at,
                    expires_at: Ticks::NEVER,
                    dequeue_count: 0,
                };
                let batch = transaction.batch();
                service.put_message_rows(batch, live, position, row, delivery);
                let key = keys::text(live.id, position.id);
                batch.put(&service.messages, &key, &codec::encode_text("written"));
                drop(service.commit(live, &mut transaction)?);
                panic!("before the frontier was moved");
            };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            service.with_queue(
                ACCOUNT,
                "queue",
                Live::lock_cell,
                transaction,
                write_and_panic,
            )
        }));
        assert!(panicked.is_err());
        assert_eq!(peek()[0].text, "written");
    }
}
