//! A thread or task that waits for a sync is registered once, and only while it waits.

use crate::fs::{FaultFs, MemoryFs, Operation};
use crate::{Background, Batch, Config, Db, Durability, Environment, KeyspaceOptions};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

#[test]
fn a_task_that_is_polled_again_is_registered_once() {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let environment = Environment {
        background: Background::Threads,
        ..Environment::stepped(Arc::new(disk.clone()))
    };
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let put = || {
        let mut batch = Batch::new();
        batch.put(&keyspace, b"key", b"value");
        db.write(batch).unwrap()
    };
    put().wait().unwrap();
    let mut ticket = put();
    disk.hold(Some(Operation::Sync));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
    }
    assert_eq!(db.parts().log.sync().waiting(), 1);
    disk.hold(None);
    ticket.wait().unwrap();
}

#[test]
fn a_thread_that_waits_for_a_sync_is_registered_once() {
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let environment = Environment::stepped(Arc::new(disk.clone()));
    let db = Db::open_with("/data".as_ref(), config, environment).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let put = || {
        let mut batch = Batch::new();
        batch.put(&keyspace, b"key", b"value");
        db.write(batch)?.wait()
    };
    put().unwrap();
    disk.hold(Some(Operation::Sync));
    std::thread::scope(|scope| {
        scope.spawn(|| put().unwrap());
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        let waiting = scope.spawn(|| put().unwrap());
        let waiters = || db.parts().log.sync().waiting();
        while waiters() == 0 {
            std::thread::yield_now();
        }
        let mut most = 0;
        for _ in 0..100 {
            // Anything that the thread waited for before may unpark it too.
            waiting.thread().unpark();
            std::thread::park_timeout(Duration::from_micros(100));
            most = most.max(waiters());
        }
        disk.hold(None);
        assert_eq!(most, 1);
    });
    assert!(db.parts().log.sync().waiting() == 0);
}
