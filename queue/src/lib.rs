//! The Queue service: messages that are taken, hidden for a while, and deleted or seen again.
//!
//! Synchronous and free of HTTP. Supported: every operation on queues and messages, stored access policies, and the
//! storing of service properties. Left to the server: what the properties mean, statistics, signatures, CORS.
//!
//! # How a queue lies in a log-structured store
//!
//! Pushing at one end and deleting at the other is the worst case of an LSM tree: every consumed row leaves a tombstone in
//! front of the head. So each message has small rows under the id of its queue (`keys.rs`): its place in the order of
//! delivery, (time of next visibility, insertion); by id, where it stands there and its receipt; its text, which
//! deliveries do not rewrite; and its place in the order of expiry. Then:
//!
//! - **Get** walks the order of delivery from the *frontier*, the place before which nothing can be delivered
//!   (`frontier.rs`), to the present at most, and moves what it takes to the new time of visibility. It reads what it
//!   returns, at any depth, and steps neither on the tombstones behind the frontier nor on those ahead of the present,
//!   left by holders that deleted in time. When nothing is due it reads nothing. After a restart the first scan finds the
//!   frontier, once; now and then a range delete covers what lies behind it, so that even that scan is short.
//! - **Put** writes; it reads nothing and takes no lock that a consumer holds.
//! - **Update** and **Delete** find the message by its id and check the receipt there.
//! - **Clear** and **Delete Queue** are one range delete, and what comes after has a new queue id: nothing waits for the
//!   rows to go, and nothing is scanned where they were.
//! - **Expiry** is not an event. Delivery and peek skip what has expired, some thousand at a time so that nobody waits long for
//!   the locks; the frontier remembers that it was skipped. A message vanishes from delivery, peek and count at the same instant,
//!   and its rows go later, by [`QueueService::sweep`].
//! - The **count** is messages added, less removed, less the expired that still have rows, all of one snapshot and without a
//!   lock. The first two are counters, written in the batch of each Put and Delete; the third are the rows in the order of expiry
//!   that the sweep has not come to.
//!
//! # Time
//!
//! The service reads its own clock, which never goes back within a process: once for each operation, under the lock that
//! orders it. What has expired or become visible therefore stays so until a restart, and nothing in memory outlasts one: a
//! machine whose clock is set back between two runs sees messages again that had expired and were not yet removed.
//!
//! # Durability and locks
//!
//! Each write is one batch and hands back its [`Ticket`](lazurite_engine::Ticket): the change is visible at once and may be
//! acknowledged when the ticket completes. One that finds nothing to write hands back a ticket too: it completes once what the
//! answer rests on is durable. Reads (Peek, List, count, metadata, policies) answer what is visible, and wait for no disk: with
//! durability on disk they may show a change that is not acknowledged yet, and that a power cut takes back.
//!
//! A writer is admitted by the store before it takes a lock. `live.rs` tells which locks are held, from the first read to
//! `Db::write_admitted`; none is held after it. Memory is bounded: some hundred bytes for each of the queues used last, whatever
//! their depth.

mod check;
mod codec;
mod error;
mod frontier;
mod keys;
mod live;
mod model;
mod operations;
mod receipt;
mod rows;
mod sweep;
mod time;
mod visibility;

pub use error::{Error, Result};
pub use model::*;

use codec::{CounterRow, QueueRow};
use keys::QueueId;
use lazurite_engine::{
    Admission, Batch, Compression, Db, Direction, IdSource, Keyspace, KeyspaceOptions, Ticket,
    WallClock,
};
use live::{Alone, Hold, Live, Slot, Slots, State};
use receipt::Receipt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use time::Ticks;

/// The Queue service of every account of one store. All methods take `&self` and may run at once on any threads.
#[derive(Debug)]
pub struct QueueService {
    db: Db,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn WallClock>,
    queues: Keyspace,
    messages: Keyspace,
    slots: Slots,
    /// The key of the last queue that the sweep has read into memory.
    sweep_position: Mutex<Vec<u8>>,
    rows_examined: AtomicU64,
}

impl QueueService {
    /// Opens the service's keyspaces in `db`. Reads no queue and no message. `clock` gives the time of every operation.
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

    /// Rows of the orders of delivery and expiry read since the service was opened: a measure of work that, per message,
    /// must not grow with the depth of a queue.
    pub fn rows_examined(&self) -> u64 {
        self.rows_examined.load(Ordering::Relaxed)
    }

