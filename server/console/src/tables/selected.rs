//! Many entities at once: selected rows, or all that a filter finds, are deleted or copied to
//! another table.

use crate::context::Console;
use crate::destination::{self, Destination};
use crate::edits::{Change, Edit};
use crate::form::Form;
use crate::jobs::{Act, Items, Job, Task};
use crate::links::TablePlace;
use crate::proposals::{self, Question};
use crate::respond::{Page, SeeOther, made};
use crate::selection::ALL;
use crate::tables::rows::selected_rows;
use crate::tables::transactions::TRANSACTION_MAX;
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::services::Services;
use lazurite_table::{ETag, Entity, IfMatch, Operation, Query, Write};
use maud::html;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Maximum number of entities in a step of a query.
const STEP: u32 = 500;

/// An entity in one version.
pub struct Row(Entity);

/// Keys and Timestamp: the ETag is made of the latter.
impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Row(entity) = self;
        (&entity.partition_key, &entity.row_key).hash(state);
        entity.timestamp.ticks().hash(state);
    }
}

/// Where rows come from.
#[derive(Clone)]
enum Source {
    /// The keys and ETags of selected rows.
    Chosen(Vec<(String, String, ETag)>),
    /// All rows that a filter finds, from these keys on; `None` at the end.
    Filter(String, Option<Option<(String, String)>>),
}

#[derive(Clone)]
struct Rows {
    console: Arc<Console>,
    place: TablePlace,
    source: Source,
}

impl Rows {
    fn of(console: &Arc<Console>, place: TablePlace, form: &Form) -> Result<Rows> {
        let source = if form.get(ALL).is_some() {
            Source::Filter(form.text("filter").to_owned(), Some(None))
        } else {
            Source::Chosen(selected_rows(form)?)
        };
        Ok(Rows {
            console: console.clone(),
            place,
            source,
        })
    }

    /// Whether an edit of the rows can be kept, so that it can be undone.
    fn is_short(&self) -> bool {
        matches!(self.source, Source::Chosen(_))
    }
}

impl Items for Rows {
    type Item = Row;

    fn next(&mut self) -> Result<Option<Vec<Row>>> {
        let (services, account) = self.console.at(&self.place.account)?;
        match &mut self.source {
            Source::Chosen(keys) if keys.is_empty() => Ok(None),
            // In one step, so that there is one edit to undo.
            Source::Chosen(keys) => {
                let found = keys.drain(..).filter_map(|(partition_key, row_key, etag)| {
                    let found = services.tables.get_entity(
                        account,
                        &self.place.table,
                        &partition_key,
                        &row_key,
                    );
                    found.ok().filter(|entity| entity.etag() == etag)
                });
                Ok(Some(found.map(Row).collect()))
            }
            Source::Filter(_, None) => Ok(None),
            Source::Filter(filter, from @ Some(_)) => {
                let keys = from.take().flatten();
                let query = Query {
                    filter: Some(filter),
                    top: Some(STEP),
                    continuation: keys
                        .as_ref()
                        .map(|(partition_key, row_key)| (&**partition_key, &**row_key)),
                    ..Query::default()
                };
                let page =
                    services
                        .tables
                        .query_entities(account, &self.place.table, &query, &|| false)?;
                *from = page.next.map(Some);
                Ok(Some(page.entities.into_iter().map(Row).collect()))
            }
        }
    }
}

/// Answers the buttons above the grid.
pub async fn act(
    State(console): State<Arc<Console>>,
    Path(place): Path<TablePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let rows = Rows::of(&console, place, &form)?;
    made(console, move |console| match form.text("act") {
        "delete" => propose_deletion(console, rows, &form),
        "copy" => propose_copy(console, rows, &form),
        act => {
            let message = format!("There is no action '{act}' for entities.");
            Err(Failure::invalid_input(message))
        }
    })
    .await
}

fn task(rows: &Rows, verbs: (&'static str, &'static str), form: &Form) -> Task {
    let filter = form.text("filter");
    let found = match (form.get(ALL), filter) {
        (Some(_), "") => ", all of it".to_owned(),
        (Some(_), filter) => format!(" where {}", &filter[..filter.floor_char_boundary(300)]),
        (None, _) => String::new(),
    };
    let page = ["filter", "columns", "top"].map(|name| (name, form.text(name)));
    Task {
        account: rows.place.account.clone(),
        section: "Tables",
        verbs,
        noun: "row",
        place: format!("from {}{found}", rows.place.table),
        back: rows.place.path(&[], &page),
    }
}

