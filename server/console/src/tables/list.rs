//! The list of tables.

use crate::context::Console;
use crate::lists::{Kind, Listed};
use crate::respond::Visit;
use crate::{links, resource_tree, selection};
use lazurite_protocol::response::error::Result;
use lazurite_table::TableQuery;
use maud::html;

/// Number of tables on a page.
const TABLES_SHOWN: u32 = 300;
pub const TABLES: Kind = Kind {
    section: "Tables",
    folder: "tables",
    title: "Tables",
    noun: "table",
    pattern: "[A-Za-z][A-Za-z0-9]{2,62}",
    rule: "3 to 63 letters and digits, a letter first",
    contents: "entities",
    list,
    create: |console, account, name| {
        let (services, account) = console.at(account)?;
        Ok(services.tables.create_table(account, name)?)
    },
    delete: |console, account, name| {
        let (services, account) = console.at(account)?;
        Ok(services.tables.delete_table(account, name)?)
    },
};

fn list(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let from = visit.parameter("from");
    let prefix = visit.parameter("prefix").replace('\'', "''");
    // Names have letters and digits only, which are all below '{'.
    let filter = format!("TableName ge '{prefix}' and TableName lt '{prefix}{{'");
    let filter = Some(filter).filter(|_| !prefix.is_empty());
    let query = TableQuery {
        filter: filter.as_deref(),
        continuation: Some(from.as_str()).filter(|from| !from.is_empty()),
        top: Some(TABLES_SHOWN),
    };
    let (services, stored) = console.at(account)?;
    let service = &services.tables;
    let page = service.query_tables(stored, &query, &|| false)?;
    let counts = resource_tree::counts(page.tables.iter().map(String::as_str), |name, until| {
        resource_tree::count_entities(&services, stored, name, until)
    });
    Ok(Listed {
        count: page.tables.len(),
        next: page.next,
        table: html! {
            thead { tr { (selection::head()) th scope="col" { "Name" } th.number scope="col" { "Entities" } } }
            tbody { @for (table, count) in page.tables.iter().zip(&counts) { tr { (selection::cell(table, table)) td { a href=(links::path(&["tables", account, table], &[])) { (table) } } td.number { @if let Some(count) = count { (resource_tree::text(*count)) } } } } }
        },
    })
}
