//! Queues: the routes of the list, of one queue and of one message.

mod acts;
mod list;
mod message;
mod moves;
mod queue;
mod selected;
mod text;

use crate::context::Console;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/queues", get(list::page))
        .route(
            "/_lazurite/queues/{account}",
            get(list::page).post(list::create),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}",
            get(queue::page).post(queue::put),
        )
        .route("/_lazurite/queues/{account}/selected", post(list::act))
        .route(
            "/_lazurite/queues/{account}/{queue}/selected",
            post(selected::act),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}/clear",
            post(queue::clear),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}/delete",
            post(queue::delete),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}/take",
            post(message::take),
        )
        .route(
            "/_lazurite/queues/{account}/{queue}/message",
            get(message::page).post(message::change),
        )
}
