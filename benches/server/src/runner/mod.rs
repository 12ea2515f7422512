//! `run`: measurements of the server that take a store or clients of their own. Each is one
//! [`Workload`] in a file of its own: its set-up, its figures, its checks and its bars.

mod bench;
mod filling;
mod many_clients;
mod neighbours;
mod pages;
mod space;
mod start;
mod state;
mod transfer;
mod well_behaved;

use std::path::PathBuf;
use std::ptr;
use std::time::Instant;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lazurite_bench_common::bars::{self, Bar, bar};
use lazurite_bench_common::{
    Better, MachineWatch, Outcome, ReportFiles, Results, RunReport, share,
};

use bench::{Bench, print};

/// A measurement. Its row in [`WORKLOADS`] is all that a new one needs.
pub(crate) struct Workload {
    name: &'static str,
    help: &'static str,
    /// Fills servers, measures them and checks their answers. Cases begin with the name of the
    /// workload.
    run: fn(&mut Bench) -> Outcome<()>,
    bars: &'static [Bar],
}

static WORKLOADS: [&Workload; 12] = [
    &start::WORKLOAD,
    &state::WORKLOAD,
    &pages::WORKLOAD,
    &transfer::TRANSFER,
    &transfer::ADOPTION,
    &many_clients::WORKLOAD,
    &neighbours::WORKLOAD,
    &space::DELETION,
    &space::SNAPSHOT,
    &space::FORK,
    &space::RESET,
    &space::AZURITE,
];

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The measurements, in their order
    #[arg(required = true, value_name = "WORKLOAD", value_parser = workload())]
    workloads: Vec<&'static Workload>,
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    spawn: PathBuf,
    /// Run with this share of what is stored and of the clients, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    scale: f64,
    /// Measure everything this many times, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Directory in which the servers keep their data, removed again [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    files: ReportFiles,
}

fn workload() -> impl TypedValueParser<Value = &'static Workload> {
    let names = WORKLOADS
        .iter()
        .map(|workload| PossibleValue::new(workload.name).help(workload.help));
    PossibleValuesParser::new(names).map(|name| {
        let named = WORKLOADS.iter().find(|workload| workload.name == name);
        *named.expect("the parser accepts no other name")
    })
}

/// Runs the workloads, prints their figures and bars, and returns how many answers were wrong and
/// bars missed.
pub(crate) fn run(args: &RunArgs) -> Outcome<usize> {
    let old = args.files.old()?;
    // The CPU time of the servers, which come and go, is not known to the end.
    let watch = MachineWatch::start_beside_unknown();
    let mut bench = Bench::new(args);
    let ended = run_workloads(args, &mut bench);
    print(&bench.results);
    let bars = args.workloads.iter().flat_map(|workload| workload.bars);
    let missed = bars::print(&bench.results, bars);
    let mut report = report(&bench.results, watch);
    if let Err(error) = &ended {
        report.verdict = format!("ended early: {error}");
    }
    args.files.finish(report, old.as_ref())?;
    ended.map(|()| bench.results.mismatches() + missed)
}

fn run_workloads(args: &RunArgs, bench: &mut Bench) -> Outcome<()> {
    for workload in &args.workloads {
        for _ in 0..args.runs {
            let started = Instant::now();
            (workload.run)(bench).map_err(|error| format!("{}: {error}", workload.name))?;
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{:20} {seconds:6.1} s", workload.name);
        }
    }
    Ok(())
}

/// Every figure, for a comparison with a later run.
fn report(results: &Results, watch: MachineWatch) -> RunReport {
    let mut measurements = Vec::new();
    for case in results.cases() {
        for peer in results.peers(case) {
            let names = results.figure_names(case, peer).into_iter();
            measurements.extend(names.filter_map(|name| {
                let better = match name {
                    "per_s" => Better::More,
                    _ => Better::Less,
                };
                results.measurement(case, peer, name, better)
            }));
        }
    }
    RunReport {
        measurements,
        ..RunReport::of("lazurite-bench run", results, "case", &watch.end(&[]))
    }
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        ptr::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_bars_begin_with_the_name_of_their_workload() {
        for workload in WORKLOADS {
            for bar in workload.bars {
                let (name, _) = bar.case.split_once(": ").unwrap();
                assert_eq!(name, workload.name);
            }
        }
    }
}
