//! Blobs: containers, their names as a tree that is read page by page, and one blob with its
//! history.

mod access;
mod archive;
mod between;
mod blob;
mod change;
mod chosen;
mod compare;
mod conflict;
mod containers;
mod count;
mod data_files;
mod directories;
mod history;
mod parts;
mod place;
mod properties;
mod rename;
mod selected;
mod tags;
mod text;
mod tree;
mod words;

pub use place::{Place, check_changeable};

use crate::context::Console;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/blobs", get(containers::page))
        .route(
            "/_lazurite/blobs/{account}",
            get(containers::page).post(containers::create),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}",
            get(tree::page).put(tree::upload),
        )
        .route("/_lazurite/blobs/{account}/selected", post(containers::act))
        .route("/_lazurite/blobs/{account}/tags", get(tags::page))
        .route(
            "/_lazurite/blobs/{account}/{container}/directory",
            post(directories::create),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/selected",
            post(selected::act),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/delete",
            get(containers::confirm).post(containers::delete),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/lease/break",
            post(containers::break_lease),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/blob/blocks.json",
            get(parts::json),
        )
        .merge(blob_routes())
}

/// The routes of one blob's pages. Its name is a query parameter.
fn blob_routes() -> Router<Arc<Console>> {
    let path = |name: &str| format!("/_lazurite/blobs/{{account}}/{{container}}/blob{name}");
    Router::new()
        .route(&path(""), get(blob::page))
        .route(&path("/content"), get(blob::content))
        .route(&path("/compare"), get(compare::page))
        .route(
            &path("/delete"),
            get(directories::confirm).post(blob::delete),
        )
        .route(&path("/copy"), post(rename::rename))
        .route(&path("/access"), get(access::page).post(access::save))
        .route(&path("/access/below"), post(access::below))
        .route(&path("/text"), post(text::save))
        .route(&path("/snapshot"), post(history::snapshot))
        .route(&path("/restore"), post(history::restore))
        .route(&path("/undelete"), post(history::undelete))
        .route(&path("/lease/break"), post(change::break_lease))
        .route(&path("/tier"), post(change::set_tier))
        .route(&path("/tags"), post(change::set_tags))
        .route(&path("/metadata"), post(change::set_metadata))
        .route(&path("/properties"), post(change::set_properties))
}
