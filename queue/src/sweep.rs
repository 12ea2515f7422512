//! The sweep: removes the rows of expired messages.
//!
//! Clients never depend on the sweep, because operations check the expiry themselves. It bounds the
//! space that expired messages occupy and the work of the first scan after a restart: it deletes
//! the rows of expired messages, and covers the tombstones that consumed messages left behind the
//! head with one range delete, which a scan passes in one step.
//!
//! For each queue in memory, and for many that were dropped from memory, the sweep knows the next
//! expiry, or the time at which to look for it. It follows these times, so expired messages are
//! removed as fast as messages expire, however many queues there are. In addition, each call loads
//! a few queues that are not in memory, in a round over all queues.

use crate::codec;
use crate::keys::{self, Position};
use crate::live::{DueQueue, Existence, Live, QueueGuard, Slot};
use crate::model::Sweep;
use crate::rows::position_in;
use crate::{Error, QueueService, Result};
use lazurite_base::locks::lock;
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Batch, Direction, Ticket, Transaction};
use std::sync::atomic::Ordering;

/// Maximum number of queues that one call writes to, and of messages that one batch removes. A call
/// takes some tens of milliseconds, and holds the lock of a queue for about two.
const BATCHES_PER_SWEEP: usize = 16;
const MESSAGES_PER_BATCH: usize = 256;

/// Maximum number of queues examined by one call.
const QUEUES_PER_SWEEP: usize = 1024;
/// Number of queues loaded into memory by one call. A higher number drops rarely used queues from
/// memory sooner.
const QUEUES_LOADED_PER_SWEEP: usize = 256;

/// How far ahead a queue is searched for its next expiry; also the interval of these searches while
/// there is none. A longer search steps over more tombstones of messages that were deleted in time.
const LOOKAHEAD_SECONDS: u64 = 10;

/// Time for which a queue is skipped after a failure, in seconds.
const RETRY_SECONDS: u64 = 60;

/// Number of rows consumed at the head of a queue, or swept, after which a range delete covers the
/// tombstones behind the head.
const CONSUMED_ROWS_COVERED: u64 = 10_000;

/// The messages that one batch of a sweep removes.
struct ExpiredMessages {
    messages: Vec<Position>,
    /// All rows before this place in the order of expiry are in `messages`.
    end: Position,
}

/// The work of a sweep on one queue.
struct QueueSweep {
    removed: usize,
    /// The ticket of the removal; `None` if nothing was written.
    ticket: Option<Ticket>,
}

impl QueueSweep {
    const NOTHING: QueueSweep = QueueSweep {
        removed: 0,
        ticket: None,
    };

    /// Whether expired messages may be left.
    fn is_incomplete(&self) -> bool {
        self.removed >= MESSAGES_PER_BATCH
    }
}

impl QueueService {
    /// Removes the rows of some expired messages, of any account. Returns the ticket of the last
    /// batch. A queue that fails is logged and skipped for a minute. Call it in the background
    /// about once a second, and again at once while it returns `more`.
    pub fn sweep(&self) -> Result<(Sweep, Ticket)> {
        let now = self.now();
        let mut sweep = Sweep {
            removed: 0,
            more: false,
        };
        let mut last_ticket = Ticket::ready();
        let (mut examined, mut batches) = (0, 0);
        let mut failures = Vec::new();
        for due in self.slots.due(now, QUEUES_PER_SWEEP) {
            if examined == QUEUES_PER_SWEEP || batches == BATCHES_PER_SWEEP {
                sweep.more = true;
                break;
            }
            examined += 1;
            let slot = self.slots.start_sweep(&due);
            match self.sweep_queue(&due, &slot) {
                Ok(progress) => {
                    sweep.removed += progress.removed as u64;
                    sweep.more |= progress.is_incomplete();
                    batches += usize::from(progress.ticket.is_some());
                    last_ticket = progress.ticket.unwrap_or(last_ticket);
                }
                Err(Error::QueueNotFound) => {}
                Err(error) => {
                    slot.do_not_sweep_before(now.plus_seconds(RETRY_SECONDS));
                    batches += 1;
                    failures.push((keys::account_and_name(&due.key), error));
                }
            }
        }
        if let Some((_, error)) = failures.first() {
            let queues: Vec<_> = failures.iter().map(|(queue, _)| queue).collect();
            tracing::error!(?queues, %error, "cannot remove expired messages; retrying in {RETRY_SECONDS} s");
        }
        if !sweep.more {
            self.load_more_queues()?;
        }
        Ok((sweep, last_ticket))
    }

