//! Tables: the list, a grid of entities with its plan and cost, and a form for one entity with all
//! eight types.

use crate::console::form::Form;
use crate::console::layout::{self, count, cut};
use crate::console::lists::{self, Kind, Listed};
use crate::console::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::console::value_text::{TYPES, display, edit_text, parse, type_name};
use crate::console::{Console, filter_builder, rows, undo};
use crate::response::error::{Failure, Result};
use crate::table::plan_name;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use lazurite_table::{
    AccessKind, ETag, Entity, IfMatch, Operation, Query, TableQuery, Value, Write,
};
use maud::{Markup, html};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tables of a page.
const TABLES_SHOWN: u32 = 300;
/// Rows of a page, unless the address asks for more.
const ROWS_DEFAULT: u32 = 100;
/// Bytes of markup: of a cell besides its text, of an empty cell for a property that an entity does
/// not have, and of a row besides its cells.
const CELL_BYTES: usize = 40;
const ABSENT_BYTES: usize = 56;
const ROW_BYTES: usize = 500;
/// Bytes of one cell in the grid.
const CELL_BYTES_SHOWN: usize = 120;
/// Columns of the grid; the page of an entity has all its properties.
const COLUMNS_MAX: usize = 60;
/// How long a page of a query may take.
const QUERY_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a value that the form of an entity loads unasked.
const VALUE_BYTES_MAX: usize = 4 << 10;
/// Empty rows of the form for more properties.
const EMPTY_ROWS: usize = 3;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/tables", get(list))
        .route("/_lazurite/tables/{account}", get(list).post(create))
        .route("/_lazurite/tables/{account}/{table}", get(grid))
        .route("/_lazurite/tables/{account}/{table}/delete", post(delete))
        .route("/_lazurite/tables/{account}/{table}/new", get(new))
        .route(
            "/_lazurite/tables/{account}/{table}/rows",
            post(rows::delete),
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
            get(entity).post(save),
        )
        .route(
            "/_lazurite/tables/{account}/{table}/entity/delete",
            post(delete_entity),
        )
}

const TABLES: Kind = Kind {
    section: "Tables",
    folder: "tables",
    title: "Tables",
    noun: "table",
    pattern: "[A-Za-z][A-Za-z0-9]{2,62}",
    rule: "3 to 63 letters and digits, a letter first",
};

async fn list(
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
            tbody { @for table in &page.tables { tr { td { a href=(layout::path(&["tables", account, table], &[])) { (table) } } } } }
        },
    })
}

async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let table = form.required("table")?.to_owned();
    let path = layout::path(&["tables", &account, &table], &[]);
    written(console, path, Done::Created, move |console| {
        Ok(console.services().tables.create_table(&account, &table)?)
    })
    .await
}

async fn delete(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
) -> Page<SeeOther> {
    let path = layout::path(&["tables", &account], &[]);
    written(console, path, Done::Deleted, move |console| {
        Ok(console.services().tables.delete_table(&account, &table)?)
    })
    .await
}

/// One page of a query, and how long it took.
struct Rows {
    entities: Vec<Entity>,
    next: Option<(String, String)>,
    cost: lazurite_table::Cost,
    took: Duration,
    /// The page ended because it was full, not because of its number of rows.
    is_cut: bool,
}

async fn grid(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        grid_page(console, &account, &table, &visit)
    })
    .await
}

