//! Requests: the last requests as they come in, and everything about one of them.

mod again;
mod batch;
mod body;
mod calls;
mod code;
mod detail;
mod groups;
mod har;
mod live;
mod related;

pub use crate::requests::{Record, Ring};

use crate::console::Console;
use crate::console::layout::{self, count, cut, size};
use crate::console::respond::{Html, Page, Visit, made, text};
use crate::observer::HowEnded;
use crate::request::context::Query;
use crate::response::error::Result;
use crate::response::long_responses;
use crate::service_kind::ServiceKind;
use crate::table::address::Address;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of the page.
const ROWS_SHOWN: usize = 100;
/// Bytes of a target as it was sent, and of a client, in a row.
const TITLE_BYTES_MAX: usize = 300;
const CLIENT_BYTES_MAX: usize = 80;
/// Most requests in one answer of the JSON interface.
const BATCH_MAX: usize = 500;
/// Bytes of records after which such an answer ends; `next` says where to go on.
const BATCH_BYTES_MAX: usize = 1 << 20;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/requests", get(page))
        .route("/_lazurite/requests/live", get(live::events))
        .route("/_lazurite/requests.har", get(har::export))
        .route("/_lazurite/requests/{id}", get(detail::page))
        .route("/_lazurite/requests/{id}/again", post(again::send))
        .route("/_lazurite/requests/{id}/body/{side}", get(body::page))
        .route("/_lazurite/api/requests", get(records))
        .route("/_lazurite/api/requests/{id}", get(detail::json))
}

/// True if a request may be shown: if its account is shown. A request that was refused before its
/// account was known may name any account.
pub fn is_shown(console: &Console, record: &Record) -> bool {
    match &record.account {
        Some(account) => console.shows(account),
        None => console.shows_all(),
    }
}

/// The filter of a list of requests.
struct Wanted {
    words: Vec<Word>,
    service: String,
    errors_only: bool,
}

/// A word, in lower case, that must or must not occur in the row; in one field of it, if the word
/// names one.
struct Word {
    is_excluded: bool,
    field: Option<&'static str>,
    text: String,
}

/// The fields that a word can name, with an example and what it finds.
const FIELDS: [(&str, &str, &str); 9] = [
    ("status", "status:404", "a status; status:4 is the class"),
    (
        "code",
        "code:BlobNotFound",
        "an error code, or a part of one",
    ),
    (
        "operation",
        "operation:GetBlob",
        "a REST operation, or a part of its name",
    ),
    ("method", "method:put", "an HTTP method"),
    (
        "client",
        "client:python",
        "the client library or its version",
    ),
    (
        "version",
        "version:2026",
        "the start of the API version, x-ms-version",
    ),
    ("in", "in:photos", "a container, queue or table"),
    (
        "partition",
        "partition:Sales",
        "the PartitionKey that a request names",
    ),
    (
        "slower",
        "slower:100",
        "requests that took this many milliseconds or more",
    ),
];

impl Word {
    fn of(word: &str) -> Word {
        let field = |name: &str| {
            let mut fields = FIELDS.iter().map(|(field, ..)| *field);
            fields.find(|field| *field == name)
        };
        let rest = word.strip_prefix('-').filter(|rest| !rest.is_empty());
        let (is_excluded, word) = rest.map_or((false, word), |rest| (true, rest));
        let named = word
            .split_once(':')
            .and_then(|(name, text)| Some((field(name)?, text)));
        let (field, text) = named.map_or((None, word), |(field, text)| (Some(field), text));
        Word {
            is_excluded,
            field,
            text: text.to_owned(),
        }
    }

    /// `row` is the whole of it, in lower case.
    fn fits(&self, record: &Record, row: &str) -> bool {
        self.matches(record, row) != self.is_excluded
    }

