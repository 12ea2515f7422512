//! QueueService: the state that all operations share, and the two ways to run a write. The files of
//! the operations add the methods.

use crate::check;
use crate::codec::{self, CounterRow, QueueRow};
use crate::error::{Error, Result};
use crate::keys::{self, QueueId};
use crate::live::{ExclusiveAccess, Existence, Live, QueueGuard, Slot, Slots};
use crate::receipt::Receipt;
use lazurite_base::ticks::Ticks;
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{
    Compression, Db, Direction, IdSource, Keyspace, KeyspaceOptions, Transaction,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The Queue service of every account of one store. All methods take `&self` and may run
/// concurrently.
#[derive(Debug)]
pub struct QueueService {
    pub(crate) db: Db,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) queues: Keyspace,
    pub(crate) messages: Keyspace,
    pub(crate) slots: Slots,
    /// The key of the last queue that the sweep loaded into memory.
    pub(crate) sweep_state: Mutex<Vec<u8>>,
    pub(crate) rows_examined: AtomicU64,
}

impl QueueService {
    /// Opens the service's keyspaces in `db`. Reads no queue and no message. Every operation takes
    /// its time from `clock`.
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
            sweep_state: Mutex::default(),
            rows_examined: AtomicU64::new(0),
        })
    }

    /// Returns how many rows of the orders of delivery and expiry were read since the service was
    /// opened, except by [`QueueService::list_messages`]. Per message, this must not grow with the
    /// depth of a queue.
    pub fn rows_examined(&self) -> u64 {
        self.rows_examined.load(Ordering::Relaxed)
    }

    /// Runs `operate`, which fills and commits `transaction`, on an existing queue under the lock
    /// that `lock` takes. Operations under other locks of the queue run concurrently.
    pub(crate) fn with_queue<T>(
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

    pub(crate) fn with_slot<T>(
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
                Existence::Present(live) => {
                    let guard = lock(&live);
                    // Checked under the lock: its previous holder may have panicked.
                    if !live.is_stale() {
                        return operate(&live, guard, transaction);
                    }
                }
                Existence::Missing => return Err(Error::QueueNotFound),
                Existence::Unknown => {}
            }
            drop(shared);
            self.read_if_unknown(key, &slot.exclusive())?;
        }
    }

    /// Returns the queue of a slot. Takes no lock that a writer holds, unless the queue has to be
    /// read first.
    pub(crate) fn published_queue(&self, key: &[u8], slot: &Slot) -> Result<Arc<Live>> {
        loop {
            match slot.state() {
                Existence::Present(live) => return Ok(live),
                Existence::Missing => return Err(Error::QueueNotFound),
                Existence::Unknown => self.read_if_unknown(key, &slot.exclusive())?,
            }
        }
    }

    /// Runs `operate`, which fills and commits `transaction`, with exclusive access to the slot of
    /// a queue, whether or not the queue exists. `operate` gets the key of the queue's row, and
    /// must publish the new state after a write that changes it.
    pub(crate) fn with_exclusive_queue<T>(
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

    pub(crate) fn with_exclusive_slot<T>(
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
        if let Existence::Unknown = access.state() {
            access.publish(match self.queue_row(key)? {
                Some(row) => Existence::Present(Arc::new(self.read_live(row.id)?)),
                None => Existence::Missing,
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

    pub(crate) fn queue_row(&self, key: &[u8]) -> Result<Option<QueueRow>> {
        let value = self.db.get(&self.queues, key)?;
        Ok(value.map(|value| QueueRow::decode(&value)).transpose()?)
    }

    /// Returns the time of an operation. Call it once per operation, under the lock that orders the
    /// operation and after everything that may wait: the times of one queue are then in the order
    /// of its operations, and no timeout begins before its operation does.
    pub(crate) fn now(&self) -> Ticks {
        Ticks::from_system(self.clock.now()).min(Ticks::NEVER)
    }

    pub(crate) fn new_receipt(&self) -> Receipt {
        Receipt(self.ids.next_id() as u64)
    }

    pub(crate) fn new_queue_id(&self) -> QueueId {
        QueueId(self.ids.next_id())
    }
}

/// Options of the keyspace of messages. A message is deleted soon after it was written, so strong
/// compression of its rows does not pay. Rows are added and deleted at a few places of the key
/// space, so small SSTables let compactions skip the ranges between them. Thanks to the frontiers
/// no scan steps over the tombstones, so tombstones do not justify compactions of their own.
fn message_options() -> KeyspaceOptions {
    KeyspaceOptions {
        sstable_bytes: Some(4 << 20),
        tombstone_percent_max: Some(100),
        compression: Some(Compression::Lz4),
        ..KeyspaceOptions::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::{DeliveryRow, MessageRow};
    use crate::keys::{MessageId, Position};
    use lazurite_base::wall_clock::ManualWallClock;
    use lazurite_engine::CountingIds;
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
                drop(transaction.commit()?);
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
