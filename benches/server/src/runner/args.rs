//! The command line arguments of `run`.

use clap::builder::{PossibleValue, PossibleValuesParser};
use lazurite_bench_common::ReportFiles;

use crate::runner::bench::Settings;
use crate::runner::workload::Group;
use crate::runner::workloads::WORKLOADS;

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Workloads, and names of groups of them. They run in the order of this list
    #[arg(required = true, value_name = "WORKLOAD", value_parser = names())]
    pub(super) workloads: Vec<String>,
    #[command(flatten)]
    pub(super) settings: Settings,
    #[command(flatten)]
    pub(super) files: ReportFiles,
}

fn names() -> PossibleValuesParser {
    let groups = Group::NAMED.map(|(name, _, help)| PossibleValue::new(name).help(help));
    let workloads = WORKLOADS.iter();
    let workloads = workloads.map(|one| PossibleValue::new(one.name).help(one.help));
    PossibleValuesParser::new(groups.into_iter().chain(workloads))
}
