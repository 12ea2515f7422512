//! `lazurite-torture`: looks for faults of the engine. See `README.md`.
//!
//! A seed determines a life: `actors` plan its steps, `life` runs them on a disk in memory, `model`
//! says what must be left, `shrink` shortens the list of steps. `threads` has the lives that no
//! list of steps repeats.

mod access;
mod actors;
mod cli;
mod finding;
mod kind;
mod life;
mod model;
mod rounds;
mod run;
mod settings;
mod shrink;
mod threads;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    rounds::run_all(&cli::Cli::parse())
}
