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
//! The store ends when it is dropped. The program `lazurite` is the same server with flags, signals and lines on standard output.

mod accounts;
mod adoption;
mod advisor;
mod analytics;
mod announce;
mod app;
mod auth;
mod blob;
mod cli;
mod clock;
mod commands;
mod connection;
mod console;
mod data_directory;
mod embedded;
mod faults;
mod http_client;
mod layers;
mod leases;
mod limits;
mod local_ca;
mod local_services;
mod log;
mod memory;
mod names_at_start;
mod output;
mod platform;
mod port_holder;
mod private_files;
mod program;
mod properties;
mod queue;
mod request;
mod resource_names;
mod response;
mod seed;
mod service_kind;
mod services;
mod signed_request;
mod start;
mod state;
mod table;
mod transfers;

pub use embedded::{Error, Lazurite, Store};

use lazurite_codec as codec;
use program::Program;
use std::process::ExitCode;

/// Runs the program, from its command line to its exit status.
#[doc(hidden)]
pub fn run_program() -> ExitCode {
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
            output::say(format!("lazurite: {sentence}"));
            ExitCode::FAILURE
        }
    }
}