fn grid_page(console: &Console, account: &str, table: &str, visit: &Visit) -> Result<Html> {
    let filter = filter_builder::wanted(visit)?;
    let chosen = visit.parameter("columns");
    let from = (visit.parameter("pk"), visit.parameter("rk"));
    let top = visit.parameter("top").parse().unwrap_or(ROWS_DEFAULT);
    let top = top.clamp(1, 1000);
    let query = Query {
        filter: Some(filter.as_str()),
        top: Some(top),
        continuation: visit.query.has("pk").then_some((&from.0, &from.1)),
        ..Query::default()
    };
    let rows = read_rows(console, account, table, &query);
    // A malformed filter is reported next to the filter; any other error is a page of its own.
    let rows = match rows {
        Err(failure) if failure.status.as_u16() == 404 => return Err(failure),
        rows => rows,
    };
    let content = html! {
        (layout::trail(&[("Tables", layout::path(&["tables", account], &[]))], table))
        h1 { (table) }
        (layout::note(visit))
        (undo::note(visit, account, table))
        (filter_box((account, table), &filter, &chosen, top))
        (filter_builder::chips(account, table, &filter))
        @if let Ok(rows) = &rows { (names_of_properties(&rows.entities)) }
        @match &rows {
            Ok(rows) => { (cost(rows)) (entities(console, (account, table), &filter, &chosen, rows)) (limits((account, table), (&filter, &chosen), top, rows)) },
            Err(failure) => (bad_filter(failure)),
        }
        p.actions {
            a.button href=(layout::path(&["tables", account, table, "new"], &[])) { "Insert an entity" }
        }
        (rows::forms(console, account, table, &filter))
        (danger(console, account, table))
        (layout::script("table.js"))
    };
    Ok(layout::page(console, "Tables", table, content))
}

fn read_rows(console: &Console, account: &str, table: &str, query: &Query<'_>) -> Result<Rows> {
    let started = Instant::now();
    let deadline = started + QUERY_TIME_MAX;
    let expired = || Instant::now() > deadline;
    let page = console
        .services()
        .tables
        .query_entities(account, table, query, &expired)?;
    let mut entities = page.entities;
    let mut next = page.next;
    let took = started.elapsed();
    let columns = columns(&entities).len().min(COLUMNS_MAX);
    let mut bytes = 0;
    let fitting = entities.iter().position(|entity| {
        bytes += row_bytes(entity, columns);
        bytes > layout::ROWS_BYTES_MAX
    });
    let is_cut = fitting.is_some();
    if let Some(first_left) = fitting
        .map(|index| index.max(1))
        .filter(|&index| index < entities.len())
    {
        let rest = &entities[first_left];
        next = Some((rest.partition_key.clone(), rest.row_key.clone()));
        entities.truncate(first_left);
    }
    Ok(Rows {
        entities,
        next,
        cost: page.cost,
        took,
        is_cut,
    })
}

/// Upper bound of the bytes of an entity in a grid of this many columns, with markup. Counts
/// properties that are not shown, too.
fn row_bytes(entity: &Entity, columns: usize) -> usize {
    let cells = entity.properties.iter().map(|(_, value)| cell_bytes(value));
    let absent = columns.saturating_sub(entity.properties.len());
    let shown = |key: &str| {
        let start = &key[..key.floor_char_boundary(CELL_BYTES_SHOWN)];
        layout::escaped_bytes(start)
    };
    let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
    // Whole, and encoded, in the address and in the value of the box.
    let keys = 6 * (partition_key.len() + row_key.len());
    ROW_BYTES
        + keys
        + shown(partition_key)
        + shown(row_key)
        + cells.sum::<usize>()
        + absent * ABSENT_BYTES
}

/// Bytes of a value in the grid, markup included.
fn cell_bytes(value: &Value) -> usize {
    let text = match value {
        Value::String(text) => {
            layout::escaped_bytes(&text[..text.floor_char_boundary(CELL_BYTES_SHOWN)])
        }
        Value::Binary(bytes) => (bytes.len() * 2).min(CELL_BYTES_SHOWN),
        _ => 40,
    };
    text + CELL_BYTES
}

fn filter_box((account, table): (&str, &str), filter: &str, columns: &str, top: u32) -> Markup {
    let plan = layout::path(&["tables", account, table, "plan.json"], &[]);
    html! {
        form.filter method="get" role="search" data-plan=(plan) {
            label for="filter" { "Filter" }
            input #filter name="filter" value=(filter) data-filter placeholder="PartitionKey eq 'Sales' and Age gt 30" autocomplete="off" spellcheck="false";
            label.columns-choice { "Columns " input name="columns" value=(columns) placeholder="all" autocomplete="off" spellcheck="false"; }
            @if top != ROWS_DEFAULT { input type="hidden" name="top" value=(top); }
            button { "Query" }
            (filter_builder::fields())
            p.limits data-plan-state role="status" {}
        }
    }
}

