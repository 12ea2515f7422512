//! Operations on messages.

use crate::model::*;
use crate::{QueueService, Result};
use lazurite_engine::Ticket;
use std::time::SystemTime;

impl QueueService {
    /// Adds a message. Source: Put Message.
    pub fn put_message(
        &self,
        _account: &str,
        _queue: &str,
        _request: PutMessage<'_>,
        _now: SystemTime,
    ) -> Result<(PutMessageResult, Ticket)> {
        todo!()
    }

    /// Takes visible messages, oldest first. Source: Get Messages.
    pub fn get_messages(
        &self,
        _account: &str,
        _queue: &str,
        _request: GetMessages,
        _now: SystemTime,
    ) -> Result<(Vec<DequeuedMessage>, Ticket)> {
        todo!()
    }

    /// Shows visible messages without taking them; `count` is `numofmessages`, `None`: 1. Source: Peek Messages.
    pub fn peek_messages(
        &self,
        _account: &str,
        _queue: &str,
        _count: Option<i64>,
        _now: SystemTime,
    ) -> Result<Vec<PeekedMessage>> {
        todo!()
    }

    /// Moves the time a message is visible again, and replaces its text if one is given. Source: Update Message.
    pub fn update_message(
        &self,
        _account: &str,
        _queue: &str,
        _request: UpdateMessage<'_>,
        _now: SystemTime,
    ) -> Result<(UpdateMessageResult, Ticket)> {
        todo!()
    }

    /// Removes a message for good. Source: Delete Message.
    pub fn delete_message(
        &self,
        _account: &str,
        _queue: &str,
        _message_id: &str,
        _pop_receipt: &str,
        _now: SystemTime,
    ) -> Result<Ticket> {
        todo!()
    }

    /// Removes every message, visible or not. Source: Clear Messages.
    pub fn clear_messages(&self, _account: &str, _queue: &str) -> Result<Ticket> {
        todo!()
    }
}
