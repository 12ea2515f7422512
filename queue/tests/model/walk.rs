//! Random operations on the service and on the reference, compared after each operation;
//! `LAZURITE_TEST_SEED` repeats a run.

use crate::reference::{self, Hold, Queue};
use crate::store::{ACCOUNT, Random, Store, acknowledged, done, scale};
use lazurite_engine::fs::{Failure, Fault, Keep, Operation};
use lazurite_engine::{Durability, Ticket, test_seeds};
use lazurite_queue::*;
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: [&str; 3] = ["alpha", "beta", "beta-2"];

/// An event that interrupts the store from time to time.
#[derive(Clone, Copy)]
enum Interruption {
    Reopen,
    PowerCut,
    ProcessDeath,
}

struct Walk {
    interruption: Interruption,
    store: Store,
    queues: BTreeMap<&'static str, Queue>,
    random: Random,
}

#[test]
fn random_operations_agree_with_the_reference() {
    walks(Interruption::Reopen, 8);
}

#[test]
fn acknowledged_operations_survive_power_cuts() {
    walks(Interruption::PowerCut, 12);
}

#[test]
fn acknowledged_operations_survive_a_killed_process() {
    walks(Interruption::ProcessDeath, 12);
}

fn walks(interruption: Interruption, seeds: u64) {
    for seed in test_seeds(scale("LAZURITE_QUEUE_SEEDS", seeds)) {
        let mut walk = Walk {
            interruption,
            store: match interruption {
                Interruption::Reopen => Store::new(),
                Interruption::PowerCut => Store::crashable(Durability::Disk),
                Interruption::ProcessDeath => Store::crashable(Durability::Process),
            },
            queues: BTreeMap::new(),
            random: Random::new(seed),
        };
        for _ in 0..scale("LAZURITE_QUEUE_STEPS", 1_500) {
            walk.step();
        }
        walk.store.check_rows();
    }
}

impl Walk {
    fn step(&mut self) {
        let name = *self.random.pick(&NAMES);
        match self.random.below(100) {
            0..=2 => self.create(name),
            3 if self.random.one_in(8) => self.delete_queue(name),
            4 if self.random.one_in(4) => self.clear(name),
            5 => self.list(),
            6..=7 => self.metadata(name),
            8..=14 => self.pass(),
            15 if self.random.one_in(3) => self.interrupt(),
            15 if self.random.one_in(6) => self.set_clock_back(),
            15 if self.random.one_in(20) => self.consume_and_cover(name),
            15 if self.random.one_in(4) => self.fail_a_sync(name),
            16 => drop(acknowledged(self.store.service.sweep()).unwrap()),
            17..=45 => self.put(name),
            46..=63 => self.get(name),
            64..=71 => self.peek(name),
            72..=81 => self.update(name),
            82..=93 => self.delete(name),
            _ => self.count(name),
        }
    }

