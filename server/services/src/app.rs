//! The parts of a running server, as plain data.

use crate::connection::Connections;
use crate::pages::Pages;
use crate::state::{Shared, Stores};
use std::sync::Arc;
use std::time::Duration;

/// The parts of a running server, which `start.rs` makes. The pipeline serves them.
#[derive(Debug)]
pub struct App {
    pub stores: Arc<Stores>,
    pub shared: Arc<Shared>,
    pub durability: &'static str,
    /// Host names that requests may come under, beside those that only lead to this machine.
    pub allowed_hosts: Vec<String>,
    pub connections: Arc<Connections>,
    /// Longest that a request may take until its answer begins.
    pub request_timeout: Option<Duration>,
    pub pages: Pages,
}
