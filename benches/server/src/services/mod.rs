//! `services`: the operations of the three services on our server, on Azurite, and on a handler
//! that only reads and answers, with the same requests in one run; for large blobs also on the disk
//! alone.

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
mod tables;
mod workloads;

pub(crate) use args::ServicesArgs;
pub(crate) use peers::run_minimal_handler;
pub(crate) use run::run;