/// The properties of the page with their types, for the completion of the filter and of forms.
fn names_of_properties(entities: &[Entity]) -> Markup {
    let keys = ["PartitionKey", "RowKey"].map(|key| (key, "String".to_owned()));
    let columns = columns(entities).into_iter().take(COLUMNS_MAX);
    let columns = columns.map(|column| (column, types(entities, column)));
    html! {
        datalist #properties {
            @for (name, types) in keys.into_iter().chain(columns) { option value=(name) data-types=(types) {} }
            option value="Timestamp" data-types="DateTime" {}
        }
    }
}

fn cost(rows: &Rows) -> Markup {
    let cost = &rows.cost;
    let (own, azure) = (plan_name(cost.access), plan_name(cost.azure_access));
    html! {
        dl.facts {
            div { dt { "Plan" } dd { (own) } }
            @if own != azure && cost.azure_access != AccessKind::Nothing {
                div.warned { dt { "On Azure" } dd { (azure) } }
            }
            div { dt { "Examined" } dd { (count(cost.examined as u64)) } }
            @if let Some(rows) = cost.azure_examined.filter(|rows| rows.rows != cost.examined as u64) {
                div.warned { dt { "Examined on Azure" } dd { (rows) } }
            }
            div { dt { "Returned" } dd { (count(cost.returned as u64)) } }
            div { dt { "Time" } dd { (format!("{:.1} ms", rows.took.as_secs_f64() * 1000.0)) } }
        }
    }
}

/// The properties of the page, in the order in which they are met.
fn columns(entities: &[Entity]) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in entities.iter().flat_map(|entity| &entity.properties) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    columns
}

/// The types that a property has on the page.
fn types(entities: &[Entity], column: &str) -> String {
    let mut types: Vec<&str> = Vec::new();
    for value in entities.iter().filter_map(|entity| entity.property(column)) {
        if !types.contains(&type_name(value)) {
            types.push(type_name(value));
        }
    }
    types.join(", ")
}

/// In which share of the page's rows a property occurs; nothing if all have it.
fn share(entities: &[Entity], column: &str) -> String {
    let holders = entities
        .iter()
        .filter(|entity| entity.property(column).is_some());
    match holders.count() {
        0 => " · in no row".to_owned(),
        all if all == entities.len() => String::new(),
        count => format!(" · in {} % of rows", (count * 100 / entities.len()).max(1)),
    }
}

/// `chosen` names the columns to show, with commas between them; empty for all.
fn entities(
    console: &Console,
    (account, table): (&str, &str),
    filter: &str,
    chosen: &str,
    rows: &Rows,
) -> Markup {
    let columns = columns(&rows.entities);
    let chosen: Vec<_> = chosen
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let wanted = if chosen.is_empty() {
        columns.clone()
    } else {
        chosen
    };
    let shown = &wanted[..wanted.len().min(COLUMNS_MAX)];
    html! {
        @if rows.entities.is_empty() { p.empty { "No entity on this page." } } @else {
            form method="post" action=(layout::path(&["tables", account, table, "rows"], &[])) {
                (layout::token(console))
                input type="hidden" name="filter" value=(filter);
                (entity_rows((account, table), &rows.entities, shown))
                (rows::acts(account, table))
            }
            @if columns.len() > shown.len() {
                p.limits { "Showing " (shown.len()) " of " (columns.len()) " properties; open an entity for all of its own." }
            }
        }
    }
}

fn entity_rows((account, table): (&str, &str), entities: &[Entity], columns: &[&str]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Entities" {
            table.grid data-list {
                caption.hidden { "Entities in storage order" }
                thead { tr {
                    th.pick scope="col" { span.hidden { "Selected" } }
                    @for key in ["PartitionKey", "RowKey"] { th scope="col" { (key) small { "String" } } }
                    @for column in columns { th scope="col" { (column) small { (types(entities, column)) (share(entities, column)) } } }
                    th scope="col" { "Timestamp" small { "DateTime" } }
                } }
                tbody { @for entity in entities { (entity_row(account, table, entity, columns)) } }
            }
        }
    }
}

