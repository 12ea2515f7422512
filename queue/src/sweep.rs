//! The sweep: removes the rows of messages that have expired.
//!
//! Nothing a client sees depends on it, for operations look at the expiry themselves. It bounds the space that expired
//! messages hold, and the work of the first scan after a restart: the rows of expired messages go, and the tombstones that
//! consumed ones left behind the head are covered by one range delete, past which a scan goes in one step.
//!
//! Each queue in memory knows when it next has something to remove, or when to look. The sweep goes by that, so that expired
//! messages go as fast as they come however many queues there are; besides it reads, a few at a time, the queues that are not
//! in memory.

use crate::codec;
use crate::keys::{self, Position};
use crate::live::{Due, Hold, Live, State, locked};
use crate::model::Sweep;
use crate::rows::position_in;
use crate::time::Ticks;
use crate::{Error, QueueService, Result};
use lazurite_engine::{Admission, Batch, Direction, Ticket};
use std::sync::atomic::Ordering;

/// Batches that one call writes, and messages removed by one of them: a call takes some tens of milliseconds, and holds the
/// lock of a queue for two.
const BATCHES_PER_SWEEP: usize = 16;
const MESSAGES_PER_BATCH: usize = 256;

/// Queues looked at in one call.
const QUEUES_PER_SWEEP: usize = 1024;
/// Queues read into memory by one call. More push out of memory sooner what is seldom used.
const QUEUES_READ_PER_SWEEP: usize = 256;

/// How far ahead a queue is searched for its next expiry, and so how often it is looked at while there is none. Further would
/// step over more tombstones at once, of messages deleted in time.
const LOOKAHEAD_SECONDS: u64 = 10;

/// How long a queue is left alone after a failure.
const RETRY_SECONDS: u64 = 60;

/// Rows consumed at the head of a queue, or removed by sweeps, after which the tombstones behind it are covered.
const CONSUMED_ROWS_COVERED: u64 = 10_000;

/// What one batch of a sweep removes.
struct Expired {
    messages: Vec<Position>,
    /// All before this place in the order of expiry is in `messages`.
    end: Position,
}

/// What a sweep did to one queue.
struct Swept {
    removed: usize,
    /// `None` if nothing was written.
    ticket: Option<Ticket>,
}

impl Swept {
    const NOTHING: Swept = Swept {
        removed: 0,
        ticket: None,
    };

    /// Whether expired messages may be left.
    fn is_cut(&self) -> bool {
        self.removed >= MESSAGES_PER_BATCH
    }
}

impl QueueService {
    /// Removes the rows of some expired messages, of any account: one batch for each of some queues that have any; the ticket
    /// is that of the last. A queue that fails is logged and left alone for a while. To be called in the background, about
    /// once a second, and again at once while it answers `more`.
    pub fn sweep(&self) -> Result<(Sweep, Ticket)> {
        let now = self.now();
        let mut sweep = Sweep {
            removed: 0,
            more: false,
        };
        let mut last_ticket = Ticket::ready();
        let (mut looked_at, mut batches, mut failed) = (0, 0, 0);
        for due in self.slots.due(now) {
            if looked_at == QUEUES_PER_SWEEP || batches == BATCHES_PER_SWEEP {
                sweep.more = true;
                break;
            }
            looked_at += 1;
            match self.sweep_queue(&due) {
                Ok(swept) => {
                    sweep.removed += swept.removed as u64;
                    sweep.more |= swept.is_cut();
                    batches += usize::from(swept.ticket.is_some());
                    last_ticket = swept.ticket.unwrap_or(last_ticket);
                }
                Err(Error::QueueNotFound) => {}
                Err(error) => {
                    due.slot
                        .do_not_sweep_before(now.plus_seconds(RETRY_SECONDS));
                    batches += 1;
                    failed += 1;
                    if failed == 1 {
                        tracing::error!(%error, "expired messages of a queue cannot be removed");
                    }
                }
            }
        }
        if failed > 1 {
            tracing::error!(queues = failed, "expired messages cannot be removed");
        }
        if !sweep.more {
            self.read_more_queues()?;
        }
        Ok((sweep, last_ticket))
    }

