//! `lazurite-bench`: real work against a running server, measured and checked. See `README.md` of the benches.

mod administration;
mod azurite;
mod checked_clients;
mod cli;
mod client;
mod filling;
mod gigabyte;
mod guide;
mod installed;
mod job;
mod kills;
mod ledger;
mod load;
mod many_clients;
mod neighbours;
mod pages;
mod report;
mod server;
mod services;
mod slow_disk;
mod soak;
mod space;
mod start;
mod state;
mod target;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use report::Report;

fn main() -> ExitCode {
    let mismatches = match Cli::parse().command {
        Command::Job(args) => job::run(&args),
        Command::Gigabyte(args) => gigabyte::run(&args).map(shown),
        Command::ManyClients(args) => many_clients::run(&args).map(shown),
        Command::Neighbours(args) => neighbours::run(&args).map(shown),
        Command::Pages(args) => pages::run(&args).map(shown),
        Command::SlowDisk(args) => slow_disk::run(&args).map(shown),
        Command::Soak(args) => soak::run(&args).map(shown),
        Command::Space(args) => space::run(&args),
        Command::Start(args) => start::run(&args).map(shown),
        Command::State(args) => state::run(&args).map(shown),
        Command::Guide(args) => guide::run(&args),
        Command::Services(args) => services::run(&args),
        Command::Transfer(args) => transfer::run(&args),
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

/// Prints the report and returns how many answers were wrong.
fn shown(report: Report) -> usize {
    report.print();
    report.mismatches()
}
