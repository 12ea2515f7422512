//! The page of one entity: a form with all eight types.

use crate::context::Console;
use crate::form::Form;
use crate::format;
use crate::layout;
use crate::links::{self, TablePlace};
use crate::requests::related;
use crate::respond::{Done, Html, Page, Refusal, SeeOther, Visit, made, written};
use crate::tables::transactions;
use crate::value_text::{CELL_BYTES_SHOWN, TYPES, display, edit_text, parse, type_name};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use lazurite_base::units;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_table::{ETag, Entity, IfMatch, Operation, Value, Write};
use maud::{Markup, html};
use std::ops::Range;
use std::sync::Arc;

/// Maximum length in bytes of a value that the form shows at once.
const VALUE_BYTES_MAX: usize = 4 << 10;
/// Number of empty rows in the form of a new entity, and in that of a stored one, for new
/// properties.
const EMPTY_ROWS_NEW: usize = 3;
const EMPTY_ROWS_STORED: usize = 1;

pub async fn new(State(console): State<Arc<Console>>, Path(place): Path<TablePlace>) -> Page {
    let content = html! {
        (entity_trail(&place, "New entity"))
        h1 { "New entity" }
        (entity_form(&console, &place, None, &FormPart::default()))
    };
    Ok(layout::page_in(
        &console,
        &place.account,
        "Tables",
        "New entity",
        content,
    ))
}

fn entity_trail(place: &TablePlace, name: &str) -> Markup {
    let tables = ("Tables", links::path(&["tables", &place.account], &[]));
    layout::trail(&[tables, (&place.table, place.path(&[], &[]))], name)
}

pub fn page(console: &Console, place: &TablePlace, visit: &Visit) -> Result<Html> {
    let (partition_key, row_key) = (visit.parameter("pk"), visit.parameter("rk"));
    let (services, stored) = console.at(&place.account)?;
    let tables = &services.tables;
    let entity = tables.get_entity(stored, &place.table, &partition_key, &row_key)?;
    let content = html! {
        (entity_trail(place, &entity.row_key))
        h1 { (format::name(&entity.partition_key, 200)) " / " (format::name(&entity.row_key, 200)) }
        (layout::note(console, visit))
        (transactions::note(visit, place))
        dl.facts {
            div { dt { "Timestamp" } dd { (entity.timestamp.to_full_text().to_string()) } }
            div { dt { "ETag" } dd { code { (entity.etag().to_text()) } } }
            div { dt { "Size" } dd { (units::size(lazurite_table::entity_bytes(&entity) as u64)) } }
        }
        (entity_form(console, place, Some(&entity), &FormPart::of(visit)))
        details.danger {
            summary { "Delete this entity" }
            form method="post" action=(place.path(&["entity", "delete"], &[])) {
                (layout::token(console))
                (keys_of(&entity))
                p { "Deletes it only if it is unchanged since this page was made." }
                button.danger { "Delete the entity" }
            }
        }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Tables",
        &entity.row_key,
        content,
    ))
}

fn keys_of(entity: &Entity) -> Markup {
    html! {
        input type="hidden" name="pk" value=(entity.partition_key);
        input type="hidden" name="rk" value=(entity.row_key);
        input type="hidden" name="etag" value=(entity.etag().to_text());
    }
}

/// The part of an entity that a form shows.
#[derive(Default)]
struct FormPart {
    /// The name of a property whose value is shown whatever its length.
    loaded: String,
    /// The index of the first property that is shown.
    from: usize,
}

impl FormPart {
    fn of(visit: &Visit) -> FormPart {
        FormPart {
            loaded: visit.parameter("load"),
            from: visit.parameter("from").parse().unwrap_or(0),
        }
    }

