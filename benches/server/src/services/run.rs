//! Runs the chosen workloads and prints what they found.

use std::time::Instant;

use lazurite_bench_common::{Outcome, bars};

use super::args::ServicesArgs;
use super::bars::BARS;
use super::bench::Bench;
use super::peers::available;
use super::tables;
use super::workloads::chosen;

/// Runs the workloads, prints the tables, and returns how many answers were wrong.
pub(crate) fn run(args: &ServicesArgs) -> Outcome<usize> {
    let peers = available(&args.peers)?;
    let mut bench = Bench::new(&args.launch, peers, args.scale, args.runs);
    for workload in chosen(&args.only, &args.service) {
        let started = Instant::now();
        (workload.run)(&mut bench)?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{:20} {seconds:6.1} s", workload.name);
    }
    tables::print(&bench.results);
    bars::print(&bench.results, BARS);
    Ok(bench.results.mismatches())
}
