//! The list of the latest requests.

use crate::context::Console;
use crate::requests::facts::summary;
use crate::requests::filter::{FIELDS, Wanted};
use crate::requests::groups;
use crate::requests::rows::{row, table};
use crate::respond::{Html, Page, Visit, held, made, text};
use crate::{format, layout, links};
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use lazurite_base::units::count;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of rows on the page.
const ROWS_SHOWN: usize = 100;
/// Maximum number of requests in a response of the JSON interface.
const BATCH_MAX: usize = 500;
/// Size of the records, in bytes, after which a response ends. Its field `next` gives the position
/// at which to continue.
const BATCH_BYTES_MAX: usize = 1 << 20;

pub async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| Ok(requests_page(console, &visit))).await
}

fn requests_page(console: &Console, visit: &Visit) -> Html {
    let wanted = Wanted::of(visit);
    let records = console.requests.latest(ROWS_SHOWN, |record| {
        wanted.matches(record) && console.shows_request(record)
    });
    let totals = console.requests.totals();
    let rows = format::fitting_rows(records.iter().map(|record| row(record)));
    let content = html! {
        h1 { "Requests" }
        (filter_form(visit, &wanted))
        (filter_help())
        (groups::section(console))
        p.limits {
            "Showing the last " span data-shown { (rows.len()) } ". " span data-seen { (count(totals.seen)) } " came since the start. "
            (count(totals.kept)) " are kept"
            ": the newest, and up to " (lazurite_services::requests::OF_RESOURCE_MAX) " of each container, queue and table that busier ones push out."
            @if totals.skipped > 0 { " " (count(totals.skipped)) " came too fast to be kept." }
            span data-live-state role="status" {}
        }
        div.scroll tabindex="0" role="region" aria-label="Requests" data-live=(links::path(&["requests", "live"], &[])) data-after=(totals.newest) {
            (table(&rows, "Requests, newest first"))
        }
        @if records.is_empty() { p.empty data-empty { "No requests yet. They appear here as they come in." } }
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
    let har = links::path(&["requests.har"], &narrowed);
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

/// An explanation of the filter's language.
fn filter_help() -> Markup {
    html! {
        details {
            summary { "How to filter" }
            p { "A request is shown if its method, path, operation, status, error code, client or id has all the words, in any case. A word for one field is written with its name; a minus in front excludes." }
            table.plain { tbody {
                @for (_, example, meaning) in FIELDS { tr { th scope="row" { a href=(links::path(&["requests"], &[("filter", example)])) { code { (example) } } } td { (meaning) } } }
                tr { th scope="row" { code { "-operation:List" } } td { "all but these; also before a word" } }
            } }
        }
    }
}

/// `/_lazurite/api/requests?after=N`: the requests after position N, oldest first.
pub async fn records(State(console): State<Arc<Console>>, visit: Visit) -> Page<Response<Body>> {
    held(console, move |console| {
        let document = format!("{}\n", batch_of(console, &visit));
        Ok(text("application/json", document))
    })
    .await
}

fn batch_of(console: &Console, visit: &Visit) -> Value {
    let wanted = Wanted::of(visit);
    let after = visit.parameter("after").parse().unwrap_or(0);
    let batch = console.requests.after(after, BATCH_MAX, |record| {
        wanted.matches(record) && console.shows_request(record)
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
