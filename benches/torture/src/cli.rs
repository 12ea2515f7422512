//! The flags of the program.

use crate::kind::Kind;
use clap::Parser;

/// Looks for faults of the engine: random lives of stores, with kills, power cuts, failing calls
/// and damage, compared with a model. Prints each seed that finds something, with the command that
/// repeats it. Exit status 1 if one did.
#[derive(Debug, Clone, Parser)]
#[command(name = "lazurite-torture")]
pub struct Cli {
    /// The one life to live. Without it, lives with new seeds
    #[arg(long)]
    pub seed: Option<u64>,
    /// For how long to begin new lives
    #[arg(long, default_value_t = 60, conflicts_with_all = ["rounds", "seed"])]
    pub seconds: u64,
    /// How many lives to live
    #[arg(long, conflicts_with = "seed")]
    pub rounds: Option<u64>,
    /// The first seed, from which the others count up; random if left out
    #[arg(long, conflicts_with = "seed")]
    pub from: Option<u64>,
    /// Only lives of this kind
    #[arg(long, value_name = "KIND")]
    pub only: Option<Kind>,
    /// Shortens the steps of the first lives that fail, and prints them
    #[arg(long)]
    pub shrink: bool,
    /// Lives at a time; by default as many as there are processors
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}
