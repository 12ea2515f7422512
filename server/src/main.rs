//! Lazurite: Blob, Queue and Table storage on your own machine, on one log-structured engine.
//! Flags, store, listeners, the wait for a signal, the close.

mod access_log;
mod accounts;
mod analytics;
mod announce;
mod auth;
mod cli;
mod codec;
mod commands;
mod data_directory;
mod http;
mod limits;
mod log;
mod output;
mod private_files;
mod program;
mod start;
mod tls;

use program::Program;
use std::process::ExitCode;

/// Memory goes back to the system, and stays flat under whole-table scans, where the C library's allocator lets it grow.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let program = Program::started_as();
    let cli = program.parse();
    limits::raise_open_files();
    let ended = match &cli.command {
        Some(command) => command.run(),
        None => start::run(cli, &program).map(|()| ExitCode::SUCCESS),
    };
    match ended {
        Ok(status) => status,
        Err(sentence) => {
            eprintln!("lazurite: {sentence}");
            ExitCode::FAILURE
        }
    }
}
