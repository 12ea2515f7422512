//! `/_lazurite/api/tree/ACCOUNT`: the resources of an account with their counts, and the stores that
//! can be chosen, for the tree at the left of each page.
//!
//! Names, counts and time are limited, and what was left out is marked: `more` after the names of a
//! group or a count that stopped, `null` for a count that was not begun.

use crate::context::Console;
use crate::links;
use crate::respond::{Json, Page, Visit};
use axum::extract::{Path, State};
use lazurite_blob::{ListBlobs, ListContainers};
use lazurite_protocol::response::error::Result;
use lazurite_queue::ListQueues;
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::services::Services;
use lazurite_table::{Query, TableQuery};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of names of each kind.
const NAMES_MAX: usize = 500;
/// Number of names in a step of a listing, and maximum time of the listing of one kind.
const NAMES_STEP: u32 = 1000;
const NAMES_TIME_MAX: Duration = Duration::from_millis(50);
/// A count stops here, and is shown as `10,000+`.
const COUNT_MAX: u64 = 10_000;
/// Number of rows in a step of a count, and maximum time of all counts of one kind.
const COUNT_STEP: u32 = 1000;
const COUNT_TIME_MAX: Duration = Duration::from_millis(25);

pub async fn tree(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    visit: Visit,
) -> Page<Json<Value>> {
    let snapshots = console.stores.list_snapshots().await?;
    let snapshots: Vec<String> = snapshots
        .into_iter()
        .map(|snapshot| snapshot.name)
        .collect();
    let words = visit.parameter("filter").to_lowercase();
    let groups = on_blocking_pool(move || {
        let (services, name) = console.at(&account)?;
        let groups = [
            group(
                &account,
                "blobs",
                containers(&services, name, &words)?,
                |container, until| count_blobs(&services, name, container, until),
            ),
            group(
                &account,
                "queues",
                queues(&services, name, &words)?,
                |queue, _| {
                    let found = services.queues.get_queue_metadata(name, queue)?;
                    Ok((found.approximate_message_count, false))
                },
            ),
            group(
                &account,
                "tables",
                tables(&services, name, &words)?,
                |table, until| count_entities(&services, name, table, until),
            ),
        ];
        Ok(groups)
    });
    Ok(Json(
        json!({ "groups": groups.await?, "snapshots": snapshots }),
    ))
}

/// Some names of a kind, and whether there are more.
type Names = (Vec<String>, bool);

/// A number of items, and whether there are more.
type Count = (u64, bool);

fn group(
    account: &str,
    folder: &str,
    (names, has_more): Names,
    count: impl Fn(&str, Instant) -> Result<Count>,
) -> Value {
    let counts = counts(names.iter().map(String::as_str), count);
    let item = |(name, counted): (&String, Option<Count>)| {
        json!({
            "name": name,
            "path": links::path(&[folder, account, name], &[]),
            "count": counted.map(|(number, _)| number),
            "more": counted.is_some_and(|(_, has_more)| has_more),
        })
    };
    json!({
        "folder": folder,
        "items": names.iter().zip(counts).map(item).collect::<Vec<_>>(),
        "more": has_more,
    })
}

/// Reads pages of names until enough of them contain the words. `page` reads the page at a marker.
fn names(
    words: &str,
    mut page: impl FnMut(String) -> Result<(Vec<String>, Option<String>)>,
) -> Result<Names> {
    let started = Instant::now();
    let (mut found, mut marker) = (Vec::new(), String::new());
    loop {
        let (names, next) = page(marker)?;
        found.extend(
            names
                .into_iter()
                .filter(|name| name.to_lowercase().contains(words)),
        );
        let is_full = found.len() > NAMES_MAX;
        found.truncate(NAMES_MAX);
        match next {
            Some(next) if !is_full && started.elapsed() < NAMES_TIME_MAX => marker = next,
            next => return Ok((found, is_full || next.is_some())),
        }
    }
}

fn containers(services: &Services, account: &str, words: &str) -> Result<Names> {
    names(words, |marker| {
        let request = ListContainers {
            marker: Some(marker),
            max_results: Some(NAMES_STEP),
            ..ListContainers::default()
        };
        let page = services.blobs.list_containers(account, &request)?;
        let names = page.containers.into_iter().map(|(name, _)| name);
        Ok((names.collect(), page.next_marker))
    })
}

fn queues(services: &Services, account: &str, words: &str) -> Result<Names> {
    names(words, |marker| {
        let request = ListQueues {
            marker: &marker,
            maxresults: Some(NAMES_STEP.into()),
            ..ListQueues::default()
        };
        let page = services.queues.list_queues(account, request)?;
        let names = page.queues.into_iter().map(|queue| queue.name);
        Ok((names.collect(), page.next_marker))
    })
}

fn tables(services: &Services, account: &str, words: &str) -> Result<Names> {
    names(words, |marker| {
        let query = TableQuery {
            continuation: Some(marker.as_str()).filter(|marker| !marker.is_empty()),
            top: Some(NAMES_STEP),
            ..TableQuery::default()
        };
        let page = services.tables.query_tables(account, &query, &|| false)?;
        Ok((page.tables, page.next))
    })
}

/// The number of blobs of a container, up to [`COUNT_MAX`], or as many as are counted by `until`.
pub fn count_blobs(
    services: &Services,
    account: &str,
    container: &str,
    until: Instant,
) -> Result<Count> {
    let (mut number, mut marker) = (0, None);
    loop {
        let request = ListBlobs {
            marker,
            max_results: Some(COUNT_STEP),
            ..ListBlobs::default()
        };
        let page = services.blobs.list_blobs(account, container, &request)?;
        number += page.entries.len() as u64;
        marker = page.next_marker;
        if marker.is_none() || number >= COUNT_MAX || Instant::now() > until {
            return Ok((number, marker.is_some()));
        }
    }
}

/// Like [`count_blobs`], for the entities of a table.
pub fn count_entities(
    services: &Services,
    account: &str,
    table: &str,
    until: Instant,
) -> Result<Count> {
    let (mut number, mut from) = (0, None::<(String, String)>);
    loop {
        let query = Query {
            top: Some(COUNT_STEP),
            continuation: from
                .as_ref()
                .map(|(partition_key, row_key)| (&**partition_key, &**row_key)),
            ..Query::default()
        };
        let page = services
            .tables
            .query_entities(account, table, &query, &|| false)?;
        number += page.entities.len() as u64;
        from = page.next;
        if from.is_none() || number >= COUNT_MAX || Instant::now() > until {
            return Ok((number, from.is_some()));
        }
    }
}

/// A count as text: `10,000+`.
pub fn text((number, has_more): Count) -> String {
    let more = if has_more { "+" } else { "" };
    format!("{}{more}", lazurite_base::units::count(number))
}

/// Counts the items of some resources, as long as the time for all of them lasts.
pub fn counts<'a>(
    names: impl Iterator<Item = &'a str>,
    count: impl Fn(&str, Instant) -> Result<Count>,
) -> Vec<Option<Count>> {
    let until = Instant::now() + COUNT_TIME_MAX;
    // A resource that was deleted meanwhile has no count.
    let counted = names.map(|name| {
        let is_over = Instant::now() > until;
        if is_over {
            None
        } else {
            count(name, until).ok()
        }
    });
    counted.collect()
}
