//! Queues: the list with counts, and one queue with its next messages, which are peeked at and not delivered.

use crate::console::Console;
use crate::console::form::Form;
use crate::console::layout::{self, count};
use crate::console::lists::{self, Kind, Listed};
use crate::console::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::console::routing::{any_handler, get, post};
use crate::response::error::Result;
use axum::extract::{Path, State};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_engine::Ticket;
use lazurite_queue::{GetMessages, ListQueues, MESSAGES_PER_GET_MAX, PeekedMessage, PutMessage};
use maud::{Markup, html};
use std::sync::Arc;

/// Queues of a page: each is asked for its count.
const QUEUES_SHOWN: i64 = 200;
/// Messages of one move.
const MOVED_MAX: i64 = 1000;
/// How long a message is hidden while it is moved.
const MOVE_SECONDS: i64 = 60;
/// A lifetime of a thousand years is one that does not end.
const FOREVER_SECONDS: i64 = 1000 * 366 * 24 * 3600;
/// What Functions append to the name of a queue for messages that failed too often.
const POISON: &str = "-poison";
/// Bytes of a message that are shown.
const TEXT_BYTES_SHOWN: usize = 4 << 10;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/queues", get(list))
        .route(
            "/_lazurite/queues/{account}",
            get(list).post(any_handler(create)),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}",
            get(queue).post(any_handler(put)),
        )
        .route("/_lazurite/queues/{account}/{queue}/clear", post(clear))
        .route(
            "/_lazurite/queues/{account}/{queue}/move",
            post(move_messages),
        )
        .route("/_lazurite/queues/{account}/{queue}/delete", post(delete))
}

const QUEUES: Kind = Kind {
    section: "Queues",
    folder: "queues",
    title: "Queues",
    noun: "queue",
    pattern: "[a-z0-9](-?[a-z0-9]){2,62}",
    rule: "3 to 63 lower-case letters, digits and single hyphens",
};

async fn list(
    State(console): State<Arc<Console>>,
    account: Option<Path<String>>,
    visit: Visit,
) -> Page {
    lists::page(console, account, visit, &QUEUES, listed).await
}

fn listed(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let marker = visit.parameter("from");
    let request = ListQueues {
        marker: &marker,
        maxresults: Some(QUEUES_SHOWN),
        ..ListQueues::default()
    };
    let services = console.services();
    let service = &services.queues;
    let page = service.list_queues(account, request)?;
    let mut queues = Vec::with_capacity(page.queues.len());
    for queue in page.queues {
        // One that was deleted meanwhile is left out.
        if let Ok(properties) = service.get_queue_metadata(account, &queue.name) {
            queues.push((queue.name, properties.approximate_message_count));
        }
    }
    Ok(Listed {
        count: queues.len(),
        next: page.next_marker,
        table: html! {
            thead { tr { th scope="col" { "Name" } th.number scope="col" { "Messages" } } }
            tbody {
                @for (queue, messages) in &queues {
                    tr { td { a href=(layout::path(&["queues", account, queue], &[])) { (queue) } } td.number { (count(*messages)) } }
                }
            }
        },
    })
}

async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let queue = form.required("queue")?.to_owned();
    let path = layout::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Created, move |console| {
        let services = console.services();
        let queues = &services.queues;
        Ok(queues.create_queue(&account, &queue, Vec::new())?.1)
    })
    .await
}

async fn queue(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        queue_page(console, &account, &queue, &visit)
    })
    .await
}

