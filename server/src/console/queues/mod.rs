//! Queues: the list with counts, and one queue with its messages, visible and hidden. Looking at
//! messages counts no delivery.

mod message;
mod moves;

use crate::console::Console;
use crate::console::form::Form;
use crate::console::layout::{self, count};
use crate::console::lists::{self, Kind, Listed};
use crate::console::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::response::error::Result;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_queue::{
    BrowseFrom, BrowseMessages, BrowsedMessages, ListQueues, MessageTally, PutMessage,
    StoredMessage,
};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Queues of a page: each is asked for its count.
const QUEUES_SHOWN: i64 = 200;
/// Messages of a page.
const MESSAGES_SHOWN: usize = 32;
/// Bytes of texts after which a page ends.
const PAGE_BYTES_MAX: usize = 80 << 10;
/// Markup of a message.
const MESSAGE_BYTES: usize = 1400;
/// How long messages are counted by their state, and how long they are searched, for one page.
const TALLY_TIME_MAX: Duration = Duration::from_millis(15);
const SEARCH_TIME_MAX: Duration = Duration::from_secs(1);
/// Messages that expire within this time expire soon.
const SOON: Duration = Duration::from_secs(3600);
/// The end that Functions give the name of a queue for messages that failed too often.
const POISON: &str = "-poison";
/// Bytes of a message that are shown.
const TEXT_BYTES_SHOWN: usize = 4 << 10;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/queues", get(list))
        .route("/_lazurite/queues/{account}", get(list).post(create))
        .route("/_lazurite/queues/{account}/{queue}", get(queue).post(put))
        .route("/_lazurite/queues/{account}/{queue}/clear", post(clear))
        .route(
            "/_lazurite/queues/{account}/{queue}/move",
            post(moves::move_messages),
        )
        .route("/_lazurite/queues/{account}/{queue}/delete", post(delete))
        .route(
            "/_lazurite/queues/{account}/{queue}/take",
            post(message::take),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}/message",
            get(message::page).post(message::change),
        )
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

/// The question of a page of messages.
struct View {
    words: String,
    from: String,
    hidden_only: bool,
}

impl View {
    fn of(visit: &Visit) -> View {
        View {
            words: visit.parameter("filter"),
            from: visit.parameter("from"),
            hidden_only: visit.parameter("show") == "hidden",
        }
    }

    fn from(&self) -> BrowseFrom<'_> {
        match (self.from.as_str(), self.hidden_only) {
            ("", false) => BrowseFrom::Start,
            ("", true) => BrowseFrom::Hidden,
            (marker, _) => BrowseFrom::Next(marker),
        }
    }

    /// The page of the same view that begins at a marker.
    fn path(&self, account: &str, queue: &str, from: &str) -> String {
        let show = if self.hidden_only { "hidden" } else { "" };
        layout::path(
            &["queues", account, queue],
            &[("filter", &self.words), ("show", show), ("from", from)],
        )
    }
}

fn queue_page(console: &Console, account: &str, queue: &str, visit: &Visit) -> Result<Html> {
    let services = console.services();
    let queues = &services.queues;
    let properties = queues.get_queue_metadata(account, queue)?;
    let view = View::of(visit);
    let page = browsed(console, account, queue, &view)?;
    let started = Instant::now();
    let is_over = || started.elapsed() > TALLY_TIME_MAX;
    let tally = queues.tally_messages(account, queue, SOON, &is_over)?;
    let total = properties.approximate_message_count;
    let poison = format!("{queue}{POISON}");
    let poisoned = queues.get_queue_metadata(account, &poison).ok();
    let content = html! {
        (layout::trail(&[("Queues", layout::path(&["queues", account], &[]))], queue))
        h1 { (queue) }
        (layout::note(visit))
        dl.facts data-fresh="facts" {
            div { dt { "Messages" } dd { (count(total)) } }
            (tally_facts(&tally))
            @for (name, value) in &properties.metadata { div { dt { (name) } dd { (layout::cut(value, 200)) } } }
        }
        @if let Some(poisoned) = poisoned {
            p { "Its poison queue " a href=(layout::path(&["queues", account, &poison], &[])) { (poison) } " has " (layout::counted(poisoned.approximate_message_count, "message")) "." }
        }
        (put_form(console, account, queue))
        (search_form(account, queue, &view))
        (messages_section(console, (account, queue), &view, &page, total, visit.origin.now))
        (moves::form(console, account, queue))
        (message::take_form(console, account, queue))
        (danger(console, account, queue, total))
        (layout::script("queue.js"))
    };
    Ok(layout::page(console, "Queues", queue, content))
}

/// A page of messages that contain all the words, hidden ones included. Ends early if it is full or
/// the time is up.
fn browsed(console: &Console, account: &str, queue: &str, view: &View) -> Result<BrowsedMessages> {
    let started = Instant::now();
    let request = BrowseMessages {
        from: view.from(),
        count: MESSAGES_SHOWN,
    };
    let bytes = std::cell::Cell::new(0);
    let accepts = |message: &StoredMessage| {
        let has_words = has_words(message, &view.words);
        if has_words {
            let start = &message.text[..message.text.floor_char_boundary(TEXT_BYTES_SHOWN)];
            bytes.set(bytes.get() + layout::escaped_bytes(start) + MESSAGE_BYTES);
        }
        has_words
    };
    let is_over = || bytes.get() > PAGE_BYTES_MAX || started.elapsed() > SEARCH_TIME_MAX;
    let services = console.services();
    Ok(services
        .queues
        .browse_messages(account, queue, &request, &accepts, &is_over)?)
}

