//! `lazurite-torture`: finds the next fault of the engine. See `README.md`.
//!
//! A seed gives a life: `actors` plan its steps, `life` lives it on a disk in memory, `model` says
//! what must be left of it, `shrink` makes it short. `threads` are the lives that no list of steps
//! repeats.

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
