//! The cases: a server, what holds on to the deleted data, and the steps of each.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tempfile::TempDir;

use lazurite_bench_common::Outcome;

use crate::administration;
use crate::azurite::Azurite;
use crate::client::{Account, Client};
use crate::report::{Phase, Report};
use crate::server::Server;
use crate::space::args::SpaceArgs;
use crate::space::curve::{Curve, Scene, Wait};
use crate::space::data::Blobs;
use crate::space::side_load::SideLoad;

/// The name of the snapshot or the fork.
const HOLDER: &str = "held";
/// For which the size is watched after each wait at full scale: what came back stays back.
const WATCHED_SECONDS: f64 = 10.0;
/// A fork that is released after a while without requests would spoil the case.
const FORK_LIFETIME: &str = "--fork-lifetime=86400";

/// The moment from which the wait counts.
pub(super) const DELETED: &str = "90 % deleted";

/// A way to delete data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// Nine of ten blobs are deleted by name
    Deletion,
    /// The same while a snapshot holds them, which is then deleted
    Snapshot,
    /// The same while a fork holds them, which is then released
    Fork,
    /// The whole store is reset
    Reset,
    /// Nine of ten blobs are deleted by name from Azurite
    Azurite,
}

impl Case {
    pub(super) const ALL: [Case; 5] = [
        Case::Deletion,
        Case::Snapshot,
        Case::Fork,
        Case::Reset,
        Case::Azurite,
    ];

    /// As a title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Case::Deletion => "Lazurite: 90 % deleted",
            Case::Snapshot => "Lazurite: 90 % deleted under a snapshot",
            Case::Fork => "Lazurite: 90 % deleted under a fork",
            Case::Reset => "Lazurite: the store reset",
            Case::Azurite => "Azurite: 90 % deleted",
        }
    }
}

/// The results of a case.
pub(super) struct Ran {
    pub(super) case: Case,
    /// Bytes of blobs.
    pub(super) written: u64,
    pub(super) blobs: usize,
    pub(super) waits: Vec<Wait>,
    pub(super) curve: Curve,
    /// Of the load beside the deletions, in nanoseconds.
    pub(super) latencies: Histogram<u64>,
    /// Wrong answers.
    pub(super) wrong: usize,
}

/// The server of a case; its data are removed when it is dropped.
enum Running {
    Lazurite(Server),
    Azurite(Azurite),
}

impl Running {
    fn start(case: Case, args: &SpaceArgs, scratch: &TempDir) -> Outcome<Running> {
        let data = scratch.path().join("data");
        Ok(match case {
            Case::Azurite => {
                std::fs::create_dir(&data)?;
                Running::Azurite(Azurite::start(&data)?)
            }
            _ => Running::Lazurite(Server::start_with(&args.spawn, &data, &[FORK_LIFETIME])?),
        })
    }

    fn account(&self) -> Account {
        match self {
            Running::Lazurite(server) => server.account(),
            Running::Azurite(azurite) => azurite.account(),
        }
    }
}

/// Runs a case on a new server. Error: it could not be carried through.
pub(super) fn run(case: Case, args: &SpaceArgs) -> Outcome<Ran> {
    eprintln!("{}", case.title());
    // In this order, so that the server is gone before its directory is.
    let scratch = args.scratch()?;
    let server = Running::start(case, args, &scratch)?;
    let client = Client::new(server.account());
    let scene = Scene::new(client, scratch.path().join("data"));
    let limit = Duration::from_secs(args.azurite_seconds);
    let deadline = (case == Case::Azurite).then(|| Instant::now() + limit);
    let mut steps = Steps {
        case,
        scene: &scene,
        account: server.account(),
        watched: Duration::from_secs_f64(WATCHED_SECONDS * args.scale.max(0.1)),
        blobs: Blobs::new(args.seed, args.bytes(case), deadline),
        report: Report::default(),
        waits: Vec::new(),
    };
    let (latencies, failed) = run_beside_load(&scene, &mut steps)?;
    Ok(Ran {
        case,
        written: steps.blobs.bytes(),
        blobs: steps.blobs.len(),
        waits: steps.waits,
        wrong: steps.report.mismatches() + failed,
        curve: scene.into_curve(),
        latencies,
    })
}

