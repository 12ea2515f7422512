//! The parts of the server that the writer of logs and metrics needs.

use crate::properties::PropertiesStore;
use crate::services::Services;
use std::sync::Arc;

/// The parts of the server that logs and metrics need in addition to requests.
#[derive(Debug, Clone)]
pub struct Inputs {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
}
