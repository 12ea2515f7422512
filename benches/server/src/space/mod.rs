//! Space comes back: the size of the data directory while most of the data is deleted under load, ours and Azurite's.

mod args;
mod case;
mod curve;
mod data;
mod report;
mod run;
mod side_load;

pub(crate) use args::SpaceArgs;
pub(crate) use run::run;
