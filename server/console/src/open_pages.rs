//! The pages for programs: health, advice, heat map, identity. They have their own rules about who
//! may read them.

use crate::context::Console;
use crate::health;
use crate::respond::{Connection, HandedBody, Refusal};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, any, get};
use axum::{Extension, Router};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::advisor;
use lazurite_services::auth::identity;
use lazurite_services::browser_guard;
use lazurite_services::pages::{PREFIX, RefusedAsService};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/health", any(health))
        .route("/_lazurite/advice", advice(advisor::Page::Advice))
        .route("/_lazurite/heatmap", advice(advisor::Page::HeatMap))
        .route(
            "/_lazurite/record",
            advice(advisor::Page::Record { after: None }),
        )
        .route("/_lazurite/identity", any(identity))
}

async fn health(State(console): State<Arc<Console>>) -> Response<Body> {
    health::health(&console.services(), console.settings.durability)
}

/// The route of a page of the advisor.
fn advice(page: advisor::Page) -> MethodRouter<Arc<Console>> {
    get(
        move |State(console): State<Arc<Console>>,
              Extension(connection): Extension<Connection>,
              request: Request| async move {
            as_service(advise(&console, &connection, page, &request))
        },
    )
}

fn advise(
    console: &Console,
    connection: &Connection,
    page: advisor::Page,
    request: &Request,
) -> Result<Response<Body>> {
    advisor::answer(
        &console.advisor,
        console.all_accounts(),
        page,
        connection.origin.peer.ip(),
        &connection.host,
        request.headers(),
        connection.origin.now,
    )
}

async fn identity(
    State(console): State<Arc<Console>>,
    Extension(Connection { origin, host }): Extension<Connection>,
    Extension(body): Extension<HandedBody>,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let is_asked = identity::is_asked(console.all_accounts(), &origin, &parts, &host);
    if !console.settings.accepts_bearer_tokens || !is_asked {
        return Refusal(nothing_there(&console, parts.uri.path())).into_response();
    }
    if let Err(failure) = browser_guard::check_origin(&parts.headers, &host) {
        return as_service(Err(failure));
    }
    as_service(identity::answer(&origin, &parts, &host, body.take()).await)
}

/// A response whose failure the error layer of the service renders.
fn as_service(answer: Result<Response<Body>>) -> Response<Body> {
    answer.unwrap_or_else(|failure| {
        let mut response = StatusCode::OK.into_response();
        response.extensions_mut().insert(RefusedAsService(failure));
        response
    })
}

/// Answers any other path with a list of the pages that exist.
pub async fn unknown(State(console): State<Arc<Console>>, request: Request) -> Refusal {
    Refusal(nothing_there(&console, request.uri().path()))
}

fn nothing_there(console: &Console, path: &str) -> Failure {
    let pages = if console.settings.is_on {
        "/_lazurite/ (the console), /_lazurite/blobs, /_lazurite/queues, /_lazurite/tables, /_lazurite/requests, /_lazurite/advisor, \
         /_lazurite/state, /_lazurite/engine, /_lazurite/api/requests, /_lazurite/api/status (all that is JSON), "
    } else {
        ""
    };
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    let message = format!(
        "There is no page '{path}' below /_lazurite/. There are: {pages}/_lazurite/health, /_lazurite/advice, /_lazurite/heatmap, /_lazurite/clock, /_lazurite/faults, \
         /_lazurite/state/snapshots."
    );
    Failure::new(404, "PageNotFound", message)
}
