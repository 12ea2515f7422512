//! Writes that are on the disk before their answer (`--durability disk`): blobs of several sizes,
//! and an entity. Each should cost one sync of the log, as the entity does. The disk alone shows
//! the cost of one sync.

use lazurite_bench_common::{Findings, Outcome};

use crate::client::Service;
use crate::runner::bench::Bench;
use crate::runner::disk::synced_writes;
use crate::runner::peers::Peer;
use crate::runner::plan::{Plan, SPAN_SECONDS};
use crate::runner::workloads::blob_loads::{self, Names, noise};
use crate::runner::workloads::table_loads::{self, Rows};

const ARGUMENTS: &[&str] = &["--durability", "disk"];
const CONNECTIONS: &[usize] = &[1, 16];
const SIZES: [(&str, usize); 4] = [
    ("1 KiB", 1 << 10),
    ("4 KiB", 4 << 10),
    ("16 KiB", 16 << 10),
    ("64 KiB", 64 << 10),
];
/// Number of bytes that an insert adds to the log.
const RECORD_BYTES: usize = 1 << 10;

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let insert = Plan::new("synced table insert", Service::Table, |scene| {
        table_loads::insert(scene, Rows::large(scene.serial))
    });
    compare(bench, insert)?;
    for (size, bytes) in SIZES {
        let content = noise(bytes);
        let name = format!("synced blob put {size}");
        let put = Plan::new(name, Service::Blob, |scene| {
            let names = Names::new(scene.serial, u64::MAX);
            blob_loads::put(scene.account, names, &content)
        });
        compare(bench, put)?;
    }
    measure_disk(bench)
}

fn compare(bench: &mut Bench, plan: Plan) -> Outcome<()> {
    let plan = plan.on(&[Peer::Lazurite]).arguments(ARGUMENTS);
    bench.compare(&plan.at(CONNECTIONS))
}

fn measure_disk(bench: &mut Bench) -> Outcome<()> {
    if !bench.peers.contains(&Peer::Disk) {
        return Ok(());
    }
    for _ in 0..bench.settings.runs {
        let directory = bench.settings.launch.scratch()?;
        let time = bench.time(SPAN_SECONDS);
        let (per_s, p50_us) = synced_writes(directory.path(), RECORD_BYTES, time)?;
        let mut findings = Findings::default();
        findings.set("per_s", per_s);
        findings.set("p50_us", p50_us);
        bench.add("synced table insert @1", Peer::Disk, findings);
    }
    Ok(())
}
