//! Runs the chosen cases and judges them.

use lazurite_bench_common::page::RunReport;
use lazurite_bench_common::{MachineWatch, Outcome, chosen};

use crate::azurite;
use crate::space::args::SpaceArgs;
use crate::space::case::{self, Case, Ran};
use crate::space::report;

/// Runs the cases, prints and writes the report, and returns how many answers of our server were wrong. An error is also the verdict of a
/// run that missed the bar.
pub(crate) fn run(args: &SpaceArgs) -> Outcome<usize> {
    let old = args.files.old()?;
    let watch = MachineWatch::start(&[]);
    let mut ran = Vec::new();
    let ended = run_cases(args, &mut ran);
    let verdict = report::verdict(&ran);
    let mut page = RunReport {
        noisy: watch.end(&[]).reasons(),
        ..report::report(&ran, args.scale)
    };
    if let Err(error) = &ended {
        page.verdict = format!("ended early: {error}");
    }
    report::print(&page);
    args.files.finish(page, old.as_ref())?;
    ended?;
    verdict?;
    let ours = ran.iter().filter(|ran| ran.case != Case::Azurite);
    Ok(ours.map(|ran| ran.wrong).sum())
}

fn run_cases(args: &SpaceArgs, ran: &mut Vec<Ran>) -> Outcome<()> {
    for case in chosen(&args.only, Case::ALL) {
        if case == Case::Azurite
            && args.only.is_empty()
            && let Err(error) = azurite::install()
        {
            eprintln!("{error}: left out");
            continue;
        }
        ran.push(case::run(case, args)?);
    }
    Ok(())
}
