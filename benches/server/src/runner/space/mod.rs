//! Space comes back: the size of the data directory after nine of ten blobs were deleted, while
//! other requests to all services go on.
//!
//! A snapshot or a fork may hold the deleted blobs; then the same holds again once it is gone.

mod blobs;
mod scene;
mod side_load;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use lazurite_bench_common::Outcome;
use lazurite_bench_common::bars::Bar;
use lazurite_bench_common::bars::Expectation::AtMost;

use crate::azurite::{self, Azurite};
use crate::client::Client;
use crate::runner::bench::{Bench, megabytes};
use crate::runner::{Workload, bar};

use blobs::Blobs;
use scene::Scene;
use side_load::SideLoad;

/// The directory must be as small as it may be by then.
const SECONDS_MAX: f64 = 60.0;
/// Bytes of blobs at scale 1; those on Azurite, and the time after which it is given no more to
/// write or to delete.
const BYTES: f64 = 5e9;
const AZURITE_BYTES: f64 = 1e9;
const AZURITE_TIME: Duration = Duration::from_secs(300);
/// A fork that is released after a while without requests would spoil the case.
const FORK_LIFETIME: &str = "--fork-lifetime=86400";

pub(super) const DELETION: Workload = Workload {
    name: "space-deletion",
    help: "The data directory after 90 % of 5 GB were deleted under load",
    run: |bench| run(bench, "space-deletion", |steps| steps.delete()),
    bars: &[returns("space-deletion: deleted")],
};
pub(super) const SNAPSHOT: Workload = Workload {
    name: "space-snapshot",
    help: "The same while a snapshot holds it, which is then deleted",
    run: |bench| {
        run(bench, "space-snapshot", |steps| {
            steps.delete_beside("snapshots")
        })
    },
    bars: &[
        returns("space-snapshot: deleted, still held"),
        returns("space-snapshot: nothing held"),
    ],
};
pub(super) const FORK: Workload = Workload {
    name: "space-fork",
    help: "The same while a fork holds it, which is then released",
    run: |bench| run(bench, "space-fork", |steps| steps.delete_beside("forks")),
    bars: &[
        returns("space-fork: deleted, still held"),
        returns("space-fork: nothing held"),
    ],
};
pub(super) const RESET: Workload = Workload {
    name: "space-reset",
    help: "The same after a reset of the whole store",
    run: |bench| run(bench, "space-reset", |steps| steps.reset()),
    bars: &[returns("space-reset: reset")],
};
pub(super) const AZURITE: Workload = Workload {
    name: "space-azurite",
    help: "The same after 90 % of 1 GB were deleted from Azurite, which looks for garbage every ten minutes",
    run: run_on_azurite,
    bars: &[],
};

const fn returns(case: &'static str) -> Bar {
    bar(case, "seconds", AtMost(SECONDS_MAX))
}

type Work = fn(&mut Steps) -> Outcome<()>;

fn run(bench: &mut Bench, name: &'static str, work: Work) -> Outcome<()> {
    let server = bench.start(&[FORK_LIFETIME])?;
    let scene = Scene::new(server.client(), server.directory.clone());
    let blobs = Blobs::new((BYTES * bench.args.scale) as u64, None);
    run_beside_load(bench, name, &scene, blobs, work)
}

fn run_on_azurite(bench: &mut Bench) -> Outcome<()> {
    azurite::install()?;
    let scratch = bench.scratch()?;
    let data = scratch.path().join("data");
    std::fs::create_dir(&data)?;
    let azurite = Azurite::start(&data)?;
    let scene = Scene::new(Client::new(azurite.account()), data);
    let deadline = Instant::now() + AZURITE_TIME;
    let blobs = Blobs::new((AZURITE_BYTES * bench.args.scale) as u64, Some(deadline));
    run_beside_load(bench, "space-azurite", &scene, blobs, |steps| {
        steps.delete()
    })
}

