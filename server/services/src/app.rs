//! The parts of a running server, as plain data.

use crate::connection::Connections;
use crate::pages::Pages;
use crate::state::{Shared, Stores};
use std::sync::Arc;
use std::time::Duration;

/// The parts of a running server. `start.rs` makes them, and the pipeline uses them.
#[derive(Debug)]
pub struct App {
    pub stores: Arc<Stores>,
    pub shared: Arc<Shared>,
    pub durability: &'static str,
    /// Host names that requests may use, besides names that can only lead to this machine.
    pub allowed_hosts: Vec<String>,
    pub connections: Arc<Connections>,
    /// Maximum time from the arrival of a request to the start of its response; `None`: no limit.
    pub request_timeout: Option<Duration>,
    pub pages: Pages,
}
