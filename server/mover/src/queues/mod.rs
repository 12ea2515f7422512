//! Queues and their messages.

pub mod export;
pub mod import;
mod line;
pub mod messages;