fn queue_page(console: &Console, account: &str, queue: &str, visit: &Visit) -> Result<Html> {
    let services = console.services();
    let queues = &services.queues;
    let properties = queues.get_queue_metadata(account, queue)?;
    let messages = queues.peek_messages(account, queue, Some(MESSAGES_PER_GET_MAX))?;
    let total = properties.approximate_message_count;
    let words = visit.parameter("filter");
    let messages: Vec<_> = messages
        .into_iter()
        .filter(|message| has_words(message, &words))
        .collect();
    let poison = format!("{queue}{POISON}");
    let poisoned = queues.get_queue_metadata(account, &poison).ok();
    let content = html! {
        (layout::trail(&[("Queues", layout::path(&["queues", account], &[]))], queue))
        h1 { (queue) }
        (layout::note(visit))
        dl.facts {
            div { dt { "Messages" } dd { (count(total)) } }
            @for (name, value) in &properties.metadata { div { dt { (name) } dd { (layout::cut(value, 200)) } } }
        }
        @if let Some(poisoned) = poisoned {
            p { "Its poison queue " a href=(layout::path(&["queues", account, &poison], &[])) { (poison) } " has " (layout::counted(poisoned.approximate_message_count, "message")) "." }
        }
        (put_form(console, account, queue))
        form.filter method="get" role="search" {
            label for="filter" { "Search these" }
            input #filter name="filter" value=(words) data-filter placeholder="words in the next messages, decoded" autocomplete="off" spellcheck="false";
            button { "Search" }
        }
        (next_messages(&messages, total, !words.is_empty()))
        (move_form(console, account, queue))
        (danger(console, account, queue, total))
    };
    Ok(layout::page(console, "Queues", queue, content))
}

fn put_form(console: &Console, account: &str, queue: &str) -> Markup {
    html! {
        details open {
            summary { "Put a message" }
            form.fields method="post" action=(layout::path(&["queues", account, queue], &[])) {
                (layout::token(console))
                label.wide { "Text " textarea name="text" rows="3" {} }
                label { "Hidden for, in seconds " input type="number" name="hidden" min="0" max="604800" placeholder="0"; }
                label { "Lifetime, in seconds " input type="number" name="lifetime" min="-1" placeholder="604800"; }
                label.check { input type="checkbox" name="base64" value="yes"; " Send as Base64, as Functions expect it" }
                button { "Put" }
            }
        }
    }
}

/// Whether all words stand in a message, as people read it.
fn has_words(message: &PeekedMessage, words: &str) -> bool {
    let text = decoded(&message.text).1.to_lowercase();
    words
        .to_lowercase()
        .split_whitespace()
        .all(|word| text.contains(word))
}

/// A poison queue goes back to the queue that it belongs to.
fn move_form(console: &Console, account: &str, queue: &str) -> Markup {
    let (to, is_poison) = match queue.strip_suffix(POISON) {
        Some(origin) => (origin, true),
        None => ("", false),
    };
    html! {
        details open[is_poison] {
            summary { "Move messages to another queue" }
            form.fields method="post" action=(layout::path(&["queues", account, queue, "move"], &[])) {
                (layout::token(console))
                label { "To the queue " input name="to" value=(to) required autocomplete="off"; }
                label { "At most " input type="number" name="count" min="1" max=(MOVED_MAX) value=(MESSAGES_PER_GET_MAX); }
                p.limits { "Visible messages, the next to be delivered first. They keep text and expiry, and begin with a dequeue count of 0." }
                button { "Move" }
            }
        }
    }
}

fn next_messages(messages: &[PeekedMessage], total: u64, is_search: bool) -> Markup {
    html! {
        section {
            h2 { "Next messages" }
            @if messages.is_empty() {
                p.empty { @if is_search { "None of the next " (MESSAGES_PER_GET_MAX) " messages has these words." } @else if total == 0 { "The queue is empty." } @else { "No message is visible now: " (count(total)) " hidden." } }
            } @else {
                p.limits { "Showing " (messages.len()) " of " (count(total)) ", the next to be delivered first. Looking counts no delivery." }
                ol.messages data-list { @for message in messages { li tabindex="-1" { (shown(message)) } } }
            }
        }
    }
}

fn shown(message: &PeekedMessage) -> Markup {
    let (kind, text) = decoded(&message.text);
    html! {
        dl.facts {
            div { dt { "Dequeue count" } dd { (message.dequeue_count) } }
            div { dt { "Inserted" } dd { (layout::time(message.inserted_at)) } }
            div { dt { "Expires" } dd { (layout::time(message.expires_at)) } }
            div { dt { "Id" } dd { code { (message.message_id) } } }
            @if let Some(kind) = kind { div { dt { "Shown as" } dd { (kind) } } }
        }
        pre.text { (layout::cut(&text, TEXT_BYTES_SHOWN)) }
    }
}

