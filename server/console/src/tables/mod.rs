//! Tables: the routes of the list, of one table and of one entity.

mod entity;
mod entity_json;
mod filter;
mod filter_builder;
mod grid;
mod list;
mod rows;
mod selected;
mod transactions;
mod undo;

use crate::context::Console;
use crate::lists;
use crate::respond::page_of;
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    let path = |name: &str| format!("/_lazurite/tables/{{account}}/{{table}}{name}");
    lists::routes(&list::TABLES)
        .route(&path(""), page_of(grid::page))
        .route(&path("/delete"), post(grid::delete))
        .route(&path("/new"), get(entity::new))
        .route(&path("/rows"), post(selected::act))
        .route(&path("/rows/change"), post(rows::change))
        .route(&path("/rows/convert"), post(rows::convert))
        .route(&path("/undo"), page_of(undo::page).post(undo::undo))
        .route(&path("/plan.json"), page_of(filter_builder::plan))
        .route(&path("/import"), post(rows::import))
        .route(&path("/export.csv"), get(rows::export_csv))
        .route(&path("/export.json"), get(rows::export_json))
        .route(&path("/entity"), page_of(entity::page).post(entity::save))
        .route(&path("/entity/delete"), post(entity::delete))
}