fn entity_row(account: &str, table: &str, entity: &Entity, columns: &[&str]) -> Markup {
    let (partition_key, row_key) = (entity.partition_key.as_str(), entity.row_key.as_str());
    let path = entity_path(account, table, partition_key, row_key);
    html! {
        tr {
            td.pick { input type="checkbox" name="row" value=(rows::selection(entity)) aria-label=(format!("Select {row_key}")); }
            td { (cut(partition_key, CELL_BYTES_SHOWN)) }
            td { a href=(path) { @if row_key.is_empty() { i { "empty" } } @else { (cut(row_key, CELL_BYTES_SHOWN)) } } }
            @for column in columns {
                @match entity.property(column) {
                    Some(value @ (Value::Int32(_) | Value::Int64(_) | Value::Double(_))) => td.number { (display(value, CELL_BYTES_SHOWN)) },
                    Some(value) => td { (display(value, CELL_BYTES_SHOWN)) },
                    None => td.absent { span.hidden { "absent" } },
                }
            }
            td { (layout::time(entity.timestamp.to_system_time())) }
        }
    }
}

/// Keys are written even where they are empty: that is a key as well.
fn entity_path(account: &str, table: &str, partition_key: &str, row_key: &str) -> String {
    let path = layout::path(&["tables", account, table, "entity"], &[]);
    format!(
        "{path}?pk={}&rk={}",
        layout::encode(partition_key),
        layout::encode(row_key)
    )
}

fn limits(
    (account, table): (&str, &str),
    (filter, columns): (&str, &str),
    top: u32,
    rows: &Rows,
) -> Markup {
    html! {
        p.limits {
            "Showing " (count(rows.entities.len() as u64)) " in storage order"
            @if rows.is_cut { "; the page is full" }
            "."
            @if let Some((partition_key, row_key)) = &rows.next {
                @let path = layout::path(&["tables", account, table], &[("filter", filter), ("columns", columns), ("top", &top.to_string())]);
                @let more = format!("{path}&pk={}&rk={}", layout::encode(partition_key), layout::encode(row_key));
                " " a rel="next" href=(more) { "Next page" }
            } @else { " That is the end." }
        }
    }
}

fn bad_filter(failure: &Failure) -> Markup {
    html! {
        div.alert role="alert" {
            p { b { (failure.code) } " " (failure.message) }
        }
    }
}

fn danger(console: &Console, account: &str, table: &str) -> Markup {
    html! {
        details.danger {
            summary { "Delete this table" }
            form method="post" action=(layout::path(&["tables", account, table, "delete"], &[])) {
                (layout::token(console))
                p { "All its entities are deleted with it." }
                button.danger { "Delete " (table) }
            }
        }
    }
}

async fn new(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
) -> Page {
    let content = html! {
        (entity_trail(&account, &table, "New entity"))
        h1 { "New entity" }
        (entity_form(&console, &account, &table, None, &FormPart::default()))
    };
    Ok(layout::page(&console, "Tables", "New entity", content))
}

fn entity_trail(account: &str, table: &str, name: &str) -> Markup {
    let tables = ("Tables", layout::path(&["tables", account], &[]));
    layout::trail(
        &[
            tables,
            (table, layout::path(&["tables", account, table], &[])),
        ],
        name,
    )
}

async fn entity(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        entity_page(console, &account, &table, &visit)
    })
    .await
}

fn entity_page(console: &Console, account: &str, table: &str, visit: &Visit) -> Result<Html> {
    let (partition_key, row_key) = (visit.parameter("pk"), visit.parameter("rk"));
    let services = console.services();
    let tables = &services.tables;
    let entity = tables.get_entity(account, table, &partition_key, &row_key)?;
    let content = html! {
        (entity_trail(account, table, &entity.row_key))
        h1 { (cut(&entity.partition_key, 200)) " / " (cut(&entity.row_key, 200)) }
        (layout::note(visit))
        (undo::note(visit, account, table))
        dl.facts {
            div { dt { "Timestamp" } dd { (entity.timestamp.to_full_text().to_string()) } }
            div { dt { "ETag" } dd { code { (entity.etag().to_text()) } } }
            div { dt { "Size" } dd { (layout::size(lazurite_table::entity_bytes(&entity) as u64)) } }
        }
        (entity_form(console, account, table, Some(&entity), &FormPart::of(visit)))
        details.danger {
            summary { "Delete this entity" }
            form method="post" action=(layout::path(&["tables", account, table, "entity", "delete"], &[])) {
                (layout::token(console))
                (keys_of(&entity))
                p { "Deletes it only if it is unchanged since this page was made." }
                button.danger { "Delete the entity" }
            }
        }
    };
    Ok(layout::page(console, "Tables", &entity.row_key, content))
}

