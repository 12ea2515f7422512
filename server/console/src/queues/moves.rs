//! Copies a message to another queue.

use lazurite_engine::Ticket;
use lazurite_queue::{PutMessage, QueueService, Result};
use std::time::SystemTime;

/// A lifetime of this length counts as unlimited: a thousand years.
const FOREVER_SECONDS: i64 = 1000 * 366 * 24 * 3600;
/// The suffix with which Azure Functions name the queue for messages that failed too often.
pub const POISON: &str = "-poison";

/// Puts a copy of a message. The copy expires when the original does. A store keeps the order of
/// writes, so within one, a later deletion of the original is durable only after the copy.
pub fn put_copy(
    queues: &QueueService,
    (account, to): (&str, &str),
    text: &str,
    expires_at: SystemTime,
    now: SystemTime,
) -> Result<Ticket> {
    let rest = expires_at.duration_since(now).unwrap_or_default();
    // Messages that never expire have the last second of the year 9999.
    let ttl = i64::try_from(rest.as_secs())
        .ok()
        .filter(|&seconds| seconds < FOREVER_SECONDS);
    let copy = PutMessage {
        text,
        ttl_seconds: Some(ttl.map_or(-1, |seconds| seconds.max(1))),
        ..PutMessage::default()
    };
    Ok(queues.put_message(account, to, copy)?.1)
}
