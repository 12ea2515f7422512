//! Lazurite: Blob, Queue and Table storage on your own machine, on one log-structured engine.
//!
//! This is the server, for tests in the same process:
//!
//! ```
//! let store = lazurite::Lazurite::in_memory().start()?;
//! assert!(store.connection_string().contains("AccountName=devstoreaccount1"));
//! # Ok::<(), lazurite::Error>(())
//! ```
//!
//! The server stops when it is dropped. The program `lazurite` is the same server with flags,
//! signals and lines on standard output.

mod adoption;
mod announce;
mod cli;
mod commands;
mod data_directory;
mod embedded;
mod initial_resources;
mod leases;
mod limits;
mod local_ca;
mod log;
mod port_holder;
mod private_files;
mod program;
mod seed;
mod start;
mod stop;
mod tls;

pub use embedded::{Error, Lazurite, Store};

// Imported once for the crate: `crate::auth` is the module of `lazurite_services`, and so on.
use lazurite_services::{
    access_log, app, auth, authority_files, blob, clock, connection, faults, http_client,
    local_services, output, pages, pipeline, platform, requests, services, signed_request, state,
};
use program::Program;
use std::process::ExitCode;

/// The exit status of a refused command line, as of those that `clap` refuses.
const USAGE: u8 = 2;

/// Runs the program, from its command line to its exit status.
#[doc(hidden)]
pub fn run_program() -> ExitCode {
    let program = Program::started_as();
    let cli = program.parse();
    limits::raise_open_files();
    let ended = match &cli.command {
        Some(command) => command.run(),
        None => match cli.check(&program.services) {
            Ok(()) => start::run(cli, &program).map(|()| ExitCode::SUCCESS),
            Err(sentence) => return refuse_usage(&sentence),
        },
    };
    ended.unwrap_or_else(|sentence| {
        say_error(&sentence);
        ExitCode::FAILURE
    })
}

/// Says why a command line is refused, and returns the status of that.
fn refuse_usage(sentence: &str) -> ExitCode {
    say_error(sentence);
    ExitCode::from(USAGE)
}

fn say_error(sentence: &str) {
    // The sentence can have names and texts of others, which could act on a terminal.
    let lines: Vec<_> = sentence
        .split('\n')
        .map(lazurite_base::terminal::plain)
        .collect();
    output::say(format!("lazurite: {}", lines.join("\n")));
}
