//! Operations on queues.

use crate::codec::{self, QueueRow};
use crate::keys::{self, Position};
use crate::live::{Live, State};
use crate::model::*;
use crate::rows::{EXPIRED_ROWS_PER_STEP, position_in};
use crate::time::Ticks;
use crate::visibility::in_range;
use crate::{Error, QueueService, Result, check};
use lazurite_engine::{Batch, Direction, Ticket};

impl QueueService {
    /// Creates a queue. One that exists with equal metadata is left as it is; with other metadata it is
    /// `QueueAlreadyExists`. Source: Create Queue.
    pub fn create_queue(
        &self,
        account: &str,
        queue: &str,
        metadata: Metadata,
    ) -> Result<(Creation, Ticket)> {
        check::metadata(&metadata)?;
        self.with_queue_alone(account, queue, |key, state| {
            if let State::Present(_) = **state {
                let row = self.existing_row(key)?;
                return if check::metadata_equal(&row.metadata, &metadata) {
                    Ok((Creation::AlreadyThere, Ticket::ready()))
                } else {
                    Err(Error::QueueAlreadyExists)
                };
            }
            let row = QueueRow {
                id: self.new_queue_id(),
                metadata,
                policies: Vec::new(),
            };
            let ticket = self.put_row(key, &row, Batch::new(), state)?;
            **state = State::Present(Box::new(Live::new(row.id, &[])));
            Ok((Creation::Created, ticket))
        })
    }

    /// Deletes a queue with its messages, metadata and policies: one write, whatever it holds. The name is free at once.
    /// Source: Delete Queue.
    pub fn delete_queue(&self, account: &str, queue: &str) -> Result<Ticket> {
        self.with_queue_alone(account, queue, |key, state| {
            let row = self.existing_row_of(key, state)?;
            let mut batch = Batch::new();
            batch.delete(&self.queues, key);
            batch.delete_range(&self.messages, keys::everything(row.id));
            let ticket = self.write_alone(batch, state)?;
            **state = State::Missing;
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

    /// Metadata, and the number of messages that exist, visible or not. Source: Get Queue Metadata.
    pub fn get_queue_metadata(&self, account: &str, queue: &str) -> Result<QueueProperties> {
        loop {
            let counted = self.with_queue_alone(account, queue, |key, state| {
                let row = self.existing_row_of(key, state)?;
                let State::Present(live) = &**state else {
                    return Err(Error::QueueNotFound);
                };
                let expired = self.count_expired(live, self.now())?;
                Ok(expired.map(|expired| QueueProperties {
                    metadata: row.metadata,
                    approximate_message_count: live.stored_messages().saturating_sub(expired),
                }))
            })?;
            // Between steps others have their turn at the queue.
            if let Some(properties) = counted {
                return Ok(properties);
            }
        }
    }

    /// Replaces the metadata; the empty set clears it. Source: Set Queue Metadata.
    pub fn set_queue_metadata(
        &self,
        account: &str,
        queue: &str,
        metadata: Metadata,
    ) -> Result<Ticket> {
        check::metadata(&metadata)?;
        self.change_row(account, queue, |row| row.metadata = metadata)
    }

    /// The stored policies, in the order set. Source: Get Queue ACL.
    pub fn get_queue_acl(&self, account: &str, queue: &str) -> Result<Vec<StoredPolicy>> {
        check::queue_name(queue)?;
        let row = self.queue_row(&keys::queue(account, queue))?;
        Ok(row.ok_or(Error::QueueNotFound)?.policies)
    }

    /// Replaces the stored policies; they hold from the return on. Source: Set Queue ACL.
    pub fn set_queue_acl(
        &self,
        account: &str,
        queue: &str,
        policies: Vec<StoredPolicy>,
    ) -> Result<Ticket> {
        check::policies(&policies)?;
        self.change_row(account, queue, |row| row.policies = policies)
    }

    /// Removes every message, visible or not: one write, whatever there is. Source: Clear Messages.
    pub fn clear_messages(&self, account: &str, queue: &str) -> Result<Ticket> {
        self.with_queue_alone(account, queue, |key, state| {
            let mut row = self.existing_row_of(key, state)?;
            let mut batch = Batch::new();
            batch.delete_range(&self.messages, keys::everything(row.id));
            row.id = self.new_queue_id();
            let ticket = self.put_row(key, &row, batch, state)?;
            **state = State::Present(Box::new(Live::new(row.id, &[])));
            Ok(ticket)
        })
    }

    fn change_row(
        &self,
        account: &str,
        queue: &str,
        change: impl FnOnce(&mut QueueRow),
    ) -> Result<Ticket> {
        self.with_queue_alone(account, queue, |key, state| {
            let mut row = self.existing_row_of(key, state)?;
            change(&mut row);
            self.put_row(key, &row, Batch::new(), state)
        })
    }

    fn existing_row_of(&self, key: &[u8], state: &State) -> Result<QueueRow> {
        match state {
            State::Present(_) => self.existing_row(key),
            State::Missing | State::Unknown => Err(Error::QueueNotFound),
        }
    }

    fn existing_row(&self, key: &[u8]) -> Result<QueueRow> {
        self.queue_row(key)?.ok_or(Error::QueueNotFound)
    }

    fn put_row(
        &self,
        key: &[u8],
        row: &QueueRow,
        mut batch: Batch,
        state: &mut State,
    ) -> Result<Ticket> {
        batch.put(&self.queues, key, &row.encode());
        self.write_alone(batch, state)
    }

    /// Writes while the queue is held alone; after a failure its state is read again.
    fn write_alone(&self, batch: Batch, state: &mut State) -> Result<Ticket> {
        let written = self.db.write(batch);
        if written.is_err() {
            *state = State::Unknown;
        }
        Ok(written?)
    }

    /// How many messages that have expired by `now` still have rows; `None` if that takes another step. Reads each expired row
    /// once in the life of the process. The caller holds the queue alone.
    fn count_expired(&self, live: &Live, now: Ticks) -> Result<Option<u64>> {
        let mut counted = live.expired.counted();
        let mut target = Position::after(now);
        let range = keys::expiries(live.id, counted.0, target);
        let mut rows = 0;
        if !range.is_empty() {
            let snapshot = self.db.snapshot();
            let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
            while scan.advance()? {
                rows += 1;
                if rows == EXPIRED_ROWS_PER_STEP {
                    target = position_in(scan.key())?.next();
                    break;
                }
            }
        }
        self.examined(rows as u64);
        *counted = (target, counted.1 + rows as u64);
        Ok((rows < EXPIRED_ROWS_PER_STEP).then_some(counted.1))
    }
}

/// The name that a marker of this service's making holds; nothing for the empty marker.
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
