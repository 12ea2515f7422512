//! The three services in this process, on a disk and a clock that misbehave. A ledger records what must be there.

mod ledger;
mod run;
mod state;
mod workers;

pub(crate) use run::{SoakArgs, run};