    fn matches(&self, record: &Record, row: &str) -> bool {
        let text = self.text.as_str();
        let Some(field) = self.field else {
            return row.contains(text);
        };
        let code = || record.refusal.as_ref().map_or("", |why| &why.code);
        match field {
            // `4` is the class.
            "status" => record.status.to_string().starts_with(text),
            "operation" => record.operation.to_lowercase().contains(text),
            "code" => code().to_lowercase().contains(text),
            "client" => client(record).to_lowercase().contains(text),
            "method" => record.method().eq_ignore_ascii_case(text),
            "version" => version(record).starts_with(text),
            "partition" => partition(record).is_some_and(|key| key.to_lowercase().contains(text)),
            "slower" => text
                .parse()
                .is_ok_and(|limit: f64| record.took.as_secs_f64() * 1000.0 >= limit),
            // A container, queue or table: the first segment after the account.
            _ => {
                let path = related::resource(record);
                let name = path.split(['/', '(']).next().unwrap_or_default();
                name.eq_ignore_ascii_case(text)
            }
        }
    }
}

impl Wanted {
    fn of(visit: &Visit) -> Wanted {
        let text = visit.parameter("filter").to_lowercase();
        Wanted {
            words: text.split_whitespace().map(Word::of).collect(),
            service: visit.parameter("service"),
            errors_only: visit.query.has("errors"),
        }
    }

    /// Every word has to stand in the row.
    fn matches(&self, record: &Record) -> bool {
        if self.errors_only && !record.is_error()
            || !self.service.is_empty() && self.service != record.service.label()
        {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let code = record.refusal.as_ref().map_or("", |why| &why.code);
        let row = format!(
            "{} {} {} {} {code} {} {}",
            record.method(),
            record.target(),
            record.operation,
            record.status,
            client(record),
            record.request_id
        );
        let row = row.to_lowercase();
        self.words.iter().all(|word| word.fits(record, &row))
    }
}

/// Scheme, host and target as the client sent them, without secrets.
fn url(record: &Record) -> String {
    let host = record.header("host").unwrap_or_default();
    let scheme = if record.secure { "https" } else { "http" };
    format!("{scheme}://{host}{}", record.target())
}

/// The library that sent a request, with its version.
fn client(record: &Record) -> String {
    let agent = record.header("user-agent").unwrap_or_default();
    // Libraries of Azure put the name of the application first, if there is one.
    let words: Vec<_> = agent.split_whitespace().collect();
    let library = words.iter().find(|word| word.starts_with("azsdk-"));
    let word = library.or(words.first()).copied().unwrap_or_default();
    word.trim_start_matches("azsdk-").replacen('/', " ", 1)
}

/// The version of the API that a request asks for.
fn version(record: &Record) -> String {
    record.header("x-ms-version").unwrap_or_default()
}

/// The PartitionKey that a request to a table names, in its address or in its filter.
fn partition(record: &Record) -> Option<String> {
    if record.service != ServiceKind::Table {
        return None;
    }
    let address = Address::parse(&layout::encode(&related::resource(record)));
    let keys = address.ok().map(|address| address.names().1);
    let named = keys
        .map(|keys| keys.partition_key)
        .filter(|key| !key.is_empty());
    named.or_else(|| {
        let target = record.target();
        let filter = Query::parse(target.split_once('?')?.1)
            .ok()?
            .get("$filter")?;
        let (_, rest) = filter.split_once("PartitionKey eq '")?;
        let end = rest.replace("''", "\u{1}\u{1}").find('\'')?;
        Some(rest[..end].replace("''", "'"))
    })
}

async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| Ok(requests_page(console, &visit))).await
}

fn requests_page(console: &Console, visit: &Visit) -> Html {
    let wanted = Wanted::of(visit);
    let records = console.requests.latest(ROWS_SHOWN, |record| {
        wanted.matches(record) && is_shown(console, record)
    });
    let totals = console.requests.totals();
    let rows = layout::fitting_rows(records.iter().map(|record| row(record)));
    let content = html! {
        h1 { "Requests" }
        (filter_form(visit, &wanted))
        (filter_help())
        (groups::section(console))
        p.limits {
            "Showing the last " span data-shown { (rows.len()) } ". " span data-seen { (count(totals.seen)) } " came since the start. "
            (count(totals.kept)) " are kept"
            ": the newest, and up to " (crate::requests::OF_RESOURCE_MAX) " of each container, queue and table that busier ones push out."
            @if totals.skipped > 0 { " " (count(totals.skipped)) " came too fast to be kept." }
            span data-live-state role="status" {}
        }
        div.scroll tabindex="0" role="region" aria-label="Requests" data-live=(layout::path(&["requests", "live"], &[])) data-after=(totals.newest) {
            (table(&rows, "Requests, newest first"))
        }
        @if records.is_empty() { p.empty data-empty { "No request yet. Send one, and it is here." } }
    };
    layout::page(console, "Requests", "Requests", content)
}

