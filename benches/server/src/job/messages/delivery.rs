//! One delivery of a message, and which deliveries are left without a delete.

use std::time::{Duration, Instant};

use crate::client::{Error, Message};

/// How long a taken message stays hidden; what a dead consumer held comes back after it.
pub(super) const VISIBILITY: Duration = Duration::from_secs(3);

/// Deliveries of message `number` after which its consumer dies: it neither deletes nor updates,
/// and never comes back.
pub(super) fn deaths(number: usize) -> u32 {
    match number {
        number if number % 100 == 0 => 2,
        number if number % 10 == 0 => 1,
        _ => 0,
    }
}

/// A message, and when the request that brought it was sent.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) message: Message,
    pub(super) sent: Instant,
}

impl Delivery {
    /// The number that the message carries in front.
    pub(super) fn number(&self) -> Result<usize, Error> {
        let text = &self.message.text;
        let number = text
            .split(';')
            .next()
            .and_then(|number| number.parse().ok());
        number.ok_or_else(|| Error::Malformed(format!("a message has the text {text:?}")))
    }

    /// Whether another consumer may have the message by now.
    pub(super) fn is_overdue(&self) -> bool {
        self.sent.elapsed() >= VISIBILITY
    }
}
