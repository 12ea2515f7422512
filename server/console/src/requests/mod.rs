//! Requests: the routes of the list and of one request.

mod again;
mod batch;
mod body;
mod calls;
mod code;
mod detail;
mod facts;
mod filter;
mod groups;
mod har;
mod list;
mod live;
pub mod related;
pub mod rows;
mod whole_body;

use crate::context::Console;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/requests", get(list::page))
        .route("/_lazurite/requests/live", get(live::events))
        .route("/_lazurite/requests.har", get(har::export))
        .route("/_lazurite/requests/{id}", get(detail::page))
        .route("/_lazurite/requests/{id}/again", post(again::send))
        .route(
            "/_lazurite/requests/{id}/body/{side}",
            get(whole_body::page),
        )
        .route("/_lazurite/api/requests", get(list::records))
        .route("/_lazurite/api/requests/{id}", get(detail::json))
}
