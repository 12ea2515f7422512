//! `engine`: our engine beside others, on the same keys, values and durability. The parent runs each workload on each engine in
//! processes of their own, one after another, and prints what they found.

mod bars;
mod context;
mod data;
mod measure;
mod peers;
mod report;
mod step;
mod workloads;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use peers::Peer;
use report::Results;
pub(crate) use step::run as run_step;
use step::{Child, Findings};
use workloads::Place;
pub(crate) use workloads::{Step, Workload};

use crate::cli::EngineArgs;
use crate::report::Outcome;

const TICK: Duration = Duration::from_millis(200);

/// Runs the workloads, prints the tables, and answers how many answers were wrong.
pub(crate) fn run(args: &EngineArgs) -> Outcome<usize> {
    let scratch = match &args.dir {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }?;
    let workloads = chosen(&args.only, Workload::value_variants());
    let peers = chosen(&args.engines, Peer::value_variants());
    let runs = u64::from(args.runs);
    let bar = progress(runs * (workloads.len() * peers.len()) as u64);
    let mut results = Results::new(peers.clone());
    for run in 1..=args.runs {
        let bench = Bench {
            scale: args.scale,
            root: scratch.path().join(run.to_string()),
        };
        for &workload in &workloads {
            for &peer in &peers {
                bar.set_message(format!("{workload} on {}, run {run}", peer.name()));
                let started = Instant::now();
                let findings = bench.run(peer, workload)?;
                bar.inc(1);
                tell(&bar, peer, workload, started.elapsed(), &findings);
                results.add(peer, workload, findings);
            }
        }
        fs::remove_dir_all(&bench.root)?;
    }
    bar.finish_and_clear();
    results.print();
    Ok(results.mismatches())
}

/// What was asked for, in our order; everything if nothing was.
fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let is_asked = |one: &&T| asked.is_empty() || asked.contains(one);
    all.iter().filter(is_asked).copied().collect()
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bar:32} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(steps);
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(TICK);
    bar
}

/// Says that a workload is over, and what was wrong.
fn tell(bar: &ProgressBar, peer: Peer, workload: Workload, took: Duration, findings: &Findings) {
    let others = findings.figures.get("other_cores").copied().unwrap_or(0.0);
    bar.suspend(|| {
        eprintln!(
            "{workload:16} {:9} {:6.1} s, others used {others:.1} cores",
            peer.name(),
            took.as_secs_f64()
        );
        for wrong in &findings.wrong {
            eprintln!("  mismatch: {wrong}");
        }
    });
}

/// One run over all workloads.
struct Bench {
    scale: f64,
    root: PathBuf,
}

impl Bench {
    fn run(&self, peer: Peer, workload: Workload) -> Outcome<Findings> {
        let shared = self.root.join(peer.name());
        match workload.place() {
            Place::Own => {
                let own = self.root.join(format!("{}-{workload}", peer.name()));
                let findings = self.run_steps(peer, workload.steps(), &own);
                fs::remove_dir_all(&own)?;
                findings
            }
            Place::Writes => self.run_steps(peer, workload.steps(), &shared),
            Place::Reads => {
                if !shared.exists() {
                    self.run_steps(peer, &[Step::Load], &shared)?;
                }
                self.run_steps(peer, workload.steps(), &shared)
            }
        }
    }

    fn run_steps(&self, peer: Peer, steps: &[Step], directory: &Path) -> Outcome<Findings> {
        let mut all = Findings::default();
        for &step in steps {
            fs::create_dir_all(directory)?;
            // What the one before has left to write, or has removed, must not slow this one down.
            rustix::fs::syncfs(File::open(directory)?)?;
            let child = Child {
                engine: peer,
                step,
                scale: self.scale,
                directory,
            };
            all.merge(child.run()?);
        }
        Ok(all)
    }
}
