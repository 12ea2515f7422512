//! The page of an edit of entities, which shows its changes and undoes it.

use crate::context::Console;
use crate::edits::Change;
use crate::form::Form;
use crate::format;
use crate::links::TablePlace;
use crate::respond::{Done, Html, Page, SeeOther, Visit, written};
use crate::tables::transactions;
use crate::value_text::{display, type_name};
use crate::{layout, links};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_base::units;
use lazurite_protocol::response::error::Result;
use lazurite_table::{Entity, Value};
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of properties shown for a row, and of bytes of each value.
const PROPERTIES_SHOWN: usize = 40;
const VALUE_BYTES_SHOWN: usize = 120;

pub fn page(console: &Console, place: &TablePlace, visit: &Visit) -> Result<Html> {
    let id = visit.parameter("edit").parse().unwrap_or(0);
    let edit = console.edits.find(id, place)?;
    let rows = format::fitting_rows(edit.changes.iter().map(change_rows));
    let content = html! {
        (layout::trail(&[("Tables", links::path(&["tables", &place.account], &[])), (&place.table, place.path(&[], &[]))], "Edit"))
        h1 { "Edit of " (units::counted(edit.changes.len() as u64, "row")) }
        form.actions method="post" action=(place.path(&["undo"], &[])) {
            (layout::token(console))
            input type="hidden" name="edit" value=(edit.id);
            button { "Undo" }
        }
        p.limits { "Undo writes the old values back, unless another client has changed these rows since." }
        div.scroll tabindex="0" role="region" aria-label="Changes" { table.diff {
            caption.hidden { "Changes, property by property" }
            thead { tr { th scope="col" { span.hidden { "Side" } } th scope="col" { "Property" } th scope="col" { "Type" } th scope="col" { "Value" } } }
            @for row in &rows { (row) }
        } }
        @if rows.len() < edit.changes.len() { p.limits { "Showing " (rows.len()) " of " (edit.changes.len()) " rows." } }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Tables",
        "Edit",
        content,
    ))
}

/// The rows for the properties that differ.
fn change_rows(change: &Change) -> Markup {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let Some(row) = before.or(after) else {
        return html! {};
    };
    let properties_of =
        |entity: Option<&Entity>| entity.map_or_else(Vec::new, |entity| entity.properties.clone());
    let (old, new) = (properties_of(before), properties_of(after));
    let value = |properties: &[(String, Value)], name: &str| {
        let found = properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let differing = names
        .into_iter()
        .map(|name| (name, value(&old, name), value(&new, name)))
        .filter(|(_, old, new)| old != new);
    let differing: Vec<_> = differing.collect();
    let left_out = differing.len().saturating_sub(PROPERTIES_SHOWN);
    html! {
        tbody {
            tr { th colspan="4" scope="rowgroup" {
                (format::name(&row.partition_key, 200)) " / " (format::name(&row.row_key, 200))
                @match (before, after) { (None, _) => " inserted", (_, None) => " deleted", _ => {} }
            } }
            @for (name, old, new) in differing.iter().take(PROPERTIES_SHOWN) {
                @if let Some(old) = old { (side("removed", "−", name, old)) }
                @if let Some(new) = new { (side("added", "+", name, new)) }
            }
            @if left_out > 0 { tr { td {} td colspan="3" { "and " (left_out) " more that differ" } } }
        }
    }
}

fn side(class: &str, sign: &str, name: &str, value: &Value) -> Markup {
    html! { tr class=(class) { td { (sign) } td { (name) } td { (type_name(value)) } td { code { (display(value, VALUE_BYTES_SHOWN)) } } } }
}

/// Undoes an edit. This is an edit that can be undone too.
pub async fn undo(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let edit = console
        .edits
        .find(form.number("edit")?.unwrap_or(0) as u64, &place)?;
    let id = console.edits.next_id();
    let path = place.path(&[], &[("edit", &id.to_string())]);
    written(console, path, Done::Restored, move |console| {
        let operations = edit.changes.iter().filter_map(Change::reversed).collect();
        transactions::edit(console, &place, id, operations)
    })
    .await
}
