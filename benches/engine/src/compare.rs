//! The comparison: runs each workload on each engine in separate processes, one after another, and
//! prints the tables.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use lazurite_bench_common::{Findings, MachineWatch, Outcome, Results, bars, chosen};

use crate::bars::BARS;
use crate::cli::CompareArgs;
use crate::findings;
use crate::peers::Peer;
use crate::report;
use crate::step::Child;
use crate::tables;
use crate::workloads::{LOAD, Step, Store, WORKLOADS, Workload};

const TICK: Duration = Duration::from_millis(200);

/// Runs the workloads, prints the tables, and returns the number of wrong answers.
pub(crate) fn run(args: &CompareArgs) -> Outcome<usize> {
    let scratch = match &args.dir {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }?;
    let old = args.files.old()?;
    // The engines run in child processes; each workload's figures include their CPU time.
    let watch = MachineWatch::start_beside_unknown();
    let peers = chosen(&args.engines, Peer::value_variants().iter().copied());
    let mut results = Results::default();
    let ended = run_all(args, scratch.path(), &peers, &mut results);
    let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
    tables::print(&results, &names);
    bars::print(&results, BARS);
    let mut report = report::report(&results, &names, &watch.end(&[]));
    if let Err(error) = &ended {
        report.verdict = format!("ended early: {error}");
    }
    args.files.finish(report, old.as_ref())?;
    ended.map(|()| results.mismatches())
}

fn run_all(
    args: &CompareArgs,
    scratch: &Path,
    peers: &[Peer],
    results: &mut Results,
) -> Outcome<()> {
    let workloads = chosen(&args.only, WORKLOADS);
    let steps = workloads.len() * peers.len() * usize::from(args.runs);
    let bar = progress(steps as u64);
    for run in 1..=args.runs {
        let bench = Bench {
            scale: args.scale,
            root: scratch.join(run.to_string()),
        };
        for &workload in &workloads {
            for &peer in peers {
                let (name, engine) = (workload.name, peer.name());
                bar.set_message(format!("{name} on {engine}, run {run}"));
                let started = Instant::now();
                let found = bench.run(peer, workload)?;
                bar.inc(1);
                announce(&bar, name, engine, started.elapsed(), &found);
                results.add(name, engine, found);
            }
        }
        fs::remove_dir_all(&bench.root)?;
    }
    bar.finish_and_clear();
    Ok(())
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bar:32} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(steps);
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(TICK);
    bar
}

/// Prints that a workload is over, and its wrong answers.
fn announce(bar: &ProgressBar, workload: &str, engine: &str, took: Duration, findings: &Findings) {
    let others = findings.figures.get("other_cores").copied().unwrap_or(0.0);
    bar.suspend(|| {
        eprintln!(
            "{workload:16} {engine:9} {:6.1} s, others used {others:.1} cores",
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
    fn run(&self, peer: Peer, workload: &Workload) -> Outcome<Findings> {
        let shared = self.root.join(peer.name());
        match workload.store {
            Store::Own => {
                let own = self.root.join(format!("{}-{}", peer.name(), workload.name));
                let found = self.run_steps(peer, workload.steps, &own);
                fs::remove_dir_all(&own)?;
                found
            }
            Store::Filled => self.run_steps(peer, workload.steps, &shared),
            Store::Shared => {
                if !shared.exists() {
                    self.run_steps(peer, std::slice::from_ref(LOAD), &shared)?;
                }
                self.run_steps(peer, workload.steps, &shared)
            }
        }
    }

    fn run_steps(&self, peer: Peer, steps: &[Step], directory: &Path) -> Outcome<Findings> {
        let mut all = Findings::default();
        for step in steps {
            fs::create_dir_all(directory)?;
            // Pending writes and removals of the previous step must not slow this one down.
            rustix::fs::syncfs(File::open(directory)?)?;
            let child = Child {
                engine: peer,
                step,
                scale: self.scale,
                directory,
            };
            findings::merge(&mut all, child.run()?);
        }
        Ok(all)
    }
}