fn keys_of(entity: &Entity) -> Markup {
    html! {
        input type="hidden" name="pk" value=(entity.partition_key);
        input type="hidden" name="rk" value=(entity.row_key);
        input type="hidden" name="etag" value=(entity.etag().to_text());
    }
}

/// The part of an entity that a form is to show.
#[derive(Default)]
struct FormPart {
    /// The property whose value is in the form however long it is.
    loaded: String,
    /// The first property.
    from: usize,
}

impl FormPart {
    fn of(visit: &Visit) -> FormPart {
        FormPart {
            loaded: visit.parameter("load"),
            from: visit.parameter("from").parse().unwrap_or(0),
        }
    }

    /// The first property that is shown, and the rows from there on, as many as fit into a page.
    fn rows(&self, account: &str, table: &str, entity: &Entity) -> (usize, Vec<Markup>) {
        let rows_from = |from: usize| {
            let properties = entity.properties.iter().skip(from);
            let rows = properties.map(|(name, value)| {
                let text = edit_text(value);
                if text.len() > VALUE_BYTES_MAX && *name != self.loaded {
                    long_row((account, table), entity, name, value)
                } else {
                    property_row(name, type_name(value), &text)
                }
            });
            (from, layout::fitting_rows(rows))
        };
        let last = entity.properties.len().saturating_sub(1);
        let (from, rows) = rows_from(self.from.min(last));
        let mut names = entity.properties.iter().map(|(name, _)| name);
        let loaded = names.position(|name| *name == self.loaded);
        match loaded.filter(|loaded| !(from..from + rows.len()).contains(loaded)) {
            Some(loaded) => rows_from(loaded),
            None => (from, rows),
        }
    }
}

/// Which properties a form shows, if they are not all. The others stay as they are.
fn form_limits(path: &str, shown: Range<usize>, count: usize) -> Markup {
    if shown.len() == count {
        return html! {};
    }
    html! {
        input type="hidden" name="from" value=(shown.start);
        input type="hidden" name="until" value=(shown.end);
        p.limits {
            "Showing properties " (shown.start + 1) " to " (shown.end) " of " (count) "; the others stay as they are."
            @if shown.start > 0 { " " a href=(path) { "First properties" } }
            @if shown.end < count { " " a rel="next" href=(format!("{path}&from={}", shown.end)) { "Next properties" } }
        }
    }
}

fn entity_form(
    console: &Console,
    account: &str,
    table: &str,
    entity: Option<&Entity>,
    part: &FormPart,
) -> Markup {
    let count = entity.map_or(0, |entity| entity.properties.len());
    let shown = entity.map(|entity| part.rows(account, table, entity));
    let (from, rows) = shown.unwrap_or_default();
    let path =
        entity.map(|entity| entity_path(account, table, &entity.partition_key, &entity.row_key));
    html! {
        form method="post" action=(layout::path(&["tables", account, table, "entity"], &[])) {
            (layout::token(console))
            @match entity {
                Some(entity) => (keys_of(entity)),
                None => div.fields {
                    label { "PartitionKey " input name="pk" autocomplete="off"; }
                    label { "RowKey " input name="rk" autocomplete="off"; }
                },
            }
            div.scroll {
                table.edit {
                    caption.hidden { "Properties" }
                    thead { tr { th scope="col" { "Property" } th scope="col" { "Type" } th scope="col" { "Value" } } }
                    tbody {
                        @for row in &rows { (row) }
                        @for _ in 0..EMPTY_ROWS { (property_row("", "String", "")) }
                    }
                }
            }
            @if let Some(path) = path { (form_limits(&path, from..from + rows.len(), count)) }
            p.limits { "A property without a name is left out: a null is a property that does not exist. Binary is in hexadecimal digits. A filter finds values of the type that it is written with: after a change from String to Int32, Age eq '30' no longer finds the entity, and Age eq 30 does." }
            p.warned role="status" data-type-hint hidden {}
            (layout::script("table.js"))
            button { @if entity.is_some() { "Save" } @else { "Insert" } }
        }
    }
}

