//! Space comes back: the size of the data directory after nine of ten blobs were deleted, while
//! other requests to all services go on.
//!
//! A snapshot or a fork may hold the deleted blobs. Their space must come back once the holder is
//! gone.

mod blobs;
mod load;
mod scene;

use std::thread;

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;
use crate::runner::measure::megabytes;
use crate::runner::tally::Tally;

use blobs::Blobs;
use scene::Scene;

/// Total size of the blobs in bytes, at scale 1.
const BYTES: f64 = 5e9;
/// Long enough for the fork to outlive the workload, in which it may get no requests.
const FORK_LIFETIME: &str = "--fork-lifetime=86400";
/// Number of threads that send other requests.
const LOADS: usize = 2;

pub(super) fn deletion(bench: &mut Bench) -> Outcome<()> {
    run(bench, "space-deletion", |steps| {
        steps.blobs.delete(steps.scene)?;
        steps.wait("deleted", None)?;
        steps.read_back()
    })
}

pub(super) fn snapshot(bench: &mut Bench) -> Outcome<()> {
    run(bench, "space-snapshot", |steps| {
        steps.scene.client.page("PUT", "state/snapshots/held", "")?;
        steps.delete_beside("snapshots")
    })
}

pub(super) fn fork(bench: &mut Bench) -> Outcome<()> {
    run(bench, "space-fork", |steps| {
        let name = "{\"name\":\"held\"}";
        steps.scene.client.page("POST", "state/forks", name)?;
        steps.delete_beside("forks")
    })
}

pub(super) fn reset(bench: &mut Bench) -> Outcome<()> {
    run(bench, "space-reset", |steps| {
        steps.scene.announce_reset();
        steps.scene.client.page("POST", "state/reset", "")?;
        steps.scene.remove_all_live();
        steps.wait("reset", None)
    })
}

/// Puts the blobs, and runs the steps while other threads send requests.
fn run(bench: &mut Bench, name: &'static str, work: fn(&mut Steps) -> Outcome<()>) -> Outcome<()> {
    let server = bench.start(&[FORK_LIFETIME])?;
    let scene = Scene::new(server.client(), server.directory());
    let blobs = Blobs::new((BYTES * bench.settings.scale) as u64);
    let tally = Tally::new();
    thread::scope(|scope| -> Outcome<()> {
        for number in 0..LOADS {
            let (scene, tally) = (&scene, &tally);
            scope.spawn(move || load::run(scene, number, tally));
        }
        let mut steps = Steps {
            bench,
            name,
            scene: &scene,
            blobs,
        };
        let put = steps.blobs.put(&scene).map_err(Into::into);
        let outcome = put.and_then(|()| work(&mut steps));
        scene.end();
        outcome
    })?;
    bench.set_tally(&format!("{name}: other requests"), tally);
    Ok(())
}

/// The state of a running workload.
struct Steps<'a, 'b> {
    bench: &'a mut Bench<'b>,
    name: &'static str,
    scene: &'a Scene,
    blobs: Blobs,
}

impl Steps<'_, '_> {
    /// Deletes blobs while a snapshot or a fork named `held` keeps them, and then removes the
    /// holder.
    fn delete_beside(&mut self, holders: &'static str) -> Outcome<()> {
        self.blobs.delete(self.scene)?;
        self.wait("deleted, still held", Some(holders))?;
        let client = &self.scene.client;
        client.page("DELETE", &format!("state/{holders}/held"), "")?;
        self.wait("nothing held", None)?;
        self.read_back()
    }

    fn wait(&mut self, after: &str, holders: Option<&str>) -> Outcome<()> {
        let wait = self.scene.wait(holders)?;
        let case = self.case(after);
        self.bench.set(&case, "seconds", wait.seconds);
        self.bench.set(&case, "live_mb", megabytes(wait.live));
        self.bench.set(&case, "held_mb", megabytes(wait.held));
        self.bench.set(&case, "disk_mb", megabytes(wait.bytes));
        Ok(())
    }

    fn read_back(&mut self) -> Outcome<()> {
        let wrong = self.blobs.read_back(&self.scene.client)?;
        let case = self.case("kept blobs");
        self.bench.check(&case, wrong == 0, || {
            format!("{wrong} are not as they were put")
        });
        Ok(())
    }

    fn case(&self, what: &str) -> String {
        format!("{}: {what}", self.name)
    }
}