    /// Adds slots for the next queues in key order, starting over at the end. The next call
    /// examines them.
    fn load_more_queues(&self) -> Result<()> {
        let mut last = lock(&self.sweep_state);
        let mut range = keys::all_queues();
        range.start = range.start.max([&last[..], &[0]].concat());
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.queues, range, Direction::Forward);
        last.clear();
        let mut loaded = 0;
        while scan.advance()? {
            self.slots.get(scan.key());
            loaded += 1;
            if loaded == QUEUES_LOADED_PER_SWEEP {
                last.extend(scan.key());
                break;
            }
        }
        Ok(())
    }

    fn sweep_queue(&self, due: &DueQueue, slot: &Slot) -> Result<QueueSweep> {
        let begun = self.db.begin_deletion()?;
        let lock = Live::lock_consumer;
        let sweep = |live: &Live, consumer: QueueGuard<'_>, mut transaction: Transaction<'_>| {
            let progress = self.remove_expired(live, consumer, &mut transaction)?;
            Ok((progress, live.consumed_rows.load(Ordering::Relaxed)))
        };
        let (progress, consumed_rows) = self.with_slot(&due.key, slot, lock, begun, sweep)?;
        if consumed_rows < CONSUMED_ROWS_COVERED || progress.is_incomplete() {
            return Ok(progress);
        }
        let covered = self.cover_consumed(due, slot)?;
        Ok(QueueSweep {
            removed: progress.removed + covered.removed,
            ticket: covered.ticket.or(progress.ticket),
        })
    }

    /// Covers the rows before the two frontiers with range deletes. Expired messages are removed
    /// first, with all their rows, and nothing else writes meanwhile, so the ranges contain only
    /// tombstones.
    fn cover_consumed(&self, due: &DueQueue, slot: &Slot) -> Result<QueueSweep> {
        let begun = self.db.begin_deletion()?;
        self.with_exclusive_slot(&due.key, slot, begun, |access, mut transaction| {
            let Existence::Present(live) = &access.state() else {
                return Err(Error::QueueNotFound);
            };
            let progress = self.remove_expired(live, live.lock_consumer(), &mut transaction)?;
            if progress.is_incomplete() {
                return Ok(progress);
            }
            let (head, expiry) = (live.head.start(), live.next_expiry.start());
            let delivered = keys::deliveries(live.id, Position::MIN, head);
            let expired = keys::expiries(live.id, Position::MIN, expiry);
            for range in [delivered, expired] {
                transaction.batch().delete_range(&self.messages, range);
            }
            let ticket = transaction.commit()?;
            live.consumed_rows.store(0, Ordering::Relaxed);
            Ok(QueueSweep {
                ticket: Some(ticket),
                ..progress
            })
        })
    }

    /// Removes one batch of expired messages. The caller holds the consumer lock.
    fn remove_expired(
        &self,
        live: &Live,
        mut consumer: QueueGuard<'_>,
        transaction: &mut Transaction<'_>,
    ) -> Result<QueueSweep> {
        let now = self.now();
        live.sweep_begins(now);
        let start = live.next_expiry.begin();
        if start.at > now {
            return Ok(QueueSweep::NOTHING);
        }
        let expired = self.find_expired(live, start, now)?;
        let removed = expired.messages.len();
        let mut ticket = None;
        if removed > 0 {
            self.pass_expired(live, now)?;
            live.consumed_rows
                .fetch_add(removed as u64, Ordering::Relaxed);
            let batch = transaction.batch();
            self.remove_messages(batch, live, &expired.messages)?;
            let total = *consumer.messages + removed as u64;
            self.put_removed_count(batch, live, total);
            ticket = Some(transaction.commit()?);
            *consumer.messages = total;
        }
        live.next_expiry.finish(expired.end);
        Ok(QueueSweep { removed, ticket })
    }

    /// Moves the head past expired messages before their rows become tombstones that the next
    /// consumer would step over. The caller must hold the consumer lock.
    fn pass_expired(&self, live: &Live, now: Ticks) -> Result<()> {
        let start = live.head.begin();
        let scan = self.find_deliverable(live, start, now, 1)?;
        live.head.finish(scan.first_remaining());
        Ok(())
    }

    fn remove_messages(&self, batch: &mut Batch, live: &Live, expired: &[Position]) -> Result<()> {
        for expiry in expired {
            let row = self
                .message_row(live, expiry.id)?
                .ok_or_else(|| codec::corrupt("a message", 0, "is missing"))?;
            let position = Position {
                at: row.visible_at,
                id: expiry.id,
            };
            self.delete_message_rows(batch, live, position, row.expires_at);
        }
        Ok(())
    }

    /// Scans the order of expiry from `start`. Like the scan for delivery, it is bounded by its
    /// range, which ends a little after the present. The scan ends at the next expiry, or at the
    /// end of the range, where the next search begins.
    fn find_expired(&self, live: &Live, start: Position, now: Ticks) -> Result<ExpiredMessages> {
        let horizon = Position::after(now.plus_seconds(LOOKAHEAD_SECONDS));
        let range = keys::expiries(live.id, start, horizon);
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.messages, range, Direction::Forward);
        let mut expired = ExpiredMessages {
            messages: Vec::new(),
            end: start,
        };
        while expired.messages.len() < MESSAGES_PER_BATCH {
            if !scan.advance()? {
                expired.end = horizon;
                break;
            }
            self.count_examined(1);
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
    use crate::service::tests::{ACCOUNT, service};
    use crate::sweep::QUEUES_LOADED_PER_SWEEP;
    use crate::{Error, PutMessage, QueueService, UpdateMessage, keys};
    use lazurite_engine::{Batch, Direction};
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Collects log lines.
    #[derive(Default, Clone)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of `operation`.
    fn logged(operation: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, operation);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn failing_queue_is_logged_by_name_and_does_not_stop_the_sweep_of_others() {
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
        let log = logged(|| assert_eq!((sweep(), sweep()), (2, 0)));
        assert_eq!(log.matches("ERROR").count(), 1, "{log}");
        assert!(log.contains("account/broken"), "{log}");
        assert!(!log.contains("account/sound"), "{log}");
        clock.advance(Duration::from_secs(3600));
        drop(service.put_message(ACCOUNT, "too", short).unwrap());
        clock.advance(Duration::from_secs(2));
        assert_eq!(
            (sweep(), sweep()),
            (1, 0),
            "the broken queue is retried first"
        );
    }

    #[test]
    fn update_of_a_message_without_its_delivery_row_is_not_found() {
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

    #[test]
    fn queues_that_are_not_in_memory_are_swept_in_rounds() {
        let (_directory, service, clock) = service();
        let short = PutMessage {
            ttl_seconds: Some(1),
            ..PutMessage::default()
        };
        let add = |service: &QueueService, queue: &str| {
            drop(service.create_queue(ACCOUNT, queue, Vec::new()).unwrap());
            drop(service.put_message(ACCOUNT, queue, short.clone()).unwrap());
        };
        let rest = 5;
        for number in 0..QUEUES_LOADED_PER_SWEEP + rest {
            add(&service, &format!("queue{number:03}"));
        }
        clock.advance(Duration::from_secs(2));
        let restarted = QueueService::open(&service.db, service.ids.clone(), clock.clone());
        let restarted = restarted.unwrap();
        let loaded = || restarted.slots.due(restarted.now(), usize::MAX).len();
        // Sweeps until there is nothing more to do at once; then the next queues are loaded.
        let sweep = || {
            let mut removed = 0;
            loop {
                let (sweep, _) = restarted.sweep().unwrap();
                removed += sweep.removed as usize;
                if !sweep.more {
                    return removed;
                }
            }
        };
        assert_eq!((sweep(), loaded()), (0, QUEUES_LOADED_PER_SWEEP));
        assert_eq!((sweep(), loaded()), (QUEUES_LOADED_PER_SWEEP, rest));
        assert_eq!((sweep(), loaded()), (rest, 0));
        // The round under way has passed the first queue; the next one begins there.
        add(&service, "another");
        clock.advance(Duration::from_secs(2));
        assert_eq!((sweep(), loaded()), (0, 0));
        assert_eq!((sweep(), loaded()), (0, 1));
        assert_eq!(sweep(), 1);
    }
}
