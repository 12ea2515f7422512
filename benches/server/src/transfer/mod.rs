//! Export, import, copy and adoption of a filled store: their times beside the plain rate of the services, and their memory.

mod args;
mod command;
mod report;
mod run;

pub(crate) use args::TransferArgs;
pub(crate) use run::run;
