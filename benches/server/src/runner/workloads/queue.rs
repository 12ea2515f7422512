//! Workloads on queues.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lazurite_base::wall_clock::SystemWallClock;
use lazurite_bench_common::{Findings, Outcome};
use lazurite_engine::{Config, Db, RandomIds};
use lazurite_queue::QueueService;

use crate::client::Service;
use crate::load::{Limit, Load};
use crate::runner::bench::{Bench, DEPTHS, IDLE_SECONDS};
use crate::runner::measure::{measure, megabytes};
use crate::runner::peers::{Peer, Running};
use crate::runner::plan::{Plan, SPAN_SECONDS, Scene};
use crate::runner::workloads::queue_loads::{
    self as loads, Cycle, Message, Step, Update, queue_name,
};

/// Number of messages in the queue when an operation on one of them is measured.
const WAITING: f64 = 10_000.0;
/// Number of messages consumed before the remaining ones are measured.
const CONSUMED: f64 = 1e6;
/// Number of requests for 32 messages each, at scale 1.
const GETS_OF_32: f64 = 6000.0;
/// Number of requests that get and delete messages before these messages are put again. It is small
/// enough that sixteen connections do not empty a queue of a hundred messages.
const CONSUMED_REQUESTS: u64 = 128;
const STORES: &[Peer] = &[Peer::Lazurite, Peer::Azurite];
/// Number of queues in which messages expire.
const QUEUES: u64 = 640;
/// The lifetime of these messages, and the time after their expiry by which their rows must be
/// gone.
const EXPIRED_AFTER: Duration = Duration::from_secs(1);
const SWEPT_AFTER: Duration = Duration::from_secs(5);

fn plan<'a, L: Load + 'static>(
    name: impl Into<String>,
    load: impl Fn(&Scene) -> L + 'a,
) -> Plan<'a> {
    Plan::new(name, Service::Queue, load)
}

pub(super) fn put(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&plan("queue put", |scene| {
        loads::put(scene.account, Message::large(), u64::MAX)
    }))
}

pub(super) fn cycle(bench: &mut Bench) -> Outcome<()> {
    let steps = &[Step::Put, Step::Get, Step::Delete];
    let plan = plan("queue put, get, delete", |scene| {
        Cycle::new(scene.account, scene.connections, Message::large(), steps)
    });
    bench.compare(&plan.kinds(&["put", "get", "delete"]))
}

pub(super) fn peek(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 100);
    let plan = plan("queue peek of 10k", loads::peek);
    let plan = plan.filled(|peer| fill(peer, Message::large(), count));
    bench.compare(&plan.at(&[1, 16]))
}

pub(super) fn update(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 100);
    let plan = plan("queue update of 10k", |scene| {
        Update::new(scene, Message::large())
    });
    let plan = plan.filled(|peer| fill(peer, Message::large(), count));
    bench.compare(&plan.at(&[1, 16]).kinds(&["update", "get"]))
}

/// Each request takes 32 messages. So our server, on which the depth makes no difference, stores
/// more messages than the name says. Azurite stores as many as the name says.
pub(super) fn get_32(bench: &mut Bench) -> Outcome<()> {
    let waiting = bench.scaled_small(WAITING, 1000);
    let requests = bench.scaled(GETS_OF_32, 20);
    let plan = plan("queue get 32 of 10k", |scene| {
        loads::get_many(scene.account)
    });
    for _ in 0..bench.settings.runs {
        for peer in bench.start_all(STORES, Service::Queue)? {
            let time = bench.time(SPAN_SECONDS);
            let (taken, limit) = match peer.peer() {
                Peer::Lazurite => (requests * 32, Limit::requests(requests)),
                _ => {
                    let requests = waiting / 32;
                    (0, Limit { time, requests })
                }
            };
            fill(&peer, Message::large(), waiting + taken)?;
            let mut driver = peer.connect(Service::Queue, 16)?;
            let mut load = loads::get_many(peer.account());
            let findings = measure(&peer, &plan, || driver.run(&mut load, limit))?;
            bench.add(&plan.case(16), peer.peer(), findings);
        }
    }
    Ok(())
}