/// A property whose value is too long to be loaded unasked. It is kept as it is.
fn long_row((account, table): (&str, &str), entity: &Entity, name: &str, value: &Value) -> Markup {
    let path = entity_path(account, table, &entity.partition_key, &entity.row_key);
    html! {
        tr {
            td { input type="hidden" name="keep" value=(name); (name) }
            td { (type_name(value)) }
            td {
                code { (display(value, CELL_BYTES_SHOWN)) } " "
                a href=(format!("{path}&load={}", layout::encode(name))) { "Load the value of " (name) }
            }
        }
    }
}

fn property_row(name: &str, type_name: &str, value: &str) -> Markup {
    let label = if name.is_empty() {
        "new property"
    } else {
        name
    };
    let rows = value.lines().count().clamp(1, 12);
    html! {
        tr {
            td { input name="name" value=(name) aria-label=(format!("Name of {label}")) autocomplete="off"; }
            td { select name="type" aria-label=(format!("Type of {label}")) { @for known in TYPES { option selected[known == type_name] { (known) } } } }
            // The first line break in a text area is dropped by browsers.
            td { textarea name="value" rows=(rows) aria-label=(format!("Value of {label}")) { "\n" (value) } }
        }
    }
}

/// The properties of a form. Browsers send line breaks as CR LF, so a value that differs only in
/// line breaks is kept.
fn properties(form: &Form, before: Option<&Entity>) -> Result<Vec<(String, Value)>> {
    let fields = form
        .all("name")
        .zip(form.all("type"))
        .zip(form.all("value"));
    // Long values that were not loaded stay as they are, and so do properties that the form did not
    // show.
    let stored = before.map_or(&[][..], |entity| &entity.properties);
    let number = |name: &str| form.get(name).and_then(|text| text.parse().ok());
    let from = number("from").unwrap_or(0);
    let until = number("until");
    let until = until.unwrap_or(stored.len());
    let has = |field: &str, name: &str| form.all(field).any(|value| value == name);
    let is_kept = |(index, (name, _)): &(usize, &(String, Value))| {
        !(from..until).contains(index) && !has("name", name) || has("keep", name)
    };
    let kept = stored.iter().enumerate().filter(is_kept);
    let (kept, behind): (Vec<_>, Vec<_>) = kept.partition(|(index, _)| *index < until);
    let owned = |(_, property): (usize, &(String, Value))| property.clone();
    let mut properties: Vec<_> = kept.into_iter().map(owned).collect();
    for ((name, type_name), text) in fields.filter(|((name, _), _)| !name.is_empty()) {
        let text = text.replace("\r\n", "\n");
        let value = parse(type_name, &text).ok_or_else(|| {
            let message = format!(
                "'{}' is not a value of the type {type_name} (property {name}).",
                &text[..text.floor_char_boundary(100)]
            );
            Failure::new(400, "InvalidInput", message)
        })?;
        let old = before.and_then(|entity| entity.property(name));
        let is_unchanged = match (&value, old) {
            (Value::String(new), Some(Value::String(old))) => old.replace("\r\n", "\n") == *new,
            _ => false,
        };
        let value = old.filter(|_| is_unchanged).cloned().unwrap_or(value);
        properties.push((name.to_owned(), value));
    }
    properties.extend(behind.into_iter().map(owned));
    Ok(properties)
}

