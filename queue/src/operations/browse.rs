//! Reads of all messages, hidden ones included, for tools that show a queue. No operation of the
//! protocol does this.
//!
//! Nothing here counts a delivery or changes a row. A lock is taken only to read the state of a
//! queue into memory. Times and receipts are as of one snapshot for each call.

use crate::codec::{self, DeliveryRow, MessageRow};
use crate::keys::{self, MessageId, Position};
use crate::live::Live;
use crate::model::*;
use crate::rows::position_in;
use crate::{Error, QueueService, Result, check};
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Direction, Snapshot};
use std::sync::Arc;
use std::time::Duration;

impl QueueService {
    /// Returns messages in the order of delivery, at most `request.count` that `accepts` takes.
    /// Ends early once `is_over` returns `true`; `next` in the result is the place to continue
    /// from.
    pub fn browse_messages(
        &self,
        account: &str,
        queue: &str,
        request: &BrowseMessages<'_>,
        accepts: &dyn Fn(&StoredMessage) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<BrowsedMessages> {
        let live = self.browsed_queue(account, queue)?;
        let now = self.now();
        // The frontier is read before the snapshot is taken. Read later, it could be past messages
        // of the snapshot.
        let first = match request.from {
            BrowseFrom::Start => live.head.start(),
            BrowseFrom::Hidden => Position::after(now),
            BrowseFrom::Next(marker) => parse_marker(marker)?,
        };
        let snapshot = self.db.snapshot();
        let range = keys::deliveries(live.id, first, Position::MAX);
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut page = BrowsedMessages::default();
        while scan.advance()? {
            let position = position_in(scan.key())?;
            if page.messages.len() == request.count || page.examined > 0 && is_over() {
                page.next = Some(marker(position));
                break;
            }
            page.examined += 1;
            let row = DeliveryRow::decode(&scan.value_in_place()?)?;
            if row.expires_at <= now {
                continue;
            }
            let message = self.stored_at(&live, &snapshot, position, row)?;
            page.messages
                .extend(message.filter(|message| accepts(message)));
        }
        self.count_examined(page.examined);
        Ok(page)
    }

    /// Returns at most `count` messages in the order of their ids, which is the order in which they
    /// were put. `from` is the id at which the page begins: `next` of the page before, or `None`
    /// for the first page.
    pub fn list_messages_by_id(
        &self,
        account: &str,
        queue: &str,
        from: Option<&str>,
        count: usize,
    ) -> Result<BrowsedMessages> {
        let live = self.browsed_queue(account, queue)?;
        let (snapshot, now) = (self.db.snapshot(), self.now());
        let mut range = keys::messages(live.id);
        if let Some(from) = from {
            let id = MessageId::parse(from).ok_or(Error::InvalidMarker)?;
            range.start = keys::message(live.id, id);
        }
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut page = BrowsedMessages::default();
        while scan.advance()? {
            let id = keys::message_id(scan.key());
            let id = id.ok_or_else(|| codec::corrupt("a message", 0, "its key has no id"))?;
            if page.messages.len() == count {
                page.next = Some(id.to_string());
                break;
            }
            page.examined += 1;
            let row = MessageRow::decode(&scan.value_in_place()?)?;
            if row.expires_at > now {
                let message = self.stored_in(&live, &snapshot, id, row.visible_at)?;
                page.messages.extend(message);
            }
        }
        Ok(page)
    }

    /// A message by its id, hidden or not. Errors: `MessageNotFound`.
    pub fn stored_message(
        &self,
        account: &str,
        queue: &str,
        message_id: &str,
    ) -> Result<StoredMessage> {
        let live = self.browsed_queue(account, queue)?;
        let (snapshot, now) = (self.db.snapshot(), self.now());
        let id = MessageId::parse(message_id).ok_or(Error::MessageNotFound)?;
        let row = self.row_in(&live, &snapshot, id)?;
        let row = row.filter(|row| row.expires_at > now);
        let visible_at = row.ok_or(Error::MessageNotFound)?.visible_at;
        let message = self.stored_in(&live, &snapshot, id, visible_at)?;
        message.ok_or(Error::MessageNotFound)
    }

    /// Counts visible, hidden and soon expiring messages, until `is_over` says that the time is up.
    pub fn tally_messages(
        &self,
        account: &str,
        queue: &str,
        soon: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<MessageTally> {
        let live = self.browsed_queue(account, queue)?;
        let now = self.now();
        let start = live.head.start();
        let snapshot = self.db.snapshot();
        let end = now.plus_seconds(soon.as_secs());
        let range = keys::deliveries(live.id, start, Position::MAX);
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let (mut tally, mut examined) = (MessageTally::default(), 0_u64);
        while scan.advance()? {
            // The time is checked only once in 256 messages.
            if examined % 256 == 255 && is_over() {
                tally.is_partial = true;
                break;
            }
            examined += 1;
            let row = DeliveryRow::decode(&scan.value_in_place()?)?;
            if row.expires_at <= now {
                continue;
            }
            if position_in(scan.key())?.at > now {
                tally.hidden += 1;
            } else {
                tally.visible += 1;
            }
            tally.expiring += u64::from(row.expires_at <= end);
        }
        self.count_examined(examined);
        Ok(tally)
    }

    fn browsed_queue(&self, account: &str, queue: &str) -> Result<Arc<Live>> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        self.published_queue(&key, &self.slots.get(&key))
    }

    fn row_in(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        id: MessageId,
    ) -> Result<Option<MessageRow>> {
        let value = snapshot.get(&self.messages, &keys::message(live.id, id))?;
        Ok(value.map(|value| MessageRow::decode(&value)).transpose()?)
    }

    /// Returns all data of a message whose time of visibility is `visible_at`; `None` if it has no
    /// place in the order of delivery.
    fn stored_in(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        id: MessageId,
        visible_at: Ticks,
    ) -> Result<Option<StoredMessage>> {
        let position = Position { at: visible_at, id };
        let delivery = snapshot.get(&self.messages, &keys::delivery(live.id, position))?;
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        let delivery = DeliveryRow::decode(&delivery)?;
        self.stored_at(live, snapshot, position, delivery)
    }

    /// A message with its text; `None` if its row by id is missing.
    fn stored_at(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        position: Position,
        delivery: DeliveryRow,
    ) -> Result<Option<StoredMessage>> {
        let Some(row) = self.row_in(live, snapshot, position.id)? else {
            return Ok(None);
        };
        Ok(Some(StoredMessage {
            message_id: position.id.to_string(),
            inserted_at: delivery.inserted_at.to_system(),
            expires_at: delivery.expires_at.to_system(),
            visible_at: position.at.to_system(),
            pop_receipt: row.receipt.to_string(),
            dequeue_count: delivery.dequeue_count,
            text: self.text(live, snapshot, position.id)?,
        }))
    }
}

/// The text of a position in a marker.
fn marker(position: Position) -> String {
    format!("{:016x}{:032x}", position.at.0, position.id.0)
}

fn parse_marker(text: &str) -> Result<Position> {
    let parsed = text.split_at_checked(16).and_then(|(at, id)| {
        Some(Position {
            at: Ticks(u64::from_str_radix(at, 16).ok()?),
            id: MessageId(u128::from_str_radix(id, 16).ok()?),
        })
    });
    parsed.ok_or_else(|| Error::InvalidQueryParameterValue {
        name: "marker",
        value: text.into(),
        reason: "The marker is not one that a page of messages had.",
    })
}
