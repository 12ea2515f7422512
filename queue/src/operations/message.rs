//! Operations on messages.
//!
//! Operations that take messages or change one hold the consumer lock from the first read to the
//! write. Texts are read after it is released, from the snapshot that was taken under it.

use crate::codec::{self, CounterRow, DeliveryRow, MessageRow};
use crate::keys::{self, MessageId, Position};
use crate::live::{Live, QueueGuard};
use crate::model::*;
use crate::receipt::Receipt;
use crate::rows::{Deliverable, DeliveryScan, expiry_position, position_in};
use crate::visibility::{self, Lifetime};
use crate::{Error, QueueService, Result, check};
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Direction, Snapshot, Ticket, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl QueueService {
    /// Adds a message. Source: Put Message.
    pub fn put_message(
        &self,
        account: &str,
        queue: &str,
        request: PutMessage<'_>,
    ) -> Result<(PutMessageResult, Ticket)> {
        let lifetime = check_new_message(&request)?;
        let lock = Live::lock_cell;
        let add = |live: &Live, cell: QueueGuard<'_>, transaction: Transaction<'_>| {
            self.add_message(live, cell, lifetime, &request, transaction)
        };
        self.with_queue(account, queue, lock, self.db.begin()?, add)
    }

    /// Takes visible messages, oldest first, and hides them: at most `count`, and fewer if many
    /// expired ones lie between them. Writes, unless it finds none. Source: Get Messages.
    pub fn get_messages(
        &self,
        account: &str,
        queue: &str,
        request: GetMessages,
    ) -> Result<(Vec<DequeuedMessage>, Ticket)> {
        loop {
            if let Some(dequeued) = self.get_messages_step(account, queue, request)? {
                return Ok(dequeued);
            }
        }
    }

    /// Runs one step of [`QueueService::get_messages`], of bounded length. `None` if the step
    /// skipped the maximum number of expired messages and found no other message; the next step
    /// continues from there.
    pub fn get_messages_step(
        &self,
        account: &str,
        queue: &str,
        request: GetMessages,
    ) -> Result<Option<(Vec<DequeuedMessage>, Ticket)>> {
        let count = visibility::message_count(request.count)?;
        let seconds = visibility::seconds_hidden_by_get(&request)?;
        let transaction = self.db.begin_deletion()?;
        let lock = Live::lock_consumer;
        self.with_queue(
            account,
            queue,
            lock,
            transaction,
            |live, consumer, transaction| {
                let now = self.now();
                // The scan begins before the snapshot is taken: from here on, the frontier notes
                // added rows.
                let start = live.head.begin();
                let found = self.find_deliverable(live, start, now, count)?;
                let visible_at = now.plus_seconds(seconds);
                let dequeued = self.dequeue(live, &found.messages, visible_at, transaction)?;
                live.head.finish(found.end);
                live.consumed_rows
                    .fetch_add(found.messages.len() as u64, Ordering::Relaxed);
                for (position, _) in &dequeued.positions {
                    live.head.added(*position);
                }
                drop(consumer);
                if found.is_incomplete {
                    return Ok(None);
                }
                let messages = self.dequeued_messages(live, found, &dequeued)?;
                Ok(Some((messages, dequeued.ticket)))
            },
        )
    }

    /// Returns visible messages, oldest first, and changes nothing. `count` is `numofmessages`;
    /// `None`: 1. Source: Peek Messages.
    pub fn peek_messages(
        &self,
        account: &str,
        queue: &str,
        count: Option<i64>,
    ) -> Result<Vec<PeekedMessage>> {
        let (live, count) = self.peeked_queue(account, queue, count)?;
        let mut from = Position::MIN;
        loop {
            let found = self.peek(&live, from, count)?;
            if !found.is_incomplete {
                return self.peeked_messages(&live, found);
            }
            from = found.end;
        }
    }

    /// Runs one step of [`QueueService::peek_messages`], of bounded length; see
    /// [`QueueService::get_messages_step`].
    pub fn peek_messages_step(
        &self,
        account: &str,
        queue: &str,
        count: Option<i64>,
    ) -> Result<Option<Vec<PeekedMessage>>> {
        let (live, count) = self.peeked_queue(account, queue, count)?;
        let found = self.peek(&live, Position::MIN, count)?;
        if found.is_incomplete {
            return Ok(None);
        }
        self.peeked_messages(&live, found).map(Some)
    }

    fn peeked_queue(
        &self,
        account: &str,
        queue: &str,
        count: Option<i64>,
    ) -> Result<(Arc<Live>, usize)> {
        let count = visibility::message_count(count)?;
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        Ok((self.published_queue(&key, &self.slots.get(&key))?, count))
    }

    /// Runs one step of a peek that has scanned up to `from`. Never waits for a consumer: while a
    /// consumer holds the lock, the peek starts at the frontier but does not move it.
    fn peek(&self, live: &Live, from: Position, count: usize) -> Result<DeliveryScan> {
        let Some(_consumer) = live.try_lock_consumer() else {
            let start = live.head.start().max(from);
            return self.find_deliverable(live, start, self.now(), count);
        };
        // Rows skipped in an earlier step without the lock are scanned again: the frontier may only
        // pass rows that one scan saw.
        let start = live.head.begin();
        let found = self.find_deliverable(live, start, self.now(), count)?;
        live.head.finish(found.first_remaining());
        Ok(found)
    }

    fn peeked_messages(&self, live: &Live, found: DeliveryScan) -> Result<Vec<PeekedMessage>> {
        let peeked = |message| self.peeked(live, &found.snapshot, message);
        found.messages.into_iter().map(peeked).collect()
    }

    fn peeked(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        message: Deliverable,
    ) -> Result<PeekedMessage> {
        Ok(PeekedMessage {
            message_id: message.position.id.to_string(),
            inserted_at: message.row.inserted_at.to_system(),
            expires_at: message.row.expires_at.to_system(),
            dequeue_count: message.row.dequeue_count,
            text: self.text(live, snapshot, message.position.id)?,
        })
    }

    /// Returns one page of all messages of a queue in the order of delivery, hidden ones included.
    /// Changes nothing. Not an operation of the protocol; for exports. `from` is
    /// [`MessagePage::next`] of the page before, or empty for the first page; `InvalidMarker` if it
    /// is not a place in the order. A message that is delivered meanwhile may be in two pages.
    pub fn list_messages(
        &self,
        account: &str,
        queue: &str,
        from: &str,
        count: usize,
    ) -> Result<MessagePage> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        let live = self.published_queue(&key, &self.slots.get(&key))?;
        let start = if from.is_empty() {
            live.head.start()
        } else {
            Position::parse(from).ok_or(Error::InvalidMarker)?
        };
        let (snapshot, now) = (self.db.snapshot(), self.now());
        let range = keys::deliveries(live.id, start, Position::MAX);
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut page = MessagePage::default();
        while scan.advance()? {
            let position = position_in(scan.key())?;
            if page.messages.len() == count {
                page.next = Some(position.to_string());
                break;
            }
            let row = DeliveryRow::decode(&scan.value_in_place()?)?;
            if row.expires_at > now {
                let message = Deliverable { position, row };
                page.messages.push(self.peeked(&live, &snapshot, message)?);
            }
        }
        Ok(page)
    }

    /// Changes the time at which a message is visible again, gives it a new receipt, and replaces
    /// its text if one is given. Expiry and dequeue count stay. Source: Update Message.
    pub fn update_message(
        &self,
        account: &str,
        queue: &str,
        request: UpdateMessage<'_>,
    ) -> Result<(UpdateMessageResult, Ticket)> {
        let seconds = visibility::visibility_seconds(request.visibility_seconds, 0)?;
        check_text(request.text.unwrap_or_default())?;
        let receipt = parse_receipt(request.pop_receipt)?;
        // A new text may be longer than the old one, and thus need space.
        let transaction = match request.text {
            Some(_) => self.db.begin()?,
            None => self.db.begin_deletion()?,
        };
        let lock = Live::lock_consumer;
        let update = |live: &Live, _: QueueGuard<'_>, transaction: Transaction<'_>| {
            self.change_message(live, &request, seconds, receipt, transaction)
        };
        self.with_queue(account, queue, lock, transaction, update)
    }

    /// Updates a message. The caller must hold the consumer lock.
    fn change_message(
        &self,
        live: &Live,
        request: &UpdateMessage<'_>,
        hidden_seconds: u64,
        receipt: Receipt,
        mut transaction: Transaction<'_>,
    ) -> Result<(UpdateMessageResult, Ticket)> {
        let now = self.now();
        let (from, row) = self.message_with_receipt(live, request.message_id, receipt, now)?;
        // Without its delivery row the message cannot be delivered any more, as if it were deleted.
        let delivery = self.delivery_row(live, from)?;
        let delivery = delivery.ok_or(Error::MessageNotFound)?;
        let visible_at = visibility::visible_after_update(hidden_seconds, row.expires_at, now)?;
        let row = MessageRow {
            visible_at,
            receipt: self.new_receipt(),
            ..row
        };
        let batch = transaction.batch();
        let to = self.move_message(batch, live, from, row, delivery);
        if let Some(text) = request.text {
            let key = keys::text(live.id, to.id);
            batch.put(&self.messages, &key, &codec::encode_text(text));
        }
        let ticket = transaction.commit()?;
        live.head.added(to);
        let result = UpdateMessageResult {
            pop_receipt: row.receipt.to_string(),
            visible_at: visible_at.to_system(),
        };
        Ok((result, ticket))
    }

    /// Deletes a message. Source: Delete Message.
    pub fn delete_message(
        &self,
        account: &str,
        queue: &str,
        message_id: &str,
        pop_receipt: &str,
    ) -> Result<Ticket> {
        let receipt = parse_receipt(pop_receipt)?;
        let transaction = self.db.begin_deletion()?;
        let lock = Live::lock_consumer;
        self.with_queue(
            account,
            queue,
            lock,
            transaction,
            |live, mut consumer, mut transaction| {
                let (position, row) =
                    self.message_with_receipt(live, message_id, receipt, self.now())?;
                let batch = transaction.batch();
                self.delete_message_rows(batch, live, position, row.expires_at);
                self.put_removed_count(batch, live, *consumer.messages + 1);
                let ticket = transaction.commit()?;
                *consumer.messages += 1;
                Ok(ticket)
            },
        )
    }

    /// Writes a new message and moves the frontiers back to it.
    fn add_message(
        &self,
        live: &Live,
        mut cell: QueueGuard<'_>,
        lifetime: Lifetime,
        request: &PutMessage<'_>,
        mut transaction: Transaction<'_>,
    ) -> Result<(PutMessageResult, Ticket)> {
        let now = self.now();
        let row = MessageRow {
            visible_at: now.plus_seconds(lifetime.hidden_seconds),
            expires_at: lifetime.expires_at(now),
            receipt: self.new_receipt(),
        };
        let id = live.next_message_id(now, self.ids.next_id());
        let position = Position {
            at: row.visible_at,
            id,
        };
        let delivery = DeliveryRow {
            inserted_at: now,
            expires_at: row.expires_at,
            dequeue_count: request.dequeue_count,
        };
        let counter = CounterRow {
            messages: *cell.messages + 1,
            last_sequence: id.sequence(),
        };
        let expiry = expiry_position(id, row.expires_at);
        let batch = transaction.batch();
        self.put_message_rows(batch, live, position, row, delivery);
        let mut put = |key: &[u8], value: &[u8]| batch.put(&self.messages, key, value);
        put(&keys::text(live.id, id), &codec::encode_text(request.text));
        if row.expires_at < Ticks::NEVER {
            put(&keys::expiry(live.id, expiry), &codec::EXPIRY_VALUE);
        }
        put(&keys::counter(live.id, cell.cell), &counter.encode());
        let ticket = transaction.commit()?;
        *cell.messages += 1;
        live.message_added(position, expiry);
        Ok((put_result(id, now, &row), ticket))
    }

    /// Moves messages to `visible_at`, gives each a new receipt and counts the delivery.
    fn dequeue(
        &self,
        live: &Live,
        messages: &[Deliverable],
        visible_at: Ticks,
        mut transaction: Transaction<'_>,
    ) -> Result<DequeuedRows> {
        let mut positions = Vec::with_capacity(messages.len());
        for message in messages {
            let row = MessageRow {
                visible_at,
                expires_at: message.row.expires_at,
                receipt: self.new_receipt(),
            };
            // Counted at delivery, not at deletion: a message whose consumers always fail is never
            // deleted, and its count must still grow.
            let delivery = DeliveryRow {
                dequeue_count: message.row.dequeue_count.saturating_add(1),
                ..message.row
            };
            let to = self.move_message(transaction.batch(), live, message.position, row, delivery);
            positions.push((to, row.receipt));
        }
        let ticket = transaction.commit()?;
        Ok(DequeuedRows { positions, ticket })
    }

    fn dequeued_messages(
        &self,
        live: &Live,
        found: DeliveryScan,
        rows: &DequeuedRows,
    ) -> Result<Vec<DequeuedMessage>> {
        let pairs = found.messages.into_iter().zip(&rows.positions);
        let dequeued = |(message, (to, receipt)): (Deliverable, &(Position, Receipt))| {
            Ok(DequeuedMessage {
                message_id: to.id.to_string(),
                inserted_at: message.row.inserted_at.to_system(),
                expires_at: message.row.expires_at.to_system(),
                pop_receipt: receipt.to_string(),
                visible_at: to.at.to_system(),
                dequeue_count: message.row.dequeue_count.saturating_add(1),
                text: self.text(live, &found.snapshot, to.id)?,
            })
        };
        pairs.map(dequeued).collect()
    }

    /// Returns the unexpired message with this id, if `receipt` is its current one. Source: Delete
    /// Message, "Remarks".
    fn message_with_receipt(
        &self,
        live: &Live,
        message_id: &str,
        receipt: Receipt,
        now: Ticks,
    ) -> Result<(Position, MessageRow)> {
        let id = MessageId::parse(message_id).ok_or(Error::MessageNotFound)?;
        let row = self
            .message_row(live, id)?
            .filter(|row| row.expires_at > now)
            .ok_or(Error::MessageNotFound)?;
        if row.receipt != receipt {
            return Err(Error::PopReceiptMismatch);
        }
        let position = Position {
            at: row.visible_at,
            id,
        };
        Ok((position, row))
    }
}

