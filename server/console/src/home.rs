//! Home: the running server, how to connect to it, its contents, and the latest errors.

use crate::advisor::card::card;
use crate::context::Console;
use crate::layout::{self, copy_button};
use crate::requests::rows::rows;
use crate::respond::{Html, Json, Page, Visit, made};
use crate::{endpoints, links, sample};
use axum::extract::State;
use lazurite_base::units::{count, duration, size};
use lazurite_blob::ListContainers;
use lazurite_engine::Stats;
use lazurite_protocol::response::error::Result;
use lazurite_queue::ListQueues;
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::platform;
use lazurite_table::TableQuery;
use maud::{Markup, html};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of names of each kind that are counted.
const COUNTED_MAX: usize = 1000;
/// Maximum number of failed requests on Home.
const ERRORS_SHOWN: usize = 8;

/// A number of names, and whether there are more than were counted.
#[derive(Default, Clone, Copy)]
struct Counted {
    number: usize,
    has_more: bool,
}

impl Counted {
    fn text(self) -> String {
        format!(
            "{}{}",
            count(self.number as u64),
            if self.has_more { "+" } else { "" }
        )
    }
}

struct Facts {
    /// For each account: the numbers of containers, queues and tables.
    accounts: Vec<(String, [Counted; 3])>,
    /// `None` for a store in memory, or if the directory cannot be read.
    directory_bytes: Option<u64>,
    stats: Stats,
    is_read_only: bool,
}

pub async fn page(State(console): State<Arc<Console>>, visit: Visit) -> Page {
    made(console, move |console| home_page(console, &visit)).await
}

fn home_page(console: &Console, visit: &Visit) -> Result<Html> {
    let facts = facts(console)?;
    let content = html! {
        h1 { "Lazurite" }
        (layout::note(console, visit))
        @if facts.is_read_only {
            p.alert role="alert" { "An earlier failure of the disk made the store read-only: see the log of the server." }
        }
        @for (account, counts) in &facts.accounts { (account_section(console, visit, account, *counts)) }
        section.cards aria-label="State" { (state(console, &facts)) }
        (errors(console))
    };
    Ok(layout::page(console, "Home", "Home", content))
}

fn state(console: &Console, facts: &Facts) -> Markup {
    let settings = &console.settings;
    let kept = console.requests.totals();
    html! {
        div.card {
            h2 { "Data" }
            @match facts.directory_bytes {
                Some(bytes) => p.figure { (size(bytes)) },
                None => p.figure { (size(facts.stats.memtable_bytes + facts.stats.sstable_bytes + facts.stats.value_log_bytes)) },
            }
            @match &settings.directory {
                Some(directory) => p.path { (directory.display()) },
                None => p { "in memory" },
            }
            p { "up " (duration(console.started.elapsed())) }
        }
        a.card href="/_lazurite/requests" {
            h2 { "Requests" } p.figure { (count(kept.seen)) } p { (count(kept.errors)) " of them refused or failed" }
        }
        (card(console))
    }
}

fn account_section(
    console: &Console,
    visit: &Visit,
    account: &str,
    counts: [Counted; 3],
) -> Markup {
    let connection = endpoints::connection_string(console, visit, account, None);
    let kinds = [
        ("Containers", "blobs"),
        ("Queues", "queues"),
        ("Tables", "tables"),
    ];
    html! {
        section {
            h2 { "Account " code { (account) } }
            h3 { "Connection string" }
            div.copied { code { (connection) } (copy_button(&connection)) }
            p.actions {
                a.button href=(links::path(&["connect", account], &[])) { "Connect a program" }
                a.quiet.button href="/_lazurite/docs/first-steps" { "First steps" }
                a.quiet.button href="/_lazurite/guide" { "Design tables" }
                a.quiet.button href="/_lazurite/docs" { "Documentation" }
            }
            @if is_empty(counts) { (sample::offer(console, account)) }
            div.cards {
                @for ((title, kind), counted) in kinds.iter().zip(counts) {
                    a.card href=(links::path(&[kind, account], &[])) { h3 { (title) } p.figure { (counted.text()) } }
                }
            }
            (endpoints(console, visit, account))
        }
    }
}

fn is_empty(counts: [Counted; 3]) -> bool {
    counts.iter().all(|counted| counted.number == 0)
}

/// What the current store holds, in words.
pub fn contents(console: &Console) -> String {
    let mut sums = [Counted::default(); 3];
    for account in console.accounts() {
        for (sum, more) in sums
            .iter_mut()
            .zip(counts(console, account).unwrap_or_default())
        {
            sum.number += more.number;
            sum.has_more |= more.has_more;
        }
    }
    let [containers, queues, tables] = sums.map(Counted::text);
    format!("containers: {containers}, queues: {queues}, tables: {tables}")
}