fn propose_deletion(console: &Console, rows: Rows, form: &Form) -> Result<SeeOther> {
    let note = if rows.is_short() {
        html! { p { "The edit can be undone afterwards." } }
    } else {
        html! { p.alert { "This cannot be undone. Take a snapshot on the page " a href="/_lazurite/state" { "State" } " first if you may want it back." } }
    };
    let question = Question {
        note,
        is_destructive: true,
        ..Question::default()
    };
    let task = task(&rows, ("Delete", "Deleted"), form);
    let from = rows.clone();
    proposals::propose(console, task, &question, rows, move |_| {
        Ok(deletion(from.clone()))
    })
}

fn deletion(from: Rows) -> Act<Row> {
    let id = from.is_short().then(|| from.console.edits.next_id());
    Box::new(move |job, rows| {
        let (services, account) = from.console.at(&from.place.account)?;
        let operation = |Row(entity): &Row| Operation {
            write: Write::Delete(IfMatch::ETag(entity.etag())),
            entity: Entity::new(
                entity.partition_key.clone(),
                entity.row_key.clone(),
                Vec::new(),
            ),
        };
        let (last, deleted) = executed(
            &services,
            (account, &from.place.table),
            job,
            rows,
            operation,
        )?;
        if let Some(id) = id {
            keep_edit(&from, job, id, deleted);
        }
        Ok(last)
    })
}

fn keep_edit(from: &Rows, job: &Job, id: u64, deleted: Vec<Row>) {
    let change = |Row(entity)| Change {
        before: Some(entity),
        after: None,
    };
    from.console.edits.keep(Edit {
        id,
        place: from.place.clone(),
        changes: deleted.into_iter().map(change).collect(),
    });
    let undo = from.place.path(&["undo"], &[("edit", &id.to_string())]);
    job.set_undo(undo);
}

/// Executes an operation for each row, in transactions of one partition; row by row where others
/// changed one meanwhile. Returns the last ticket and the rows that were written.
fn executed(
    services: &Services,
    (account, table): (&str, &str),
    job: &Job,
    rows: Vec<Row>,
    operation: impl Fn(&Row) -> Operation,
) -> Result<(Option<Ticket>, Vec<Row>)> {
    let (mut last, mut written) = (None, Vec::new());
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        if job.is_canceled() {
            break;
        }
        let mut batch = vec![first];
        while batch.len() < TRANSACTION_MAX {
            let is_same = |row: &Row| row.0.partition_key == batch[0].0.partition_key;
            let Some(row) = rows.next_if(is_same) else {
                break;
            };
            batch.push(row);
        }
        let operations: Vec<_> = batch.iter().map(&operation).collect();
        if let Ok((_, ticket)) = services
            .tables
            .execute_transaction(account, table, &operations)
        {
            job.add_done(batch.len());
            last = Some(ticket);
            written.append(&mut batch);
            continue;
        }
        for (row, operation) in batch.into_iter().zip(operations) {
            match services
                .tables
                .execute_transaction(account, table, &[operation])
            {
                Ok((_, ticket)) => {
                    job.add_done(1);
                    last = Some(ticket);
                    written.push(row);
                }
                Err(error) => {
                    let failure = Failure::from(error.error);
                    match failure.status.as_u16() {
                        404 | 412 => job.add_changed(),
                        _ => job.add_failed(&row.0.row_key, failure),
                    }
                }
            }
        }
    }
    Ok((last, written))
}

fn propose_copy(console: &Console, rows: Rows, form: &Form) -> Result<SeeOther> {
    let question = Question {
        fields: html! { div.fields {
            (destination::field(console, &rows.place.account))
            label { "To the table " input name="table" required autocomplete="off"; }
            label.check { input type="checkbox" name="replace" value="yes"; " Replace entities with the same keys" }
        } },
        ..Question::default()
    };
    let task = task(&rows, ("Copy", "Copied"), form);
    let from = rows.clone();
    proposals::propose(console, task, &question, rows, move |form| {
        let to = Destination::read(&from.console, &from.place.account, form)?;
        let table = form.required("table")?.to_owned();
        let known = to.services.tables.check_table(to.stored(), &table);
        known.map_err(|error| Failure::from(error).with("Field", "table"))?;
        // A row that was changed meanwhile would get its old properties back.
        if to.account == from.place.account && table == from.place.table {
            let same = Failure::new(400, "SameName", "The rows are in this table.");
            return Err(same.with("Field", "table"));
        }
        let replaces = form.get("replace").is_some();
        let act: Act<Row> = Box::new(move |job, rows| {
            let operation = |Row(entity): &Row| Operation {
                write: if replaces {
                    Write::InsertOrReplace
                } else {
                    Write::Insert
                },
                entity: Entity::new(
                    entity.partition_key.clone(),
                    entity.row_key.clone(),
                    entity.properties.clone(),
                ),
            };
            let place = (to.stored(), &*table);
            Ok(executed(&to.services, place, job, rows, operation)?.0)
        });
        Ok(act)
    })
}
