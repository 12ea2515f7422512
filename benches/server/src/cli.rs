//! The command line.

use clap::{Parser, Subcommand};

use crate::guide::GuideArgs;
use crate::job::JobArgs;
use crate::runner::RunArgs;
use crate::services::ServicesArgs;
use crate::soak::SoakArgs;

/// Real work against a running server, measured and checked.
///
/// Commands run against a server that is already up (by default the development account on ports
/// 10000 to 10002), or start one with --spawn. The exit status is 0 only if every answer was right.
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
    /// The main job on real input: flights as entities, a tree of files as blobs, work as messages.
    ///
    /// Loads the 336,776 flights that left New York in 2013 as entities and queries them; uploads
    /// Python's standard library, lists and downloads it; runs 10,000 messages through four
    /// consumers, some of which die. Every answer is compared with the files. With --spawn the
    /// server is killed with SIGKILL while this goes on, and nothing it had acknowledged may be
    /// missing afterwards.
    Job(JobArgs),
    /// The three services on a disk and a clock that misbehave, with a ledger of what was
    /// acknowledged.
    ///
    /// Runs in this process, by calls or, with --http, through the server. Every two seconds the
    /// system clock is set by up to two minutes, backwards or forwards, or syncs hang for up to
    /// three seconds, take 300 ms each, or fail until the store is reopened. No message may be
    /// lost, or delivered twice while it is hidden; no counter may miss an increment; no entity,
    /// blob or snapshot may differ from what was written; no request may take longer than the stall
    /// at that moment; reads of other resources must stay as fast beside slow syncs. Ends in one
    /// verdict.
    Soak(SoakArgs),
    /// The operations of the services on our server and on others: the same requests from the same
    /// client.
    ///
    /// Each workload starts the peers on empty directories: our server; the minimal handler, which
    /// only reads the body and answers as many bytes as our server did, the cost of the stack by
    /// itself; Azurite, which is installed from npm once; for large blobs the disk alone. The
    /// tables show rates, latencies, CPU time of the server for each operation, its resident
    /// memory, and the CPU time of the client; the last one holds the bars.
    ///
    /// A whole run stores 10 million entities, 10 million messages and a million blobs, and takes
    /// the better part of an hour and 10 GB.
    #[command(after_long_help = SERVICES_EXAMPLES)]
    Services(ServicesArgs),
    /// Single measurements of the server: its start, its state operations, its console, transfers,
    /// many clients, space that comes back.
    ///
    /// Each starts servers of its own on empty directories and checks every answer; its figures are
    /// printed by case, and its bars below. The exit status is 0 only if every answer was right and
    /// no bar was missed. A whole store has a million entities, 100,000 blobs (2 GB) and 100,000
    /// messages, and takes up to 10 GB of disk.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// The minimal handler of `services`, as its child process
    #[command(hide = true)]
    MinimalHandler,
}

const SERVICES_EXAMPLES: &str = "\
Examples:
  lazurite-bench services --spawn target/release/lazurite --runs 3
  lazurite-bench services --spawn target/release/lazurite --only table-insert,queue-put --scale 0.25
  lazurite-bench services --spawn target/release/lazurite --service blob --peers lazurite,minimal-handler
  lazurite-bench services --spawn target/release/lazurite --only table-deep,queue-deep --scale 0.1";

const RUN_EXAMPLES: &str = "\
Examples:
  lazurite-bench run start many-clients --spawn target/release/lazurite
  lazurite-bench run state pages --spawn target/release/lazurite --scale 0.01 --json run.json
  lazurite-bench run space-deletion space-azurite --spawn target/release/lazurite --scale 0.2";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
