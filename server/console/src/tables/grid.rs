//! A table as a grid of entities, with the plan and the cost of its query.

use crate::context::Console;
use crate::format::{self, cut};
use crate::links::{self, TablePlace};
use crate::respond::{Done, Html, Page, SeeOther, Visit, written};
use crate::tables::filter::OPERATORS;
use crate::tables::{filter_builder, rows, transactions};
use crate::value_text::{CELL_BYTES_SHOWN, display, type_name};
use crate::{layout, selection};
use axum::extract::{Path, State};
use lazurite_base::units::count;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::table::plan_name;
use lazurite_table::{AccessKind, Entity, Query, Value};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of rows on a page by default.
const ROWS_DEFAULT: u32 = 100;
/// Bytes of markup: of a cell besides its text, of an empty cell for a property that an entity does
/// not have, and of a row besides its cells.
const CELL_BYTES: usize = 40;
const ABSENT_BYTES: usize = 56;
const ROW_BYTES: usize = 500;
/// Maximum number of columns of the grid. The page of an entity has all properties.
const COLUMNS_MAX: usize = 60;
/// Maximum duration of a page of a query.
const QUERY_TIME_MAX: Duration = Duration::from_secs(5);

pub async fn delete(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
) -> Page<SeeOther> {
    let path = links::path(&["tables", &place.account], &[]);
    written(console, path, Done::Deleted, move |console| {
        let (services, account) = console.at(&place.account)?;
        Ok(services.tables.delete_table(account, &place.table)?)
    })
    .await
}

/// One page of a query, and how long it took.
struct Rows {
    entities: Vec<Entity>,
    next: Option<(String, String)>,
    cost: lazurite_table::Cost,
    took: Duration,
    /// Whether the page ended because of its size, before its number of rows.
    is_cut: bool,
}

/// The page of a table.
pub fn page(console: &Console, place: &TablePlace, visit: &Visit) -> Result<Html> {
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
    let rows = read_rows(console, place, &query);
    // A missing table is an error page. Other errors, as for an invalid filter, are shown in this
    // page.
    let rows = match rows {
        Err(failure) if failure.status.as_u16() == 404 => return Err(failure),
        rows => rows,
    };
    let content = html! {
        (layout::trail(&[("Tables", links::path(&["tables", &place.account], &[]))], &place.table))
        h1 { (place.table) }
        (layout::note(console, visit))
        (transactions::note(visit, place))
        (filter_box(place, &filter, &chosen, top))
        (filter_builder::chips(place, &filter))
        @if let Ok(rows) = &rows { (names_of_properties(&rows.entities)) }
        @match &rows {
            Ok(rows) => { (cost(rows)) (bar(place, &filter, rows)) (entities(console, place, &filter, &chosen, rows)) (limits(place, (&filter, &chosen), (top, !visit.query.has("pk")), rows)) },
            Err(failure) => { (bad_filter(failure, &filter)) (bar_without_rows(place)) },
        }
        (rows::forms(console, place, &filter))
        (danger(console, place))
        (layout::script("table.js"))
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Tables",
        &place.table,
        content,
    ))
}

fn read_rows(console: &Console, place: &TablePlace, query: &Query<'_>) -> Result<Rows> {
    let started = Instant::now();
    let deadline = started + QUERY_TIME_MAX;
    let expired = || Instant::now() > deadline;
    let (services, stored) = console.at(&place.account)?;
    let page = services
        .tables
        .query_entities(stored, &place.table, query, &expired)?;
    let mut entities = page.entities;
    let mut next = page.next;
    let took = started.elapsed();
    let columns = columns(&entities).len().min(COLUMNS_MAX);
    let mut bytes = 0;
    let fitting = entities.iter().position(|entity| {
        bytes += row_bytes(entity, columns);
        bytes > format::ROWS_BYTES_MAX
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
    let shown = |key: &str| format::name(key, CELL_BYTES_SHOWN).into_string().len();
    let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
    // The keys appear encoded, in full, in the link and in the value of the box.
    let keys = 6 * (partition_key.len() + row_key.len());
    ROW_BYTES
        + keys
        + shown(partition_key)
        + shown(row_key)
        + cells.sum::<usize>()
        + absent * ABSENT_BYTES
}

/// Approximate number of bytes of a value in the grid, with its markup.
fn cell_bytes(value: &Value) -> usize {
    let text = match value {
        Value::String(text) => {
            format::escaped_bytes(&text[..text.floor_char_boundary(CELL_BYTES_SHOWN)])
        }
        Value::Binary(bytes) => (bytes.len() * 2).min(CELL_BYTES_SHOWN),
        _ => 40,
    };
    text + CELL_BYTES
}

fn filter_box(place: &TablePlace, filter: &str, columns: &str, top: u32) -> Markup {
    let plan = place.path(&["plan.json"], &[]);
    html! {
        form.filter method="get" role="search" data-plan=(plan) {
            label for="filter" { "Filter" }
            input #filter name="filter" value=(filter) data-filter placeholder="PartitionKey eq 'Sales' and Age gt 30" autocomplete="off" spellcheck="false";
            label.columns-choice { "Columns " input name="columns" value=(columns) placeholder="all" autocomplete="off" spellcheck="false"; }
            @if top != ROWS_DEFAULT { input type="hidden" name="top" value=(top); }
            button { "Query" }
            a.quiet.button href=(place.path(&["settings"], &[])) { "Settings" }
            (filter_builder::fields())
            p.limits data-plan-state role="status" {}
        }
    }
}

/// The bar above the rows.
fn bar(place: &TablePlace, filter: &str, rows: &Rows) -> Markup {
    let all = html! { @if filter.is_empty() { "all of the table" } @else { "all that the filter finds" } };
    let (buttons, all) = if rows.entities.is_empty() {
        (html! {}, None)
    } else {
        (rows::buttons(place), Some(all))
    };
    selection::bar(new_button(place), buttons, all)
}

fn bar_without_rows(place: &TablePlace) -> Markup {
    selection::bar(new_button(place), html! {}, None)
}

fn new_button(place: &TablePlace) -> Markup {
    html! { a.button href=(place.path(&["new"], &[])) { "New entity" } }
}

/// The names and types of the page's properties, for the completion in forms.
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

/// The names of the page's properties, in the order of their first occurrence.
fn columns(entities: &[Entity]) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in entities.iter().flat_map(|entity| &entity.properties) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    columns
}

/// The types that a property has on the page, as text.
fn types(entities: &[Entity], column: &str) -> String {
    let mut types: Vec<&str> = Vec::new();
    for value in entities.iter().filter_map(|entity| entity.property(column)) {
        if !types.contains(&type_name(value)) {
            types.push(type_name(value));
        }
    }
    types.join(", ")
}

/// The share of the page's rows that have a property; empty if all have it.
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

/// The grid. `chosen` has the columns to show, separated by commas; empty for all.
fn entities(
    console: &Console,
    place: &TablePlace,
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
            form #(selection::FORM) method="post" action=(place.path(&["rows"], &[])) data-plain {
                (layout::token(console))
                input type="hidden" name="filter" value=(filter);
                (entity_rows(place, &rows.entities, shown))
            }
            @if columns.len() > shown.len() {
                p.limits { "Showing " (shown.len()) " of " (columns.len()) " properties; open an entity for all of its own." }
            }
        }
    }
}

