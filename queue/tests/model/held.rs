//! Operations on a disk that does not respond: which of them wait for it, and which do not.

use crate::store::{ACCOUNT, QUEUE, Store};
use lazurite_engine::Durability;
use lazurite_engine::fs::{FaultFs, Operation};
use lazurite_queue::*;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

/// The result of `answer`, which must not wait for the disk.
fn at_once<T: Send + 'static>(answer: impl FnOnce() -> T + Send + 'static) -> T {
    let (answered, answers) = mpsc::channel();
    std::thread::spawn(move || answered.send(answer()));
    let limit = Duration::from_secs(20);
    answers
        .recv_timeout(limit)
        .expect("a read waits for the disk")
}

/// Drop guard: releases the disk, also when the test fails.
struct Release(FaultFs);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(None);
    }
}

fn is_complete(ticket: lazurite_engine::Ticket) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(ticket).poll(&mut context).is_ready()
}

#[test]
fn reads_do_not_wait_for_writers_or_a_deletion_that_wait_for_the_disk() {
    for held in [Operation::Sync, Operation::Write] {
        let store = Arc::new(Store::crashable(Durability::Process));
        let disk = store.faults.clone().unwrap();
        let _release = Release(disk.clone());
        for queue in [QUEUE, "another"] {
            store.create(queue).unwrap();
            for _ in 0..5 {
                let put = store
                    .service
                    .put_message(ACCOUNT, queue, PutMessage::default());
                drop(put.unwrap());
            }
            let peeked = store.service.peek_messages(ACCOUNT, queue, None);
            assert_eq!(peeked.unwrap().len(), 1);
        }
        disk.hold(Some(held));
        let waiting = |write: fn(&QueueService)| {
            let store = store.clone();
            std::thread::spawn(move || write(&store.service))
        };
        let mut writers = Vec::new();
        for _ in 0..2 {
            writers.push(waiting(|service| {
                for _ in 0..200 {
                    for queue in [QUEUE, "another"] {
                        // The queue may be deleted by then.
                        let _ = service.put_message(ACCOUNT, queue, PutMessage::default());
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }));
            writers.push(waiting(|service| {
                let hide = GetMessages {
                    visibility_seconds: Some(1),
                    ..GetMessages::default()
                };
                for _ in 0..5 {
                    for queue in [QUEUE, "another"] {
                        let _ = service.get_messages(ACCOUNT, queue, hide);
                    }
                }
            }));
        }
        while disk.held() == 0 || (held == Operation::Sync && !store.makes_writers_wait()) {
            std::thread::yield_now();
        }
        // By now all writers wait.
        std::thread::sleep(Duration::from_millis(300));
        writers.push(waiting(|service| {
            drop(service.delete_queue(ACCOUNT, QUEUE).unwrap());
        }));
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..40 {
            for queue in [QUEUE, "another"] {
                let store = store.clone();
                at_once(move || {
                    let service = &store.service;
                    service.peek_messages(ACCOUNT, queue, Some(5)).unwrap();
                    let counted = service.get_queue_metadata(ACCOUNT, queue).unwrap();
                    assert!(counted.approximate_message_count >= 5);
                    service.get_queue_acl(ACCOUNT, queue).unwrap();
                });
            }
        }
        assert!(disk.held() > 0);
        disk.hold(None);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        let gone = store.service.get_queue_metadata(ACCOUNT, QUEUE);
        assert!(matches!(gone, Err(Error::QueueNotFound)));
    }
}

#[test]
fn ticket_of_an_operation_without_a_write_waits_for_earlier_writes() {
    let store = Store::crashable(Durability::Disk);
    let disk = store.faults.as_ref().unwrap();
    let _release = Release(disk.clone());
    store.create("another").unwrap();
    let create = || {
        store
            .service
            .create_queue(ACCOUNT, QUEUE, Vec::new())
            .unwrap()
    };
    let get = || {
        let wanted = GetMessages::default();
        store
            .service
            .get_messages(ACCOUNT, "another", wanted)
            .unwrap()
    };
    assert!(is_complete(get().1), "everything is on disk");
    disk.hold(Some(Operation::Sync));
    let (made, ticket) = create();
    let (found, found_ticket) = create();
    let (taken, taken_ticket) = get();
    assert_eq!(
        (made, found, taken.len()),
        (Creation::Created, Creation::AlreadyThere, 0)
    );
    assert!(!is_complete(found_ticket) && !is_complete(taken_ticket) && !is_complete(ticket));
    disk.hold(None);
    create().1.wait().unwrap();
    assert!(is_complete(get().1));
}
