//! The command line: which workloads, on which engines, at which scale.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use lazurite_bench_common::{ReportFiles, share};

use crate::peers::Peer;
use crate::workloads::{Step, WORKLOADS, Workload, steps};

/// Our engine and others: the same keys, values and durability, one engine after another.
///
/// Each workload runs on each engine in a process of its own, so that memory, CPU time and written
/// bytes are that engine's. The tables show the figures of each engine, the last one the bars for
/// our engine. RocksDB takes part if this program was built with --features rocksdb. The exit
/// status is 0 only if every answer was right.
#[derive(Parser)]
#[command(
    name = "lazurite-engine-bench",
    version,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one step of a workload on one engine in this process, as the comparison does and as a
    /// profiler needs
    Step(StepArgs),
}

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Run only these workloads
    #[arg(long, value_delimiter = ',', value_parser = workload())]
    pub(crate) only: Vec<&'static Workload>,
    /// Run only these engines
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) engines: Vec<Peer>,
    /// Run with this share of the rows, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
    /// Repeat everything this many times, the engines in turn, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// Directory in which the stores are made, and removed again [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
}

#[derive(Args)]
pub(crate) struct StepArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    #[arg(long, value_enum)]
    pub(crate) engine: Peer,
    #[arg(long, value_parser = step())]
    pub(crate) step: &'static Step,
    #[arg(long, value_parser = share)]
    pub(crate) scale: f64,
}

fn workload() -> impl TypedValueParser<Value = &'static Workload> {
    let names = WORKLOADS
        .iter()
        .map(|workload| PossibleValue::new(workload.name).help(workload.help));
    PossibleValuesParser::new(names).map(|name| {
        let named = WORKLOADS.iter().find(|workload| workload.name == name);
        named.expect("the parser accepts no other name")
    })
}

fn step() -> impl TypedValueParser<Value = &'static Step> {
    PossibleValuesParser::new(steps().map(|step| step.name)).map(|name| {
        let named = steps().find(|step| step.name == name);
        named.expect("the parser accepts no other name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