/// The text of a message as people read it: Base64 of a text is decoded, JSON is indented.
fn decoded(text: &str) -> (Option<&'static str>, String) {
    let from_base64 = STANDARD
        .decode(text.trim())
        .ok()
        .filter(|bytes| bytes.len() >= 3);
    let inner = from_base64.and_then(|bytes| String::from_utf8(bytes).ok());
    let inner = inner.filter(|inner| !inner.chars().any(|c| c.is_control() && !c.is_whitespace()));
    let plain = inner.as_deref().unwrap_or(text);
    match (&inner, layout::pretty_json(plain)) {
        (Some(_), Some(json)) => (Some("JSON in Base64"), json),
        (Some(inner), None) => (Some("text in Base64"), inner.clone()),
        (None, Some(json)) => (Some("JSON"), json),
        (None, None) => (None, text.to_owned()),
    }
}

fn danger(console: &Console, account: &str, queue: &str, total: u64) -> Markup {
    html! {
        details.danger {
            summary { "Clear or delete this queue" }
            form method="post" action=(layout::path(&["queues", account, queue, "clear"], &[])) {
                (layout::token(console))
                button.danger { "Clear " (layout::counted(total, "message")) }
            }
            form method="post" action=(layout::path(&["queues", account, queue, "delete"], &[])) {
                (layout::token(console))
                button.danger { "Delete " (queue) }
            }
        }
    }
}

async fn put(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    // Browsers send line breaks as CR LF.
    let text = form.text("text").replace("\r\n", "\n");
    let is_base64 = form.get("base64").is_some();
    let text = if is_base64 {
        STANDARD.encode(text)
    } else {
        text
    };
    let (ttl_seconds, visibility_seconds) = (form.number("lifetime")?, form.number("hidden")?);
    let path = layout::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Put, move |console| {
        let message = PutMessage {
            text: &text,
            ttl_seconds,
            visibility_seconds,
        };
        let services = console.services();
        let queues = &services.queues;
        Ok(queues.put_message(&account, &queue, message)?.1)
    })
    .await
}

async fn move_messages(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let to = form.required("to")?.to_owned();
    let count = form.number("count")?.unwrap_or(1).clamp(1, MOVED_MAX);
    let path = layout::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Moved, move |console| {
        moved(console, &account, &queue, &to, count)
    })
    .await
}

/// Puts each message into the other queue before it is deleted from its own: a failure in between leaves it in both queues, and loses none.
fn moved(console: &Console, account: &str, from: &str, to: &str, count: i64) -> Result<Ticket> {
    let queues = &console.services().queues;
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
            let rest = message.expires_at.duration_since(now).unwrap_or_default();
            // The last second of the year 9999 is for messages that never expire.
            let ttl = i64::try_from(rest.as_secs())
                .ok()
                .filter(|&seconds| seconds < FOREVER_SECONDS);
            let copy = PutMessage {
                text: &message.text,
                ttl_seconds: Some(ttl.map_or(-1, |seconds| seconds.max(1))),
                visibility_seconds: None,
            };
            // There is one order of writes: the deletion is durable after this one.
            let _ = queues.put_message(account, to, copy)?;
            ticket =
                queues.delete_message(account, from, &message.message_id, &message.pop_receipt)?;
        }
        if is_end || left <= 0 {
            return Ok(ticket);
        }
    }
}

async fn clear(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
) -> Page<SeeOther> {
    let path = layout::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Cleared, move |console| {
        Ok(console.services().queues.clear_messages(&account, &queue)?)
    })
    .await
}

async fn delete(
    State(console): State<Arc<Console>>,
    Path((account, queue)): Path<(String, String)>,
) -> Page<SeeOther> {
    let path = layout::path(&["queues", &account], &[]);
    written(console, path, Done::Deleted, move |console| {
        Ok(console.services().queues.delete_queue(&account, &queue)?)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shown_as_people_read_them() {
        assert_eq!(decoded("plain words"), (None, "plain words".to_owned()));
        assert_eq!(
            decoded("eyJhIjoxfQ=="),
            (Some("JSON in Base64"), "{\n  \"a\": 1\n}".to_owned())
        );
        assert_eq!(decoded("{\"a\":1}").0, Some("JSON"));
        assert_eq!(
            decoded("aGVsbG8="),
            (Some("text in Base64"), "hello".to_owned())
        );
        // Neither a word that happens to be Base64 of bytes, nor a number, is decoded.
        assert_eq!(decoded("word").0, None);
        assert_eq!(decoded("1234").0, None);
    }
}
