//! `lazurite-bench`: real work against a running server, measured and checked. See `README.md` of
//! the benches.

mod azurite;
mod cli;
mod client;
mod guide;
mod installed;
mod job;
mod load;
mod runner;
mod server;
mod services;
mod soak;
mod target;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let mismatches = match Cli::parse().command {
        Command::Guide(args) => guide::run(&args),
        Command::Services(args) => services::run(&args),
        Command::Run(args) => runner::run(&args),
        Command::Job(args) => job::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::MinimalHandler => services::run_minimal_handler(),
    };
    match mismatches {
        Ok(mismatches) => ExitCode::from(u8::from(mismatches > 0)),
        Err(error) => {
            eprintln!("lazurite-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
