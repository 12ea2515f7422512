//! Runs the requested workloads and prints their results.

use std::time::Instant;

use lazurite_bench_common::{MachineWatch, Outcome, bars};

use crate::runner::args::RunArgs;
use crate::runner::bars::BARS;
use crate::runner::bench::Bench;
use crate::runner::peers::available;
use crate::runner::report;
use crate::runner::workload::Workload;
use crate::runner::workloads::WORKLOADS;

/// Runs the workloads, prints figures and bars, and returns the number of wrong answers plus missed
/// bars. With `--beside`, only the ratios of the two builds are printed, and the number is 0.
pub(crate) fn run(args: &RunArgs) -> Outcome<usize> {
    let settings = &args.settings;
    let workloads = chosen(&args.workloads);
    if settings.beside.is_asked() {
        run_workloads(&workloads, &mut Bench::new(settings, Vec::new()))?;
        return Ok(0);
    }
    let old = args.files.old()?;
    // The CPU time of the servers is part of each case's figures, so it is not watched here.
    let watch = MachineWatch::start_beside_unknown();
    let compares = workloads.iter().any(|workload| workload.group.compares());
    let peers = if compares {
        available(&settings.peers)?
    } else {
        Vec::new()
    };
    let mut bench = Bench::new(settings, peers);
    let ended = run_workloads(&workloads, &mut bench);
    report::print(&bench.results);
    let missed = bars::print(&bench.results, BARS);
    let mut report = report::report(&bench.results, &watch.end(&[]));
    if let Err(error) = &ended {
        report.verdict = format!("ended early: {error}");
    }
    args.files.finish(report, old.as_ref())?;
    ended.map(|()| bench.results.mismatches() + missed)
}

/// The workloads with these names, or in these groups, in the order of the table.
fn chosen(names: &[String]) -> Vec<&'static Workload> {
    let is_chosen = |workload: &&Workload| workload.is_among(names);
    WORKLOADS.iter().filter(is_chosen).collect()
}

fn run_workloads(workloads: &[&Workload], bench: &mut Bench) -> Outcome<()> {
    for workload in workloads {
        let runs = if workload.group.compares() {
            1
        } else {
            bench.settings.runs
        };
        for _ in 0..runs {
            let started = Instant::now();
            (workload.run)(bench).map_err(|error| format!("{}: {error}", workload.name))?;
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{:20} {seconds:6.1} s", workload.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::workload::Group;

    #[test]
    fn workloads_are_chosen_by_name_and_by_group() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
            let chosen = chosen(&names).into_iter();
            chosen.map(|workload| workload.name).collect::<Vec<_>>()
        };
        let some = names(&["table", "queue-put"]);
        assert!(some.contains(&"queue-put") && some.contains(&"table-deep"));
        assert!(!some.contains(&"blob-list") && !some.contains(&"queue-deep"));
        let compared = WORKLOADS.iter().filter(|one| one.group.compares());
        assert_eq!(names(&["services"]).len(), compared.count());
        for (name, ..) in Group::NAMED {
            assert!(!names(&[name]).is_empty(), "{name}");
        }
    }
}
