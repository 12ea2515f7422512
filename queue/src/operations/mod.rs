//! The operations of the service: one file per resource, and one function per REST operation, under
//! its REST name. `browse.rs` has the reads of tools that show a queue.

mod browse;
pub(crate) mod message;
mod queue;
mod service;
