//! `lazurite-bench`: real work against a running server, measured and checked. See `README.md` beside this crate.

mod cli;
mod client;
mod crowd;
mod engine;
mod gigabyte;
mod honest;
mod installed;
mod job;
mod kills;
mod ledger;
mod load;
mod neighbours;
mod process;
mod random;
mod report;
mod server;
mod services;
mod soak;
mod start;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use report::Report;

fn main() -> ExitCode {
    let mismatches = match Cli::parse().command {
        Command::Job(args) => job::run(&args).map(shown),
        Command::Gigabyte(args) => gigabyte::run(&args).map(shown),
        Command::Crowd(args) => crowd::run(&args).map(shown),
        Command::Neighbours(args) => neighbours::run(&args).map(shown),
        Command::Soak(args) => soak::run(&args).map(shown),
        Command::Start(args) => start::run(&args).map(shown),
        Command::Engine(args) => engine::run(&args),
        Command::EngineStep(args) => engine::run_step(&args),
        Command::Services(args) => services::run(&args),
        Command::Floor => services::run_floor(),
    };
    match mismatches {
        Ok(mismatches) => ExitCode::from(u8::from(mismatches > 0)),
        Err(error) => {
            eprintln!("lazurite-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report and answers how many answers were wrong.
fn shown(report: Report) -> usize {
    report.print();
    report.mismatches()
}
