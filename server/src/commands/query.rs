//! `lazurite query`: prints the entities of a table that match a filter.

use crate::cli::QueryFormat;
use crate::commands::grid;
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::note;
use lazurite_base::terminal::{plain, print_line};
use lazurite_mover::{Client, encode};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::io::IsTerminal;
use std::process::ExitCode;

type EntityFields = Map<String, Value>;

/// The entities that match a filter.
pub struct QueryResult {
    pub rows: Vec<EntityFields>,
    /// The plan of the first page and its cost, if the server shows them.
    pub plan: Option<String>,
    pub has_more: bool,
}

/// Prints at most `top` entities. Prints the cost of the first page to standard error, if the
/// server sends it.
pub fn run(
    client: &Client,
    table: &str,
    filter: &str,
    top: usize,
    format: QueryFormat,
) -> Result<ExitCode, String> {
    let found = find(client, table, filter, top)?;
    if let Some(plan) = &found.plan {
        note(plan);
    }
    if found.rows.is_empty() && format == QueryFormat::Table {
        note(match filter {
            "" => format!(
                "{table} has no entities: `lazurite entity put {table} PARTITION_KEY ROW_KEY` inserts one"
            ),
            _ => format!("the filter finds no entity of {table}"),
        });
        return Ok(ExitCode::SUCCESS);
    }
    print(&found.rows, format);
    if found.has_more {
        note(format_args!(
            "there are more: --top {}",
            top.saturating_mul(10)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads pages until there are `top` entities or no more pages.
pub fn find(client: &Client, table: &str, filter: &str, top: usize) -> Result<QueryResult, String> {
    let mut rows = Vec::new();
    let mut plan = None;
    let mut more = String::new();
    let subject = Subject::Filter(table, filter);
    let filter = match filter {
        "" => String::new(),
        filter => format!("&$filter={}", encode(filter).replace('/', "%2F")),
    };
    while rows.len() < top {
        let page = (top - rows.len()).min(1000);
        let resource = format!("{}()?$top={page}{filter}{more}", encode(table));
        let reply = client.ask(ServiceKind::Table, "GET", resource);
        let reply = reply.map_err(|error| explain(client, subject, error))?;
        if let Some(name) = reply.header("x-lazurite-plan").filter(|_| more.is_empty()) {
            let examined = reply.header("x-lazurite-examined").unwrap_or("0");
            plan = Some(format!("plan {name}, {examined} examined"));
        }
        more = reply.continuation();
        rows.extend(rows_of(&reply.text()?)?);
        if more.is_empty() {
            break;
        }
    }
    Ok(QueryResult {
        rows,
        plan,
        has_more: !more.is_empty(),
    })
}

/// The entities in the document of a page.
fn rows_of(text: &str) -> Result<Vec<EntityFields>, String> {
    let mut document: Value = serde_json::from_str(text)
        .map_err(|error| format!("the answer cannot be read: {error}"))?;
    let Value::Array(values) = document["value"].take() else {
        return Ok(Vec::new());
    };
    let row = |value| match value {
        Value::Object(row) => Some(row),
        _ => None,
    };
    Ok(values.into_iter().filter_map(row).collect())
}

fn print(rows: &[EntityFields], format: QueryFormat) {
    if format == QueryFormat::Json {
        rows.iter()
            .for_each(|row| print_line(Value::from(row.clone())));
        return;
    }
    let columns = columns(rows);
    let lines = std::iter::once(columns.clone()).chain(rows.iter().map(|row| cells(row, &columns)));
    let lines: Vec<Vec<String>> = lines.collect();
    if format == QueryFormat::Csv {
        // Files get the values unchanged. On a terminal, control characters could act.
        let is_terminal = std::io::stdout().is_terminal();
        for line in &lines {
            let record = csv_record(line);
            print_line(if is_terminal {
                visible(&record)
            } else {
                record
            });
        }
        return;
    }
    grid::lines(&lines, grid::terminal_width())
        .into_iter()
        .for_each(print_line);
}

/// A CSV record of these cells, without a line end.
fn csv_record(cells: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Cannot fail: it writes to memory.
    let _ = writer.write_record(cells);
    let mut line = String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default();
    line.truncate(line.trim_end_matches('\n').len());
    line
}

/// A CSV record for a terminal: without control characters except line feeds.
fn visible(record: &str) -> String {
    let lines: Vec<_> = record.split('\n').map(plain).collect();
    lines.join("\n")
}

/// The columns: the keys, and then the properties in the order of their first occurrence.
fn columns(rows: &[EntityFields]) -> Vec<String> {
    let mut columns = vec!["PartitionKey".to_owned(), "RowKey".to_owned()];
    for name in rows.iter().flat_map(Map::keys) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    columns
}

fn cells(row: &EntityFields, columns: &[String]) -> Vec<String> {
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    columns.iter().map(|column| text(row.get(column))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_no_control_characters() {
        assert_eq!(
            visible("a,\"b\nc\",\u{1b}]0;x\u{7}"),
            "a,\"b\nc\",\u{fffd}]0;x\u{fffd}"
        );
    }
}
