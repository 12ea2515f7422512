//! The protocol in its plainest form: a list of messages that is searched from end to end.

use lazurite_queue::*;
use std::time::{Duration, SystemTime};

/// A message as the protocol describes it.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) inserted_at: SystemTime,
    pub(crate) expires_at: SystemTime,
    pub(crate) visible_at: SystemTime,
    pub(crate) dequeue_count: u32,
    /// All receipts so far; the last one is current.
    pub(crate) receipts: Vec<String>,
}

/// A queue: messages in the order in which they were put.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    pub(crate) metadata: Metadata,
    pub(crate) messages: Vec<Message>,
}

/// The outcome of an Update or Delete with a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Held,
    Mismatch,
    NotFound,
}

impl Queue {
    /// Removes the expired messages: time alone decides what exists.
    pub(crate) fn expire(&mut self, now: SystemTime) {
        self.messages.retain(|message| message.expires_at > now);
    }

    /// The indexes of the visible messages, in the order of delivery.
    pub(crate) fn visible(&self, now: SystemTime, count: usize) -> Vec<usize> {
        let mut indexes: Vec<usize> = (0..self.messages.len())
            .filter(|index| self.messages[*index].visible_at <= now)
            .collect();
        indexes.sort_by_key(|index| (self.messages[*index].visible_at, *index));
        indexes.truncate(count);
        indexes
    }

    pub(crate) fn hold(&self, id: &str, receipt: &str) -> (Hold, usize) {
        match self.messages.iter().position(|message| message.id == id) {
            None => (Hold::NotFound, 0),
            Some(index) if self.messages[index].receipts.last().unwrap() == receipt => {
                (Hold::Held, index)
            }
            Some(index) => (Hold::Mismatch, index),
        }
    }

    pub(crate) fn put(
        &mut self,
        put: &PutMessageResult,
        text: &str,
        now: SystemTime,
        life: (u64, Option<u64>),
    ) {
        let (visibility, ttl) = life;
        let message = Message {
            id: put.message_id.clone(),
            text: text.into(),
            inserted_at: now,
            expires_at: ttl.map_or_else(never, |ttl| now + Duration::from_secs(ttl)),
            visible_at: now + Duration::from_secs(visibility),
            dequeue_count: 0,
            receipts: vec![put.pop_receipt.clone()],
        };
        assert_eq!(put.inserted_at, message.inserted_at);
        assert_eq!(put.expires_at, message.expires_at);
        assert_eq!(put.visible_at, message.visible_at);
        assert!(self.messages.iter().all(|other| other.id != message.id));
        self.messages.push(message);
    }
}

/// The expiry of messages that never expire.
pub(crate) fn never() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799)
}

/// Compares the result of Get Messages with the model, and applies it to the model.
pub(crate) fn check_get(
    queue: &mut Queue,
    got: &[DequeuedMessage],
    count: usize,
    seconds: u64,
    now: SystemTime,
) {
    let expected = queue.visible(now, count);
    assert_eq!(got.len(), expected.len(), "number of messages taken");
    for (got, index) in got.iter().zip(expected) {
        let message = &mut queue.messages[index];
        message.dequeue_count += 1;
        message.visible_at = now + Duration::from_secs(seconds);
        assert!(
            !message.receipts.contains(&got.pop_receipt),
            "the receipt is new"
        );
        message.receipts.push(got.pop_receipt.clone());
        assert_eq!(got.message_id, message.id, "order of delivery");
        assert_eq!(got.text, message.text);
        assert_eq!(got.inserted_at, message.inserted_at);
        assert_eq!(got.expires_at, message.expires_at);
        assert_eq!(got.visible_at, message.visible_at);
        assert_eq!(got.dequeue_count, message.dequeue_count);
    }
}

/// Compares the result of Peek Messages with the model.
pub(crate) fn check_peek(queue: &Queue, got: &[PeekedMessage], count: usize, now: SystemTime) {
    let expected: Vec<PeekedMessage> = queue
        .visible(now, count)
        .into_iter()
        .map(|index| &queue.messages[index])
        .map(|message| PeekedMessage {
            message_id: message.id.clone(),
            inserted_at: message.inserted_at,
            expires_at: message.expires_at,
            dequeue_count: message.dequeue_count,
            text: message.text.clone(),
        })
        .collect();
    assert_eq!(got, expected);
}
