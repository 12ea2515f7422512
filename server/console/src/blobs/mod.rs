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
use crate::lists;
use crate::respond::page_of;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    let path = |name: &str| format!("/_lazurite/blobs/{{account}}/{{container}}{name}");
    // The name of a blob is a query parameter.
    let blob = |name: &str| path(&format!("/blob{name}"));
    let confirm_or_delete = page_of(directories::confirm).post(blob::delete);
    lists::routes(&containers::CONTAINERS)
        .route("/_lazurite/blobs/{account}/tags", get(tags::page))
        .route(&path(""), page_of(tree::page).put(tree::upload))
        .route(&path("/directory"), post(directories::create))
        .route(&path("/selected"), post(selected::act))
        .route(
            &path("/delete"),
            get(containers::confirm).post(containers::delete),
        )
        .route(&path("/lease/break"), post(containers::break_lease))
        .route(&blob(""), page_of(blob::page))
        .route(&blob("/blocks.json"), page_of(parts::json))
        .route(&blob("/content"), get(blob::content))
        .route(&blob("/compare"), page_of(compare::page))
        .route(&blob("/delete"), confirm_or_delete)
        .route(&blob("/copy"), post(rename::rename))
        .route(&blob("/access"), page_of(access::page).post(access::save))
        .route(&blob("/access/below"), post(access::below))
        .route(&blob("/text"), post(text::save))
        .route(&blob("/snapshot"), post(history::snapshot))
        .route(&blob("/restore"), post(history::restore))
        .route(&blob("/undelete"), post(history::undelete))
        .route(&blob("/lease/break"), post(change::break_lease))
        .route(&blob("/tier"), post(change::set_tier))
        .route(&blob("/tags"), post(change::set_tags))
        .route(&blob("/metadata"), post(change::set_metadata))
        .route(&blob("/properties"), post(change::set_properties))
}