/// Runs the steps while the load goes on.
fn run_beside_load(
    bench: &mut Bench,
    name: &'static str,
    scene: &Scene,
    blobs: Blobs,
    work: Work,
) -> Outcome<()> {
    let mut latencies: Histogram<u64> = Histogram::new(3)?;
    let case = format!("{name}: other requests");
    thread::scope(|scope| -> Outcome<()> {
        let loads = (0..scene.side_live.len()).map(|thread| SideLoad::new(scene, thread));
        let loads: Vec<_> = loads.map(|load| scope.spawn(|| load.run())).collect();
        let mut steps = Steps {
            bench,
            name,
            scene,
            blobs,
        };
        let outcome = steps.put().and_then(|()| work(&mut steps));
        scene.end();
        for load in loads {
            let (more, ended) = load.join().expect("the load does not panic");
            latencies.add(more)?;
            if let Err(error) = ended {
                bench.check(&case, false, || format!("ended early: {error}"));
            }
        }
        outcome
    })?;
    bench.set_latencies(&case, &latencies);
    Ok(())
}

/// A workload while it runs.
struct Steps<'a, 'b> {
    bench: &'a mut Bench<'b>,
    name: &'static str,
    scene: &'a Scene,
    blobs: Blobs,
}

impl Steps<'_, '_> {
    fn put(&mut self) -> Outcome<()> {
        self.blobs.put(self.scene)?;
        let case = format!("{}: written", self.name);
        self.bench
            .set(&case, "live_mb", megabytes(self.blobs.bytes()));
        Ok(())
    }

    fn delete(&mut self) -> Outcome<()> {
        self.blobs.delete(self.scene)?;
        self.wait("deleted")?;
        self.read_back()
    }

    /// Deletes while a snapshot or a fork holds what is deleted, and removes it then.
    fn delete_beside(&mut self, holders: &str) -> Outcome<()> {
        let client = &self.scene.client;
        if holders == "forks" {
            client.page("POST", "state/forks", "{\"name\":\"held\"}")?;
        } else {
            client.page("PUT", "state/snapshots/held", "")?;
        }
        self.blobs.delete(self.scene)?;
        self.scene.set_holders(Some(holders));
        self.wait("deleted, still held")?;
        client.page("DELETE", &format!("state/{holders}/held"), "")?;
        self.scene.set_holders(None);
        self.wait("nothing held")?;
        self.read_back()
    }

    fn reset(&mut self) -> Outcome<()> {
        self.scene.resets.fetch_add(1, Ordering::SeqCst);
        self.scene.client.page("POST", "state/reset", "")?;
        self.scene.remove_all_live();
        self.wait("reset")
    }

    fn wait(&mut self, after: &str) -> Outcome<()> {
        let wait = self.scene.wait()?;
        let case = format!("{}: {after}", self.name);
        self.bench.set(&case, "seconds", wait.seconds);
        self.bench.set(&case, "live_mb", megabytes(wait.live));
        self.bench.set(&case, "held_mb", megabytes(wait.held));
        self.bench.set(&case, "disk_mb", megabytes(wait.bytes));
        Ok(())
    }

    fn read_back(&mut self) -> Outcome<()> {
        let wrong = self.blobs.read_back(&self.scene.client)?;
        let case = format!("{}: kept blobs", self.name);
        self.bench.check(&case, wrong == 0, || {
            format!("{wrong} are not as they were put")
        });
        Ok(())
    }
}

/// The bytes of the snapshot or the fork, from the list of that name in the server's status.
fn held_bytes(client: &Client, holders: &str) -> Outcome<u64> {
    let status: Value = serde_json::from_slice(&client.page("GET", "api/status", "")?)?;
    let stores = status[holders].as_array().map_or(&[][..], Vec::as_slice);
    let held = stores.iter().find(|store| store["name"] == "held");
    let bytes = held.and_then(|store| store["bytes"].as_u64());
    Ok(bytes.ok_or_else(|| format!("the status lists no bytes of `held` in {holders}"))?)
}