    /// Makes slots for the queues after those of the last call, in the order of their keys and then from the first again: the
    /// next call looks at them.
    fn read_more_queues(&self) -> Result<()> {
        let mut last = locked(&self.sweep_position);
        let mut range = keys::all_queues();
        range.start = range.start.max([&last[..], &[0]].concat());
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.queues, range, Direction::Forward);
        last.clear();
        let mut read = 0;
        while scan.advance()? {
            self.slots.get(scan.key());
            read += 1;
            if read == QUEUES_READ_PER_SWEEP {
                last.extend(scan.key());
                break;
            }
        }
        Ok(())
    }

    fn sweep_queue(&self, due: &Due) -> Result<Swept> {
        let admission = self.db.admit_deletion()?;
        let sweep = |live: &Live, hold: Hold<'_>| {
            let swept = self.remove_expired(live, hold, &admission)?;
            Ok((swept, live.consumed_rows.load(Ordering::Relaxed)))
        };
        let lock = Live::lock_consumer;
        let (swept, consumed_rows) =
            self.with_slot(&due.key, &due.slot, lock, &admission, sweep)?;
        if consumed_rows < CONSUMED_ROWS_COVERED || swept.is_cut() {
            return Ok(swept);
        }
        let covered = self.cover_consumed(due)?;
        Ok(Swept {
            removed: swept.removed + covered.removed,
            ticket: covered.ticket.or(swept.ticket),
        })
    }

    /// Covers what lies before the two frontiers. Nobody writes meanwhile, and what has expired is removed before, every row of
    /// a message with the others: so there is nothing left but tombstones.
    fn cover_consumed(&self, due: &Due) -> Result<Swept> {
        let admission = self.db.admit_deletion()?;
        self.with_slot_alone(&due.key, &due.slot, &admission, |alone| {
            let State::Present(live) = &alone.state() else {
                return Err(Error::QueueNotFound);
            };
            let swept = self.remove_expired(live, live.lock_consumer(), &admission)?;
            if swept.is_cut() {
                return Ok(swept);
            }
            let (head, expiry) = (live.head.start(), live.next_expiry.start());
            let delivered = keys::deliveries(live.id, Position::MIN, head);
            let expired = keys::expiries(live.id, Position::MIN, expiry);
            let mut batch = Batch::new();
            for range in [delivered, expired] {
                if !range.is_empty() {
                    batch.delete_range(&self.messages, range);
                }
            }
            let ticket = self.write(live, batch, &admission)?;
            live.consumed_rows.store(0, Ordering::Relaxed);
            Ok(Swept {
                ticket: Some(ticket),
                ..swept
            })
        })
    }

    /// Removes a batch of the messages that have expired. The caller holds the consumer lock.
    fn remove_expired(
        &self,
        live: &Live,
        mut consumer: Hold<'_>,
        admission: &Admission,
    ) -> Result<Swept> {
        let now = self.now();
        let start = live.next_expiry.begin();
        if start.at > now {
            return Ok(Swept::NOTHING);
        }
        let expired = self.find_expired(live, start, now)?;
        let removed = expired.messages.len();
        let mut ticket = None;
        if removed > 0 {
            self.pass_expired(live, now)?;
            live.consumed_rows
                .fetch_add(removed as u64, Ordering::Relaxed);
            let mut batch = self.removal_of(live, &expired.messages)?;
            let total = *consumer.messages + removed as u64;
            self.put_removed_count(&mut batch, live, total);
            ticket = Some(self.write(live, batch, admission)?);
            *consumer.messages = total;
        }
        live.next_expiry.finish(expired.end);
        Ok(Swept { removed, ticket })
    }

    /// Moves the head past expired messages, before they become tombstones that the next consumer would step on. The caller
    /// holds the consumer lock.
    fn pass_expired(&self, live: &Live, now: Ticks) -> Result<()> {
        let start = live.head.begin();
        let found = self.find_deliverable(live, start, now, 1)?;
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

    /// Ends by its range, as the scan for delivery does, a little ahead of the present: where the next message expires, or where
    /// to look for it next.
    fn find_expired(&self, live: &Live, start: Position, now: Ticks) -> Result<Expired> {
        let horizon = Position::after(now.plus_seconds(LOOKAHEAD_SECONDS));
        let range = keys::expiries(live.id, start, horizon);
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut expired = Expired {
            messages: Vec::new(),
            end: start,
        };
        while expired.messages.len() < MESSAGES_PER_BATCH {
            if !scan.advance()? {
                expired.end = horizon;
                break;
            }
            self.examined(1);
            let position = position_in(scan.key())?;
            if position.at > now {
                expired.end = position;
                break;
            }
            expired.end = position.next();
            expired.messages.push(position);
        }
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{ACCOUNT, service};
    use crate::{Error, PutMessage, UpdateMessage, keys};
    use lazurite_engine::{Batch, Direction};
    use std::time::Duration;

    #[test]
    fn a_queue_that_fails_does_not_keep_the_sweep_from_others() {
        let (_directory, service, clock) = service();
        let short = PutMessage {
            ttl_seconds: Some(1),
            ..PutMessage::default()
        };
        for queue in ["broken", "sound", "too"] {
            drop(service.create_queue(ACCOUNT, queue, Vec::new()).unwrap());
            drop(service.put_message(ACCOUNT, queue, short.clone()).unwrap());
        }
        let row = service.queue_row(&keys::queue(ACCOUNT, "broken")).unwrap();
        let mut batch = Batch::new();
        let snapshot = service.db.snapshot();
        let messages = keys::messages(row.unwrap().id);
        let mut scan = snapshot.scan(&service.messages, messages, Direction::Forward);
        while scan.advance().unwrap() {
            batch.put(&service.messages, scan.key(), b"nonsense");
        }
        drop(service.db.write(batch).unwrap());
        clock.advance(Duration::from_secs(2));
        let sweep = || service.sweep().unwrap().0.removed;
        assert_eq!((sweep(), sweep()), (2, 0));
        clock.advance(Duration::from_secs(3600));
        drop(service.put_message(ACCOUNT, "too", short).unwrap());
        clock.advance(Duration::from_secs(2));
        assert_eq!((sweep(), sweep()), (1, 0), "it is tried again in between");
    }

    #[test]
    fn an_update_of_a_message_without_its_place_in_the_order_finds_none() {
        let (_directory, service, _clock) = service();
        drop(service.create_queue(ACCOUNT, "queue", Vec::new()).unwrap());
        let (put, _) = service
            .put_message(ACCOUNT, "queue", PutMessage::default())
            .unwrap();
        let row = service.queue_row(&keys::queue(ACCOUNT, "queue")).unwrap();
        let mut batch = Batch::new();
        let delivered = keys::deliveries(row.unwrap().id, keys::Position::MIN, keys::Position::MAX);
        batch.delete_range(&service.messages, delivered);
        drop(service.db.write(batch).unwrap());
        let update = UpdateMessage {
            message_id: &put.message_id,
            pop_receipt: &put.pop_receipt,
            visibility_seconds: 1,
            text: None,
        };
        let refused = service.update_message(ACCOUNT, "queue", update);
        assert!(matches!(refused, Err(Error::MessageNotFound)));
    }
}
