//! The arguments of `guide`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lazurite_bench_common::share;

use crate::guide::pattern::Pattern;
use crate::guide::patterns::PATTERNS;
use crate::guide::server::ServerArgs;

#[derive(clap::Args)]
pub(crate) struct GuideArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Run only these patterns
    #[arg(long, value_delimiter = ',', value_parser = pattern())]
    pub(super) only: Vec<&'static Pattern>,
    /// Run with this share of the data
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) scale: f64,
    /// Seed of the data
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Run each pattern this many times; figures of time are medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) runs: u16,
    /// Compare with the figures that an older run wrote with --json
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
    /// Prices and load, as --print-prices prints them [default: examples]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Print the prices and the load that are used without --prices, and end
    #[arg(long)]
    pub(super) print_prices: bool,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the report as one page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Write the figures into this page, or into the pages of this directory, between the comments
    /// `figures: NAME` and `end`; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) write_docs: Vec<PathBuf>,
    /// With `azure`, run each pattern once more on a server with Azure's limits, and compare; not
    /// with --connection-string
    #[arg(long, value_enum, default_value_t = Limits::Azure)]
    pub(super) limits: Limits,
    /// Run each pattern on Azurite from npm as well, once, and show where it differs
    #[arg(long)]
    pub(super) azurite: bool,
    /// Leave tables, containers and queues in place
    #[arg(long)]
    pub(super) keep: bool,
}

/// The limits under which a second run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Limits {
    Azure,
    None,
}

fn pattern() -> impl TypedValueParser<Value = &'static Pattern> {
    let names = PATTERNS
        .iter()
        .map(|pattern| PossibleValue::new(pattern.name).help(pattern.title));
    PossibleValuesParser::new(names).map(|name| {
        let named = PATTERNS.iter().find(|pattern| pattern.name == name);
        *named.expect("the parser accepts no other name")
    })
}

#[cfg(test)]
impl GuideArgs {
    /// The arguments of a command line, whose first word is that of the program.
    pub(super) fn of<'w>(words: impl IntoIterator<Item = &'w str>) -> GuideArgs {
        use clap::{Args, Command, FromArgMatches};
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let command = GuideArgs::augment_args(Command::new("guide"));
        GuideArgs::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }
}