fn tally_facts(tally: &MessageTally) -> Markup {
    let text = |number: u64| {
        let more = if tally.is_partial { "+" } else { "" };
        format!("{}{more}", count(number))
    };
    html! {
        div { dt { "Visible" } dd { (text(tally.visible)) } }
        div { dt { "Hidden" } dd { (text(tally.hidden)) } }
        div { dt { "Expire within an hour" } dd { (text(tally.expiring)) } }
    }
}

fn search_form(account: &str, queue: &str, view: &View) -> Markup {
    html! {
        form.filter method="get" role="search" action=(layout::path(&["queues", account, queue], &[])) {
            label for="filter" { "Search" }
            input #filter name="filter" value=(view.words) data-filter placeholder="words in any message of the queue, decoded" autocomplete="off" spellcheck="false";
            label.check { input type="checkbox" name="show" value="hidden" checked[view.hidden_only]; " hidden only" }
            button { "Search" }
        }
    }
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
fn has_words(message: &StoredMessage, words: &str) -> bool {
    if words.trim().is_empty() {
        return true;
    }
    let text = inner_text(&message.text).1.to_lowercase();
    let words = words.to_lowercase();
    words.split_whitespace().all(|word| text.contains(word))
}

fn messages_section(
    console: &Console,
    (account, queue): (&str, &str),
    view: &View,
    page: &BrowsedMessages,
    total: u64,
    now: SystemTime,
) -> Markup {
    html! {
        section data-fresh="messages" {
            h2 { "Messages" }
            @if page.messages.is_empty() {
                p.empty {
                    @if !view.words.trim().is_empty() { "No message has these words, of " (count(page.examined)) " that were searched." }
                    @else if total == 0 { "The queue is empty." }
                    @else { "No message here." }
                }
            } @else {
                ol.messages data-list { @for message in &page.messages { li tabindex="-1" { (shown(console, (account, queue), message, now)) } } }
            }
            p.limits {
                "Showing " (page.messages.len()) " of " (count(total)) " in the order of delivery, hidden ones last. Looking counts no delivery."
                @if let Some(next) = &page.next { " " a rel="next" href=(view.path(account, queue, next)) { "Next page" } }
            }
        }
    }
}

fn shown(
    console: &Console,
    (account, queue): (&str, &str),
    message: &StoredMessage,
    now: SystemTime,
) -> Markup {
    let path = layout::path(
        &["queues", account, queue, "message"],
        &[("id", &message.message_id)],
    );
    html! {
        dl.facts {
            (state_facts(message, now))
            div { dt { "Id" } dd { a href=(path) { code { (message.message_id) } } } }
        }
        (text_block(message, String::new()))
        (message::acts(console, (account, queue), message, message.visible_at > now))
    }
}

/// What is known of a message besides its text.
fn state_facts(message: &StoredMessage, now: SystemTime) -> Markup {
    let hidden = message
        .visible_at
        .duration_since(now)
        .ok()
        .filter(|left| !left.is_zero());
    let until = crate::codec::date::iso8601(message.visible_at);
    html! {
        div { dt { "State" } dd {
            @match hidden {
                Some(left) => { "hidden, returns in " span data-until=(until) { (layout::duration(left)) } },
                None => "visible",
            }
        } }
        div { dt { "Dequeue count" } dd { (message.dequeue_count) } }
        div { dt { "Inserted" } dd { (layout::time(message.inserted_at)) } }
        div { dt { "Expires" } dd { (layout::time(message.expires_at)) } }
    }
}

/// The text of a message, decoded. `size` is said if it is not empty.
fn text_block(message: &StoredMessage, size: String) -> Markup {
    let (kind, text) = decoded(&message.text);
    let label = format!("Text of {}", message.message_id);
    html! {
        @if kind.is_some() || !size.is_empty() {
            p.limits { @if let Some(kind) = kind { "Shown as " (kind) ". " } (size) }
        }
        pre.text tabindex="0" role="region" aria-label=(label) { (layout::cut(&text, TEXT_BYTES_SHOWN)) }
    }
}

/// The text inside Base64 if it decodes to text, otherwise the text itself; and whether it was
/// decoded.
fn inner_text(text: &str) -> (bool, String) {
    let from_base64 = STANDARD
        .decode(text.trim())
        .ok()
        .filter(|bytes| bytes.len() >= 3);
    let inner = from_base64.and_then(|bytes| String::from_utf8(bytes).ok());
    let is_text = |inner: &String| !inner.chars().any(|c| c.is_control() && !c.is_whitespace());
    match inner.filter(is_text) {
        Some(inner) => (true, inner),
        None => (false, text.to_owned()),
    }
}

/// The text of a message as people read it: Base64 of a text is decoded, JSON is indented.
fn decoded(text: &str) -> (Option<&'static str>, String) {
    let (is_base64, inner) = inner_text(text);
    match (is_base64, layout::pretty_json(&inner)) {
        (true, Some(json)) => (Some("JSON in Base64"), json),
        (true, None) => (Some("text in Base64"), inner),
        (false, Some(json)) => (Some("JSON"), json),
        (false, None) => (None, inner),
    }
}

/// The text of a form, as the message is stored.
fn encoded(form: &Form) -> String {
    // Browsers send line breaks as CR LF.
    let text = form.text("text").replace("\r\n", "\n");
    if form.get("base64").is_some() {
        STANDARD.encode(text)
    } else {
        text
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
    let text = encoded(&form);
    let (ttl_seconds, visibility_seconds) = (form.number("lifetime")?, form.number("hidden")?);
    let path = layout::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Put, move |console| {
        let message = PutMessage {
            text: &text,
            ttl_seconds,
            visibility_seconds,
            ..PutMessage::default()
        };
        let services = console.services();
        let queues = &services.queues;
        Ok(queues.put_message(&account, &queue, message)?.1)
    })
    .await
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