    /// The index of the first property shown, and as many rows from there on as fit into a page.
    fn rows(&self, place: &TablePlace, entity: &Entity) -> (usize, Vec<Markup>) {
        let rows_from = |from: usize| {
            let properties = entity.properties.iter().skip(from);
            let rows = properties.map(|(name, value)| {
                let text = edit_text(value);
                if text.len() > VALUE_BYTES_MAX && *name != self.loaded {
                    long_row(place, entity, name, value)
                } else {
                    property_row(name, type_name(value), &text)
                }
            });
            (from, format::fitting_rows(rows))
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

/// A note on which properties a form shows, if not all. The others are not changed.
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
    place: &TablePlace,
    entity: Option<&Entity>,
    part: &FormPart,
) -> Markup {
    let count = entity.map_or(0, |entity| entity.properties.len());
    let shown = entity.map(|entity| part.rows(place, entity));
    let (from, rows) = shown.unwrap_or_default();
    let empty_rows = entity.map_or(EMPTY_ROWS_NEW, |_| EMPTY_ROWS_STORED);
    let path = entity.map(|entity| place.entity_path(&entity.partition_key, &entity.row_key));
    html! {
        form method="post" action=(place.path(&["entity"], &[])) {
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
                        @for _ in 0..empty_rows { (property_row("", "String", "")) }
                        @for row in &rows { (row) }
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

/// The row of a property whose value is too long to show. Saving the form keeps it.
fn long_row(place: &TablePlace, entity: &Entity, name: &str, value: &Value) -> Markup {
    let path = place.entity_path(&entity.partition_key, &entity.row_key);
    html! {
        tr {
            td { input type="hidden" name="keep" value=(name); (name) }
            td { (type_name(value)) }
            td {
                code { (display(value, CELL_BYTES_SHOWN)) } " "
                a href=(format!("{path}&load={}", links::encode(name))) { "Load the value of " (name) }
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
            td { input name="name" value=(name) placeholder="new property" aria-label=(format!("Name of {label}")) autocomplete="off"; }
            td { select name="type" aria-label=(format!("Type of {label}")) { @for known in TYPES { option selected[known == type_name] { (known) } } } }
            // Browsers drop a line break at the beginning of a text area.
            td { textarea name="value" rows=(rows) aria-label=(format!("Value of {label}")) { "\n" (value) } }
        }
    }
}

/// The properties of a form. Browsers send line breaks as CR LF, so the stored value is kept if the
/// form's differs only in line breaks.
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
    let fields = fields.enumerate();
    for (index, ((name, type_name), text)) in fields.filter(|(_, ((name, _), _))| !name.is_empty())
    {
        let text = text.replace("\r\n", "\n");
        let value = parse(type_name, &text).ok_or_else(|| {
            let message = format!(
                "'{}' is not a value of the type {type_name} (property {name}).",
                &text[..text.floor_char_boundary(100)]
            );
            Failure::invalid_input(message).with("Field", format!("value:{index}"))
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

pub async fn save(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let saved = stored_form(console.clone(), place.clone(), form.clone()).await;
    match saved {
        Err(Refusal(failure)) if failure.status == StatusCode::PRECONDITION_FAILED => {
            let page = made(console, move |console| {
                conflict_page(console, &place, &form, failure)
            });
            Ok((StatusCode::PRECONDITION_FAILED, page.await?).into_response())
        }
        Err(Refusal(failure)) if failure.code == "EntityAlreadyExists" => {
            Err(Refusal(failure.with("Field", "rk")))
        }
        saved => Ok(saved?.into_response()),
    }
}

/// The page of an entity that was changed since its form was made: both versions, and the form
/// again, which now replaces the stored one.
fn conflict_page(
    console: &Console,
    place: &TablePlace,
    form: &Form,
    failure: Failure,
) -> Result<Html> {
    let (partition_key, row_key) = (form.text("pk"), form.text("rk"));
    let (services, name) = console.at(&place.account)?;
    let Ok(stored) = services
        .tables
        .get_entity(name, &place.table, partition_key, row_key)
    else {
        return Err(failure);
    };
    let mine = Entity::new(partition_key, row_key, properties(form, Some(&stored))?);
    let resource = format!(
        "{}(PartitionKey='{}',RowKey='{}')",
        place.table,
        partition_key.replace('\'', "''"),
        row_key.replace('\'', "''")
    );
    let by = related::last_change(console, ServiceKind::Table, &place.account, &resource);
    let rows = format::fitting_rows(differences(&mine, &stored).into_iter());
    let content = html! {
        (entity_trail(place, row_key))
        h1 { "Changed since you opened it" }
        p.alert role="alert" data-conflict { "Another client saved " (format::name(row_key, 200)) " meanwhile, so yours was not saved (" (failure.code) ")." }
        p { "Changed last by " (by) "." }
        div.scroll.wide tabindex="0" role="region" aria-label="Both versions" { table {
            caption.hidden { "Both versions" }
            thead { tr { th scope="col" { "Property" } th scope="col" { "Yours" } th scope="col" { "Stored now" } } }
            tbody { @for row in &rows { (row) } }
        } }
        p.actions { a.quiet.button href=(place.entity_path(partition_key, row_key)) { "Keep the stored version" } }
        h2 { "Yours" }
        (form_of(console, place, form, &stored))
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Tables",
        row_key,
        content,
    ))
}

/// A row for each property that differs.
fn differences(mine: &Entity, stored: &Entity) -> Vec<Markup> {
    let mut names: Vec<&String> = mine
        .properties
        .iter()
        .chain(&stored.properties)
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    let differing = names
        .into_iter()
        .filter(|name| mine.property(name) != stored.property(name));
    let cell = |value: Option<&Value>| html! { td { @match value { Some(value) => { (display(value, CELL_BYTES_SHOWN)) " " small { (type_name(value)) } }, None => i { "absent" } } } };
    differing
        .map(|name| html! { tr { th scope="row" { (name) } (cell(mine.property(name))) (cell(stored.property(name))) } })
        .collect()
}

/// The form as it was sent, with the ETag of the stored entity.
fn form_of(console: &Console, place: &TablePlace, form: &Form, stored: &Entity) -> Markup {
    let fields = form
        .all("name")
        .zip(form.all("type"))
        .zip(form.all("value"));
    html! {
        form method="post" action=(place.path(&["entity"], &[])) {
            (layout::token(console))
            (keys_of(stored))
            @for name in ["keep", "from", "until"] { @for value in form.all(name) { input type="hidden" name=(name) value=(value); } }
            div.scroll { table.edit {
                caption.hidden { "Properties" }
                thead { tr { th scope="col" { "Property" } th scope="col" { "Type" } th scope="col" { "Value" } } }
                tbody { @for ((name, type_name), value) in fields { (property_row(name, type_name, value)) } }
            } }
            button { "Save mine over it" }
        }
    }
}

async fn stored_form(console: Arc<Console>, place: TablePlace, form: Form) -> Page<SeeOther> {
    let (partition_key, row_key) = (form.text("pk").to_owned(), form.text("rk").to_owned());
    let etag = form.get("etag").map(ETag::parse).transpose()?;
    let id = console.edits.next_id();
    let from = form.get("from").unwrap_or("0");
    let path = place.entity_path(&partition_key, &row_key);
    let path = format!("{path}&edit={id}&from={}", links::encode(from));
    written(console, path, Done::Saved, move |console| {
        let (write, before) = match etag {
            None => (Write::Insert, None),
            Some(etag) => {
                let (services, stored) = console.at(&place.account)?;
                let before =
                    services
                        .tables
                        .get_entity(stored, &place.table, &partition_key, &row_key)?;
                (Write::Update(IfMatch::ETag(etag)), Some(before))
            }
        };
        let entity = Entity::new(partition_key, row_key, properties(&form, before.as_ref())?);
        transactions::edit(console, &place, id, vec![Operation { write, entity }])
    })
    .await
}

pub async fn delete(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let (partition_key, row_key) = (form.text("pk").to_owned(), form.text("rk").to_owned());
    let etag = ETag::parse(form.text("etag"))?;
    let id = console.edits.next_id();
    let path = place.path(&[], &[("edit", &id.to_string())]);
    written(console, path, Done::Deleted, move |console| {
        let operation = Operation {
            write: Write::Delete(IfMatch::ETag(etag)),
            entity: Entity::new(partition_key, row_key, Vec::new()),
        };
        transactions::edit(console, &place, id, vec![operation])
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
        // A property in the form replaces the stored one.
        assert_eq!(
            form("from=0&until=1&name=D&type=Int32&value=2").len(),
            3,
            "D, B and C"
        );
        assert_eq!(form("from=x&until=").len(), 0);
    }
}
