//! The pages with which test suites control the server, as JSON: its clock and its faults.
//!
//! Visitors of the console may use them, also if the console itself is off. Their clients are
//! programs, so a write needs no token: browsers name the origin of a page with each write, and
//! other origins are refused here. A server with an account that has a key of its own may hold data
//! that matters, so its clock and faults can be changed only with the password.

use crate::clock::{self, Clock};
use crate::connection::on_blocking_pool;
use crate::console::Console;
use crate::console::guard::{check_site, check_visitor, refused};
use crate::console::respond::{Connection, HandedBody, Json, Page, Refusal, Visit};
use crate::faults;
use crate::request::body::{DOCUMENT_BYTES_MAX, collect};
use crate::response::error::{Failure, Result, common};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HeaderMap;
use axum::http::{Method, Response};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use serde_json::Value;
use std::sync::Arc;

pub fn routes(console: &Arc<Console>) -> Router<Arc<Console>> {
    let layer = from_fn_with_state(console.clone(), guard);
    Router::new()
        .route("/_lazurite/clock", get(show_clock).put(change_clock))
        .route(
            "/_lazurite/faults",
            get(show_faults)
                .put(change_faults)
                .post(add_faults)
                .delete(clear_faults),
        )
        .route_layer(layer)
}

/// The layer in front of pages for test suites.
pub(super) async fn guard(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let (connection, headers) = (
        request.extensions().get().cloned(),
        request.headers().clone(),
    );
    let method = request.method().clone();
    match check(&console, connection, &method, &headers).await {
        Ok(()) => next.run(request).await,
        Err(failure) => Refusal(failure).into_response(),
    }
}

async fn check(
    console: &Console,
    connection: Option<Connection>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<()> {
    let connection = connection.ok_or_else(|| Failure::from(common::INTERNAL_ERROR))?;
    check_visitor(console, &connection, headers).await?;
    check_site(method, headers, &connection.host)?;
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    check_shows_all(console)
}

/// Refuses to change what belongs to all accounts, unless the console shows all.
pub(super) fn check_shows_all(console: &Console) -> Result<()> {
    if !console.shows_all() {
        return Err(refused(
            "This server has accounts with keys of their own: its clock, its faults and its state are changed only with a password. Start \
             Lazurite with --console-password.",
        ));
    }
    Ok(())
}

async fn show_clock(State(console): State<Arc<Console>>, visit: Visit) -> Page<Json<Value>> {
    let services = console.services_of(&visit.parameter("fork"))?;
    Ok(Json(clock::page::show(&services.clock)))
}

async fn change_clock(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let fork = visit.parameter("fork");
    let services = console.services_of(&fork)?;
    let change = move || move_clock(&console, &services.clock, &fork, &body);
    Ok(Json(on_blocking_pool(change).await?))
}

/// Moves the clock of the store, or of the fork that is named. Blocks.
pub(super) fn move_clock(
    console: &Console,
    clock: &Clock,
    fork: &str,
    body: &[u8],
) -> Result<Value> {
    if fork.is_empty() {
        console.stores.note_for_secondary()?;
    }
    clock::page::change(clock, body)
}

async fn show_faults(State(console): State<Arc<Console>>) -> Json<Value> {
    Json(faults::page::show(&console.services().faults))
}

async fn change_faults(
    State(console): State<Arc<Console>>,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let change = move || faults::page::change(&console.services().faults, &body);
    Ok(Json(on_blocking_pool(change).await?))
}

async fn add_faults(
    State(console): State<Arc<Console>>,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let add = move || faults::page::add(&console.services().faults, &body);
    Ok(Json(on_blocking_pool(add).await?))
}

/// Removes all rules, or those with the seed that the address names.
async fn clear_faults(State(console): State<Arc<Console>>, visit: Visit) -> Page<Json<Value>> {
    let faults = &console.services().faults;
    Ok(Json(match visit.query.get("seed") {
        Some(seed) => faults::page::remove(faults, &seed)?,
        None => faults::page::clear(faults),
    }))
}
