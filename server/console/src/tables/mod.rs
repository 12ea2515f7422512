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
use axum::Router;
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/tables", get(list::page))
        .route(
            "/_lazurite/tables/{account}",
            get(list::page).post(list::create),
        )
        .route("/_lazurite/tables/{account}/selected", post(list::act))
        .route("/_lazurite/tables/{account}/{table}", get(grid::page))
        .route(
            "/_lazurite/tables/{account}/{table}/delete",
            post(grid::delete),
        )
        .route("/_lazurite/tables/{account}/{table}/new", get(entity::new))
        .route(
            "/_lazurite/tables/{account}/{table}/rows",
            post(selected::act),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/rows/change",
            post(rows::change),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/rows/convert",
            post(rows::convert),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/undo",
            get(undo::page).post(undo::undo),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/plan.json",
            get(filter_builder::plan),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/import",
            post(rows::import),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/export.csv",
            get(rows::export_csv),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/export.json",
            get(rows::export_json),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/entity",
            get(entity::page).post(entity::save),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/entity/delete",
            post(entity::delete),
        )
}
