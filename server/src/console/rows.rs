//! Many rows of a table at once: those that are selected are deleted, and files of comma-separated values are read and written.

use crate::connection::on_blocking_pool;
use crate::console::Console;
use crate::console::csv;
use crate::console::form::Form;
use crate::console::layout;
use crate::console::respond::{Done, Page, SeeOther, Visit, text, written};
use crate::response::error::{Failure, Result};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use lazurite_engine::Ticket;
use lazurite_table::{ETag, Entity, IfMatch, Operation, Query, Write};
use maud::{Markup, html};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Operations of one transaction. Source: Performing entity group transactions.
const TRANSACTION_MAX: usize = 100;
/// Columns of a file.
const COLUMNS_MAX: usize = 2000;

/// The forms below the grid.
pub fn forms(console: &Console, account: &str, table: &str, filter: &str) -> Markup {
    let path =
        |name: &str, query: &[(&str, &str)]| layout::path(&["tables", account, table, name], query);
    html! {
        details {
            summary { "Import or export as CSV" }
            p { a.button href=(path("export.csv", &[("filter", filter)])) download { "Export " @if filter.is_empty() { "the table" } @else { "what the filter finds" } } }
            form.fields method="post" action=(path("import", &[])) {
                (layout::token(console))
                label.wide.only-script hidden { "A file " input type="file" accept=".csv,text/csv" data-text-into="csv"; }
                label.wide { "CSV " textarea name="csv" rows="4" required placeholder="PartitionKey,RowKey,Age,Age@type" spellcheck="false" {} }
                p.limits { "At most 4 MB at a time. Each entity is inserted or replaced; those of a partition go together, a hundred at a time." }
                button { "Import" }
            }
        }
    }
}

/// The value of the box that selects an entity.
pub fn selection(entity: &Entity) -> String {
    serde_json::json!([
        entity.partition_key,
        entity.row_key,
        entity.etag().to_text()
    ])
    .to_string()
}

/// Deletes the selected rows, unless one was changed meanwhile.
pub async fn delete(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let mut operations = Vec::new();
    for row in form.all("row") {
        let wrong = |_| Failure::new(400, "InvalidInput", "A selected row cannot be read.");
        let (partition_key, row_key, etag): (String, String, String) =
            serde_json::from_str(row).map_err(wrong)?;
        operations.push(Operation {
            write: Write::Delete(IfMatch::ETag(ETag::parse(&etag)?)),
            entity: Entity::new(partition_key, row_key, Vec::new()),
        });
    }
    let path = layout::path(
        &["tables", &account, &table],
        &[("filter", form.text("filter"))],
    );
    written(console, path, Done::Deleted, move |console| {
        execute(console, &account, &table, operations)
    })
    .await
}

pub async fn import(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let path = layout::path(&["tables", &account, &table], &[]);
    written(console, path, Done::Imported, move |console| {
        let entities = csv::entities(form.text("csv"))?;
        let operation = |entity| Operation {
            write: Write::InsertOrReplace,
            entity,
        };
        execute(
            console,
            &account,
            &table,
            entities.into_iter().map(operation).collect(),
        )
    })
    .await
}

/// Carries out operations in transactions, as long as they come for the same partition. Errors: those of the first that fails, with the
/// number of operations that were carried out before.
fn execute(
    console: &Console,
    account: &str,
    table: &str,
    operations: Vec<Operation>,
) -> Result<Ticket> {
    let mut done = 0;
    let mut last = None;
    while done < operations.len() {
        let partition_key = &operations[done].entity.partition_key;
        let rest = operations[done..].iter().take(TRANSACTION_MAX);
        let count = rest
            .take_while(|operation| operation.entity.partition_key == *partition_key)
            .count();
        let batch = &operations[done..done + count];
        match console
            .services()
            .tables
            .execute_transaction(account, table, batch)
        {
            Ok((_, ticket)) => last = Some(ticket),
            Err(error) => {
                let failure = Failure::from(error.error);
                let (row, keys) = (
                    done + error.index,
                    batch
                        .get(error.index)
                        .map(|operation| &operation.entity.row_key),
                );
                let message = format!(
                    "Row {} (RowKey {}): {} The {done} rows before this partition's were changed.",
                    row + 1,
                    keys.map_or("", String::as_str),
                    failure.message
                );
                return Err(Failure {
                    message: message.into(),
                    ..failure
                });
            }
        }
        done += count;
    }
    last.ok_or_else(|| Failure::new(400, "NothingSelected", "No row is selected."))
}

/// A page of what is exported, with where the next one begins.
type Rows = (Vec<Entity>, Option<(String, String)>);

/// What is exported.
#[derive(Clone)]
struct Source {
    console: Arc<Console>,
    account: String,
    table: String,
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
        let tables = &self.console.services().tables;
        let page = tables.query_entities(&self.account, &self.table, &query, &|| false)?;
        Ok((page.entities, page.next))
    }

    /// The properties of all entities, in the order in which they are met.
    fn columns(&self) -> Result<Vec<String>> {
        let (mut columns, mut known) = (Vec::new(), std::collections::HashSet::new());
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

/// `/_lazurite/tables/ACCOUNT/TABLE/export.csv`: all entities that a filter finds, read while they are sent.
pub async fn export(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    visit: Visit,
) -> Page<Response<Body>> {
    let disposition = format!("attachment; filename=\"{table}.csv\"");
    let filter = visit.parameter("filter");
    let source = Source {
        console,
        account,
        table,
        filter,
    };
    let reading = source.clone();
    let columns = on_blocking_pool(move || reading.columns()).await?;
    let first = Bytes::from(csv::header(&columns));
    let export = Export {
        source,
        columns: columns.into(),
        first: Some(first),
        next: None,
        is_ended: false,
        reading: None,
    };
    let mut response = text("text/csv; charset=utf-8", Body::new(export));
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        response
            .headers_mut()
            .insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

type Reading = Pin<Box<dyn Future<Output = Result<(Bytes, Option<(String, String)>)>> + Send>>;

/// The lines of an export, page by page.
struct Export {
    source: Source,
    columns: Arc<[String]>,
    first: Option<Bytes>,
    next: Option<(String, String)>,
    is_ended: bool,
    reading: Option<Reading>,
}

impl Export {
    fn read(&self) -> Reading {
        let (source, columns, from) =
            (self.source.clone(), self.columns.clone(), self.next.clone());
        Box::pin(on_blocking_pool(move || {
            let (entities, next) = source.page(from.as_ref())?;
            let lines: String = entities
                .iter()
                .map(|entity| csv::line(entity, &columns))
                .collect();
            Ok((Bytes::from(lines), next))
        }))
    }
}

impl HttpBody for Export {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.is_ended {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let read = match reading.as_mut().poll(task) {
            Poll::Pending => {
                self.reading = Some(reading);
                return Poll::Pending;
            }
            Poll::Ready(read) => read,
        };
        // The table may have been deleted meanwhile: the file ends early, and so does the connection.
        let (lines, next) =
            read.map_err(|failure| std::io::Error::other(failure.message.into_owned()))?;
        self.is_ended = next.is_none();
        self.next = next;
        Poll::Ready(Some(Ok(Frame::data(lines))))
    }
}
