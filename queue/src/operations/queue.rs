//! Operations on queues.

use crate::codec::{self, CounterRow, QueueRow};
use crate::keys::{self, PRODUCER_CELLS, Position, QueueId, REMOVED_CELL};
use crate::live::{Existence, Live};
use crate::model::*;
use crate::visibility::in_range;
use crate::{Error, QueueService, Result, check};
use lazurite_base::policies::StoredPolicy;
use lazurite_engine::{Direction, Snapshot, Ticket, Transaction};
use std::sync::Arc;

impl QueueService {
    /// Creates a queue. A queue that exists with equal metadata is left unchanged; with different
    /// metadata the error is `QueueAlreadyExists`. Source: Create Queue.
    pub fn create_queue(
        &self,
        account: &str,
        queue: &str,
        metadata: Metadata,
    ) -> Result<(Creation, Ticket)> {
        let begun = self.db.begin()?;
        self.with_exclusive_queue(account, queue, begun, |key, access, transaction| {
            if let Existence::Present(_) = access.state() {
                let row = self.existing_row(key)?;
                return if check::metadata_equal(&row.metadata, &metadata) {
                    // The creation by another request may not be durable yet.
                    Ok((Creation::AlreadyThere, self.db.ticket()))
                } else {
                    Err(Error::QueueAlreadyExists)
                };
            }
            let row = QueueRow {
                id: self.new_queue_id(),
                metadata,
                policies: Vec::new(),
            };
            let ticket = self.commit_row(key, &row, transaction)?;
            access.publish(Existence::Present(Arc::new(Live::new(row.id, &[]))));
            Ok((Creation::Created, ticket))
        })
    }

    /// Deletes a queue with its messages, metadata and policies in one write, at a cost that does
    /// not depend on its size. The name can be used again at once. Source: Delete Queue.
    pub fn delete_queue(&self, account: &str, queue: &str) -> Result<Ticket> {
        let begun = self.db.begin_deletion()?;
        self.with_exclusive_queue(account, queue, begun, |key, access, mut transaction| {
            let row = self.existing_row_of(key, &access.state())?;
            let batch = transaction.batch();
            batch.delete(&self.queues, key);
            batch.delete_range(&self.messages, keys::everything(row.id));
            let ticket = transaction.commit()?;
            access.publish(Existence::Missing);
            Ok(ticket)
        })
    }

