//! Advice: the findings of the advisor about the workload, and the heat map of partitions.
//! `open_pages.rs` has the same as JSON, for programs.
//!
//! Pages show only the accounts that the console shows, and never more of a list than fits into a
//! page.

mod advice;
pub mod card;
mod heat;
mod load;
mod names;
mod partition;
mod wanted;

use crate::context::Console;
use axum::Router;
use axum::routing::get;
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/advisor", get(advice::page))
        .route("/_lazurite/advisor/heat", get(heat::page))
        .route("/_lazurite/advisor/partition", get(partition::page))
}
