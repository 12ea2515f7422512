//! Many rows of a table at once: selected rows are changed or deleted, and files of CSV or JSON are
//! read and written.

use crate::context::Console;
use crate::form::Form;
use crate::links::TablePlace;
use crate::respond::{Done, Page, SeeOther, Visit, text, written};
use crate::selection::{self, ITEM};
use crate::tables::{entity_json, transactions};
use crate::value_text::{TYPES, edit_text, parse};
use crate::{csv, layout};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use bytes::Bytes;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::response::streamed::{ChunkSource, streamed_to_end};
use lazurite_table::{ETag, Entity, IfMatch, Operation, Query, Write};
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of columns of a CSV file.
const COLUMNS_MAX: usize = 2000;

/// The forms below the grid.
pub fn forms(console: &Console, place: &TablePlace, filter: &str) -> Markup {
    let path = |name: &str, query: &[(&str, &str)]| place.path(&[name], query);
    let found = if filter.is_empty() {
        "the table"
    } else {
        "what the filter finds"
    };
    html! {
        details {
            summary { "Import or export as CSV or JSON" }
            p.actions {
                a.button href=(path("export.csv", &[("filter", filter)])) download { "Export " (found) " as CSV" }
                a.button href=(path("export.json", &[("filter", filter)])) download { "Export " (found) " as JSON" }
            }
            form.fields method="post" action=(path("import", &[])) {
                (layout::token(console))
                label.wide.only-script hidden { "A file " input type="file" accept=".csv,.json,text/csv,application/json" data-text-into="text"; }
                label.wide { "CSV, or a JSON array of entities " textarea name="text" rows="4" required placeholder="PartitionKey,RowKey,Age,Age@type" spellcheck="false" {} }
                p.limits { "At most 4 MB at a time. Each entity is inserted or replaced; those of a partition go together, a hundred at a time." }
                button { "Import" }
            }
        }
    }
}

/// The buttons of the bar above the grid.
pub fn buttons(place: &TablePlace) -> Markup {
    let path = |name: &str| place.path(&["rows", name], &[]);
    html! {
        details.drop {
            summary.quiet.button { "Change…" }
            div.panel {
                div.fields {
                    label { "Property " input name="name" autocomplete="off" list="properties" form=(selection::FORM); }
                    label { "Type " select name="type" form=(selection::FORM) { @for known in TYPES { option { (known) } } } }
                    label { "Value " input name="value" autocomplete="off" form=(selection::FORM); }
                    button formaction=(path("change")) form=(selection::FORM) { "Change the selected rows" }
                    button.quiet formaction=(path("convert")) form=(selection::FORM) { "Convert to this type" }
                }
                p.limits { "Converting writes each value as text and reads it as the new type: 30 becomes '30', and '007' becomes 7. A Double has 15 to 17 digits. A filter finds values of the type that it is written with." }
                p.limits { "Rows of one partition are changed in one transaction, a hundred at a time: all of them or none, and only if no other client has changed one since this page was made." }
            }
        }
        (selection::button("copy", "Copy…", false))
        (selection::button("delete", "Delete…", true))
    }
}

/// The value of the box that selects an entity: its keys and ETag.
pub fn selection(entity: &Entity) -> String {
    serde_json::json!([
        entity.partition_key,
        entity.row_key,
        entity.etag().to_text()
    ])
    .to_string()
}

/// The keys and the ETag of each selected row.
pub fn selected_rows(form: &Form) -> Result<Vec<(String, String, ETag)>> {
    let keys = |row: &str| {
        let (partition_key, row_key, etag): (String, String, String) =
            serde_json::from_str(row).map_err(selection::unreadable)?;
        Ok((partition_key, row_key, ETag::parse(&etag)?))
    };
    form.all(ITEM).map(keys).collect()
}

