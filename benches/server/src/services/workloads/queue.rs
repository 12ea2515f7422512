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
use crate::load::Limit;
use crate::services::bench::{Bench, DEPTHS, IDLE_SECONDS, SPAN_SECONDS};
use crate::services::measure::{measure, megabytes};
use crate::services::peers::{Peer, Running};
use crate::services::plan::Plan;
use crate::services::workloads::queue_loads::{
    self as loads, Consume, Cycle, Message, QUEUE, Step, Update, queue_name,
};

/// Messages that wait where an operation on one of them is measured.
const WAITING: f64 = 10_000.0;
/// Messages that are consumed before those are measured that are left.
const CONSUMED: f64 = 1e6;
/// Requests for 32 messages that are sent, at scale 1.
const GETS_OF_32: f64 = 6000.0;
const STORES: &[Peer] = &[Peer::Lazurite, Peer::Azurite];
/// Queues that messages expire in.
const QUEUES: u64 = 640;
/// The lifetime of these messages, and how soon afterwards their rows must be gone.
const EXPIRED_AFTER: Duration = Duration::from_secs(1);
const SWEPT_AFTER: Duration = Duration::from_secs(5);

pub(super) fn put(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&Plan::new(
        "queue put",
        Service::Queue,
        create_queue,
        |scene| loads::put(scene.account, Message::large(), u64::MAX),
    ))
}

pub(super) fn cycle(bench: &mut Bench) -> Outcome<()> {
    let steps = &[Step::Put, Step::Get, Step::Delete];
    let plan = Plan::new(
        "queue put, get, delete",
        Service::Queue,
        create_queue,
        |scene| Cycle::new(scene, Message::large(), steps),
    );
    bench.compare(&plan.kinds(&["put", "get", "delete"]))
}

pub(super) fn peek(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 100);
    let plan = Plan::new(
        "queue peek of 10k",
        Service::Queue,
        |peer| fill(peer, Message::large(), count),
        loads::peek,
    );
    bench.compare(&plan.at(&[1, 16]))
}

pub(super) fn update(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 100);
    let plan = Plan::new(
        "queue update of 10k",
        Service::Queue,
        |peer| fill(peer, Message::large(), count),
        |scene| Update::new(scene, Message::large()),
    );
    bench.compare(&plan.at(&[1, 16]).kinds(&["update", "get"]))
}

/// Each request takes 32 messages, so more are stored where depth makes no difference; Azurite
/// stores the number in the name.
pub(super) fn get_32(bench: &mut Bench) -> Outcome<()> {
    let waiting = bench.scaled_small(WAITING, 1000);
    let requests = bench.scaled(GETS_OF_32, 20);
    let plan = Plan::new(
        "queue get 32 of 10k",
        Service::Queue,
        |_| Ok(()),
        |scene| loads::get_many(scene.account),
    );
    for _ in 0..bench.runs {
        for peer in bench.start(STORES)? {
            let time = bench.time(SPAN_SECONDS);
            let (taken, limit) = match peer.peer() {
                Peer::Lazurite => (requests * 32, Limit::requests(requests)),
                _ => (0, Limit::time(time).or_requests(waiting / 32)),
            };
            fill(&peer, Message::large(), waiting + taken)?;
            let mut driver = peer.connect(Service::Queue, 16)?;
            let mut load = loads::get_many(peer.account());
            let findings = measure(&peer, &mut driver, &mut load, limit, &plan)?;
            bench.add(&plan.case(16), peer.peer(), findings);
        }
    }
    Ok(())
}

/// Got and deleted with more and more waiting. What is deleted is put again, so that as many are
/// waiting.
pub(super) fn deep(bench: &mut Bench) -> Outcome<()> {
    let peers = bench.start(&[Peer::Lazurite])?;
    peers.iter().try_for_each(create_queue)?;
    let mut stored = 0;
    for (name, full) in [("100", 100.0)].into_iter().chain(DEPTHS) {
        let until = match name {
            "100" => 100,
            _ => bench.depth(full, 200).max(stored),
        };
        for peer in &peers {
            write(peer, Message::small(), until - stored)?;
            peer.wait_until_idle(bench.time(IDLE_SECONDS));
        }
        stored = until;
        get_and_delete(bench, &format!("of {name}"), &peers)?;
    }
    for peer in &peers {
        let mut findings = Findings::default();
        findings.set("rss_mb", megabytes(peer.process().memory().resident_kib));
        bench.add("queue with 10M", peer.peer(), findings);
    }
    drop(peers);
    after_consuming(bench)?;
    azurite_with_10k(bench)
}

fn get_and_delete(bench: &mut Bench, name: &str, peers: &[Running]) -> Outcome<()> {
    let plan = Plan::new(
        format!("queue get, delete {name}"),
        Service::Queue,
        |_| Ok(()),
        |scene| Cycle::new(scene, Message::small(), &[Step::Get, Step::Delete]).put_again(),
    );
    let plan = plan.at(&[16]).kinds(&["get", "delete", "put"]);
    bench.repeat(&plan, peers)
}

/// With 10,000 left of which a million were consumed just before.
fn after_consuming(bench: &mut Bench) -> Outcome<()> {
    let (left, consumed) = (
        bench.scaled_small(WAITING, 200),
        bench.scaled(CONSUMED, 1000),
    );
    let peers = bench.start(&[Peer::Lazurite])?;
    for peer in &peers {
        fill(peer, Message::small(), left + consumed)?;
        peer.fill(
            Service::Queue,
            16,
            &mut Consume::new(peer.account(), 16, consumed),
        )?;
    }
    get_and_delete(bench, "after 1M", &peers)
}

fn azurite_with_10k(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(WAITING, 200);
    let peers = bench.start(&[Peer::Azurite])?;
    for peer in &peers {
        fill(peer, Message::small(), count)?;
    }
    get_and_delete(bench, "of 10k", &peers)
}

/// Messages are soon removed, so the CPU time counts both the put and the removal. Expired messages
/// are not answered, whether or not they still have rows. Our server is therefore killed in the
/// end, and its store searched for them.
pub(super) fn expiry(bench: &mut Bench) -> Outcome<()> {
    let plan = Plan::new(
        "queue put, gone in 1 s",
        Service::Queue,
        |peer| {
            let client = peer.client();
            (0..QUEUES).try_for_each(|number| Ok(client.create_queue(&queue_name(number))?))
        },
        |scene| loads::put_short_lived(scene.account, QUEUES),
    );
    let plan = plan.at(&[16]).on(STORES);
    let peers = bench.start(plan.peers)?;
    for peer in &peers {
        (plan.prepare)(peer)?;
    }
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

/// Expired messages that still have rows in the store of a server that was killed.
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

fn create_queue(peer: &Running) -> Outcome<()> {
    if peer.is_a_store() {
        Ok(peer.client().create_queue(QUEUE)?)
    } else {
        Ok(())
    }
}

/// Creates the queue and puts `count` messages.
fn fill(peer: &Running, message: Message, count: u64) -> Outcome<()> {
    create_queue(peer)?;
    if peer.is_a_store() {
        write(peer, message, count)
    } else {
        Ok(())
    }
}

fn write(peer: &Running, message: Message, count: u64) -> Outcome<()> {
    let mut load = loads::put(peer.account(), message, count);
    peer.fill(Service::Queue, 32, &mut load)
}
