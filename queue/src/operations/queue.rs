//! Operations on queues.

use crate::model::*;
use crate::{QueueService, Result};
use lazurite_engine::Ticket;
use std::time::SystemTime;

impl QueueService {
    /// Creates a queue. Source: Create Queue.
    pub fn create_queue(
        &self,
        _account: &str,
        _queue: &str,
        _metadata: Metadata,
    ) -> Result<(Creation, Ticket)> {
        todo!()
    }

    /// Deletes a queue and all it holds. Source: Delete Queue.
    pub fn delete_queue(&self, _account: &str, _queue: &str) -> Result<Ticket> {
        todo!()
    }

    /// One page of the account's queues. Source: List Queues.
    pub fn list_queues(&self, _account: &str, _request: ListQueues<'_>) -> Result<QueuePage> {
        todo!()
    }

    /// Metadata and the count of messages at `now`. Source: Get Queue Metadata.
    pub fn get_queue_metadata(
        &self,
        _account: &str,
        _queue: &str,
        _now: SystemTime,
    ) -> Result<QueueProperties> {
        todo!()
    }

    /// Replaces the metadata. Source: Set Queue Metadata.
    pub fn set_queue_metadata(
        &self,
        _account: &str,
        _queue: &str,
        _metadata: Metadata,
    ) -> Result<Ticket> {
        todo!()
    }

    /// The stored policies, in the order set. Source: Get Queue ACL.
    pub fn get_queue_acl(&self, _account: &str, _queue: &str) -> Result<Vec<StoredPolicy>> {
        todo!()
    }

    /// Replaces the stored policies. Source: Set Queue ACL.
    pub fn set_queue_acl(
        &self,
        _account: &str,
        _queue: &str,
        _policies: Vec<StoredPolicy>,
    ) -> Result<Ticket> {
        todo!()
    }
}
