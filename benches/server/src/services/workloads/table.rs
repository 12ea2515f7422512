//! Workloads on tables.

use lazurite_bench_common::{Findings, Outcome};

use crate::client::Service;
use crate::services::bench::{Bench, DEPTHS, IDLE_SECONDS};
use crate::services::measure::megabytes;
use crate::services::peers::{Peer, Running};
use crate::services::plan::Plan;
use crate::services::workloads::table_loads::{self as loads, Rows, TABLE, Transactions};

/// Entities that are there before the operations of which they are the object.
const ROWS: f64 = 10_000.0;
/// Upserts of the workload that gives each a partition of its own.
const PARTITIONS: f64 = 100_000.0;

pub(super) fn insert(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&Plan::new(
        "table insert",
        Service::Table,
        create_table,
        |scene| loads::insert(scene, Rows::large(scene.serial)),
    ))
}

pub(super) fn upsert(bench: &mut Bench) -> Outcome<()> {
    let count = rows(bench);
    bench.compare(&Plan::new(
        "table upsert",
        Service::Table,
        |peer| fill(peer, &Rows::large(0), 0..count),
        |scene| loads::upsert(scene, Rows::large(0), count),
    ))
}

pub(super) fn merge(bench: &mut Bench) -> Outcome<()> {
    let count = rows(bench);
    bench.compare(&Plan::new(
        "table merge",
        Service::Table,
        |peer| fill(peer, &Rows::large(0), 0..count),
        |scene| loads::merge(scene, Rows::large(0), count),
    ))
}

pub(super) fn get(bench: &mut Bench) -> Outcome<()> {
    let count = rows(bench);
    bench.compare(&Plan::new(
        "table get",
        Service::Table,
        |peer| fill(peer, &Rows::large(0), 0..count),
        |scene| loads::get(scene, Rows::large(0), count),
    ))
}

pub(super) fn range(bench: &mut Bench) -> Outcome<()> {
    let count = rows(bench);
    let plan = Plan::new(
        "table range of 100",
        Service::Table,
        |peer| fill(peer, &Rows::large(0), 0..count),
        |scene| loads::range(scene, Rows::large(0), count),
    );
    bench.compare(&plan.at(&[1, 16]))
}

pub(super) fn scan(bench: &mut Bench) -> Outcome<()> {
    let count = rows(bench);
    let one_partition = || Rows::large(0).in_one_partition();
    let plan = Plan::new(
        "table filtered scan, rows",
        Service::Table,
        |peer| fill(peer, &one_partition(), 0..count),
        |scene| loads::scan(scene, one_partition(), count),
    );
    bench.compare(&plan.at(&[1, 16]).items(count as f64))
}

/// Ten partitions, and conditions on RowKey that name none of them, against reads by both keys.
pub(super) fn row_key(bench: &mut Bench) -> Outcome<()> {
    let partition_rows = bench.scaled(ROWS, 100).next_multiple_of(100);
    let count = 10 * partition_rows;
    let rows = || Rows::small(0).in_partitions_of(partition_rows);
    let get = Plan::new(
        "table get in ten partitions",
        Service::Table,
        |peer| fill(peer, &rows(), 0..count),
        |scene| loads::get(scene, rows(), count),
    );
    bench.compare(&get.at(&[1, 16]).on(&[Peer::Lazurite]))?;
    let eq = Plan::new(
        "table RowKey eq",
        Service::Table,
        |peer| fill(peer, &rows(), 0..count),
        |scene| loads::by_row_key(scene, rows(), count),
    );
    bench.compare(&eq.at(&[1, 16]).on(&[Peer::Lazurite]))?;
    let lt = Plan::new(
        "table RowKey lt",
        Service::Table,
        |peer| fill(peer, &rows(), 0..count),
        |scene| loads::below_row_key(scene, rows(), count),
    );
    bench.compare(&lt.at(&[1, 16]).on(&[Peer::Lazurite]))
}

pub(super) fn transaction(bench: &mut Bench) -> Outcome<()> {
    let plan = Plan::new(
        "table transaction, entities",
        Service::Table,
        create_table,
        |scene| {
            let rows = Rows::large(scene.serial);
            Transactions::new(scene.account, rows, 0..u64::MAX)
        },
    );
    bench.compare(&plan.at(&[1, 16]).items(100.0))
}

