//! The list of tables.

use crate::context::Console;
use crate::form::Form;
use crate::links;
use crate::lists::{self, Kind, Listed};
use crate::respond::{Done, Page, SeeOther, Visit, written};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_protocol::response::error::Result;
use lazurite_table::TableQuery;
use maud::html;
use std::sync::Arc;

/// Number of tables on a page.
const TABLES_SHOWN: u32 = 300;
const TABLES: Kind = Kind {
    section: "Tables",
    folder: "tables",
    title: "Tables",
    noun: "table",
    pattern: "[A-Za-z][A-Za-z0-9]{2,62}",
    rule: "3 to 63 letters and digits, a letter first",
};

pub async fn page(
    State(console): State<Arc<Console>>,
    account: Option<Path<String>>,
    visit: Visit,
) -> Page {
    lists::page(console, account, visit, &TABLES, listed).await
}

fn listed(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let from = visit.parameter("from");
    let query = TableQuery {
        continuation: Some(from.as_str()).filter(|from| !from.is_empty()),
        top: Some(TABLES_SHOWN),
        ..TableQuery::default()
    };
    let services = console.services();
    let service = &services.tables;
    let page = service.query_tables(account, &query, &|| false)?;
    Ok(Listed {
        count: page.tables.len(),
        next: page.next,
        table: html! {
            thead { tr { th scope="col" { "Name" } } }
            tbody { @for table in &page.tables { tr { td { a href=(links::path(&["tables", account, table], &[])) { (table) } } } } }
        },
    })
}

pub async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let table = form.required("table")?.to_owned();
    let path = links::path(&["tables", &account, &table], &[]);
    written(console, path, Done::Created, move |console| {
        Ok(console.services().tables.create_table(&account, &table)?)
    })
    .await
}
