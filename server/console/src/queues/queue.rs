//! One queue with its messages, visible and hidden. Showing them counts no delivery.

use crate::context::Console;
use crate::form::Form;
use crate::format::cut;
use crate::links::{self, QueuePlace};
use crate::queues::acts;
use crate::queues::moves::POISON;
use crate::queues::text::{encoded, inner_text, state};
use crate::respond::{Done, Html, Page, SeeOther, Visit, written};
use crate::{format, layout, selection};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_base::units::{count, counted};
use lazurite_protocol::response::error::Result;
use lazurite_queue::{
    BrowseFrom, BrowseMessages, BrowsedMessages, MessageTally, PutMessage, StoredMessage,
};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of messages on a page.
const MESSAGES_SHOWN: usize = 100;
/// Maximum number of bytes shown of a text. The page of a message has more.
const TEXT_BYTES_SHOWN: usize = 400;
/// Length of the shown texts, in bytes, after which a page ends.
const PAGE_BYTES_MAX: usize = 80 << 10;
/// Number of bytes shown of a message of blanks.
const BLANKS_SHOWN: usize = 8;
/// Approximate number of bytes of a message's markup.
const MESSAGE_BYTES: usize = 900;
/// Maximum time on one page for counting messages by state.
const TALLY_TIME_MAX: Duration = Duration::from_millis(10);
/// Maximum time for a search. The first page answers at once; a visitor who goes on with a search
/// waits for more of it.
const FIRST_SEARCH_TIME_MAX: Duration = Duration::from_millis(20);
const SEARCH_TIME_MAX: Duration = Duration::from_secs(1);
/// Messages that expire within this time are marked.
const SOON: Duration = Duration::from_secs(3600);

/// The choices in the form of a page of messages.
#[derive(Clone)]
pub struct View {
    pub words: String,
    pub from: String,
    /// Number of messages that the pages before this one searched.
    searched: u64,
    hidden_only: bool,
}

impl View {
    fn of(visit: &Visit) -> View {
        View {
            words: visit.parameter("filter"),
            from: visit.parameter("from"),
            searched: visit.parameter("searched").parse().unwrap_or(0),
            hidden_only: visit.parameter("show") == "hidden",
        }
    }

    /// The choices in the form of the list, from the first message on.
    pub fn of_form(form: &Form) -> View {
        View {
            words: form.text("filter").to_owned(),
            from: String::new(),
            searched: 0,
            hidden_only: form.text("show") == "hidden",
        }
    }

    pub fn from(&self) -> BrowseFrom<'_> {
        match (self.from.as_str(), self.hidden_only) {
            ("", false) => BrowseFrom::Start,
            ("", true) => BrowseFrom::Hidden,
            (marker, _) => BrowseFrom::Next(marker),
        }
    }

    fn searches(&self) -> bool {
        !self.words.trim().is_empty()
    }

    /// The path of the same view from its first message on.
    pub fn path(&self, place: &QueuePlace) -> String {
        self.path_from(place, ("", 0))
    }

    /// The path of the same view from a marker on, before which a number of messages was searched.
    fn path_from(&self, place: &QueuePlace, (from, searched): (&str, u64)) -> String {
        let show = if self.hidden_only { "hidden" } else { "" };
        let searched = match searched {
            0 => String::new(),
            searched => searched.to_string(),
        };
        place.path(
            &[],
            &[
                ("filter", &self.words),
                ("show", show),
                ("from", from),
                ("searched", &searched),
            ],
        )
    }
}

