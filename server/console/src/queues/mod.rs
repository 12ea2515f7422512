//! Queues: the routes of the list, of one queue and of one message.

mod acts;
mod list;
mod message;
mod moves;
mod queue;
mod selected;
mod text;

use crate::context::Console;
use crate::lists;
use crate::respond::page_of;
use axum::Router;
use axum::routing::post;
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    let path = |name: &str| format!("/_lazurite/queues/{{account}}/{{queue}}{name}");
    lists::routes(&list::QUEUES)
        .route(&path(""), page_of(queue::page).post(queue::put))
        .route(&path("/selected"), post(selected::act))
        .route(&path("/clear"), post(queue::clear))
        .route(&path("/delete"), post(queue::delete))
        .route(&path("/take"), post(message::take))
        .route(
            &path("/message"),
            page_of(message::page).post(message::change),
        )
}
