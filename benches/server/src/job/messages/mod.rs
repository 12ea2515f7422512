//! The queue part: messages put by producers and taken by consumers, some of whose deliveries die
//! before they delete.

mod delivery;
mod history;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::{Client, Error, Outage};
use crate::job::args::JobArgs;
use crate::job::context::Job;
use crate::job::flights::Flights;
use crate::job::ledger::{Found, Ledger};
use crate::job::stage::Stage;

use delivery::{Delivery, VISIBILITY, deaths};
use history::History;

const CONSUME: &str = "queue: put, get, delete";

/// The phases of this part.
pub(super) const PHASES: &[&str] = &[CONSUME];

/// Messages that consumers ask for at a time, one after the other.
const BATCHES: [u32; 4] = [1, 5, 32, 32];
/// After this time without a message, the missing ones are lost.
const STALLED_MAX: Duration = Duration::from_secs(30);

/// Puts and consumes the messages. Returns the queue's name.
pub(super) fn run(job: &mut Job, args: &JobArgs, flights: &Flights) -> Outcome<String> {
    let queue = format!("messages-{}", job.run);
    job.client.patiently(|| job.client.create_queue(&queue))?;
    let count = job.scaled(args.messages);
    let history = History::default();
    let puts = Ledger::new("messages put");
    let deletes = Ledger::new("messages deleted");
    job.phase(CONSUME, "messages", count, |job, stage| {
        let work = Work {
            client: &job.client,
            stage,
            queue: &queue,
            history: &history,
            puts: &puts,
            deletes: &deletes,
            producers: usize::from(args.producers),
            consumers: usize::from(args.consumers),
            producing: AtomicUsize::new(usize::from(args.producers)),
            failed: AtomicBool::new(false),
        };
        work.run(count, flights)?;
        history.check(stage);
        Ok(())
    })?;
    job.remark_ledger(&puts);
    job.remark_ledger(&deletes);
    job.report.remark(history.summary());
    Ok(queue)
}

/// After the last restart: no message has come back.
pub(super) fn verify(job: &mut Job, queue: &str) -> Outcome<()> {
    job.phase("queue: after all", "messages", 0, |job, stage| {
        let count = job
            .client
            .patiently(|| job.client.approximate_messages_count(queue))?;
        let left = job.client.get_messages(queue, 32, 1)?;
        stage.check(count == 0 && left.is_empty(), || {
            format!(
                "{count} messages are still there, such as {:?}",
                left.first()
            )
        });
        Ok(())
    })
}

/// The state that producers and consumers share.
struct Work<'a> {
    client: &'a Client,
    stage: &'a Stage<'a>,
    queue: &'a str,
    history: &'a History,
    puts: &'a Ledger,
    deletes: &'a Ledger,
    producers: usize,
    consumers: usize,
    /// Producers still at work.
    producing: AtomicUsize,
    failed: AtomicBool,
}

