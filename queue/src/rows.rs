//! The rows of messages: found along the order of delivery, read, moved and deleted, always all that belong together.

use crate::codec::{self, CounterRow, DeliveryRow, MessageRow};
use crate::keys::{self, MessageId, Position, REMOVED_CELL};
use crate::live::Live;
use crate::time::Ticks;
use crate::{QueueService, Result};
use lazurite_engine::{Batch, Direction, Snapshot};
use std::sync::atomic::Ordering;

/// A message that may be delivered, and where it stands.
pub(crate) struct Deliverable {
    pub(crate) position: Position,
    pub(crate) row: DeliveryRow,
}

/// Rows of expired messages that one step of an operation passes, holding a lock that others wait for: about a millisecond.
/// Fewer in a step make more steps, each of which seeks its place again.
const EXPIRED_ROWS_PER_STEP: usize = 4_000;

/// What a scan of the order of delivery found.
pub(crate) struct Found {
    /// What the scan saw.
    pub(crate) snapshot: Snapshot,
    pub(crate) messages: Vec<Deliverable>,
    /// All before this place is either in `messages` or expired.
    pub(crate) end: Position,
    /// Whether it has only stepped over expired messages, and there may be others behind them.
    pub(crate) is_cut: bool,
}

impl Found {
    /// Before this place there is nothing for anybody, if nothing was taken.
    pub(crate) fn first_left(&self) -> Position {
        self.messages
            .first()
            .map_or(self.end, |message| message.position)
    }
}

impl QueueService {
    /// Walks the order of delivery to the first `count` messages that are visible, or fewer if many expired ones stand among
    /// them. `start` is where the frontier `live.head` said to begin, before this call.
    ///
    /// The scan ends at the present by its range, not by meeting a later row: ahead lie the tombstones of all messages
    /// deleted by their holders before they came back, and a scan that looked for the next row would step on each.
    pub(crate) fn find_deliverable(
        &self,
        live: &Live,
        start: Position,
        now: Ticks,
        count: usize,
    ) -> Result<Found> {
        let mut found = Found {
            snapshot: self.db.snapshot(),
            messages: Vec::new(),
            end: start,
            is_cut: false,
        };
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
                found.is_cut = found.messages.is_empty();
                break;
            }
            if !scan.advance()? {
                found.end = present;
                break;
            }
            self.examined(1);
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

    /// Puts the two rows that say where a message stands.
    pub(crate) fn put_standing(
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

    /// Moves a message to where `row` says; answers its new place, which may be the old one.
    pub(crate) fn put_moved(
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
        self.put_standing(batch, live, to, row, delivery);
        to
    }

    /// Removes every row of one message.
    pub(crate) fn delete_rows(
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

    pub(crate) fn examined(&self, rows: u64) {
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
