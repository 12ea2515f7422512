//! The patterns of the table design guide: each is built in the naive and in the advised design on
//! the same data, verified, measured and priced.
//!
//! A pattern is a row of plain data with a few functions (`pattern.rs`), in a module of its own
//! under `patterns/`. The frame does the rest: `lab.rs` gives a design its tables, containers and
//! queues and counts its requests; `measuring.rs` compares the answers of all designs with what the data
//! say; `advice.rs` asks the server's advisor; `prices.rs` makes a bill of requests and bytes;
//! `report.rs`, `html.rs` and `docs.rs` show it. `azurite.rs` repeats the run on Azurite.

mod advice;
mod args;
mod azurite;
mod data;
mod docs;
mod finding;
mod html;
mod lab;
mod measuring;
mod pattern;
mod patterns;
mod prices;
mod report;
mod run;
mod server;
mod usage;

pub(crate) use args::GuideArgs;
pub(crate) use run::run;