/// Sets a property of the selected rows, unless one was changed in the meantime.
pub async fn change(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let name = form.required("name")?.to_owned();
    let kind = form.text("type");
    let value = parse(kind, form.text("value")).ok_or_else(|| {
        let message = format!("The value is not one of the type {kind}.");
        Failure::invalid_input(message)
    })?;
    let operation = |(partition_key, row_key, etag)| Operation {
        write: Write::Merge(IfMatch::ETag(etag)),
        entity: Entity::new(partition_key, row_key, vec![(name.clone(), value.clone())]),
    };
    let operations = selected_rows(&form)?.into_iter().map(operation).collect();
    edited(console, place, &form, Done::Saved, move |_| Ok(operations)).await
}

/// Gives a property of the selected rows another type. A row without the property does not change.
/// Errors: `400` for a value that the type does not allow.
pub async fn convert(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let (name, kind) = (
        form.required("name")?.to_owned(),
        form.text("type").to_owned(),
    );
    let rows = selected_rows(&form)?;
    let names = place.clone();
    edited(console, place, &form, Done::Saved, move |console| {
        let (services, stored) = console.at(&names.account)?;
        let mut operations = Vec::new();
        for (partition_key, row_key, etag) in rows {
            let entity =
                services
                    .tables
                    .get_entity(stored, &names.table, &partition_key, &row_key)?;
            let Some(value) = entity.property(&name) else {
                continue;
            };
            let converted = parse(&kind, &edit_text(value)).ok_or_else(|| {
                let message =
                    format!("{name} of the row {row_key} has no value of the type {kind}.");
                Failure::invalid_input(message)
            })?;
            operations.push(Operation {
                write: Write::Merge(IfMatch::ETag(etag)),
                entity: Entity::new(partition_key, row_key, vec![(name.clone(), converted)]),
            });
        }
        Ok(operations)
    })
    .await
}

/// Makes an edit of rows, recorded so that it can be undone, and redirects to the grid.
async fn edited(
    console: Arc<Console>,
    place: TablePlace,
    form: &Form,
    done: Done,
    operations: impl FnOnce(&Console) -> Result<Vec<Operation>> + Send + 'static,
) -> Page<SeeOther> {
    let id = console.edits.next_id();
    let query = [("filter", form.text("filter")), ("edit", &id.to_string())];
    if form.get(selection::ALL).is_some() {
        let message = "A change of a property needs rows that are selected one by one or by page. Clear the box that selects all of them.";
        return Err(Failure::new(400, "TooManyItems", message).into());
    }
    let path = place.path(&[], &query);
    written(console, path, done, move |console| {
        transactions::edit(console, &place, id, operations(console)?)
    })
    .await
}

pub async fn import(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let path = place.path(&[], &[]);
    written(console, path, Done::Imported, move |console| {
        let text = form.text("text");
        let entities = if text.trim_start().starts_with('[') {
            entity_json::entities(text)?
        } else {
            csv::entities(text)?
        };
        let operation = |entity| Operation {
            write: Write::InsertOrReplace,
            entity,
        };
        let operations: Vec<_> = entities.into_iter().map(operation).collect();
        transactions::execute(console, &place, &operations).outcome
    })
    .await
}

/// A page of entities, and the keys at which the next page begins.
type Rows = (Vec<Entity>, Option<(String, String)>);

/// The query whose result is exported.
#[derive(Clone)]
struct Source {
    console: Arc<Console>,
    place: TablePlace,
    filter: String,
}

impl Source {
    fn page(&self, from: Option<&(String, String)>) -> Result<Rows> {
        let query = Query {
            filter: Some(&self.filter),
            top: None,
            continuation: from
                .map(|(partition_key, row_key)| (partition_key.as_str(), row_key.as_str())),
            ..Query::default()
        };
        let (services, stored) = self.console.at(&self.place.account)?;
        let page = services
            .tables
            .query_entities(stored, &self.place.table, &query, &|| false)?;
        Ok((page.entities, page.next))
    }

