//! The rows of messages: scans the order of delivery, and reads, moves and deletes all rows of a
//! message together.

use crate::codec::{self, CounterRow, DeliveryRow, MessageRow};
use crate::keys::{self, MessageId, Position, REMOVED_CELL};
use crate::live::Live;
use crate::{QueueService, Result};
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Batch, Direction, Snapshot};
use std::sync::atomic::Ordering;

/// A visible message and its place in the order of delivery.
pub(crate) struct Deliverable {
    pub(crate) position: Position,
    pub(crate) row: DeliveryRow,
}

/// Number of rows of expired messages that one step of an operation skips while it holds a
/// contended lock: about a millisecond. With a smaller number there are more steps, each of which
/// seeks its place again.
const EXPIRED_ROWS_PER_STEP: usize = 4_000;

/// The result of a scan of the order of delivery.
pub(crate) struct DeliveryScan {
    /// The snapshot that was scanned.
    pub(crate) snapshot: Snapshot,
    pub(crate) messages: Vec<Deliverable>,
    /// Every message before this place is in `messages` or has expired.
    pub(crate) end: Position,
    /// Whether the scan skipped the maximum number of expired messages and found no other message.
    pub(crate) is_incomplete: bool,
}

impl DeliveryScan {
    fn new(snapshot: Snapshot, start: Position) -> DeliveryScan {
        DeliveryScan {
            snapshot,
            messages: Vec::new(),
            end: start,
            is_incomplete: false,
        }
    }

    /// No message before this place can be delivered, provided the caller takes none of `messages`.
    pub(crate) fn first_remaining(&self) -> Position {
        self.messages
            .first()
            .map_or(self.end, |message| message.position)
    }
}

impl QueueService {
    /// Scans the order of delivery for the first `count` visible messages, or fewer if many expired
    /// ones lie between them. The caller must have got `start` from the frontier `live.head` before
    /// this call.
    ///
    /// The range of the scan ends at the present, so that the scan need not find a later row to
    /// stop. Ahead of the present are the tombstones of all messages that were deleted before they
    /// became visible again, and the scan would step over each.
    pub(crate) fn find_deliverable(
        &self,
        live: &Live,
        start: Position,
        now: Ticks,
        count: usize,
    ) -> Result<DeliveryScan> {
        let mut found = DeliveryScan::new(self.db.snapshot(), start);
        let present = Position::after(now);
        if start >= present {
            return Ok(found);
        }
        let range = keys::deliveries(live.id, start, present);
        let mut scan = found
            .snapshot
            .scan(&self.messages, range, Direction::Forward);
        let mut expired = 0;
        while found.messages.len() < count {
            if expired == EXPIRED_ROWS_PER_STEP {
                found.is_incomplete = found.messages.is_empty();
                break;
            }
            if !scan.advance()? {
                found.end = present;
                break;
            }
            self.count_examined(1);
            let position = position_in(scan.key())?;
            let row = DeliveryRow::decode(&scan.value_in_place()?)?;
            found.end = position.next();
            if row.expires_at > now {
                found.messages.push(Deliverable { position, row });
            } else {
                expired += 1;
            }
        }
        Ok(found)
    }

    pub(crate) fn message_row(&self, live: &Live, id: MessageId) -> Result<Option<MessageRow>> {
        let value = self.db.get(&self.messages, &keys::message(live.id, id))?;
        Ok(value.map(|value| MessageRow::decode(&value)).transpose()?)
    }

    pub(crate) fn delivery_row(
        &self,
        live: &Live,
        position: Position,
    ) -> Result<Option<DeliveryRow>> {
        let key = keys::delivery(live.id, position);
        let value = self.db.get(&self.messages, &key)?;
        Ok(value.map(|value| DeliveryRow::decode(&value)).transpose()?)
    }

    pub(crate) fn text(&self, live: &Live, snapshot: &Snapshot, id: MessageId) -> Result<String> {
        let value = snapshot.get(&self.messages, &keys::text(live.id, id))?;
        let value = value.ok_or_else(|| codec::corrupt("a text", 0, "is missing"))?;
        Ok(codec::decode_text(value)?)
    }

    /// Puts the rows of a message that hold its place in the order of delivery: the delivery row
    /// and the row by id.
    pub(crate) fn put_message_rows(
        &self,
        batch: &mut Batch,
        live: &Live,
        position: Position,
        row: MessageRow,
        delivery: DeliveryRow,
    ) {
        let mut put = |key: &[u8], value: &[u8]| batch.put(&self.messages, key, value);
        put(&keys::delivery(live.id, position), &delivery.encode());
        put(&keys::message(live.id, position.id), &row.encode());
    }

    /// Moves a message to the time of visibility in `row`. Returns its new place, which may equal
    /// the old one.
    pub(crate) fn move_message(
        &self,
        batch: &mut Batch,
        live: &Live,
        from: Position,
        row: MessageRow,
        delivery: DeliveryRow,
    ) -> Position {
        let to = Position {
            at: row.visible_at,
            id: from.id,
        };
        batch.delete(&self.messages, &keys::delivery(live.id, from));
        self.put_message_rows(batch, live, to, row, delivery);
        to
    }

    /// Removes every row of one message.
    pub(crate) fn delete_message_rows(
        &self,
        batch: &mut Batch,
        live: &Live,
        position: Position,
        expires_at: Ticks,
    ) {
        let mut delete = |key: &[u8]| batch.delete(&self.messages, key);
        delete(&keys::delivery(live.id, position));
        delete(&keys::message(live.id, position.id));
        delete(&keys::text(live.id, position.id));
        if expires_at < Ticks::NEVER {
            let expiry = expiry_position(position.id, expires_at);
            delete(&keys::expiry(live.id, expiry));
        }
    }

    pub(crate) fn put_removed_count(&self, batch: &mut Batch, live: &Live, messages: u64) {
        let row = CounterRow {
            messages,
            last_sequence: 0,
        };
        let key = keys::counter(live.id, REMOVED_CELL);
        batch.put(&self.messages, &key, &row.encode());
    }

    pub(crate) fn count_examined(&self, rows: u64) {
        self.rows_examined.fetch_add(rows, Ordering::Relaxed);
    }
}

/// The message's place in the order of expiry.
pub(crate) fn expiry_position(id: MessageId, expires_at: Ticks) -> Position {
    Position { at: expires_at, id }
}

/// The position in a key of one of the two orders.
pub(crate) fn position_in(key: &[u8]) -> Result<Position> {
    Ok(keys::position(key)
        .ok_or_else(|| codec::corrupt("a position", 0, "its key is too short"))?)
}
