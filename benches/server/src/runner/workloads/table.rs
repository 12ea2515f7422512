//! Workloads on tables.

use std::ops::Range;

use clap::ValueEnum;
use lazurite_bench_common::{Findings, Outcome};

use crate::client::Service;
use crate::load::Load;
use crate::runner::bench::{Bench, DEPTHS, IDLE_SECONDS, millis};
use crate::runner::measure::megabytes;
use crate::runner::peers::{Peer, Running};
use crate::runner::plan::{Plan, Scene};
use crate::runner::workloads::table_loads::{self as loads, Rows, Transactions};

/// Number of entities that exist before operations on them.
const ROWS: f64 = 10_000.0;
/// Number of upserts in the workload in which each has its own partition.
const PARTITIONS: f64 = 100_000.0;
const ALL: &[usize] = &[1, 16, 64];

fn plan<'a, L: Load + 'static>(
    name: impl Into<String>,
    load: impl Fn(&Scene) -> L + 'a,
) -> Plan<'a> {
    Plan::new(name, Service::Table, load)
}

pub(super) fn insert(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&plan("table insert", |scene| {
        loads::insert(scene, Rows::large(scene.serial))
    }))
}

pub(super) fn upsert(bench: &mut Bench) -> Outcome<()> {
    on_rows(bench, "table upsert", ALL, loads::upsert)
}

pub(super) fn merge(bench: &mut Bench) -> Outcome<()> {
    on_rows(bench, "table merge", ALL, loads::merge)
}

pub(super) fn get(bench: &mut Bench) -> Outcome<()> {
    on_rows(bench, "table get", ALL, loads::get)
}

pub(super) fn range(bench: &mut Bench) -> Outcome<()> {
    on_rows(bench, "table range of 100", &[1, 16], loads::range)
}

/// Measures a load on 10,000 entities.
fn on_rows<L: Load + 'static>(
    bench: &mut Bench,
    name: &str,
    connections: &[usize],
    load: impl Fn(&Scene, Rows, u64) -> L,
) -> Outcome<()> {
    let count = bench.scaled_small(ROWS, 400);
    let plan = plan(name, |scene| load(scene, Rows::large(0), count));
    let plan = plan.filled(|peer| fill(peer, &Rows::large(0), 0..count));
    bench.compare(&plan.at(connections))
}

pub(super) fn scan(bench: &mut Bench) -> Outcome<()> {
    let count = bench.scaled_small(ROWS, 400);
    let rows = || Rows::large(0).in_one_partition();
    let plan = plan("table filtered scan, rows", |scene| {
        loads::scan(scene, rows(), count)
    });
    let plan = plan.filled(|peer| fill(peer, &rows(), 0..count));
    bench.compare(&plan.at(&[1, 16]).items(count as f64))
}

/// Compares conditions on RowKey alone, over ten partitions, with reads by both keys.
pub(super) fn row_key(bench: &mut Bench) -> Outcome<()> {
    let partition_rows = bench.scaled(ROWS, 100).next_multiple_of(100);
    let count = 10 * partition_rows;
    let rows = || Rows::small(0).in_partitions_of(partition_rows);
    for plan in [
        plan("table get in ten partitions", |scene| {
            loads::get(scene, rows(), count)
        }),
        plan("table RowKey eq", |scene| {
            loads::by_row_key(scene, rows(), count)
        }),
        plan("table RowKey lt", |scene| {
            loads::below_row_key(scene, rows(), count)
        }),
    ] {
        let plan = plan.filled(|peer| fill(peer, &rows(), 0..count));
        bench.compare(&plan.at(&[1, 16]).on(&[Peer::Lazurite]))?;
    }
    Ok(())
}

pub(super) fn transaction(bench: &mut Bench) -> Outcome<()> {
    let plan = plan("table transaction, entities", |scene| {
        Transactions::new(scene.account, Rows::large(scene.serial), 0..u64::MAX)
    });
    bench.compare(&plan.at(&[1, 16]).items(100.0))
}

/// The time of 100,000 upserts, computed from the rate that was measured while the number of
/// partitions grows. Slow peers do fewer upserts.
pub(super) fn partitions(bench: &mut Bench) -> Outcome<()> {
    let plan = plan("table one row a partition", loads::partitions).at(&[16]);
    bench.compare(&plan)?;
    let case = plan.case(16);
    for &peer in Peer::value_variants() {
        if let Some(per_s) = bench.results.figure(&case, peer.name(), "per_s") {
            let mut findings = Findings::default();
            findings.set("seconds", PARTITIONS / per_s);
            bench.add(&case, peer, findings);
        }
    }
    Ok(())
}

/// Small entities, on our server alone, to show how its figures change with the number stored. Each
/// operation runs on stores of every depth in turn, so that other work of the machine affects all
/// of them.
pub(super) fn deep(bench: &mut Bench) -> Outcome<()> {
    let mut stores = Vec::new();
    for (name, full) in DEPTHS {
        let count = bench.depth(full, 400);
        for peer in bench.start_all(&[Peer::Lazurite], Service::Table)? {
            fill(&peer, &Rows::small(0), 0..count)?;
            peer.wait_until_idle(bench.time(IDLE_SECONDS));
            stores.push((peer, deep_plans(name, count)));
        }
    }
    for operation in 0..DEEP_OPERATIONS {
        for _ in 0..bench.settings.runs {
            for (peer, plans) in &stores {
                bench.once(&plans[operation], peer, 16)?;
            }
        }
    }
    let Some((deepest, _)) = stores.last_mut() else {
        return Ok(());
    };
    let mut findings = Findings::default();
    findings.set("rss_mb", megabytes(deepest.memory().resident_kib << 10));
    let server = deepest.server()?;
    server.stop_and_restart()?;
    findings.set("ready_ms", millis(server.ready_after()));
    bench.add("table with 10M", deepest.peer(), findings);
    Ok(())
}

const DEEP_OPERATIONS: usize = 5;

/// The operations with `count` entities stored. Reads come first. Some systems remove a page
/// from memory if it is not read for a minute, and a later read would measure the disk.
fn deep_plans(depth: &str, count: u64) -> [Plan<'static>; DEEP_OPERATIONS] {
    let rows = || Rows::small(0);
    let name = |operation: &str| format!("table {operation} among {depth}");
    [
        plan(name("get"), move |scene| loads::get(scene, rows(), count)),
        plan(name("range of 100"), move |scene| {
            loads::range(scene, rows(), count)
        }),
        plan(name("merge"), move |scene| {
            loads::merge(scene, rows(), count)
        }),
        plan(name("upsert"), move |scene| {
            loads::upsert(scene, rows(), count)
        }),
        plan(name("insert"), |scene| {
            loads::insert(scene, Rows::small(scene.serial))
        }),
    ]
}

fn fill(peer: &Running, rows: &Rows, range: Range<u64>) -> Outcome<()> {
    let mut load = Transactions::new(peer.account(), rows.clone(), range);
    peer.fill(Service::Table, 4, &mut load)
}
