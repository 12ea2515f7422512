//! What surrounds the handlers of every service: one file for each layer.

pub mod access_log;
pub mod browser_guard;
