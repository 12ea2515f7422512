//! The main job: three parts, one per service, each loading real input and checking every answer
//! against it, with or without kills.

mod args;
mod context;
mod flights;
mod kills;
mod ledger;
mod messages;
mod report;
mod run;
mod stage;
mod tree;

pub(crate) use args::JobArgs;
pub(crate) use run::run;