fn filter_form(visit: &Visit, wanted: &Wanted) -> Markup {
    let filter = visit.parameter("filter");
    let errors = if wanted.errors_only { "yes" } else { "" };
    let narrowed = [
        ("filter", &*filter),
        ("service", &*wanted.service),
        ("errors", errors),
    ];
    let har = layout::path(&["requests.har"], &narrowed);
    html! {
        form.filter method="get" role="search" {
            label for="filter" { "Filter" }
            input #filter name="filter" value=(filter) data-filter placeholder="words, or status:404 code:BlobNotFound in:photos slower:100 -operation:List" autocomplete="off" spellcheck="false";
            select name="service" aria-label="Service" {
                option value="" { "all services" }
                @for service in ["blob", "queue", "table"] { option value=(service) selected[wanted.service == service] { (service) } }
            }
            label.check { input type="checkbox" name="errors" value="yes" checked[wanted.errors_only]; " errors only" }
            button { "Filter" }
            button type="button" data-act="pause" aria-pressed="false" hidden { "Pause" }
            a.quiet.button href=(har) download { "Save as HAR" }
        }
    }
}

/// The language of the filter.
fn filter_help() -> Markup {
    html! {
        details {
            summary { "How to filter" }
            p { "Words that all have to stand in the row: method, path, operation, status, error code, client and request id, in any case. A word for one field is written with its name; a minus in front excludes." }
            table.plain { tbody {
                @for (_, example, meaning) in FIELDS { tr { th scope="row" { a href=(layout::path(&["requests"], &[("filter", example)])) { code { (example) } } } td { (meaning) } } }
                tr { th scope="row" { code { "-operation:List" } } td { "all but these; also before a word" } }
            } }
        }
    }
}

/// Requests as a table.
pub fn rows(records: &[Arc<Record>], caption: &str) -> Markup {
    let rows: Vec<_> = records.iter().map(|record| row(record)).collect();
    table(&rows, caption)
}

fn table(rows: &[Markup], caption: &str) -> Markup {
    html! {
        table.requests data-list {
            caption.hidden { (caption) }
            thead { tr {
                th scope="col" { "Time" } th scope="col" { "Status" } th scope="col" { "Operation" } th scope="col" { "Resource" }
                th.number scope="col" { "Duration" } th.number scope="col" { "Bytes" } th scope="col" { "Client" }
            } }
            tbody { @for row in rows { (row) } }
        }
    }
}

fn row(record: &Record) -> Markup {
    let target = record.target();
    let shown = readable(&target);
    let start = &target[..target.floor_char_boundary(TITLE_BYTES_MAX)];
    let as_sent = (shown != target).then_some(start);
    let why = record.refusal.as_ref();
    html! {
        tr data-number=(record.number) {
            td { (layout::time_of_day(record.at)) }
            td { span.status.{ "s" (record.status / 100) } { (record.status) } }
            td {
                a href=(layout::path(&["requests", &record.request_id], &[])) { @if record.operation.is_empty() { (record.method()) } @else { (record.operation) } }
                @if let Some(plan) = plan(record) { " " small { (plan) } }
            }
            td.resource {
                span.path title=[as_sent] { (record.method()) " " (cut(&shown, 160)) }
                @if let Some(partition) = partition(record) { " " span.partition { "partition " (cut(&partition, 80)) } }
                @if let Some(why) = why { small { b { (why.code) } " " (cut(&why.reason, 200)) } }
                @if record.ended != HowEnded::Whole { small { b { (record.ended.word()) } } }
            }
            td.number { (milliseconds(record)) }
            td.number { (size(record.response_bytes)) }
            td {
                (cut(&client(record), CLIENT_BYTES_MAX))
                @let version = version(record);
                @if !version.is_empty() { " " small { (cut(&version, 20)) } }
            }
        }
    }
}