fn endpoints(console: &Console, visit: &Visit, account: &str) -> Markup {
    html! {
        table.plain {
            caption { "Endpoints" }
            tbody {
                @for address in console.addresses() {
                    @let url = endpoints::endpoint(visit, address, account);
                    tr { th scope="row" { (address.service.title()) } td { code { (url) } } td.act { (copy_button(&url)) } }
                }
            }
        }
    }
}

fn errors(console: &Console) -> Markup {
    let failed = console
        .requests
        .latest_errors(ERRORS_SHOWN, |record| console.shows_request(record));
    html! {
        section {
            h2 { "Last errors" }
            @if failed.is_empty() {
                p.empty { "No request was refused or failed since the start." }
            } @else {
                div.scroll { (rows(&failed, "Last errors")) }
            }
        }
    }
}

fn facts(console: &Console) -> Result<Facts> {
    let mut accounts = Vec::new();
    for account in console.accounts() {
        accounts.push((account.to_owned(), counts(console, account)?));
    }
    Ok(Facts {
        accounts,
        directory_bytes: console
            .stores
            .current_directory()
            .as_deref()
            .and_then(bytes_of_files),
        stats: console.services().stats(),
        is_read_only: console.services().failure().is_some(),
    })
}

fn counts(console: &Console, account: &str) -> Result<[Counted; 3]> {
    let services = console.services();
    let containers = ListContainers {
        max_results: Some(COUNTED_MAX as u32),
        ..ListContainers::default()
    };
    let containers = services.blobs.list_containers(account, &containers)?;
    let queues = ListQueues {
        maxresults: Some(COUNTED_MAX as i64),
        ..ListQueues::default()
    };
    let queues = services.queues.list_queues(account, queues)?;
    let tables = services
        .tables
        .query_tables(account, &TableQuery::default(), &|| false)?;
    let counted = |number, has_more| Counted { number, has_more };
    Ok([
        counted(
            containers.containers.len(),
            containers.next_marker.is_some(),
        ),
        counted(queues.queues.len(), queues.next_marker.is_some()),
        counted(tables.tables.len(), tables.next.is_some()),
    ])
}

/// Number of bytes of the files in a store's directory; `None` if it cannot be read.
fn bytes_of_files(directory: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(directory).ok()?;
    let metadata = entries.flatten().filter_map(|entry| entry.metadata().ok());
    Some(
        metadata
            .filter(std::fs::Metadata::is_file)
            .map(|file| file.len())
            .sum(),
    )
}

/// Bytes that the engine uses for live data: without garbage in the value log, but with old
/// versions of rows that a compaction will remove.
fn live_bytes(stats: &Stats) -> u64 {
    stats.memtable_bytes + stats.sstable_bytes + stats.value_log_live_bytes
}

/// The forks as JSON, with the bytes of their files.
fn forks(console: &Console) -> Vec<serde_json::Value> {
    let stores = &console.stores;
    let forks = stores.list_forks();
    let forks = forks
        .iter()
        .map(|fork| serde_json::json!({ "name": fork.name, "bytes": stores.fork_bytes(fork) }));
    forks.collect()
}

/// `/_lazurite/api/status`: the facts on Home as JSON.
pub async fn status(State(console): State<Arc<Console>>) -> Page<Json<serde_json::Value>> {
    let shared = console.clone();
    let (facts, disk_bytes, forks) = on_blocking_pool(move || {
        let disk_bytes = shared.stores.bytes_on_disk();
        Ok((facts(&shared)?, disk_bytes, forks(&shared)))
    })
    .await?;
    let snapshots = console.stores.list_snapshots().await?;
    let snapshots = snapshots.iter();
    let snapshots = snapshots
        .map(|snapshot| serde_json::json!({ "name": snapshot.name, "bytes": snapshot.bytes }));
    let endpoints = console.addresses().iter().map(|address| {
        let place = SocketAddr::new(address.ip, address.port);
        serde_json::json!({ "service": address.service.label(), "address": place.to_string() })
    });
    let accounts = facts.accounts.iter().map(|(name, [containers, queues, tables])| {
        serde_json::json!({
            "name": name, "containers": containers.number, "queues": queues.number, "tables": tables.number,
            "has_more": containers.has_more || queues.has_more || tables.has_more,
        })
    });
    let kept = console.requests.totals();
    Ok(Json(serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "durability": console.settings.durability,
        "directory": console.settings.directory,
        "directory_bytes": facts.directory_bytes,
        "endpoints": endpoints.collect::<Vec<_>>(),
        "live_bytes": live_bytes(&facts.stats),
        "disk_bytes": disk_bytes,
        "snapshots": snapshots.collect::<Vec<_>>(),
        "forks": forks,
        "memory_bytes": platform::resident_bytes(),
        "uptime_seconds": console.started.elapsed().as_secs(),
        "is_read_only": facts.is_read_only,
        "requests": {"seen": kept.seen, "errors": kept.errors, "kept": kept.kept},
        "accounts": accounts.collect::<Vec<_>>(),
    })))
}
