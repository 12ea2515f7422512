//! The pages with which test suites control the server, as JSON: its clock and its faults.
//!
//! Access follows the rules of the console (`guard.rs`), even if the console is off. A write needs
//! no token, because the clients of these pages are programs. Browsers name the origin of a page
//! with each write, and other origins are refused here. A server with an account that has a key of
//! its own may hold data that matters, so its clock and faults can be changed only with
//! `--console-password`.

use crate::context::Console;
use crate::guard::guard_programs;
use crate::respond::{HandedBody, Json, Page, Visit};
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Extension, Router};
use lazurite_services::clock;
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::faults;
use lazurite_services::request::body::{DOCUMENT_BYTES_MAX, collect};
use serde_json::Value;
use std::sync::Arc;

pub fn routes(console: &Arc<Console>) -> Router<Arc<Console>> {
    let layer = from_fn_with_state(console.clone(), guard_programs);
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
    let change = move || console.move_clock(&services.clock, &fork, &body);
    Ok(Json(on_blocking_pool(change).await?))
}

async fn show_faults(State(console): State<Arc<Console>>) -> Json<Value> {
    Json(faults::page::show(&console.services().faults))
}

async fn change_faults(
    State(console): State<Arc<Console>>,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let change = move || {
        let services = console.services();
        faults::page::change(&services.faults, &services.accounts, &body)
    };
    Ok(Json(on_blocking_pool(change).await?))
}

async fn add_faults(
    State(console): State<Arc<Console>>,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    let body = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
    let add = move || {
        let services = console.services();
        faults::page::add(&services.faults, &services.accounts, &body)
    };
    Ok(Json(on_blocking_pool(add).await?))
}

/// Removes the rules with the seed in the query, or all rules without one.
async fn clear_faults(State(console): State<Arc<Console>>, visit: Visit) -> Page<Json<Value>> {
    let faults = &console.services().faults;
    Ok(Json(match visit.query.get("seed") {
        Some(seed) => faults::page::remove(faults, &seed)?,
        None => faults::page::clear(faults),
    }))
}
