//! The pages for programs that reset, snapshot, restore and fork the whole store, as JSON. The
//! rules of access are those of `test_pages.rs`.

use crate::context::Console;
use crate::endpoints;
use crate::guard::guard_programs;
use crate::respond::{HandedBody, Json, Page, Visit};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use axum::{Extension, Router};
use lazurite_protocol::accounts::name_of_fork;
use lazurite_services::pages::Address;
use lazurite_services::request::body::{DOCUMENT_BYTES_MAX, collect};
use lazurite_services::state::diff::WantedDiff;
use lazurite_services::state::page::{self, WantedFork};
use serde_json::Value;
use std::sync::Arc;

pub fn routes(console: &Arc<Console>) -> Router<Arc<Console>> {
    let layer = from_fn_with_state(console.clone(), guard_programs);
    Router::new()
        .route("/_lazurite/state/reset", post(reset))
        .route("/_lazurite/state/diff", get(diff))
        .route("/_lazurite/state/snapshots", get(list_snapshots))
        .route(
            "/_lazurite/state/snapshots/{name}",
            put(take_snapshot).delete(delete_snapshot),
        )
        .route(
            "/_lazurite/state/snapshots/{name}/restore",
            post(restore_snapshot),
        )
        .route("/_lazurite/state/forks", get(list_forks).post(make_fork))
        .route("/_lazurite/state/forks/{name}", delete(release_fork))
        .route_layer(layer)
}

async fn reset(
    State(console): State<Arc<Console>>,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    Ok(Json(page::reset(&console.stores, &body).await?))
}

/// Compares two states of the store, limited to the accounts that the console shows.
async fn diff(State(console): State<Arc<Console>>, visit: Visit) -> Page<Json<Value>> {
    let accounts = console.accounts().map(str::to_owned).collect();
    let wanted = WantedDiff::read(|name| visit.parameter(name), accounts)?;
    Ok(Json(page::diff(&console.stores, wanted).await?))
}

async fn list_snapshots(State(console): State<Arc<Console>>) -> Page<Json<Value>> {
    Ok(Json(page::list(&console.stores).await?))
}

async fn take_snapshot(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
) -> Page<(StatusCode, Json<Value>)> {
    let taken = page::take_snapshot(&console.stores, name).await?;
    Ok((StatusCode::CREATED, Json(taken)))
}

async fn restore_snapshot(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
) -> Page<Json<Value>> {
    Ok(Json(page::restore(&console.stores, name).await?))
}

async fn delete_snapshot(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
) -> Page<Json<Value>> {
    Ok(Json(page::delete_snapshot(&console.stores, name).await?))
}

async fn list_forks(State(console): State<Arc<Console>>) -> Json<Value> {
    Json(page::list_forks(&console.stores))
}

/// Makes a fork. The answer contains the connection string of the account that the body names, or
/// of the first account.
async fn make_fork(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Extension(body): Extension<HandedBody>,
) -> Page<(StatusCode, Json<Value>)> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let wanted = WantedFork::read(&body)?;
    let first = console.accounts().next().unwrap_or_default().to_owned();
    let account = wanted.account.unwrap_or(first);
    console.check_account(&account)?;
    let fork = console.stores.fork_from(wanted.name, wanted.source).await?;
    let mut shown = page::shown_fork(&fork);
    let name = name_of_fork(&account, &fork.name);
    let endpoint = |address: &Address| {
        let url = endpoints::endpoint(&visit, address, &name);
        (address.service.label().to_owned(), url.into())
    };
    let endpoints = console.addresses().iter().map(endpoint);
    shown["account"] = name.clone().into();
    shown["endpoints"] = Value::Object(endpoints.collect());
    let fork = Some(&*fork.name);
    shown["connectionString"] =
        endpoints::connection_string(&console, &visit, &account, fork).into();
    Ok((StatusCode::CREATED, Json(shown)))
}

async fn release_fork(
    State(console): State<Arc<Console>>,
    Path(name): Path<String>,
) -> Page<Json<Value>> {
    console.stores.release_fork(&name)?;
    Ok(Json(serde_json::json!({})))
}
