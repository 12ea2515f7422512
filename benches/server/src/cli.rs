//! The command line.

use clap::{Parser, Subcommand};

use crate::guide::GuideArgs;
use crate::runner::RunArgs;

/// Work for a running server, measured and checked.
///
/// The exit status is 0 only if every answer was right, and no bar was missed.
#[derive(Parser)]
#[command(name = "lazurite-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The patterns of the table design guide: verified, measured and priced.
    ///
    /// Builds each pattern in the naive and in the advised design on the same data, checks that all
    /// designs give the right answers, and shows requests, rows examined, bytes, time, and the
    /// price of a month at a stated load. Runs against a server in this process, one that --spawn
    /// starts, or any endpoint: ours, Azurite, or the hosted service. Each pattern ends in one
    /// sentence.
    Guide(GuideArgs),
    /// Workloads: the operations of the services, on our server and on others; real input while the
    /// server is killed; its start, its state operations, its console, space that comes back.
    ///
    /// Each starts servers of its own on empty directories and checks every answer. The operations
    /// of the services run on our server and on Azurite, which is installed from npm once. Where
    /// the disk is the limit, the disk alone is measured too. The figures are printed case by case,
    /// and then the bars.
    ///
    /// `services` stores 10 million entities, 10 million messages and a million blobs, and takes
    /// the better part of an hour and 10 GB of disk.
    #[command(after_long_help = EXAMPLES)]
    Run(RunArgs),
}

const EXAMPLES: &str = "\
Examples:
  lazurite-bench run services --runs 3 --json run.json
  lazurite-bench run table-insert queue-put --scale 0.25
  lazurite-bench run blob --peers lazurite,disk
  lazurite-bench run flights start --spawn target/release/lazurite
  lazurite-bench run state pages space --scale 0.01";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