fn entity_rows(place: &TablePlace, entities: &[Entity], columns: &[&str]) -> Markup {
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Entities" {
            table.grid data-list {
                caption.hidden { "Entities in storage order" }
                thead { tr {
                    (selection::head())
                    @for key in ["PartitionKey", "RowKey"] { th scope="col" { (key) small { "String" } } }
                    @for column in columns { th scope="col" { (column) small { (types(entities, column)) (share(entities, column)) } } }
                    th scope="col" { "Timestamp" small { "DateTime" } }
                } }
                tbody { @for entity in entities { (entity_row(place, entity, columns)) } }
            }
        }
    }
}

fn entity_row(place: &TablePlace, entity: &Entity, columns: &[&str]) -> Markup {
    let (partition_key, row_key) = (entity.partition_key.as_str(), entity.row_key.as_str());
    let path = place.entity_path(partition_key, row_key);
    html! {
        tr {
            (selection::cell(&rows::selection(entity), row_key))
            td { (format::name(partition_key, CELL_BYTES_SHOWN)) }
            td { a href=(path) { (format::name(row_key, CELL_BYTES_SHOWN)) } }
            @for column in columns {
                @match entity.property(column) {
                    Some(value @ (Value::Int32(_) | Value::Int64(_) | Value::Double(_))) => td.number { (display(value, CELL_BYTES_SHOWN)) },
                    Some(value) => td { (display(value, CELL_BYTES_SHOWN)) },
                    None => td.absent { span.hidden { "absent" } },
                }
            }
            td { (format::time(entity.timestamp.to_system_time())) }
        }
    }
}

fn limits(
    place: &TablePlace,
    (filter, columns): (&str, &str),
    (top, is_first): (u32, bool),
    rows: &Rows,
) -> Markup {
    html! {
        p.limits {
            "Showing " (count(rows.entities.len() as u64)) " in storage order"
            @if rows.is_cut { " of " (count(rows.cost.returned as u64)) " that were read: wide rows fill the page" }
            "."
            @let path = place.path(&[], &[("filter", filter), ("columns", columns), ("top", &top.to_string())]);
            @if !is_first { " " a href=(path) { "First page" } }
            @if let Some((partition_key, row_key)) = &rows.next {
                @let more = format!("{path}&pk={}&rk={}", links::encode(partition_key), links::encode(row_key));
                " " a rel="next" href=(more) { "Next page" }
            } @else { " End of list." }
        }
    }
}

/// A filter that cannot be read, with a mark at the place that the message names, and what it may
/// hold.
fn bad_filter(failure: &Failure, filter: &str) -> Markup {
    html! {
        div.alert role="alert" {
            p { b { (failure.code) } " " (failure.message) }
            @if let Some(at) = position_in(&failure.message, filter) {
                pre.filter-mistake { (cut(&filter[..at], 300)) mark { (filter[at..].chars().take(20).collect::<String>()) @if at == filter.len() { " " } } }
            }
            p {
                "A condition is a property, an operator and a value: "
                @for (index, (operator, sign)) in OPERATORS.iter().enumerate() { @if index > 0 { ", " } code { (operator) } " (" (sign) ")" }
                ". Conditions are joined by " code { "and" } ", " code { "or" } ", " code { "not" } " and parentheses."
            }
            p { "Values: " code { "'text'" } ", " code { "42" } ", " code { "42L" } ", " code { "4.2" } ", " code { "true" } ", " code { "datetime'2026-12-01T00:00:00Z'" } ", " code { "guid'…'" } ", " code { "X'00ff'" } "." }
        }
    }
}

/// The byte in a filter at the position that a message names; `None` if it names none.
fn position_in(message: &str, filter: &str) -> Option<usize> {
    let (_, rest) = message.split_once("position ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let at: usize = digits.parse().ok()?;
    Some(filter.floor_char_boundary(at.min(filter.len())))
}

fn danger(console: &Console, place: &TablePlace) -> Markup {
    html! {
        details.danger {
            summary { "Delete this table" }
            form method="post" action=(place.path(&["delete"], &[])) {
                (layout::token(console))
                p { "All its entities are deleted with it." }
                button.danger { "Delete " (place.table) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