fn put_result(id: MessageId, now: Ticks, row: &MessageRow) -> PutMessageResult {
    PutMessageResult {
        message_id: id.to_string(),
        inserted_at: now.to_system(),
        expires_at: row.expires_at.to_system(),
        pop_receipt: row.receipt.to_string(),
        visible_at: row.visible_at.to_system(),
    }
}

/// The new places and receipts of dequeued messages, and the ticket of the write.
struct DequeuedRows {
    positions: Vec<(Position, Receipt)>,
    ticket: Ticket,
}

/// Fails unless the message may be put into a queue.
pub fn check_message(request: &PutMessage<'_>) -> Result<()> {
    check_new_message(request).map(drop)
}

fn check_new_message(request: &PutMessage<'_>) -> Result<Lifetime> {
    let lifetime = visibility::lifetime_of_new_message(request)?;
    check_text(request.text)?;
    Ok(lifetime)
}

/// Checks the length of a message's text. Source: Put Message, "Remarks".
fn check_text(text: &str) -> Result<()> {
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(Error::RequestBodyTooLarge {
            limit: MESSAGE_BYTES_MAX as u64,
        });
    }
    Ok(())
}

fn parse_receipt(text: &str) -> Result<Receipt> {
    Receipt::parse(text).ok_or_else(|| Error::InvalidQueryParameterValue {
        name: "popreceipt",
        value: text.into(),
        reason: "Invalid pop receipt format.",
    })
}