async fn save(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let (partition_key, row_key) = (form.text("pk").to_owned(), form.text("rk").to_owned());
    let etag = form.get("etag").map(ETag::parse).transpose()?;
    let id = console.edits.next_id();
    let from = form.get("from").unwrap_or("0");
    let path = entity_path(&account, &table, &partition_key, &row_key);
    let path = format!("{path}&edit={id}&from={}", layout::encode(from));
    written(console, path, Done::Saved, move |console| {
        let (write, before) = match etag {
            None => (Write::Insert, None),
            Some(etag) => {
                let services = console.services();
                let before =
                    services
                        .tables
                        .get_entity(&account, &table, &partition_key, &row_key)?;
                (Write::Update(IfMatch::ETag(etag)), Some(before))
            }
        };
        let entity = Entity::new(partition_key, row_key, properties(&form, before.as_ref())?);
        undo::execute(
            console,
            (&account, &table),
            id,
            vec![Operation { write, entity }],
        )
    })
    .await
}

async fn delete_entity(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let (partition_key, row_key) = (form.text("pk").to_owned(), form.text("rk").to_owned());
    let etag = ETag::parse(form.text("etag"))?;
    let id = console.edits.next_id();
    let path = layout::path(&["tables", &account, &table], &[("edit", &id.to_string())]);
    written(console, path, Done::Deleted, move |console| {
        let operation = Operation {
            write: Write::Delete(IfMatch::ETag(etag)),
            entity: Entity::new(partition_key, row_key, Vec::new()),
        };
        undo::execute(console, (&account, &table), id, vec![operation])
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_a_form_do_not_change_a_value() {
        let stored = vec![("Note".to_owned(), Value::String("a\r\nb".to_owned()))];
        let entity = Entity::new("p", "r", stored.clone());
        let form =
            Form::parse(b"name=Note&type=String&value=a%0D%0Ab&name=&type=String&value=").unwrap();
        assert_eq!(properties(&form, Some(&entity)).unwrap(), stored);
        let changed = properties(&form, None).unwrap();
        assert_eq!(changed[0].1, Value::String("a\nb".to_owned()));
        assert!(properties(&Form::parse(b"name=N&type=Int32&value=x").unwrap(), None).is_err());
    }

    #[test]
    fn a_value_that_was_not_loaded_is_kept() {
        let long = (
            "Long".to_owned(),
            Value::String("a".repeat(VALUE_BYTES_MAX + 1)),
        );
        let entity = Entity::new("p", "r", vec![long.clone()]);
        let form = Form::parse(b"keep=Long&name=N&type=Int32&value=1").unwrap();
        let saved = properties(&form, Some(&entity)).unwrap();
        assert_eq!(saved, [long, ("N".to_owned(), Value::Int32(1))]);
        assert_eq!(properties(&form, None).unwrap().len(), 1);
    }

    #[test]
    fn properties_that_a_form_does_not_show_are_kept_in_their_places() {
        let property = |name: &str, number| (name.to_owned(), Value::Int32(number));
        let stored = ["A", "B", "C", "D"].map(|name| property(name, 1)).to_vec();
        let entity = Entity::new("p", "r", stored);
        let form = |text: &str| {
            let form = Form::parse(text.as_bytes()).unwrap();
            properties(&form, Some(&entity)).unwrap()
        };
        assert_eq!(
            form("from=1&until=3&name=B&type=Int32&value=2&name=New&type=Int32&value=3"),
            [("A", 1), ("B", 2), ("New", 3), ("D", 1)].map(|(name, number)| property(name, number))
        );
        // One that is written is not kept next to it.
        assert_eq!(
            form("from=0&until=1&name=D&type=Int32&value=2").len(),
            3,
            "D, B and C"
        );
        assert_eq!(form("from=x&until=").len(), 0);
    }

    #[test]
    fn columns_are_the_union_of_the_page_in_the_order_met() {
        let with = |properties: &[(&str, Value)]| {
            let owned = properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()));
            Entity::new("p", "r", owned.collect())
        };
        let page = [
            with(&[("A", Value::Int32(1))]),
            with(&[("B", Value::Int32(1)), ("A", Value::Boolean(true))]),
        ];
        assert_eq!(columns(&page), ["A", "B"]);
        assert_eq!(types(&page, "A"), "Int32, Boolean");
    }
}
