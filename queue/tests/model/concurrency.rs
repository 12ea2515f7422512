//! Many producers and consumers on one queue: no message is lost, and none is delivered twice
//! within one visibility timeout.

use crate::store::{ACCOUNT, QUEUE, Store, scale};
use lazurite_queue::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PRODUCERS: u64 = 4;
const CONSUMERS: u64 = 4;

/// Advances the clock a little, so that requests have different times.
fn tick(store: &Store) {
    store.clock.advance(Duration::from_micros(1));
}

fn put(store: &Store, text: &str) {
    tick(store);
    let request = PutMessage {
        text,
        ..PutMessage::default()
    };
    let (_, ticket) = store.service.put_message(ACCOUNT, QUEUE, request).unwrap();
    ticket.wait().unwrap();
}

fn get(store: &Store, seconds: i64) -> Vec<DequeuedMessage> {
    tick(store);
    let request = GetMessages {
        count: Some(3),
        visibility_seconds: Some(seconds),
    };
    store
        .service
        .get_messages(ACCOUNT, QUEUE, request)
        .unwrap()
        .0
}

#[test]
fn every_message_is_delivered_once_while_it_stays_hidden() {
    let store = Store::with_queue();
    let each = scale("LAZURITE_QUEUE_MESSAGES", 2_000);
    let producing = AtomicU64::new(PRODUCERS);
    let delivered = std::thread::scope(|scope| {
        let (store, producing) = (&store, &producing);
        for producer in 0..PRODUCERS {
            scope.spawn(move || {
                for number in 0..each {
                    put(store, &format!("{producer} {number}"));
                }
                producing.fetch_sub(1, Ordering::Release);
            });
        }
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| scope.spawn(move || consume_all(store, producing)))
            .collect();
        let texts = consumers.into_iter().flat_map(|c| c.join().unwrap());
        texts.collect::<Vec<_>>()
    });
    let distinct: HashSet<_> = delivered.iter().collect();
    assert_eq!(distinct.len(), delivered.len(), "nothing twice");
    assert_eq!(delivered.len() as u64, PRODUCERS * each, "nothing lost");
    let properties = store.service.get_queue_metadata(ACCOUNT, QUEUE).unwrap();
    assert_eq!(properties.approximate_message_count, 0);
}

/// Takes and deletes messages until the queue is empty and the last producer has finished. Returns
/// the texts.
fn consume_all(store: &Store, producing: &AtomicU64) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let last_round = producing.load(Ordering::Acquire) == 0;
        let messages = get(store, 604_800);
        if last_round && messages.is_empty() {
            return texts;
        }
        for message in messages {
            assert_eq!(message.dequeue_count, 1);
            let (id, receipt) = (&message.message_id, &message.pop_receipt);
            let deleted = store.service.delete_message(ACCOUNT, QUEUE, id, receipt);
            drop(deleted.unwrap());
            texts.push(message.text);
        }
    }
}

#[test]
fn only_the_last_consumer_of_a_message_can_delete_it() {
    let store = Store::with_queue();
    let messages = 300;
    for number in 0..messages {
        put(&store, &number.to_string());
    }
    let done = AtomicBool::new(false);
    let deletes: Vec<(String, u32)> = std::thread::scope(|scope| {
        let (store, done) = (&store, &done);
        // Timeouts of one second, and a clock that jumps past them, so that deliveries of a message
        // to several consumers often overlap.
        let consume = move || {
            let mut deleted = Vec::new();
            while !done.load(Ordering::Relaxed) {
                for message in get(store, 1) {
                    store.clock.advance(Duration::from_millis(300));
                    std::thread::yield_now();
                    let (id, receipt) = (&message.message_id, &message.pop_receipt);
                    match store.service.delete_message(ACCOUNT, QUEUE, id, receipt) {
                        Ok(_) => deleted.push((message.message_id, message.dequeue_count)),
                        Err(Error::PopReceiptMismatch | Error::MessageNotFound) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                let properties = store.service.get_queue_metadata(ACCOUNT, QUEUE);
                if properties.unwrap().approximate_message_count == 0 {
                    done.store(true, Ordering::Relaxed);
                }
            }
            deleted
        };
        let consumers: Vec<_> = (0..CONSUMERS).map(|_| scope.spawn(consume)).collect();
        consumers
            .into_iter()
            .flat_map(|consumer| consumer.join().unwrap())
            .collect()
    });
    let by_id: HashMap<_, _> = deletes.iter().cloned().collect();
    assert_eq!(
        (deletes.len(), by_id.len()),
        (messages, messages),
        "one delete for each succeeded"
    );
}

#[test]
fn queues_created_cleared_and_deleted_under_load_leave_no_message() {
    let store = Store::with_queue();
    let rounds = 200;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, done) = (&store, &done);
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let request = PutMessage {
                        text: "x",
                        ..PutMessage::default()
                    };
                    match store.service.put_message(ACCOUNT, QUEUE, request) {
                        Ok(_) | Err(Error::QueueNotFound) => {}
                        Err(error) => panic!("{error}"),
                    }
                    let request = GetMessages::default();
                    match store.service.get_messages(ACCOUNT, QUEUE, request) {
                        Ok(_) | Err(Error::QueueNotFound) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for round in 0..rounds {
            if round % 2 == 0 {
                drop(store.service.clear_messages(ACCOUNT, QUEUE).unwrap());
            } else {
                drop(store.service.delete_queue(ACCOUNT, QUEUE).unwrap());
                store.create(QUEUE).unwrap();
            }
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(store.service.delete_queue(ACCOUNT, QUEUE).unwrap());
    assert_eq!(
        store.rows_in_store(),
        0,
        "no row of a dead generation is left"
    );
}

#[test]
fn concurrent_peeks_and_counts_miss_no_permanent_message() {
    let store = Store::with_queue();
    let rounds = scale("LAZURITE_QUEUE_MESSAGES", 2_000);
    store.put_with("hidden", Some(604_800), Some(10)).unwrap();
    let stays = store.put("stays");
    let writing = AtomicU64::new(4);
    std::thread::scope(|scope| {
        let (store, writing, stays) = (&store, &writing, &stays);
        for writer in 0..4 {
            scope.spawn(move || {
                for number in 0..rounds {
                    tick(store);
                    // After the permanent message: hidden or visible, and then deleted or expired.
                    let ttl = if number % 3 == 0 { 1 } else { 600 };
                    let put = store
                        .put_with("comes and goes", Some(ttl), Some(0))
                        .unwrap();
                    let (id, receipt) = (&put.message_id, &put.pop_receipt);
                    // The update is refused if the message expires earlier, or has expired.
                    if let Ok(moved) = store.update(id, receipt, i64::from(number % 2 == 0), None) {
                        let _ = store.delete(id, &moved.pop_receipt);
                    }
                    if writer == 0 {
                        store.clock.advance(Duration::from_millis(20));
                    }
                }
                writing.fetch_sub(1, Ordering::Release);
            });
        }
        scope.spawn(move || {
            while writing.load(Ordering::Acquire) > 0 {
                drop(store.service.sweep().unwrap());
            }
        });
        for _ in 0..2 {
            scope.spawn(move || {
                while writing.load(Ordering::Acquire) > 0 {
                    let first = store.peek(1).remove(0);
                    assert_eq!(first.message_id, stays.message_id);
                    let count = store.count();
                    assert!((2..300).contains(&count), "{count}");
                }
            });
        }
    });
    store.check_rows();
}
