//! Runs the chosen workloads and prints what they found.

use std::time::Instant;

use lazurite_bench_common::{MachineWatch, Outcome, bars};

use crate::services::args::ServicesArgs;
use crate::services::bars::BARS;
use crate::services::bench::Bench;
use crate::services::peers::available;
use crate::services::workloads::chosen;
use crate::services::{report, tables};

/// Runs the workloads, prints the tables, and returns how many answers were wrong.
pub(crate) fn run(args: &ServicesArgs) -> Outcome<usize> {
    if args.beside.binary.is_some() {
        run_workloads(args, &mut Bench::new(args, Vec::new()))?;
        return Ok(0);
    }
    let old = args.files.old()?;
    // The CPU time of the servers, which come and go, is part of each case's figures.
    let watch = MachineWatch::start_beside_unknown();
    let peers = available(&args.peers)?;
    let mut bench = Bench::new(args, peers);
    let ended = run_workloads(args, &mut bench);
    tables::print(&bench.results);
    bars::print(&bench.results, BARS);
    let mut report = report::report(&bench.results, &watch.end(&[]));
    if let Err(error) = &ended {
        report.verdict = format!("ended early: {error}");
    }
    args.files.finish(report, old.as_ref())?;
    ended.map(|()| bench.results.mismatches())
}

fn run_workloads(args: &ServicesArgs, bench: &mut Bench) -> Outcome<()> {
    for workload in chosen(&args.only, &args.service) {
        let started = Instant::now();
        (workload.run)(bench).map_err(|error| format!("{}: {error}", workload.name))?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{:20} {seconds:6.1} s", workload.name);
    }
    Ok(())
}
