//! The three services of a server in this process, on a disk and a clock that misbehave. A ledger
//! records the state that must be there.

mod blobs;
mod faults;
mod ledger;
mod messages;
mod possible;
mod run;
mod services;
mod stalls;
mod state;
mod tables;

pub(super) use run::run;
