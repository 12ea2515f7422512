//! Why a request was refused: the ETag or lease that it expected and the actual one, the last
//! request that changed the resource, and existing names similar to a missing one.

use crate::context::{Console, stored};
use crate::format::cut;
use crate::links;
use crate::nearest::closest;
use crate::requests::facts::{self, below_account, client, resource};
use lazurite_blob::{BlobEntry, ListBlobs, ListContainers};
use lazurite_protocol::date;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_queue::ListQueues;
use lazurite_services::requests::Record;
use lazurite_services::table::address::Address;
use lazurite_table::{Query, TableQuery};
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of existing names that are compared with a missing one.
const CANDIDATES_MAX: u32 = 1000;
/// Headers that make a request conditional.
const CONDITIONS: [&str; 5] = [
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "x-ms-lease-id",
];

/// The resource that a request changed: the one in its path, or the entity that it inserted.
fn changed(record: &Record) -> Option<String> {
    let method = record.method();
    let is_write = matches!(&*method, "PUT" | "POST" | "MERGE" | "PATCH" | "DELETE");
    if !is_write || record.is_error() {
        return None;
    }
    let location = record
        .response_header("location")
        .filter(|_| record.operation == "InsertEntity");
    Some(match location {
        Some(url) => {
            let path = url
                .split_once("://")
                .and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
            below_account(record, path.unwrap_or_default())
        }
        None => resource(record),
    })
}

/// The last earlier request that changed the same resource; with `leases`, the last one that
/// changed its lease.
fn changed_by(console: &Console, record: &Record, leases: bool) -> Option<Arc<Record>> {
    let (path, account) = (resource(record), facts::account(console, record));
    let found = console.requests.latest(1, |other| {
        other.number < record.number
            && other.service == record.service
            && other.account == record.account
            && (!leases || other.operation.starts_with("Lease"))
            && changed(other).is_some_and(|changed| changed == path)
            && facts::account(console, other) == account
            && console.shows_request(other)
    });
    found.into_iter().next()
}

/// A card that explains a conflict or a missing resource; empty for other requests.
pub fn met(console: &Console, record: &Record) -> Markup {
    let code = record.refusal.as_ref().map_or("", |why| &*why.code);
    if !matches!(record.status, 404 | 409 | 412) && code != "PopReceiptMismatch" {
        return html! {};
    }
    let by = changed_by(console, record, code.contains("Lease"));
    let was = |name: &str| by.as_ref().and_then(|by| by.response_header(name));
    let expected = CONDITIONS.map(|name| (format!("Expected {name}"), record.header(name)));
    let found = [
        ("ETag that was there".to_owned(), was("etag")),
        ("Lease that was there".to_owned(), was("x-ms-lease-id")),
    ];
    let facts = expected.into_iter().chain(found);
    let nearest = nearest(console, record, code).unwrap_or_default();
    html! {
        section {
            h2 { "Expected and found" }
            dl.facts {
                @for (name, value) in facts { @if let Some(value) = value { div { dt { (name) } dd { code { (cut(&value, 200)) } } } } }
                div { dt { "Changed last by" } dd { (change(by.as_deref())) } }
                @if !nearest.is_empty() { div { dt { "Nearest names" } dd { @for (index, name) in nearest.iter().enumerate() { @if index > 0 { ", " } code { (cut(name, 200)) } } } } }
            }
        }
    }
}

/// The last request that changed a resource, which is named as in its path. `account` may be one of
/// a fork.
pub fn last_change(console: &Console, service: ServiceKind, account: &str, path: &str) -> Markup {
    let found = console.requests.latest(1, |record| {
        record.service == service
            && record.account.as_deref() == Some(stored(account))
            && changed(record).is_some_and(|changed| changed == path)
            && facts::account(console, record).as_deref() == Some(account)
            && console.shows_request(record)
    });
    change(found.first().map(|record| &**record))
}

