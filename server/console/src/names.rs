//! `/_lazurite/api/names`: containers, queues and tables, for the palette of the console.

use crate::context::Console;
use crate::links;
use crate::respond::{Json, Page};
use axum::extract::State;
use lazurite_blob::ListContainers;
use lazurite_protocol::response::error::Result;
use lazurite_queue::ListQueues;
use lazurite_services::connection::on_blocking_pool;
use lazurite_table::TableQuery;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of names of each kind in each account.
const NAMES_MAX: u32 = 500;

pub async fn names(State(console): State<Arc<Console>>) -> Page<Json<Value>> {
    let shared = console.clone();
    let names = on_blocking_pool(move || {
        let mut names = Vec::new();
        for account in shared.accounts() {
            names.extend(names_of(&shared, account)?);
        }
        Ok(names)
    });
    Ok(Json(json!({ "names": names.await? })))
}

fn names_of(console: &Console, account: &str) -> Result<Vec<Value>> {
    let services = console.services();
    let place = |kind: &str, section: &str, name: &str| json!({"name": name, "kind": kind, "path": links::path(&[section, account, name], &[])});
    let request = ListContainers {
        max_results: Some(NAMES_MAX),
        ..ListContainers::default()
    };
    let containers = services
        .blobs
        .list_containers(account, &request)?
        .containers;
    let request = ListQueues {
        maxresults: Some(NAMES_MAX.into()),
        ..ListQueues::default()
    };
    let queues = services.queues.list_queues(account, request)?.queues;
    let query = TableQuery {
        top: Some(NAMES_MAX),
        ..TableQuery::default()
    };
    let tables = services
        .tables
        .query_tables(account, &query, &|| false)?
        .tables;
    let containers = containers
        .iter()
        .map(|(name, _)| place("container", "blobs", name));
    let queues = queues
        .iter()
        .map(|queue| place("queue", "queues", &queue.name));
    let tables = tables.iter().map(|name| place("table", "tables", name));
    Ok(containers.chain(queues).chain(tables).collect())
}
