//! The three services over HTTP: connections, the steps of a request, authentication, the handlers
//! of Blob, Queue and Table, and the stores behind them. Knows no flags, no console and no command.
//! The form of requests and answers is left to the crate of the protocol.
//!
//! A part of the crate `lazurite`, with the same releases. Not an interface for other crates.

#![allow(
    missing_docs,
    reason = "items are public for other crates of this program, and have the comments of private ones"
)]

pub mod access_log;
pub mod advisor;
pub mod analytics;
pub mod app;
pub mod auth;
pub mod authority_files;
pub mod blob;
pub mod browser_guard;
pub mod clock;
pub mod connection;
pub mod faults;
pub mod http_client;
pub mod local_services;
pub mod memory;
pub mod observer;
pub mod output;
pub mod own_requests;
pub mod pages;
pub mod pipeline;
pub mod platform;
pub mod properties;
pub mod queue;
pub mod request;
pub mod requests;
pub mod response;
pub mod services;
pub mod signed_request;
pub mod state;
pub mod table;