    /// One page of the account's queues. Source: List Queues.
    pub fn list_queues(&self, account: &str, request: ListQueues<'_>) -> Result<QueuePage> {
        let maxresults = request.maxresults.unwrap_or(QUEUES_PER_PAGE_MAX);
        let count = in_range("maxresults", maxresults, 1, QUEUES_PER_PAGE_MAX)? as usize;
        let first = name_in_marker(account, request.marker)?;
        let mut page = QueuePage {
            queues: Vec::new(),
            next_marker: None,
        };
        let mut range = keys::queues(account, request.prefix);
        range.start = range.start.max(keys::queue(account, first));
        if range.is_empty() || request.prefix.len() > *QUEUE_NAME_LENGTH.end() {
            return Ok(page);
        }
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.queues, range, Direction::Forward);
        while scan.advance()? {
            let name = keys::queue_name(scan.key())
                .ok_or_else(|| codec::corrupt("a queue", 0, "its key holds no name"))?;
            if page.queues.len() == count {
                page.next_marker = Some(format!("/{account}/{name}"));
                break;
            }
            page.queues.push(ListedQueue {
                name: name.into(),
                metadata: QueueRow::decode(&scan.value()?)?.metadata,
            });
        }
        Ok(page)
    }

    /// Returns the metadata and the number of messages, visible or not. Takes no lock that a write
    /// holds. Source: Get Queue Metadata.
    pub fn get_queue_metadata(&self, account: &str, queue: &str) -> Result<QueueProperties> {
        check::queue_name(queue)?;
        let key = keys::queue(account, queue);
        // Read before the snapshot is taken, so the snapshot holds no rows before this place.
        let first_expiry = match self.slots.get(&key).state() {
            Existence::Present(live) => Some((live.id, live.next_expiry.start())),
            Existence::Missing | Existence::Unknown => None,
        };
        let snapshot = self.db.snapshot();
        let row = snapshot.get(&self.queues, &key)?;
        let row = QueueRow::decode(&row.ok_or(Error::QueueNotFound)?)?;
        let first_expiry = first_expiry.filter(|(id, _)| *id == row.id);
        let first_expiry = first_expiry.map_or(Position::MIN, |(_, place)| place);
        let stored = self.count_stored(&snapshot, row.id)?;
        let expired = self.count_expired(&snapshot, row.id, first_expiry)?;
        Ok(QueueProperties {
            metadata: row.metadata,
            approximate_message_count: stored.saturating_sub(expired),
        })
    }

    /// Replaces the metadata; an empty set clears it. Source: Set Queue Metadata.
    pub fn set_queue_metadata(
        &self,
        account: &str,
        queue: &str,
        metadata: Metadata,
    ) -> Result<Ticket> {
        self.change_row(account, queue, |row| row.metadata = metadata)
    }

    /// The stored access policies, in the order they were set. Source: Get Queue ACL.
    pub fn get_queue_acl(&self, account: &str, queue: &str) -> Result<Vec<StoredPolicy>> {
        check::queue_name(queue)?;
        let row = self.queue_row(&keys::queue(account, queue))?;
        Ok(row.ok_or(Error::QueueNotFound)?.policies)
    }

    /// Replaces the stored access policies, which take effect before the return. Source: Set Queue
    /// ACL.
    pub fn set_queue_acl(
        &self,
        account: &str,
        queue: &str,
        policies: Vec<StoredPolicy>,
    ) -> Result<Ticket> {
        check::policies(&policies)?;
        self.change_row(account, queue, |row| row.policies = policies)
    }

    /// Deletes all messages, visible or not, in one write, at a cost that does not depend on their
    /// number. Source: Clear Messages.
    pub fn clear_messages(&self, account: &str, queue: &str) -> Result<Ticket> {
        let begun = self.db.begin_deletion()?;
        self.with_exclusive_queue(account, queue, begun, |key, access, mut transaction| {
            let mut row = self.existing_row_of(key, &access.state())?;
            let everything = keys::everything(row.id);
            transaction.batch().delete_range(&self.messages, everything);
            row.id = self.new_queue_id();
            let ticket = self.commit_row(key, &row, transaction)?;
            access.publish(Existence::Present(Arc::new(Live::new(row.id, &[]))));
            Ok(ticket)
        })
    }

    fn change_row(
        &self,
        account: &str,
        queue: &str,
        change: impl FnOnce(&mut QueueRow),
    ) -> Result<Ticket> {
        let begun = self.db.begin()?;
        self.with_exclusive_queue(account, queue, begun, |key, access, transaction| {
            let mut row = self.existing_row_of(key, &access.state())?;
            change(&mut row);
            self.commit_row(key, &row, transaction)
        })
    }

    fn existing_row_of(&self, key: &[u8], state: &Existence) -> Result<QueueRow> {
        match state {
            Existence::Present(_) => self.existing_row(key),
            Existence::Missing | Existence::Unknown => Err(Error::QueueNotFound),
        }
    }

    fn existing_row(&self, key: &[u8]) -> Result<QueueRow> {
        self.queue_row(key)?.ok_or(Error::QueueNotFound)
    }

    /// Puts the row of a queue and commits.
    fn commit_row(
        &self,
        key: &[u8],
        row: &QueueRow,
        mut transaction: Transaction<'_>,
    ) -> Result<Ticket> {
        transaction.batch().put(&self.queues, key, &row.encode());
        Ok(transaction.commit()?)
    }

    /// The number of messages that have rows, including expired ones.
    fn count_stored(&self, snapshot: &Snapshot, id: QueueId) -> Result<u64> {
        let count = |cell| -> Result<u64> {
            let row = snapshot.get(&self.messages, &keys::counter(id, cell))?;
            let row = row.map(|row| CounterRow::decode(&row)).transpose()?;
            Ok(row.unwrap_or_default().messages)
        };
        let added = (0..PRODUCER_CELLS).map(count).sum::<Result<u64>>()?;
        Ok(added.saturating_sub(count(REMOVED_CELL)?))
    }

    /// Counts the expired messages that still have rows. All these rows must be at or after `start`
    /// in the order of expiry.
    fn count_expired(&self, snapshot: &Snapshot, id: QueueId, start: Position) -> Result<u64> {
        let range = keys::expiries(id, start, Position::after(self.now()));
        if range.is_empty() {
            return Ok(0);
        }
        let mut rows = 0;
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        while scan.advance()? {
            rows += 1;
        }
        self.count_examined(rows);
        Ok(rows)
    }
}

/// The queue name in a marker that this service returned; empty for the empty marker.
fn name_in_marker<'a>(account: &str, marker: &'a str) -> Result<&'a str> {
    if marker.is_empty() {
        return Ok("");
    }
    marker
        .strip_prefix('/')
        .and_then(|rest| rest.strip_prefix(account))
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|name| name.len() <= *QUEUE_NAME_LENGTH.end())
        .ok_or(Error::InvalidMarker)
}