    fn interrupt(&mut self) {
        let seed = self.random.below(u64::MAX);
        match self.interruption {
            Interruption::Reopen => self.store.reopen(),
            Interruption::PowerCut => {
                let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors];
                self.store.crash(seed, *self.random.pick(&keep));
            }
            Interruption::ProcessDeath => self.store.crash(seed, Keep::Everything),
        }
    }

    /// Restarts with the clock at an earlier time. Expired messages that still have rows would
    /// reappear, so they are removed first.
    fn set_clock_back(&mut self) {
        self.sweep_all();
        let now = self.store.now();
        let names: Vec<_> = self.queues.keys().copied().collect();
        for name in names {
            let _ = self.queue(name);
        }
        let back = Duration::from_millis(self.random.below(100_000));
        self.store.reopen_at(now - back);
        self.store.check_rows();
    }

    /// Sweeps all queues: the first call loads them, and the last one finds no expired message.
    fn sweep_all(&mut self) {
        self.store.sweep();
        self.store.sweep();
        assert_eq!(self.store.sweep(), 0);
    }

    /// Consumes enough rows for the sweep to cover the order of delivery before the head.
    fn consume_and_cover(&mut self, name: &'static str) {
        if !self.queues.contains_key(name) {
            return;
        }
        for _ in 0..32 {
            self.put(name);
        }
        for _ in 0..330 {
            self.take(name, 32, 1);
            self.store.pass(1);
        }
        self.sweep_all();
        self.store.check_rows();
    }

    /// Cuts the power after the sync of a Put or Get failed. All of it is stored, or none.
    fn fail_a_sync(&mut self, name: &'static str) {
        if !matches!(self.interruption, Interruption::PowerCut) || self.queue(name).is_none() {
            return;
        }
        self.store.faults.as_ref().unwrap().set(Some(Fault {
            operation: Some(Operation::Sync),
            path: String::new(),
            nth: 1,
            failure: Failure::Error(std::io::ErrorKind::Other),
            sticky: true,
        }));
        let service = &self.store.service;
        // The write is refused if a background sync failed earlier.
        let touched: Vec<(String, String)> = if self.random.one_in(2) {
            let put = acknowledged_not(service.put_message(ACCOUNT, name, PutMessage::default()));
            let put = put.into_iter();
            put.map(|put| (put.message_id, put.pop_receipt)).collect()
        } else {
            let request = GetMessages {
                count: Some(4),
                visibility_seconds: Some(30),
            };
            let got = acknowledged_not(service.get_messages(ACCOUNT, name, request));
            let got = got.into_iter().flatten();
            got.map(|got| (got.message_id, got.pop_receipt)).collect()
        };
        let seed = self.random.below(u64::MAX);
        let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors];
        self.store.crash(seed, *self.random.pick(&keep));
        self.store.check_rows();
        let delete = |(id, receipt): &(String, String)| {
            let deleted = self
                .store
                .service
                .delete_message(ACCOUNT, name, id, receipt);
            done(deleted).is_ok()
        };
        let deleted: Vec<bool> = touched.iter().map(delete).collect();
        assert!(deleted.windows(2).all(|pair| pair[0] == pair[1]));
        if deleted.contains(&true) {
            let is_kept = |id: &String| touched.iter().all(|(touched, _)| touched != id);
            let queue = self.queues.get_mut(name).expect("it was looked up above");
            queue.messages.retain(|message| is_kept(&message.id));
        }
    }

    /// The reference queue as of now; `None` if it does not exist.
    fn queue(&mut self, name: &'static str) -> Option<&mut Queue> {
        let now = self.store.now();
        let queue = self.queues.get_mut(name)?;
        queue.expire(now);
        Some(queue)
    }

    fn pass(&mut self) {
        let unit = *self
            .random
            .pick(&[100, 1_000_000, 1_000_000_000, 1_000_000_000]);
        let amount = self.random.below(40);
        self.store
            .clock
            .advance(Duration::from_nanos(unit * amount));
    }

    fn create(&mut self, name: &'static str) {
        let metadata: Metadata = match self.random.below(3) {
            0 => vec![],
            1 => vec![("Color".into(), "red".into())],
            _ => vec![("COLOR".into(), "red".into())],
        };
        let result = acknowledged(
            self.store
                .service
                .create_queue(ACCOUNT, name, metadata.clone()),
        );
        match self.queues.get(name) {
            None => {
                assert_eq!(result.unwrap(), Creation::Created);
                let queue = Queue {
                    metadata,
                    ..Queue::default()
                };
                self.queues.insert(name, queue);
            }
            Some(queue) if queue.metadata.is_empty() == metadata.is_empty() => {
                assert_eq!(result.unwrap(), Creation::AlreadyThere);
            }
            Some(_) => assert!(matches!(result, Err(Error::QueueAlreadyExists))),
        }
    }

    fn delete_queue(&mut self, name: &'static str) {
        let result = done(self.store.service.delete_queue(ACCOUNT, name));
        match self.queues.remove(name) {
            Some(_) => result.unwrap(),
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    fn clear(&mut self, name: &'static str) {
        let result = done(self.store.service.clear_messages(ACCOUNT, name));
        match self.queue(name) {
            Some(queue) => {
                queue.messages.clear();
                result.unwrap();
            }
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    /// Checks that pages of a random size add up to the whole listing.
    fn list(&mut self) {
        let prefix = *self.random.pick(&["", "b", "beta-", "z"]);
        let maxresults = 1 + self.random.below(3) as i64;
        let mut listed = Vec::new();
        let mut marker = String::new();
        loop {
            let request = ListQueues {
                prefix,
                marker: &marker,
                maxresults: Some(maxresults),
            };
            let page = self.store.service.list_queues(ACCOUNT, request).unwrap();
            assert!(page.queues.len() as i64 <= maxresults);
            listed.extend(
                page.queues
                    .into_iter()
                    .map(|queue| (queue.name, queue.metadata)),
            );
            match page.next_marker {
                Some(next) => marker = next,
                None => break,
            }
        }
        let expected: Vec<_> = self
            .queues
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(name, queue)| (name.to_string(), queue.metadata.clone()))
            .collect();
        assert_eq!(listed, expected);
    }

    fn metadata(&mut self, name: &'static str) {
        let metadata: Metadata = match self.random.below(2) {
            0 => vec![],
            _ => vec![("Size".into(), "L".into()), ("color".into(), "blue".into())],
        };
        let result = done(
            self.store
                .service
                .set_queue_metadata(ACCOUNT, name, metadata.clone()),
        );
        let read = self.store.service.get_queue_metadata(ACCOUNT, name);
        match self.queue(name) {
            Some(queue) => {
                // Reset at once, because `create` supports only two sets of metadata.
                result.unwrap();
                assert_eq!(read.unwrap().metadata, metadata);
                let old = queue.metadata.clone();
                done(self.store.service.set_queue_metadata(ACCOUNT, name, old)).unwrap();
            }
            None => {
                assert!(matches!(result, Err(Error::QueueNotFound)));
                assert!(matches!(read, Err(Error::QueueNotFound)));
            }
        }
    }

    fn put(&mut self, name: &'static str) {
        let now = self.store.now();
        let text = format!("text {}", self.random.below(1_000_000));
        let ttl = *self
            .random
            .pick(&[None, Some(1), Some(3), Some(20), Some(60), Some(-1)]);
        let longest = ttl.filter(|ttl| *ttl > 0).unwrap_or(90) as u64;
        let visibility = if self.random.one_in(3) {
            self.random.below(longest)
        } else {
            0
        };
        let request = PutMessage {
            text: &text,
            ttl_seconds: ttl,
            visibility_seconds: Some(visibility as i64),
            ..PutMessage::default()
        };
        let result = acknowledged(self.store.service.put_message(ACCOUNT, name, request));
        let lifetime = match ttl {
            None => Some(604_800),
            Some(-1) => None,
            Some(seconds) => Some(seconds as u64),
        };
        match self.queue(name) {
            Some(queue) => queue.put(&result.unwrap(), &text, now, (visibility, lifetime)),
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    fn get(&mut self, name: &'static str) {
        let count = 1 + self.random.below(32) * self.random.below(2);
        let seconds = 1 + self.random.below(30);
        self.take(name, count, seconds);
    }

    fn take(&mut self, name: &'static str, count: u64, seconds: u64) {
        let now = self.store.now();
        let request = GetMessages {
            count: Some(count as i64),
            visibility_seconds: Some(seconds as i64),
        };
        let result = acknowledged(self.store.service.get_messages(ACCOUNT, name, request));
        match self.queue(name) {
            Some(queue) => {
                reference::check_get(queue, &result.unwrap(), count as usize, seconds, now);
            }
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    fn peek(&mut self, name: &'static str) {
        let now = self.store.now();
        let count = 1 + self.random.below(32) as usize;
        let result = self
            .store
            .service
            .peek_messages(ACCOUNT, name, Some(count as i64));
        match self.queue(name) {
            Some(queue) => reference::check_peek(queue, &result.unwrap(), count, now),
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    fn count(&mut self, name: &'static str) {
        let result = self.store.service.get_queue_metadata(ACCOUNT, name);
        match self.queue(name) {
            Some(queue) => {
                let count = result.unwrap().approximate_message_count;
                assert_eq!(count, queue.messages.len() as u64);
            }
            None => assert!(matches!(result, Err(Error::QueueNotFound))),
        }
    }

    /// Returns the id of a message of queue `name`, expired or not, and a receipt: mostly the
    /// current one, sometimes any of the message, sometimes the current one of any message of the
    /// queue.
    fn claim(&mut self, name: &'static str) -> Option<(String, String)> {
        let messages = &self.queues.get(name)?.messages;
        if messages.is_empty() {
            return None;
        }
        let message = self.random.pick(messages);
        let receipt = match self.random.below(6) {
            0 => self.random.pick(&message.receipts),
            1 => self.random.pick(messages).receipts.last().unwrap(),
            _ => message.receipts.last().unwrap(),
        };
        Some((message.id.clone(), receipt.clone()))
    }

    fn update(&mut self, name: &'static str) {
        let now = self.store.now();
        let Some((id, receipt)) = self.claim(name) else {
            return;
        };
        let seconds = if self.random.one_in(3) {
            0
        } else {
            self.random.below(40)
        };
        let text = self
            .random
            .one_in(2)
            .then(|| format!("new {}", self.random.below(99)));
        let request = UpdateMessage {
            message_id: &id,
            pop_receipt: &receipt,
            visibility_seconds: seconds as i64,
            text: text.as_deref(),
        };
        let result = acknowledged(self.store.service.update_message(ACCOUNT, name, request));
        let queue = self.queue(name).expect("`claim` found it");
        let (hold, index) = queue.hold(&id, &receipt);
        match hold {
            Hold::NotFound => assert!(matches!(result, Err(Error::MessageNotFound))),
            Hold::Mismatch => assert!(matches!(result, Err(Error::PopReceiptMismatch))),
            Hold::Held => {
                let message = &mut queue.messages[index];
                let visible_at = now + Duration::from_secs(seconds);
                if visible_at > message.expires_at {
                    assert!(matches!(
                        result,
                        Err(Error::InvalidQueryParameterValue {
                            name: "visibilitytimeout",
                            ..
                        })
                    ));
                    return;
                }
                let update = result.unwrap();
                assert_eq!(update.visible_at, visible_at);
                message.visible_at = visible_at;
                message.receipts.push(update.pop_receipt);
                if let Some(text) = text {
                    message.text = text;
                }
            }
        }
    }

    fn delete(&mut self, name: &'static str) {
        let Some((id, receipt)) = self.claim(name) else {
            return;
        };
        let result = done(
            self.store
                .service
                .delete_message(ACCOUNT, name, &id, &receipt),
        );
        let queue = self.queue(name).expect("`claim` found it");
        let (hold, index) = queue.hold(&id, &receipt);
        match hold {
            Hold::NotFound => assert!(matches!(result, Err(Error::MessageNotFound))),
            Hold::Mismatch => assert!(matches!(result, Err(Error::PopReceiptMismatch))),
            Hold::Held => {
                result.unwrap();
                queue.messages.remove(index);
            }
        }
    }
}

/// The result of a write whose sync fails; `None` if it was refused.
fn acknowledged_not<T>(result: Result<(T, Ticket)>) -> Option<T> {
    let (answer, ticket) = result.ok()?;
    // A Get that took no message does not wait.
    let _ = ticket.wait();
    Some(answer)
}
