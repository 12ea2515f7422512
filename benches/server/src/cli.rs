//! The command line.

use clap::{Parser, Subcommand};

use crate::gigabyte::GigabyteArgs;
use crate::guide::GuideArgs;
use crate::job::JobArgs;
use crate::many_clients::ManyClientsArgs;
use crate::neighbours::NeighboursArgs;
use crate::pages::PagesArgs;
use crate::services::ServicesArgs;
use crate::slow_disk::SlowDiskArgs;
use crate::soak::SoakArgs;
use crate::space::SpaceArgs;
use crate::start::StartArgs;
use crate::state::StateArgs;
use crate::transfer::TransferArgs;

/// Real work against a running server, measured and checked.
///
/// Commands run against a server that is already up (by default the development account on ports 10000 to 10002), or start one with
/// --spawn. The exit status is 0 only if every answer was right.
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
    /// Builds each pattern in the naive and in the advised design on the same data, checks that all designs give the right answers,
    /// and shows requests, rows examined, bytes, time, and the price of a month at a stated load. Runs against a server in this
    /// process, one that --spawn starts, or any endpoint: ours, Azurite, or the hosted service. Each pattern ends in one sentence.
    Guide(GuideArgs),
    /// The main job on real input: flights as entities, a tree of files as blobs, work as messages.
    ///
    /// Loads the 336,776 flights that left New York in 2013 as entities and queries them; uploads Python's standard library,
    /// lists and downloads it; runs 10,000 messages through four consumers, some of which die. Every answer is compared with
    /// the files. With --spawn the server is killed with SIGKILL while this goes on, and nothing it had acknowledged
    /// may be missing afterwards.
    Job(JobArgs),
    /// One blob of a gibibyte, up and down, bit for bit, with the server's memory watched.
    Gigabyte(GigabyteArgs),
    /// The time from starting a server on an empty directory until it answers, and its memory when idle.
    Start(StartArgs),
    /// Snapshot, fork, restore and reset of a large store beside an empty one, and a thousand forks at once.
    ///
    /// Each operation is measured on an empty store and on one with a million entities, 100,000 blobs (2 GB) and 100,000 messages: the
    /// time until the answer, and the disk that it takes at once. Goals: 50 ms and 20 MB, whatever the store holds. Then a thousand
    /// forks of one snapshot are made, and memory, handles, threads and disk are divided by their number.
    State(StateArgs),
    /// Well-behaved clients next to thousands of idle, slow and costly ones: their latency, and the server's memory.
    ///
    /// Sixteen connections get a blob of a kibibyte: alone; with idle connections and slow readers of 64 MiB, slow senders of bodies
    /// and of heads; with connections that send expensive requests without permission every second; and alone again. The last table
    /// holds the bars.
    #[command(alias = "crowd")]
    ManyClients(ManyClientsArgs),
    /// Well-behaved clients during the most expensive requests: their latency.
    ///
    /// Sixteen connections get a blob of a kibibyte: alone, then during each of the expensive requests in turn, such as a list of
    /// 50,000 blocks or a filter over 10,000 entities, sent a tenth of a second apart.
    Neighbours(NeighboursArgs),
    /// Pages of the console over a million blobs in one container, a million entities and 100,000 messages.
    ///
    /// Fills a server, and asks for each page eleven times. The first answer may take 50 ms until its last byte, that of a
    /// search that finds nothing a second, and no answer may be longer than 150 KiB. With `--scale 0.01` the store is a hundredth of that.
    Pages(PagesArgs),
    /// The three services on a disk and a clock that misbehave, with a ledger of what was acknowledged.
    ///
    /// Runs in this process, by calls or, with --http, through the server. Every two seconds the system clock is set by up to two
    /// minutes, backwards or forwards, or syncs hang for up to three seconds, take 300 ms each, or fail until the store is reopened.
    /// No message may be lost, or delivered twice while it is hidden; no counter may miss an increment; no entity, blob or snapshot
    /// may differ from what was written; no request may take longer than the stall at that moment; reads of other resources must
    /// stay as fast beside slow syncs. Ends in one verdict.
    Soak(SoakArgs),
    /// Reads beside a disk with slow syncs, at the default durability: the p99 of reads of other resources may at most double.
    ///
    /// The server runs in this process. Writers of all three services go on while every sync takes 300 ms, in turn with spans in which
    /// syncs take their usual time. Readers get an entity and a blob and peek messages that no writer changes.
    SlowDisk(SlowDiskArgs),
    /// The size of the data directory while most of the data is deleted under load: ours and Azurite's.
    ///
    /// Writes 5 GB of blobs of 16 KiB to 4 MiB and deletes nine of ten by name, while other requests to all three services go on. The
    /// directory must be back at 1.2 times what lives within 60 seconds, or the exit status is 1. The same under a snapshot, which
    /// holds the data until it is deleted, under a fork, and with a reset of the store; and on Azurite with 1 GB, for at most 120 seconds
    /// after the last deletion. Prints a table; --html has the picture.
    #[command(after_long_help = SPACE_EXAMPLES)]
    Space(SpaceArgs),
    /// The operations of the services on our server and on others: the same requests from the same client.
    ///
    /// Each workload starts the peers on empty directories: our server; the minimal handler, which only reads the body and answers as
    /// many bytes as our server did, the cost of the stack by itself; Azurite, which is installed from npm once; for large blobs
    /// nginx, if it is on the PATH, and the disk alone. The tables show rates, latencies, CPU time of the server for each operation,
    /// its resident memory, and the CPU time of the client; the last one holds the bars.
    ///
    /// A whole run stores 10 million entities, 10 million messages and a million blobs, and takes the better part of an hour and 10
    /// GB.
    #[command(after_long_help = SERVICES_EXAMPLES)]
    Services(ServicesArgs),
    /// Export, import, copy and adoption of a large store: their times beside the plain rate of the services, and their memory.
    ///
    /// Fills a server with a million entities, 100,000 blobs (2 GB) and 100,000 messages, exports it to a directory and to an archive,
    /// imports both, copies it to another server, and counts what arrived. Our server then adopts the directory of an Azurite that
    /// was filled with a twentieth. All of it is done with a tenth first, so that the last table shows by how much memory grows with
    /// the store. Takes up to 10 GB of disk.
    #[command(after_long_help = TRANSFER_EXAMPLES)]
    Transfer(TransferArgs),
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

const SPACE_EXAMPLES: &str = "\
Examples:
  lazurite-bench space --spawn target/release/lazurite --html space.html --json space.json
  lazurite-bench space --spawn target/release/lazurite --only snapshot,fork --gigabytes 1
  lazurite-bench space --spawn target/release/lazurite --scale 0.01";

const TRANSFER_EXAMPLES: &str = "\
Examples:
  lazurite-bench transfer --spawn target/release/lazurite --json transfer.json
  lazurite-bench transfer --spawn target/release/lazurite --scale 0.1 --azurite-scale 0
  lazurite-bench transfer --spawn target/release/lazurite --entities 0 --messages 0 --blobs 1000 --blob-bytes 4000000";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
