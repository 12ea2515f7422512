//! `lazurite-bench`: real work against a running server, measured and checked. See `README.md` beside this crate.

mod cli;
mod client;
mod gigabyte;
mod job;
mod kills;
mod ledger;
mod random;
mod report;
mod server;
mod start;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Job(args) => job::run(&args),
        Command::Gigabyte(args) => gigabyte::run(&args),
        Command::Start(args) => start::run(&args),
    };
    match outcome {
        Ok(report) => {
            report.print();
            ExitCode::from(u8::from(report.mismatches() > 0))
        }
        Err(error) => {
            eprintln!("lazurite-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