/// A target without its percent encoding, so that filters and names are readable; unchanged if
/// decoding would hide something.
fn readable(target: &str) -> Cow<'_, str> {
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    match percent_decode_str(target).decode_utf8() {
        Ok(decoded) if decoded.chars().all(is_plain) => decoded,
        _ => target.into(),
    }
}

fn milliseconds(record: &Record) -> String {
    format!("{:.1} ms", record.took.as_secs_f64() * 1000.0)
}

/// How a query was answered, with its cost.
fn plan(record: &Record) -> Option<String> {
    crate::requests::plan_with(|name| record.response_header(name))
}

/// A record as JSON, as pages and the command line read it.
fn summary(record: &Record) -> Value {
    let why = record.refusal.as_ref();
    json!({
        "number": record.number,
        "at": crate::codec::date::iso8601(record.at),
        "request_id": record.request_id,
        "service": record.service.label(),
        "method": record.method(),
        "target": record.target(),
        "operation": record.operation,
        "status": record.status,
        "code": why.map(|why| &why.code),
        "reason": why.map(|why| &why.reason),
        "duration_ms": (record.took.as_secs_f64() * 1e6).round() / 1e3,
        "request_bytes": record.request_bytes,
        "response_bytes": record.response_bytes,
        "ended": record.ended.word(),
        "client": client(record),
        "version": version(record),
        "partition": partition(record),
        "peer": record.peer.to_string(),
        "plan": plan(record),
    })
}

/// `/_lazurite/api/requests?after=N`: the requests after a position, oldest first.
async fn records(State(console): State<Arc<Console>>, visit: Visit) -> Page<Response<Body>> {
    held(console, move |console| {
        let document = format!("{}\n", batch_of(console, &visit));
        Ok(text("application/json", document))
    })
    .await
}

/// A long document about requests. It shares the memory limit of all long responses until the
/// client has received it.
async fn held(
    console: Arc<Console>,
    make: impl FnOnce(&Console) -> Result<Response<Body>> + Send + 'static,
) -> Page<Response<Body>> {
    let grant = long_responses::beside_body(None).await?;
    let response = made(console, make).await?;
    Ok(long_responses::hold(grant, response))
}

fn batch_of(console: &Console, visit: &Visit) -> Value {
    let wanted = Wanted::of(visit);
    let after = visit.parameter("after").parse().unwrap_or(0);
    let batch = console.requests.after(after, BATCH_MAX, |record| {
        wanted.matches(record) && is_shown(console, record)
    });
    let mut requests = Vec::new();
    let mut bytes = 0;
    let mut next = batch.next;
    for record in &batch.records {
        if bytes > BATCH_BYTES_MAX {
            break;
        }
        bytes += record.bytes();
        next = record.number;
        requests.push(summary(record));
    }
    if requests.len() == batch.records.len() {
        next = batch.next;
    }
    json!({ "requests": requests, "missed": batch.missed, "next": next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_field_if_it_is_one() {
        let word = |text: &str| {
            let Word {
                field,
                text,
                is_excluded,
            } = Word::of(text);
            assert!(!is_excluded);
            (field, text)
        };
        let excluded = Word::of("-code:x");
        assert!(excluded.is_excluded && excluded.field == Some("code") && excluded.text == "x");
        assert!(!Word::of("-").is_excluded);
        assert_eq!(word("status:404"), (Some("status"), "404".to_owned()));
        assert_eq!(word("http://x"), (None, "http://x".to_owned()));
        assert_eq!(word("photos"), (None, "photos".to_owned()));
    }

    #[test]
    fn a_target_is_shown_decoded_unless_that_hides_something() {
        for (target, shown) in [
            (
                "/a/T()?$filter=RowKey%20eq%20%27x%27",
                "/a/T()?$filter=RowKey eq 'x'",
            ),
            ("/a/c/b+c", "/a/c/b+c"),
            ("/a/c/line%0Abreak", "/a/c/line%0Abreak"),
            ("/a/c/gnp.%E2%80%AEexe", "/a/c/gnp.%E2%80%AEexe"),
            ("/a/c/%FF", "/a/c/%FF"),
        ] {
            assert_eq!(readable(target), shown);
        }
    }
}
