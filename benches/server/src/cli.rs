//! The command line: what can be run, against what, and how much of it.

use clap::{Parser, Subcommand};

use crate::gigabyte::GigabyteArgs;
use crate::job::JobArgs;
use crate::many_clients::ManyClientsArgs;
use crate::neighbours::NeighboursArgs;
use crate::services::ServicesArgs;
use crate::soak::SoakArgs;
use crate::start::StartArgs;

/// Real work against a running server, or against the engine alone, measured and checked.
///
/// Each command but `engine` runs against a server that is up already (by default the development account on ports 10000 to 10002), or with
/// --spawn starts one of its own. The exit status is 0 only if every answer was right.
#[derive(Parser)]
#[command(name = "lazurite-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The main job on real input: flights as entities, a tree of files as blobs, work as messages.
    ///
    /// Loads the 336,776 flights that left New York in 2013 as entities and asks about them; uploads Python's standard library,
    /// lists and downloads it; runs 10,000 messages through four consumers, some of which die. Every answer is compared with what
    /// the files themselves say. With --spawn the server is killed with SIGKILL while this goes on, and nothing it had acknowledged
    /// may be missing afterwards.
    Job(JobArgs),
    /// One blob of a gibibyte, up and down, bit for bit, with the server's memory watched.
    Gigabyte(GigabyteArgs),
    /// The time from starting a server on an empty directory until it answers, and its memory when idle.
    Start(StartArgs),
    /// Honest clients beside thousands that are idle, slow or hostile: what is left of their rate, and the server's memory.
    ///
    /// Sixteen connections get a blob of a kibibyte: alone, then while the others are there, then alone again. A quarter of the hostile ones
    /// send a head byte by byte, a quarter a body; a quarter ask for 64 MiB and never read; the rest send 60 KB without a right every second.
    #[command(alias = "crowd")]
    ManyClients(ManyClientsArgs),
    /// What ordinary clients notice of one that sends the heaviest requests there are
    ///
    /// Sixteen connections get a blob of a kibibyte: alone, then beside each of the heavy requests in turn, such as a list of 50,000
    /// blocks or a filter over 10,000 entities, one after the other with a tenth of a second between them.
    Neighbours(NeighboursArgs),
    /// The three services on a disk and a clock that misbehave, with a ledger of what was acknowledged.
    ///
    /// Runs in this process. Every two seconds something happens: the system's clock is set by up to two minutes, back or forth; syncs hang
    /// for up to three seconds, take 300 ms each, or fail until the store is opened anew. No message may be lost, or delivered twice
    /// while it is hidden; no counter may miss an increment, no blob be another than the one written; no request may take longer than
    /// the disk hangs.
    Soak(SoakArgs),
    /// The server beside others, service by service: the same requests from the same client.
    ///
    /// Each workload starts the servers anew: ours; the floor, which is an HTTP handler that only reads the body and answers as many
    /// bytes as ours did, which is what the stack takes by itself; Azurite, which is installed from npm once; for large blobs
    /// nginx, if it is on the PATH, and the disk alone. The tables show rates, latencies, CPU time of the server for each operation,
    /// its resident memory, and what the client itself took; the last one the bars that our server is to clear.
    ///
    /// A whole run stores 10 million entities, 10 million messages and a million blobs, and takes the better part of an hour and 10 GB.
    #[command(after_long_help = SERVICES_EXAMPLES)]
    Services(ServicesArgs),
    /// The minimal handler of `services`, as its child process
    #[command(hide = true)]
    MinimalHandler,
}

const SERVICES_EXAMPLES: &str = "\
Examples:
  lazurite-bench services --spawn target/dist/lazurite --runs 3
  lazurite-bench services --spawn target/dist/lazurite --only table-insert,queue-put --scale 0.25
  lazurite-bench services --spawn target/dist/lazurite --service blob --peers lazurite,minimal-handler
  lazurite-bench services --spawn target/dist/lazurite --only table-deep,queue-deep --scale 0.1";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