/// Gets and deletes messages of queues in which more and more messages wait. Deleted messages are
/// put again, so that the number waiting stays the same.
pub(super) fn deep(bench: &mut Bench) -> Outcome<()> {
    let peers = bench.start_all(&[Peer::Lazurite], Service::Queue)?;
    let mut stored = 0;
    for (name, full) in [("100", 100.0)].into_iter().chain(DEPTHS) {
        let until = match name {
            "100" => 100,
            _ => bench.depth(full, 200).max(stored),
        };
        for peer in &peers {
            fill(peer, Message::small(), until - stored)?;
            peer.wait_until_idle(bench.time(IDLE_SECONDS));
        }
        stored = until;
        get_and_delete(bench, &format!("of {name}"), &peers)?;
    }
    for peer in &peers {
        let mut findings = Findings::default();
        findings.set("rss_mb", megabytes(peer.memory().resident_kib << 10));
        bench.add("queue with 10M", peer.peer(), findings);
    }
    drop(peers);
    after_consuming(bench)?;
    azurite_with_10k(bench)
}

fn get_and_delete(bench: &mut Bench, name: &str, peers: &[Running]) -> Outcome<()> {
    let plan = plan(format!("queue get, delete {name}"), |scene| {
        let steps = &[Step::Get, Step::Delete];
        Cycle::new(scene.account, scene.connections, Message::small(), steps)
    });
    let plan = plan.restored(CONSUMED_REQUESTS, |scene| {
        loads::put(scene.account, Message::small(), u64::MAX)
    });
    bench.repeat(&plan.at(&[16]).kinds(&["get", "delete"]), peers)
}

/// Measures a queue with 10,000 messages after a million were consumed.
fn after_consuming(bench: &mut Bench) -> Outcome<()> {
    let (left, consumed) = (
        bench.scaled_small(WAITING, 200),
        bench.scaled(CONSUMED, 1000),
    );
    let peers = bench.start_all(&[Peer::Lazurite], Service::Queue)?;
    for peer in &peers {
        fill(peer, Message::small(), left + consumed)?;
        let steps = &[Step::Get, Step::Delete];
        let mut consume = Cycle::new(peer.account(), 16, Message::small(), steps);
        let mut driver = peer.connect(Service::Queue, 16)?;
        driver.run(&mut consume, Limit::requests(2 * consumed))?;
    }
    get_and_delete(bench, "after 1M", &peers)
}

fn azurite_with_10k(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 200);
    let peers = bench.start_all(&[Peer::Azurite], Service::Queue)?;
    for peer in &peers {
        fill(peer, Message::small(), count)?;
    }
    get_and_delete(bench, "of 10k", &peers)
}

/// Messages are soon removed, so the CPU time counts both the put and the removal. Expired messages
/// are not delivered, whether or not they still have rows. So our server is killed in the end, and
/// its store is searched for their rows.
pub(super) fn expiry(bench: &mut Bench) -> Outcome<()> {
    let plan = plan("queue put, gone in 1 s", |scene| {
        loads::put_short_lived(scene.account, QUEUES)
    });
    let plan = plan.filled(|peer| {
        let client = peer.client();
        (0..QUEUES).try_for_each(|number| Ok(client.create_queue(&queue_name(number))?))
    });
    let plan = plan.at(&[16]).on(STORES);
    let peers = bench.start_all(STORES, Service::Queue)?;
    peers.iter().try_for_each(|peer| plan.fill(peer))?;
    bench.repeat(&plan, &peers)?;
    thread::sleep(EXPIRED_AFTER + SWEPT_AFTER);
    for peer in peers {
        if peer.peer() == Peer::Lazurite {
            let rows_left = expired_messages(peer.into_data().path())?;
            let mut findings = Findings::default();
            findings.set("rows_left", rows_left as f64);
            findings.mismatches = usize::from(rows_left > 0);
            bench.add("queue rows of expired messages", Peer::Lazurite, findings);
        }
    }
    Ok(())
}

/// Number of expired messages that still have rows in the store of a killed server.
fn expired_messages(directory: &Path) -> Outcome<u64> {
    let db = Db::open(&directory.join("data"), Config::default())?;
    let clock = Arc::new(SystemWallClock::default());
    let queues = QueueService::open(&db, Arc::new(RandomIds), clock)?;
    let mut removed = 0;
    loop {
        let (swept, ticket) = queues.sweep()?;
        ticket.wait()?;
        removed += swept.removed;
        if !swept.more {
            db.close()?;
            return Ok(removed);
        }
    }
}

/// Puts `count` messages into the queue.
fn fill(peer: &Running, message: Message, count: u64) -> Outcome<()> {
    let mut load = loads::put(peer.account(), message, count);
    peer.fill(Service::Queue, 32, &mut load)
}
