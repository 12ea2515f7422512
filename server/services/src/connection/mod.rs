//! Connections: accepted, secured, counted, and served on the connection threads. Independent of
//! the operations that requests ask for.

pub mod blocking_pool;
pub mod framing;
mod head_stream;
mod limits;
pub mod listener;
mod long_head;
mod reset;
mod send_deadline;
#[cfg(debug_assertions)]
mod slow_handler;
pub mod socket;
mod threads;
mod wrong_scheme;

#[cfg(test)]
mod agreement_tests;

pub use blocking_pool::on_blocking_pool;
pub use head_stream::HeaderNames;
pub use limits::Connections;
pub use listener::{Endpoint, Opening, serve};
pub use reset::Aborted;
pub use threads::ConnectionThreads;