/// The time of 100,000 upserts at the rate reached while the number of partitions grows; slow peers
/// do fewer.
pub(super) fn partitions(bench: &mut Bench) -> Outcome<()> {
    let plan = Plan::new(
        "table one row a partition",
        Service::Table,
        create_table,
        loads::partitions,
    );
    let plan = plan.at(&[16]);
    bench.compare(&plan)?;
    let case = plan.case(16);
    for peer in Peer::ALL {
        if let Some(per_s) = bench.results.figure(&case, peer.name(), "per_s") {
            let mut findings = Findings::default();
            findings.set("seconds", PARTITIONS / per_s);
            bench.add(&case, peer, findings);
        }
    }
    Ok(())
}

/// Small entities, on our server alone: what counts is how its figures change with what is stored.
/// Each operation meets stores of every depth in turn, so that what else the machine does falls on
/// all of them.
pub(super) fn deep(bench: &mut Bench) -> Outcome<()> {
    let mut stores = Vec::new();
    for (name, full) in DEPTHS {
        let count = bench.depth(full, 400);
        for peer in bench.start(&[Peer::Lazurite])? {
            fill(&peer, &Rows::small(0), 0..count)?;
            peer.wait_until_idle(bench.time(IDLE_SECONDS));
            stores.push((peer, deep_plans(name, count)));
        }
    }
    for operation in 0..DEEP_OPERATIONS {
        let stores = stores.iter().map(|(peer, plans)| (&plans[operation], peer));
        bench.in_turn(&stores.collect::<Vec<_>>(), 16)?;
    }
    let Some((deepest, _)) = stores.last_mut() else {
        return Ok(());
    };
    let mut findings = Findings::default();
    findings.set("rss_mb", megabytes(deepest.process().memory().resident_kib));
    findings.set("ready_ms", deepest.restart()?.as_secs_f64() * 1e3);
    bench.add("table with 10M", deepest.peer(), findings);
    Ok(())
}

const DEEP_OPERATIONS: usize = 5;

/// The operations with `count` entities stored. Reads come first: some systems evict from memory
/// what was not read for a minute, and then it is the disk that is measured.
fn deep_plans(depth: &str, count: u64) -> [Plan<'static>; DEEP_OPERATIONS] {
    let rows = || Rows::small(0);
    let name = |operation: &str| format!("table {operation} among {depth}");
    let table = Service::Table;
    [
        Plan::new(name("get"), table, ready, move |scene| {
            loads::get(scene, rows(), count)
        }),
        Plan::new(name("range of 100"), table, ready, move |scene| {
            loads::range(scene, rows(), count)
        }),
        Plan::new(name("merge"), table, ready, move |scene| {
            loads::merge(scene, rows(), count)
        }),
        Plan::new(name("upsert"), table, ready, move |scene| {
            loads::upsert(scene, rows(), count)
        }),
        Plan::new(name("insert"), table, ready, |scene| {
            loads::insert(scene, Rows::small(scene.serial))
        }),
    ]
}

/// Nothing is to be prepared.
fn ready(_peer: &Running) -> Outcome<()> {
    Ok(())
}

fn rows(bench: &Bench) -> u64 {
    bench.scaled_small(ROWS, 400)
}

pub(super) fn create_table(peer: &Running) -> Outcome<()> {
    if peer.is_a_store() {
        Ok(peer.client().create_table(TABLE)?)
    } else {
        Ok(())
    }
}

/// Creates the table and writes those rows.
fn fill(peer: &Running, rows: &Rows, range: std::ops::Range<u64>) -> Outcome<()> {
    create_table(peer)?;
    if peer.is_a_store() {
        write(peer, rows, range)
    } else {
        Ok(())
    }
}

fn write(peer: &Running, rows: &Rows, range: std::ops::Range<u64>) -> Outcome<()> {
    let mut load = Transactions::new(peer.account(), rows.clone(), range);
    peer.fill(Service::Table, 4, &mut load)
}
