//! The three services in this process, called or behind HTTP, on a disk and a clock that misbehave.
//! A ledger records what must be there.

mod blobs;
mod direct;
mod faults;
mod ledger;
mod messages;
mod operations;
mod over_http;
mod possible;
mod run;
mod stalls;
mod state;
mod sweeps;
mod tables;

pub(crate) use run::{SoakArgs, run};
