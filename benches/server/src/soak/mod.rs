//! The three services in this process, on a disk and a clock that misbehave. A ledger records what must be there.

mod blobs;
mod faults;
mod ledger;
mod messages;
mod possible;
mod run;
mod stalls;
mod state;
mod sweeps;
mod tables;

pub(crate) use run::{SoakArgs, run};
