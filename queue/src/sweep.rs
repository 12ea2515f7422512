//! The sweep: removes the rows of messages that have expired.
//!
//! Nothing a client sees depends on it, for operations look at the expiry themselves. It bounds the space that expired
//! messages hold, and the work of the first scan after a restart: the rows of expired messages go, and the tombstones that
//! consumed ones left behind the head are covered by one range delete, past which a scan goes in one step.

use crate::codec;
use crate::keys::{self, Position};
use crate::live::{Hold, Live, State, locked};
use crate::model::Sweep;
use crate::rows::position_in;
use crate::time::Ticks;
use crate::{Error, QueueService, Result};
use lazurite_engine::{Batch, Direction, Ticket};
use std::sync::atomic::Ordering;

/// Queues looked at in one call, and messages removed from one of them: a call takes a few milliseconds.
const QUEUES_PER_SWEEP: usize = 64;
const MESSAGES_PER_QUEUE: usize = 256;

/// Rows consumed at the head of a queue, or removed by sweeps, after which the tombstones behind it are covered.
const CONSUMED_ROWS_COVERED: u64 = 10_000;

/// What one batch of a sweep removes.
struct Expired {
    messages: Vec<Position>,
    /// All before this place in the order of expiry is in `messages`.
    end: Position,
}

impl QueueService {
    /// Removes the rows of some expired messages, of any account: one batch for each queue that has any; the ticket is that
    /// of the last. To be called in the background, about once a second, and again at once while it answers `more`.
    pub fn sweep(&self) -> Result<(Sweep, Ticket)> {
        let mut sweep = Sweep {
            removed: 0,
            more: false,
        };
        let mut last_ticket = Ticket::ready();
        for key in self.next_queues_to_sweep()? {
            let (removed, ticket) = match self.sweep_queue(&key) {
                Err(Error::QueueNotFound) => continue,
                swept => swept?,
            };
            sweep.removed += removed as u64;
            sweep.more |= removed == MESSAGES_PER_QUEUE;
            last_ticket = ticket.unwrap_or(last_ticket);
        }
        Ok((sweep, last_ticket))
    }

    /// The keys of the queues after those of the last call, in the order of their keys and then from the first again.
    fn next_queues_to_sweep(&self) -> Result<Vec<Vec<u8>>> {
        let mut last = locked(&self.sweep_position);
        let mut range = keys::all_queues();
        range.start = range.start.max([&last[..], &[0]].concat());
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.queues, range, Direction::Forward);
        let mut queues = Vec::new();
        last.clear();
        while scan.advance()? {
            queues.push(scan.key().to_vec());
            if queues.len() == QUEUES_PER_SWEEP {
                last.extend(scan.key());
                break;
            }
        }
        Ok(queues)
    }

    /// How many messages were removed, and the ticket if anything was written.
    fn sweep_queue(&self, key: &[u8]) -> Result<(usize, Option<Ticket>)> {
        let (swept, consumed_rows) =
            self.with_queue_at(key, Live::lock_consumer, |live, consumer| {
                let consumed_rows = live.consumed_rows.load(Ordering::Relaxed);
                Ok((self.remove_expired(live, consumer)?, consumed_rows))
            })?;
        if consumed_rows < CONSUMED_ROWS_COVERED {
            return Ok(swept);
        }
        Ok((swept.0, Some(self.cover_consumed(key)?)))
    }

    /// Covers what lies before the two frontiers. Nobody writes meanwhile, so no row there is of use: those of the order
    /// of delivery are gone or have expired, those of the order of expiry are gone.
    fn cover_consumed(&self, key: &[u8]) -> Result<Ticket> {
        self.with_queue_alone_at(key, |state| {
            let State::Present(live) = &**state else {
                return Err(Error::QueueNotFound);
            };
            let (head, expiry) = (live.head.begin(), live.next_expiry.begin());
            let delivered = keys::deliveries(live.id, Position::MIN, head);
            let expired = keys::expiries(live.id, Position::MIN, expiry);
            let mut batch = Batch::new();
            for range in [delivered, expired] {
                if !range.is_empty() {
                    batch.delete_range(&self.messages, range);
                }
            }
            let ticket = self.write(live, batch)?;
            live.consumed_rows.store(0, Ordering::Relaxed);
            Ok(ticket)
        })
    }

    fn remove_expired(
        &self,
        live: &Live,
        mut consumer: Hold<'_>,
    ) -> Result<(usize, Option<Ticket>)> {
        let now = self.now();
        let start = live.next_expiry.begin();
        if start.at > now {
            return Ok((0, None));
        }
        let expired = self.find_expired(live, start, now)?;
        let count = expired.messages.len();
        let mut ticket = None;
        if count > 0 {
            self.pass_expired(live, now)?;
            live.consumed_rows
                .fetch_add(count as u64, Ordering::Relaxed);
            let mut batch = self.removal_of(live, &expired.messages)?;
            self.put_removed_count(&mut batch, live, *consumer.messages + count as u64);
            ticket = Some(self.write(live, batch)?);
            *consumer.messages += count as u64;
        }
        live.next_expiry.finish(expired.end);
        for expiry in &expired.messages {
            live.expired.removed(*expiry);
        }
        Ok((count, ticket))
    }

    /// Moves the head past expired messages, before they become tombstones that the next consumer would step on. The caller
    /// holds the consumer lock.
    fn pass_expired(&self, live: &Live, now: Ticks) -> Result<()> {
        let found = self.find_deliverable(live, now, 1)?;
        live.head.finish(found.first_left());
        Ok(())
    }

    fn removal_of(&self, live: &Live, expired: &[Position]) -> Result<Batch> {
        let mut batch = Batch::new();
        for expiry in expired {
            let row = self
                .message_row(live, expiry.id)?
                .ok_or_else(|| codec::corrupt("a message", 0, "is missing"))?;
            let position = Position {
                at: row.visible_at,
                id: expiry.id,
            };
            self.delete_rows(&mut batch, live, position, row.expires_at);
        }
        Ok(batch)
    }

    /// Ends at the present by its range, as the scan for delivery does.
    fn find_expired(&self, live: &Live, start: Position, now: Ticks) -> Result<Expired> {
        let present = Position::after(now);
        let range = keys::expiries(live.id, start, present);
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut expired = Expired {
            messages: Vec::new(),
            end: start,
        };
        while expired.messages.len() < MESSAGES_PER_QUEUE {
            if !scan.advance()? {
                expired.end = present;
                break;
            }
            self.examined(1);
            let position = position_in(scan.key())?;
            expired.end = position.next();
            expired.messages.push(position);
        }
        Ok(expired)
    }
}
