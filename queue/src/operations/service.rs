//! Operations on the service as a whole: its properties, and the sweep.

use crate::model::*;
use crate::{QueueService, Result};
use lazurite_engine::Ticket;
use std::time::SystemTime;

impl QueueService {
    /// The account's properties; defaults if never set. Source: Get Queue Service Properties.
    pub fn get_queue_service_properties(&self, _account: &str) -> Result<ServiceProperties> {
        todo!()
    }

    /// Changes the parts that are given. Source: Set Queue Service Properties.
    pub fn set_queue_service_properties(
        &self,
        _account: &str,
        _change: ServicePropertiesChange,
    ) -> Result<Ticket> {
        todo!()
    }

    /// Removes the rows of some expired messages, of any account; to be called in the background, about once a second,
    /// and at once again while it answers `more`. Nothing a client sees depends on it.
    pub fn sweep(&self, _now: SystemTime) -> Result<(Sweep, Ticket)> {
        todo!()
    }
}
