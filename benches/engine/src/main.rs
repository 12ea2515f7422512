//! `lazurite-engine-bench`: compares our engine with others, with the same keys, values and
//! durability. See `README.md` of the benches.

mod bars;
mod cli;
mod compare;
mod context;
mod data;
mod engine;
mod findings;
mod peers;
mod report;
mod step;
mod tables;
mod usage;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mismatches = match &cli.command {
        None => compare::run(&cli.compare),
        Some(Command::Step(args)) => step::run(args),
    };
    match mismatches {
        Ok(mismatches) => ExitCode::from(u8::from(mismatches > 0)),
        Err(error) => {
            eprintln!("lazurite-engine-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
