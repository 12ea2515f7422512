//! The server from outside: the real binary on free ports and a fresh directory, driven by the
//! official clients and, where bytes matter, by raw requests.
//!
//! `server` starts and stops the binary, `http` speaks to it byte by byte, `clients` installs the
//! clients and runs their scripts in `tests/clients`; `random` has choices that repeat from a seed;
//! `azurite_process` starts Azurite. The other modules are the tests, one per service or concern.

#![allow(
    clippy::disallowed_methods,
    reason = "tests are clients, which date their requests by the machine's clock"
)]

mod azurite_process;
mod clients;
mod http;
mod operations;
mod random;
mod server;
mod slow;

mod access_log;
mod advisor;
mod at_start;
mod auth;
mod azurite;
mod blob;
mod commands;
mod console;
mod copy;
mod cors;
mod crash;
mod credentials;
mod doors;
mod drop_in;
mod errors;
mod export;
mod exposed;
mod faults;
mod forks;
mod framing;
mod guide;
mod lake;
mod limits;
mod many;
mod matrix;
mod mcp;
mod nonsense;
mod packages;
mod parameters;
mod platform;
mod policies;
mod process;
mod queue;
mod races;
mod recordings;
mod refusals;
mod rights;
mod secondary;
mod service;
mod state;
mod state_diff;
mod state_reset;
mod status;
mod table;
mod targets;
mod terminal;
mod test_clock;
mod testcontainers;
mod transfers;