    /// The names of all properties, in the order of their first occurrence.
    fn columns(&self) -> Result<Vec<String>> {
        let mut columns = Vec::new();
        let mut known = std::collections::HashSet::new();
        let mut from = None;
        loop {
            let (entities, next) = self.page(from.as_ref())?;
            for (name, _) in entities.into_iter().flat_map(|entity| entity.properties) {
                if known.insert(name.clone()) {
                    columns.push(name);
                }
            }
            if columns.len() > COLUMNS_MAX {
                let message = format!(
                    "These entities have more than {COLUMNS_MAX} different properties. Narrow them with a filter."
                );
                return Err(Failure::new(400, "TooManyColumns", message));
            }
            from = next;
            if from.is_none() {
                return Ok(columns);
            }
        }
    }
}

/// The format of a file; for CSV, with its columns.
#[derive(Clone)]
enum FileForm {
    Csv(Arc<[String]>),
    Json,
}

impl FileForm {
    fn header(&self) -> String {
        match self {
            FileForm::Csv(columns) => csv::header(columns),
            FileForm::Json => "[".to_owned(),
        }
    }

    /// The text of some entities. `is_first`: it is the first text after the beginning of the file.
    fn lines(&self, entities: &[Entity], is_first: bool) -> String {
        match self {
            FileForm::Csv(columns) => entities
                .iter()
                .map(|entity| csv::line(entity, columns))
                .collect(),
            FileForm::Json => {
                let lines = entities.iter().enumerate().map(|(index, entity)| {
                    let separator = if is_first && index == 0 { "\n" } else { ",\n" };
                    format!("{separator}{}", entity_json::line(entity))
                });
                lines.collect()
            }
        }
    }

    fn footer(&self) -> &'static str {
        match self {
            FileForm::Csv(_) => "",
            FileForm::Json => "\n]\n",
        }
    }
}

fn source(console: Arc<Console>, place: TablePlace, visit: &Visit) -> Source {
    let filter = visit.parameter("filter");
    Source {
        console,
        place,
        filter,
    }
}

/// `/_lazurite/tables/ACCOUNT/TABLE/export.csv`: all entities that a filter finds, read while they
/// are sent.
pub async fn export_csv(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    visit: Visit,
) -> Page<Response<Body>> {
    let disposition = format!("attachment; filename=\"{}.csv\"", place.table);
    let source = source(console, place, &visit);
    let reading = source.clone();
    let columns = on_blocking_pool(move || reading.columns()).await?;
    let form = FileForm::Csv(columns.into());
    Ok(exported(
        source,
        form,
        "text/csv; charset=utf-8",
        disposition,
    ))
}

/// `/_lazurite/tables/ACCOUNT/TABLE/export.json`: the entities as a JSON array.
pub async fn export_json(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    visit: Visit,
) -> Page<Response<Body>> {
    let disposition = format!("attachment; filename=\"{}.json\"", place.table);
    let source = source(console, place, &visit);
    let reading = source.clone();
    // Reports an invalid filter before the file begins.
    let _ = on_blocking_pool(move || reading.page(None)).await?;
    Ok(exported(
        source,
        FileForm::Json,
        "application/json",
        disposition,
    ))
}

fn exported(
    source: Source,
    form: FileForm,
    kind: &'static str,
    disposition: String,
) -> Response<Body> {
    let header = Bytes::from(form.header());
    let export = Export {
        source,
        form,
        is_begun: false,
        next: None,
        is_ended: false,
    };
    let mut response = text(kind, streamed_to_end(header, export));
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        response
            .headers_mut()
            .insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

/// The text of an export after its header, page by page.
struct Export {
    source: Source,
    form: FileForm,
    /// Whether any entity was sent.
    is_begun: bool,
    next: Option<(String, String)>,
    is_ended: bool,
}

impl ChunkSource for Export {
    // Fails if the table was deleted meanwhile. Then the file ends early, and the connection breaks
    // off.
    fn next_chunk(&mut self, _: usize) -> Result<Option<Bytes>> {
        if self.is_ended {
            return Ok(None);
        }
        let (entities, next) = self.source.page(self.next.as_ref())?;
        let mut lines = self.form.lines(&entities, !self.is_begun);
        if next.is_none() {
            lines.push_str(self.form.footer());
        }
        self.is_begun |= !entities.is_empty();
        self.is_ended = next.is_none();
        self.next = next;
        Ok(Some(Bytes::from(lines)))
    }
}