pub fn page(console: &Console, place: &QueuePlace, visit: &Visit) -> Result<Html> {
    let (services, stored) = console.at(&place.account)?;
    let queues = &services.queues;
    let properties = queues.get_queue_metadata(stored, &place.queue)?;
    let view = View::of(visit);
    let page = browsed(console, place, &view)?;
    let started = Instant::now();
    let is_over = || started.elapsed() > TALLY_TIME_MAX;
    let tally = queues.tally_messages(stored, &place.queue, SOON, &is_over)?;
    let total = properties.approximate_message_count;
    let poison = format!("{}{POISON}", place.queue);
    let poisoned = queues.get_queue_metadata(stored, &poison).ok();
    let content = html! {
        (layout::trail(&[("Queues", links::path(&["queues", &place.account], &[]))], &place.queue))
        h1 { (place.queue) }
        (layout::note(console, visit))
        dl.facts data-fresh="facts" {
            div { dt { "Messages" } dd { (count(total)) } }
            (tally_facts(&tally))
            @for (name, value) in &properties.metadata { div { dt { (name) } dd { (format::cut(value, 200)) } } }
        }
        @if let Some(poisoned) = poisoned {
            p { "Its poison queue " a href=(links::path(&["queues", &place.account, &poison], &[])) { (poison) } " has " (counted(poisoned.approximate_message_count, "message")) "." }
        }
        (search_form(place, &view))
        (selection::bar(put_form(console, place), buttons(), (total > 0).then(|| all_of(&view, total))))
        (messages_section(console, place, &view, &page, total, visit.origin.now))
        (acts::take_form(console, place))
        (danger(console, place, total))
        (layout::script("queue.js"))
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Queues",
        &place.queue,
        content,
    ))
}

/// A page of messages that contain all the words, hidden ones included. Ends early if it is full or
/// the time is up.
fn browsed(console: &Console, place: &QueuePlace, view: &View) -> Result<BrowsedMessages> {
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
            bytes.set(bytes.get() + format::escaped_bytes(start) + MESSAGE_BYTES);
        }
        has_words
    };
    let is_first_search = view.searches() && view.from.is_empty();
    let time_max = if is_first_search {
        FIRST_SEARCH_TIME_MAX
    } else {
        SEARCH_TIME_MAX
    };
    let is_over = || bytes.get() > PAGE_BYTES_MAX || started.elapsed() > time_max;
    let (services, stored) = console.at(&place.account)?;
    Ok(services
        .queues
        .browse_messages(stored, &place.queue, &request, &accepts, &is_over)?)
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

fn search_form(place: &QueuePlace, view: &View) -> Markup {
    html! {
        form.filter method="get" role="search" action=(place.path(&[], &[])) {
            label for="filter" { "Search" }
            input #filter name="filter" value=(view.words) data-filter placeholder="words in any message of the queue, decoded" autocomplete="off" spellcheck="false";
            label.check { input type="checkbox" name="show" value="hidden" checked[view.hidden_only]; " hidden only" }
            button { "Search" }
            a.quiet.button href=(links::path(&["sas", &place.account], &[("service", "queue"), ("name", &place.queue)])) { "Share" }
            a.quiet.button href=(place.path(&["settings"], &[])) { "Settings" }
        }
    }
}

fn put_form(console: &Console, place: &QueuePlace) -> Markup {
    html! {
        details.drop {
            summary.button { "New message" }
            div.panel { form.fields method="post" action=(place.path(&[], &[])) {
                (layout::token(console))
                label.wide { "Text " textarea name="text" rows="3" {} }
                label { "Hidden for, in seconds " input type="number" name="hidden" min="0" max="604800" placeholder="0"; }
                label { "Lifetime, in seconds " input type="number" name="lifetime" min="-1" placeholder="604800"; }
                label.check { input type="checkbox" name="base64" value="yes"; " Send as Base64, as Functions expect it" }
                button { "Send" }
            } }
        }
    }
}

/// Whether the decoded text of a message contains all words.
pub fn has_words(message: &StoredMessage, words: &str) -> bool {
    if words.trim().is_empty() {
        return true;
    }
    let text = inner_text(&message.text).1.to_lowercase();
    let words = words.to_lowercase();
    words.split_whitespace().all(|word| text.contains(word))
}

fn buttons() -> Markup {
    html! {
        (selection::button("move", "Move…", false))
        (selection::button("delete", "Delete…", true))
    }
}

/// The label of the box that selects all messages that the search finds.
fn all_of(view: &View, total: u64) -> Markup {
    html! {
        @if view.words.trim().is_empty() && !view.hidden_only { "all " (count(total)) } @else { "all that the search finds" }
    }
}