fn change(by: Option<&Record>) -> Markup {
    html! {
        @match by {
            Some(by) => {
                a href=(links::path(&["requests", &by.request_id], &[])) { (by.operation) " " (by.status) }
                " at " (date::iso8601(by.at))
                @let client = client(by);
                @if !client.is_empty() { " from " (client) }
            },
            None => "no request that is kept: by this console, inside a batch, or too long ago",
        }
    }
}

/// The names most similar to the one that a request found missing.
fn nearest(console: &Console, record: &Record, code: &str) -> Result<Vec<String>> {
    let account = facts::account(console, record);
    let Some(account) = account.filter(|_| record.status == 404) else {
        return Ok(Vec::new());
    };
    let account = &*account;
    let path = resource(record);
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    let missing_inside = !code.starts_with("Container") && !rest.is_empty();
    match record.service {
        ServiceKind::Blob if missing_inside => {
            let directory = rest.rfind('/').map_or("", |at| &rest[..=at]);
            let mut names = blobs(console, account, first, directory)?;
            if names.is_empty() {
                names = blobs(console, account, first, "")?;
            }
            Ok(closest(rest, names))
        }
        ServiceKind::Blob => Ok(closest(first, containers(console, account)?)),
        ServiceKind::Queue => Ok(closest(first, queues(console, account)?)),
        ServiceKind::Table => nearest_in_tables(console, account, &path, code),
    }
}

fn containers(console: &Console, account: &str) -> Result<Vec<String>> {
    let request = ListContainers {
        max_results: Some(CANDIDATES_MAX),
        ..ListContainers::default()
    };
    let (services, account) = console.at(account)?;
    let page = services.blobs.list_containers(account, &request)?;
    Ok(page.containers.into_iter().map(|(name, _)| name).collect())
}

fn queues(console: &Console, account: &str) -> Result<Vec<String>> {
    let request = ListQueues {
        maxresults: Some(CANDIDATES_MAX.into()),
        ..ListQueues::default()
    };
    let (services, account) = console.at(account)?;
    let page = services.queues.list_queues(account, request)?;
    Ok(page.queues.into_iter().map(|queue| queue.name).collect())
}

fn blobs(console: &Console, account: &str, container: &str, prefix: &str) -> Result<Vec<String>> {
    let request = ListBlobs {
        prefix: prefix.to_owned(),
        max_results: Some(CANDIDATES_MAX),
        ..ListBlobs::default()
    };
    let (services, account) = console.at(account)?;
    let page = services.blobs.list_blobs(account, container, &request)?;
    let names = page.entries.into_iter().filter_map(|entry| match entry {
        BlobEntry::Blob(listed) => Some(listed.name),
        BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
    });
    Ok(names.collect())
}

/// Row keys of the same partition if an entity is missing, otherwise names of tables.
fn nearest_in_tables(
    console: &Console,
    account: &str,
    path: &str,
    code: &str,
) -> Result<Vec<String>> {
    // Encoded again, because the path is decoded: a percent sign belongs to the name.
    let address = Address::parse(&links::encode(path))?;
    let (name, keys) = address.clone().names();
    let (services, account) = console.at(account)?;
    let tables = &services.tables;
    if !matches!(address, Address::Entity(..)) || code == "TableNotFound" {
        let query = TableQuery {
            top: Some(CANDIDATES_MAX),
            ..TableQuery::default()
        };
        return Ok(closest(
            &name,
            tables.query_tables(account, &query, &|| false)?.tables,
        ));
    }
    let filter = format!(
        "PartitionKey eq '{}'",
        keys.partition_key.replace('\'', "''")
    );
    let query = Query {
        filter: Some(&filter),
        top: Some(CANDIDATES_MAX),
        continuation: None,
        ..Query::default()
    };
    let page = tables.query_entities(account, &name, &query, &|| false)?;
    Ok(closest(
        &keys.row_key,
        page.entities
            .into_iter()
            .map(|entity| entity.row_key)
            .collect(),
    ))
}