/// Runs the steps while the size is watched and the load goes on. Returns the latencies of the load, and the number of its threads that
/// ended with an error.
fn run_beside_load(scene: &Scene, steps: &mut Steps) -> Outcome<(Histogram<u64>, usize)> {
    let (mut latencies, mut failed) = (Histogram::new(3)?, 0);
    thread::scope(|scope| {
        scope.spawn(|| scene.watch());
        let loads = (0..scene.side_live.len()).map(|thread| SideLoad::new(scene, thread));
        let loads: Vec<_> = loads.map(|load| scope.spawn(|| load.run())).collect();
        let outcome = steps.run();
        scene.end();
        for load in loads {
            let (more, ended) = load.join().expect("the load does not panic");
            latencies.add(more)?;
            if let Err(error) = ended {
                eprintln!("  the load beside the deletions ended early: {error}");
                failed += 1;
            }
        }
        outcome
    })?;
    Ok((latencies, failed))
}

/// A case while it runs.
struct Steps<'a> {
    case: Case,
    scene: &'a Scene,
    account: Account,
    watched: Duration,
    blobs: Blobs,
    report: Report,
    waits: Vec<Wait>,
}

impl Steps<'_> {
    fn run(&mut self) -> Outcome<()> {
        self.write()?;
        match self.case {
            Case::Deletion | Case::Azurite => {
                self.delete()?;
                self.wait("deleted")?;
            }
            Case::Snapshot => {
                self.ask("PUT", "snapshots/held", "")?;
                self.scene.mark("snapshot made");
                self.delete()?;
                self.wait_beside("deleted, snapshot held", "snapshots")?;
                self.ask("DELETE", "snapshots/held", "")?;
                self.scene.mark("snapshot deleted");
                self.wait("snapshot deleted")?;
            }
            Case::Fork => {
                self.ask("POST", "forks", "{\"name\":\"held\"}")?;
                self.scene.mark("fork made");
                self.delete()?;
                self.wait_beside("deleted, fork held", "forks")?;
                self.ask("DELETE", "forks/held", "")?;
                self.scene.mark("fork released");
                self.wait("fork released")?;
            }
            Case::Reset => {
                self.scene.resets.fetch_add(1, Ordering::SeqCst);
                self.ask("POST", "reset", "")?;
                self.scene.remove_all_live();
                self.scene.mark("reset");
                self.wait("reset")?;
            }
        }
        self.read_back()
    }

    fn write(&mut self) -> Outcome<()> {
        let phase = Phase::start("put", "blobs", self.blobs.len());
        self.blobs.put(self.scene, &phase)?;
        self.report.finish(phase);
        self.scene.mark("all written");
        Ok(())
    }

    fn delete(&mut self) -> Outcome<()> {
        let phase = Phase::start("delete", "blobs", self.blobs.deleted());
        self.blobs.delete(self.scene, &phase)?;
        self.report.finish(phase);
        self.scene.mark(DELETED);
        Ok(())
    }

    fn wait(&mut self, name: &'static str) -> Outcome<()> {
        self.scene.set_held(0);
        self.wait_looking(name, || Ok(()))
    }

    /// Waits while a snapshot or a fork holds data, as many as the list of that name says.
    fn wait_beside(&mut self, name: &'static str, list: &str) -> Outcome<()> {
        let (scene, account) = (self.scene, self.account.clone());
        self.wait_looking(name, || {
            scene.set_held(held_bytes(&account, list)?);
            Ok(())
        })
    }

    fn wait_looking(
        &mut self,
        name: &'static str,
        look: impl FnMut() -> Outcome<()>,
    ) -> Outcome<()> {
        let wait = self.scene.wait(name, look)?;
        self.waits.push(wait);
        thread::sleep(self.watched);
        Ok(())
    }

    fn read_back(&mut self) -> Outcome<()> {
        if self.case == Case::Reset {
            return Ok(());
        }
        let phase = Phase::start("read back", "blobs", self.blobs.kept());
        self.blobs.read_back(&self.scene.client, &phase)?;
        self.report.finish(phase);
        Ok(())
    }

    fn ask(&self, method: &str, page: &str, body: &str) -> Outcome<()> {
        administration::ask(&self.account, method, &format!("state/{page}"), body)?;
        Ok(())
    }
}

/// The bytes of the snapshot or the fork, from the list of that name in the server's status.
fn held_bytes(account: &Account, list: &str) -> Outcome<u64> {
    let status = administration::ask(account, "GET", "api/status", "")?;
    let stores = status[list].as_array().map_or(&[][..], Vec::as_slice);
    let held = stores.iter().find(|store| store["name"] == HOLDER);
    let bytes = held.and_then(|store| store["bytes"].as_u64());
    Ok(bytes.ok_or_else(|| format!("the status lists no bytes of `{HOLDER}` in {list}"))?)
}
