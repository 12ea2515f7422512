//! `lazurite-bench`: work for a running server, measured and checked. See the benches' `README.md`.

mod azurite;
mod cli;
mod client;
mod guide;
mod installed;
mod load;
mod runner;
mod server;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let failures = match Cli::parse().command {
        Command::Guide(args) => guide::run(&args),
        Command::Run(args) => runner::run(&args),
    };
    match failures {
        Ok(failures) => ExitCode::from(u8::from(failures > 0)),
        Err(error) => {
            eprintln!("lazurite-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
