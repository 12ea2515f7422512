//! The patterns of the table design guide: each is built in the naive and in the advised design on
//! the same data, verified, measured and priced.
//!
//! A pattern is a row of plain data with a few functions (`pattern.rs`), in a module of its own
//! under `patterns/`. The rest of the guide is shared:
//!
//! - `lab.rs` gives a design its tables, containers and queues, and counts its requests.
//! - `measuring.rs` compares the answers of all designs with the right ones.
//! - `advice.rs` asks the server's advisor.
//! - `prices.rs` prices requests and bytes, and `break_even.rs` says when the advised design costs
//!   less.
//! - `limits.rs` repeats the run under Azure's limits, and `azurite.rs` on Azurite.
//! - `report.rs` has the results; `terminal.rs`, `html/` and `docs.rs` show them.

mod advice;
mod args;
mod azurite;
mod break_even;
mod data;
mod docs;
mod finding;
mod html;
mod lab;
mod limits;
mod measuring;
mod pattern;
mod patterns;
mod prices;
mod report;
mod run;
mod server;
mod tables;
mod terminal;
mod usage;
mod words;

pub(crate) use args::GuideArgs;
pub(crate) use run::run;
