//! The layers around the handlers of every service: one file for each.

pub mod access_log;
pub mod analytics;
pub mod browser_guard;
pub mod errors;
pub mod health;
pub mod retirement;
pub mod secondary;
pub mod wrong_service;