impl Work<'_> {
    fn run(&self, count: usize, flights: &Flights) -> Result<(), Error> {
        thread::scope(|scope| {
            let producer = |index: usize| move || self.ends(self.produce(index, count, flights));
            let producers = (0..self.producers).map(|index| scope.spawn(producer(index)));
            let consumer = |batch: u32| move || self.ends(self.consume(batch));
            let batches = BATCHES.into_iter().cycle().take(self.consumers);
            let consumers = batches.map(|batch| scope.spawn(consumer(batch)));
            let threads: Vec<_> = producers.chain(consumers).collect();
            let results = threads
                .into_iter()
                .map(|thread| thread.join().expect("a worker does not panic"));
            results.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// The first failure ends all threads.
    fn ends(&self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Puts every message whose number falls to producer `index`. A put whose answer is lost is
    /// repeated, so that the message may be there twice: a queue cannot be searched.
    fn produce(&self, index: usize, count: usize, flights: &Flights) -> Result<(), Error> {
        for number in (index..count).step_by(self.producers) {
            let text = format!("{number};{}", flights.line(number));
            let mut outage = Outage::default();
            loop {
                match self
                    .stage
                    .time(|| self.client.put_message(self.queue, &text))
                {
                    Ok(id) => {
                        self.puts.acknowledged();
                        self.history.put(number, id);
                        break;
                    }
                    Err(error @ Error::InDoubt(_)) => {
                        self.history.put_in_doubt(number);
                        outage.wait(error)?;
                    }
                    Err(error) if error.is_outage() => outage.wait(error)?,
                    Err(error) => return Err(error),
                }
                if self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        self.producing.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes messages, `batch` at a time, until all are deleted and the queue is empty.
    fn consume(&self, batch: u32) -> Result<(), Error> {
        let mut idle_since = Instant::now();
        let mut outage = Outage::default();
        while !self.failed.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let get = || {
                self.client
                    .get_messages(self.queue, batch, VISIBILITY.as_secs())
            };
            match self.stage.time(get) {
                Ok(messages) if messages.is_empty() => {
                    if self.is_over(idle_since)? {
                        return Ok(());
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                Ok(messages) => {
                    idle_since = Instant::now();
                    let deliveries = messages
                        .into_iter()
                        .map(|message| Delivery { message, sent });
                    let deliveries: Vec<_> = deliveries.collect();
                    // All are recorded before any is worked on, so that the history sees them in
                    // the order of the server.
                    let replaced = deliveries.iter().map(|delivery| self.record(delivery));
                    let replaced: Result<Vec<_>, _> = replaced.collect();
                    for (delivery, old_receipt) in deliveries.iter().zip(replaced?) {
                        self.handle(delivery, old_receipt)?;
                    }
                }
                Err(error) if error.is_outage() => {
                    if matches!(error, Error::InDoubt(_)) {
                        self.history.get_in_doubt(batch);
                    }
                    outage.wait(error)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            outage = Outage::default();
        }
        Ok(())
    }

    /// Whether everything is deleted, or the rest is taken for lost.
    fn is_over(&self, idle_since: Instant) -> Result<bool, Error> {
        if self.producing.load(Ordering::Relaxed) > 0 {
            return Ok(false);
        }
        let left = self
            .client
            .patiently(|| self.client.approximate_messages_count(self.queue))?;
        Ok(left == 0 || idle_since.elapsed() > STALLED_MAX)
    }

    /// Enters a delivery in the history. Returns the pop receipt of the one before it.
    fn record(&self, delivery: &Delivery) -> Result<Option<String>, Error> {
        let number = delivery.number()?;
        let (complaints, old_receipt) = self.history.delivered(number, delivery, VISIBILITY);
        complaints
            .into_iter()
            .for_each(|what| self.stage.mismatch(what));
        Ok(old_receipt)
    }

    /// One delivery: leaves the message without a delete if its number asks for that, else deletes
    /// it. After a death, it is first deleted with its old pop receipt, as a consumer would that
    /// wakes up too late; that must be refused.
    fn handle(&self, delivery: &Delivery, old_receipt: Option<String>) -> Result<(), Error> {
        if let Some(old) = old_receipt {
            self.delete_with_old_receipt(delivery, &old)?;
        }
        let number = delivery.number()?;
        if delivery.message.dequeue_count > deaths(number) {
            self.delete(number, delivery)
        } else {
            Ok(())
        }
    }

    fn delete_with_old_receipt(&self, delivery: &Delivery, old: &str) -> Result<(), Error> {
        let id = &delivery.message.id;
        let delete = || self.client.delete_message(self.queue, id, old);
        match self.client.patiently(delete) {
            Err(error) if error.is("PopReceiptMismatch") => Ok(()),
            Err(error) if error.is("MessageNotFound") && delivery.is_overdue() => Ok(()),
            Err(error) if error.is_outage() => Err(error),
            other => {
                let what = other.map_or_else(|error| error.to_string(), |()| "accepted".into());
                self.stage
                    .mismatch(format!("an old pop receipt of {id}: {what}"));
                Ok(())
            }
        }
    }

    /// Deletes for certain. When an answer was lost, a message that is not found any more has been
    /// deleted.
    fn delete(&self, number: usize, delivery: &Delivery) -> Result<(), Error> {
        let message = &delivery.message;
        let mut outage = Outage::default();
        let mut in_doubt = false;
        loop {
            let delete = || {
                self.client
                    .delete_message(self.queue, &message.id, &message.pop_receipt)
            };
            match self.stage.time(delete) {
                Ok(()) => {
                    self.deletes.acknowledged();
                    if in_doubt {
                        self.deletes.settled(Found::NotDone);
                    }
                    break;
                }
                Err(error) if error.is("MessageNotFound") && in_doubt => {
                    self.deletes.settled(Found::Done);
                    break;
                }
                // While the server was away the message became visible, and now another consumer
                // has it, or had it.
                Err(error) if delivery.is_overdue() && is_too_late(&error) => return Ok(()),
                Err(error) if error.is_outage() => {
                    in_doubt |= matches!(error, Error::InDoubt(_));
                    outage.wait(error)?;
                }
                Err(error) => {
                    self.stage.mismatch(error.to_string());
                    return Ok(());
                }
            }
        }
        if self.history.deleted(number, message) {
            self.stage.done(1);
        }
        Ok(())
    }
}

fn is_too_late(error: &Error) -> bool {
    error.is("PopReceiptMismatch") || error.is("MessageNotFound")
}
