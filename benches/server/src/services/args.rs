//! The arguments of `services`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lazurite_bench_common::{ReportFiles, share};

use crate::client::Service;
use crate::services::pairs::Beside;
use crate::services::peers::{Launch, Peer};
use crate::services::workloads::{WORKLOADS, Workload};

#[derive(clap::Args)]
pub(crate) struct ServicesArgs {
    #[command(flatten)]
    pub(super) launch: Launch,
    /// Run only these workloads, and those that --service names
    #[arg(long, value_delimiter = ',', value_parser = workload())]
    pub(super) only: Vec<&'static Workload>,
    /// Run only the workloads of these services, and those that --only names
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) service: Vec<Service>,
    /// Run only these peers; the minimal handler learns from our server what to answer
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) peers: Vec<Peer>,
    /// Run with this share of what is stored, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) scale: f64,
    /// Measure everything this many times, the peers in turn, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) runs: u16,
    #[command(flatten)]
    pub(super) beside: Beside,
    #[command(flatten)]
    pub(super) files: ReportFiles,
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
