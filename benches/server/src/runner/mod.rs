//! `run`: measures the workloads, checks their responses, and compares them with the bars.

mod args;
mod bars;
mod bench;
mod disk;
mod measure;
mod pairs;
mod peers;
mod plan;
mod report;
mod run;
mod tally;
mod workload;
mod workloads;

pub(crate) use args::RunArgs;
pub(crate) use run::run;
