//! Shows requests as rows of a table.

use crate::format::{self, cut};
use crate::links;
use crate::requests::facts::{client, milliseconds, partition, plan, readable, version};
use lazurite_base::units::size;
use lazurite_services::observer::HowEnded;
use lazurite_services::requests::Record;
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum length in bytes of a target and of a client in a row.
const TITLE_BYTES_MAX: usize = 300;
const CLIENT_BYTES_MAX: usize = 80;

/// A table of requests.
pub fn rows(records: &[Arc<Record>], caption: &str) -> Markup {
    let rows: Vec<_> = records.iter().map(|record| row(record)).collect();
    table(&rows, caption)
}

/// A table of rows that exist already.
pub fn table(rows: &[Markup], caption: &str) -> Markup {
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

/// The row of a request.
pub fn row(record: &Record) -> Markup {
    let target = record.target();
    let shown = readable(&target);
    let start = &target[..target.floor_char_boundary(TITLE_BYTES_MAX)];
    let as_sent = (shown != target).then_some(start);
    let why = record.refusal.as_ref();
    html! {
        tr data-number=(record.number) {
            td { (format::time_of_day(record.at)) }
            td { span.status.{ "s" (record.status / 100) } { (record.status) } }
            td {
                a href=(links::path(&["requests", &record.request_id], &[])) { @if record.operation.is_empty() { (record.method()) } @else { (record.operation) } }
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
