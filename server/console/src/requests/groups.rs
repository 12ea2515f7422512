//! Counts of similar errors: the kept requests of this run that were refused or failed, by
//! operation and code.

use crate::context::Console;
use crate::format::{self, cut};
use crate::links;
use lazurite_base::units::{self, count};
use lazurite_services::requests::Record;
use maud::{Markup, html};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of kinds of errors that are shown.
const GROUPS_SHOWN: usize = 20;

/// The errors of one kind.
struct Group {
    count: u64,
    newest: Arc<Record>,
}

fn key(record: &Record) -> (&str, u16, &str) {
    let code = record.refusal.as_ref().map_or("", |why| &*why.code);
    (record.operation, record.status, code)
}

/// The kinds of errors, most frequent first, and how many kinds there are.
fn groups(console: &Console) -> (Vec<Group>, usize) {
    let errors = console
        .requests
        .latest_errors(usize::MAX, |record| console.shows_request(record));
    let mut places = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    // The records are newest first, so the first of a kind is its newest.
    for record in &errors {
        let place = *places.entry(key(record)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.count += 1,
            None => groups.push(Group {
                count: 1,
                newest: record.clone(),
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let kinds = groups.len();
    groups.truncate(GROUPS_SHOWN);
    (groups, kinds)
}

/// The section with the kinds of errors; empty if there are none.
pub fn section(console: &Console) -> Markup {
    let (groups, kinds) = groups(console);
    let total: u64 = groups.iter().map(|group| group.count).sum();
    html! {
        @if !groups.is_empty() {
            details.groups {
                summary { (units::counted(total, "error")) " of " (units::counted(kinds as u64, "kind")) }
                div.scroll tabindex="0" role="region" aria-label="Errors by kind" { table {
                    caption.hidden { "Errors by kind, the most frequent first" }
                    thead { tr {
                        th.number scope="col" { "Times" } th scope="col" { "Status" } th scope="col" { "Operation" } th scope="col" { "Code" } th scope="col" { "The newest" }
                    } }
                    tbody { @for group in &groups { (row(group)) } }
                } }
                @if kinds > groups.len() { p.limits { "Showing the " (groups.len()) " most frequent of " (kinds) " kinds." } }
            }
        }
    }
}

fn row(group: &Group) -> Markup {
    let (operation, status, code) = key(&group.newest);
    let words = [
        ("operation", operation),
        ("status", &status.to_string()),
        ("code", code),
    ]
    .iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| format!("{name}:{value}"))
    .collect::<Vec<_>>()
    .join(" ");
    let reason = group.newest.refusal.as_ref().map_or("", |why| &*why.reason);
    html! {
        tr {
            td.number { a href=(links::path(&["requests"], &[("filter", &words)])) { (count(group.count)) } }
            td { span.status.{ "s" (status / 100) } { (status) } }
            td { @if operation.is_empty() { (group.newest.method()) } @else { (operation) } }
            td { (code) }
            td { a href=(links::path(&["requests", &group.newest.request_id], &[])) { (format::time_of_day(group.newest.at)) } " " (cut(reason, 160)) }
        }
    }
}