    /// Runs `operate` on an existing queue under the lock that `lock` takes, beside operations under its other locks. The caller was
    /// admitted to write.
    fn with_queue<T>(
        &self,
        account: &str,
        queue: &str,
        lock: fn(&Live) -> Hold<'_>,
        admission: &Admission,
        operate: impl FnOnce(&Live, Hold<'_>) -> Result<T>,
    ) -> Result<T> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        self.with_slot(&key, &self.slots.get(&key), lock, admission, operate)
    }

    fn with_slot<T>(
        &self,
        key: &[u8],
        slot: &Slot,
        lock: fn(&Live) -> Hold<'_>,
        _admission: &Admission,
        operate: impl FnOnce(&Live, Hold<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let shared = slot.shared();
            match slot.state() {
                State::Present(live) => {
                    let hold = lock(&live);
                    // Only now: the holder before may have failed.
                    if !live.is_stale() {
                        return operate(&live, hold);
                    }
                }
                State::Missing => return Err(Error::QueueNotFound),
                State::Unknown => {}
            }
            drop(shared);
            self.read_if_unknown(key, &slot.alone())?;
        }
    }

    /// The queue of a slot, without a lock that a writer holds, unless it has to be read first.
    fn published(&self, key: &[u8], slot: &Slot) -> Result<Arc<Live>> {
        loop {
            match slot.state() {
                State::Present(live) => return Ok(live),
                State::Missing => return Err(Error::QueueNotFound),
                State::Unknown => self.read_if_unknown(key, &slot.alone())?,
            }
        }
    }

    /// Runs `operate` on the slot of a queue, existing or not, while no operation writes to the queue. It gets the key of the
    /// queue's row and publishes the state after a write that changes it. The caller was admitted to write.
    fn with_queue_alone<T>(
        &self,
        account: &str,
        queue: &str,
        admission: &Admission,
        operate: impl FnOnce(&[u8], &Alone<'_>) -> Result<T>,
    ) -> Result<T> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        let slot = self.slots.get(&key);
        self.with_slot_alone(&key, &slot, admission, |alone| operate(&key, alone))
    }

    fn with_slot_alone<T>(
        &self,
        key: &[u8],
        slot: &Slot,
        _admission: &Admission,
        operate: impl FnOnce(&Alone<'_>) -> Result<T>,
    ) -> Result<T> {
        let alone = slot.alone();
        self.read_if_unknown(key, &alone)?;
        operate(&alone)
    }

    fn read_if_unknown(&self, key: &[u8], alone: &Alone<'_>) -> Result<()> {
        if let State::Unknown = alone.state() {
            alone.publish(match self.queue_row(key)? {
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

    /// Writes a batch of message operations; the caller brings `live` up to date only if it succeeds.
    fn write(&self, live: &Live, batch: Batch, admission: &Admission) -> Result<Ticket> {
        let written = self.db.write_admitted(batch, admission);
        if written.is_err() {
            live.mark_stale();
        }
        Ok(written?)
    }

    /// The time of an operation. Read once, under the lock that orders the operation among others, after everything that may
    /// wait: times of one queue are then in the order of its operations, and no timeout begins before its operation does.
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

/// A message is deleted soon after it was written, so that its rows are not worth much packing. They come and go in a few places
/// of the order, each at one end: small SSTables let merges leave alone what stands between. Nothing scans over the
/// tombstones (that is what the frontiers are for), so these need no merges of their own.
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

    /// A service on a store of its own, with a clock that only the test moves.
    pub(crate) fn service() -> (TempDir, QueueService, Arc<ManualWallClock>) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Default::default()).unwrap();
        let clock = Arc::new(ManualWallClock::new(SystemTime::UNIX_EPOCH));
        let ids = Arc::new(CountingIds::default());
        let service = QueueService::open(&db, ids, clock.clone()).unwrap();
        (directory, service, clock)
    }

    #[test]
    fn a_row_written_before_a_panic_is_found_by_the_next_scan() {
        let (_directory, service, _clock) = service();
        drop(service.create_queue(ACCOUNT, "queue", Vec::new()));
        let peek = || service.peek_messages(ACCOUNT, "queue", None).unwrap();
        assert!(peek().is_empty());
        let admission = service.db.admit().unwrap();
        let write_and_panic = |live: &Live, _cell: Hold<'_>| -> Result<()> {
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
            let mut batch = Batch::new();
            service.put_standing(&mut batch, live, position, row, delivery);
            let key = keys::text(live.id, position.id);
            batch.put(&service.messages, &key, &codec::encode_text("written"));
            drop(service.write(live, batch, &admission)?);
            panic!("before the frontier was moved");
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            service.with_queue(
                ACCOUNT,
                "queue",
                Live::lock_cell,
                &admission,
                write_and_panic,
            )
        }));
        assert!(panicked.is_err());
        assert_eq!(peek()[0].text, "written");
    }
}
