//! Moves messages to another queue: many at once, or one that may be edited.

use crate::context::Console;
use crate::form::Form;
use crate::respond::{Done, Page, SeeOther, written};
use crate::{layout, links};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::Result;
use lazurite_queue::{GetMessages, MESSAGES_PER_GET_MAX, PutMessage, QueueService};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of messages in one move.
const MOVED_MAX: i64 = 1000;
/// How long a message is hidden during a move.
const MOVE_SECONDS: i64 = 60;
/// A lifetime of this length counts as unlimited: a thousand years.
const FOREVER_SECONDS: i64 = 1000 * 366 * 24 * 3600;
/// The suffix with which Azure Functions name the queue for messages that failed too often.
pub const POISON: &str = "-poison";

/// The form that moves messages. For a poison queue it suggests the original queue.
pub fn form(console: &Console, account: &str, queue: &str) -> Markup {
    let (to, is_poison) = match queue.strip_suffix(POISON) {
        Some(origin) => (origin, true),
        None => ("", false),
    };
    html! {
        details open[is_poison] {
            summary { "Move messages to another queue" }
            form.fields method="post" action=(links::path(&["queues", account, queue, "move"], &[])) {
                (layout::token(console))
                label { "To the queue " input name="to" value=(to) required autocomplete="off"; }
                label { "At most " input type="number" name="count" min="1" max=(MOVED_MAX) value=(MESSAGES_PER_GET_MAX); }
                p.limits { "Visible messages, the next to be delivered first. They keep text and expiry, and begin with a dequeue count of 0." }
                button { "Move" }
            }
        }
    }
}

pub async fn move_messages(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let to = form.required("to")?.to_owned();
    let count = form.number("count")?.unwrap_or(1).clamp(1, MOVED_MAX);
    let path = links::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Moved, move |console| {
        moved(console, &account, &queue, &to, count)
    })
    .await
}

/// Puts each message into the other queue before deleting it from its own. A failure in between
/// loses nothing: the message is then in both queues.
fn moved(console: &Console, account: &str, from: &str, to: &str, count: i64) -> Result<Ticket> {
    let services = console.services();
    let queues = &services.queues;
    queues.get_queue_metadata(account, to)?;
    let mut left = count;
    loop {
        let request = GetMessages {
            count: Some(left.min(MESSAGES_PER_GET_MAX)),
            visibility_seconds: Some(MOVE_SECONDS),
        };
        let (messages, mut ticket) = queues.get_messages(account, from, request)?;
        let is_end = messages.is_empty();
        left -= messages.len() as i64;
        for message in messages {
            let now = console.services().clock.now();
            put_copy(
                queues,
                (account, to),
                &message.text,
                message.expires_at,
                now,
            )?;
            ticket =
                queues.delete_message(account, from, &message.message_id, &message.pop_receipt)?;
        }
        if is_end || left <= 0 {
            return Ok(ticket);
        }
    }
}

/// Puts a copy of a message. The copy expires when the original does. The store keeps the order of
/// writes, so a later deletion of the original is durable only after the copy.
pub fn put_copy(
    queues: &QueueService,
    (account, to): (&str, &str),
    text: &str,
    expires_at: SystemTime,
    now: SystemTime,
) -> Result<()> {
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
    let _ = queues.put_message(account, to, copy)?;
    Ok(())
}