fn messages_section(
    console: &Console,
    place: &QueuePlace,
    view: &View,
    page: &BrowsedMessages,
    total: u64,
    now: SystemTime,
) -> Markup {
    html! {
        section data-fresh="messages" {
            @if page.messages.is_empty() {
                p.empty {
                    @if view.searches() { "None of the messages searched on this page has these words." }
                    @else if total == 0 { "The queue is empty." }
                    @else { "No message here." }
                }
            } @else {
                form #(selection::FORM) method="post" action=(place.path(&["selected"], &[])) data-plain {
                    (layout::token(console))
                    input type="hidden" name="filter" value=(view.words);
                    @if view.hidden_only { input type="hidden" name="show" value="hidden"; }
                    div.scroll.list tabindex="0" role="region" aria-label="Messages" { table.messages data-list {
                        caption.hidden { "Messages in the order of delivery" }
                        thead { tr {
                            (selection::head())
                            th scope="col" { "Text" } th scope="col" { "State" } th.number scope="col" { "Dequeued" }
                            th scope="col" { "Inserted" } th scope="col" { "Expires" }
                        } }
                        tbody { @for message in &page.messages { (row(place, message, now)) } }
                    } }
                }
            }
            p.limits {
                @if view.searches() {
                    "Found " (page.messages.len()) ". " (searched(view, page, total))
                } @else {
                    "Showing " (page.messages.len()) " of " (count(total)) " in the order of delivery, hidden ones last. Looking counts no delivery."
                }
                @if !view.from.is_empty() { " " a href=(view.path(place)) { "First page" } }
                @if let Some(next) = &page.next {
                    @let from = (next.as_str(), view.searched + page.examined);
                    " " a rel="next" href=(view.path_from(place, from)) { @if view.searches() { "Search on" } @else { "Next page" } }
                }
            }
        }
    }
}

/// How far a search is. A search for hidden messages does not begin at the first message, so its
/// part of the whole queue is not known.
fn searched(view: &View, page: &BrowsedMessages, total: u64) -> Markup {
    let number = view.searched + page.examined;
    html! {
        @if page.next.is_none() { "The search is complete: " (counted(number, "message")) " searched." }
        @else if view.hidden_only { "Searched " (counted(number, "hidden message")) "." }
        @else { "Searched " (count(number)) " of " (counted(total, "message")) "." }
    }
}

fn row(place: &QueuePlace, message: &StoredMessage, now: SystemTime) -> Markup {
    let path = place.path(&["message"], &[("id", &message.message_id)]);
    let keys = serde_json::json!([message.message_id, message.pop_receipt]).to_string();
    let (is_base64, text) = inner_text(&message.text);
    html! { tr {
        (selection::cell(&keys, &message.message_id))
        td.message {
            a href=(path) { @if text.trim().is_empty() { (format::name(&text, BLANKS_SHOWN)) } @else { (cut(&text, TEXT_BYTES_SHOWN)) } }
            @if is_base64 { " " small { "Base64" } }
        }
        td { (state(message, now)) }
        td.number { (count(message.dequeue_count.into())) }
        td { (format::time(message.inserted_at)) }
        td { (format::time(message.expires_at)) }
    } }
}

fn danger(console: &Console, place: &QueuePlace, total: u64) -> Markup {
    html! {
        details.danger {
            summary { "Clear or delete this queue" }
            form method="post" action=(place.path(&["clear"], &[])) {
                (layout::token(console))
                button.danger { "Clear " (counted(total, "message")) }
            }
            form method="post" action=(place.path(&["delete"], &[])) {
                (layout::token(console))
                button.danger { "Delete " (place.queue) }
            }
        }
    }
}

pub async fn put(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let text = encoded(&form);
    let (ttl_seconds, visibility_seconds) = (form.number("lifetime")?, form.number("hidden")?);
    let path = place.path(&[], &[]);
    written(console, path, Done::Sent, move |console| {
        let message = PutMessage {
            text: &text,
            ttl_seconds,
            visibility_seconds,
            ..PutMessage::default()
        };
        let (services, account) = console.at(&place.account)?;
        let queues = &services.queues;
        Ok(queues.put_message(account, &place.queue, message)?.1)
    })
    .await
}

pub async fn clear(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
) -> Page<SeeOther> {
    let path = place.path(&[], &[]);
    written(console, path, Done::Cleared, move |console| {
        let (services, account) = console.at(&place.account)?;
        Ok(services.queues.clear_messages(account, &place.queue)?)
    })
    .await
}

pub async fn delete(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
) -> Page<SeeOther> {
    let path = links::path(&["queues", &place.account], &[]);
    written(console, path, Done::Deleted, move |console| {
        let (services, account) = console.at(&place.account)?;
        Ok(services.queues.delete_queue(account, &place.queue)?)
    })
    .await
}
