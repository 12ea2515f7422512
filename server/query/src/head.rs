//! The start of a Parquet file: its columns and their types, and its first rows as text.

use crate::parquet::{Content, ParquetReader, Step};
use crate::value::Json;
use std::sync::Arc;

/// The start of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The names and types of all columns.
    pub columns: Vec<(String, String)>,
    /// The columns of `rows`: the first of those with one value per row.
    pub shown: Vec<String>,
    /// The first rows; `None` for a null. A row that cannot be converted has only the text of its
    /// error.
    pub rows: Vec<Vec<Option<String>>>,
    /// Number of rows of the whole file.
    pub row_count: u64,
}

/// Reads the footer and the first pages of the columns. Waits for reads. The error is a sentence.
pub fn parquet_head(
    content: Arc<dyn Content>,
    columns_max: usize,
    rows_max: usize,
) -> Result<Head, String> {
    let mut reader = ParquetReader::new(content);
    let opened = reader.open_first(columns_max)?;
    let mut rows = Vec::new();
    while rows.len() < rows_max {
        match reader.next(None).map_err(|fatal| fatal.description)? {
            Step::Row(Ok(row)) => rows.push(texts(row)),
            Step::Row(Err(error)) => rows.push(vec![Some(error.description)]),
            Step::EmptyRows(count) => {
                let shown = (rows_max - rows.len()) as u64;
                rows.resize(rows.len() + count.min(shown) as usize, Vec::new());
            }
            Step::Columns(_) | Step::RowGroup => {}
            Step::End => break,
        }
    }
    Ok(Head {
        columns: opened.columns,
        shown: opened.shown,
        rows,
        row_count: opened.rows,
    })
}

fn texts(row: Json) -> Vec<Option<String>> {
    let Json::Object(members) = row else {
        return Vec::new();
    };
    let text = |value: Json| match value {
        Json::Null => None,
        Json::Text(text) => Some(text),
        Json::Timestamp(_) => serde_json::to_string(&value)
            .ok()
            .map(|text| text.trim_matches('"').to_owned()),
        other => serde_json::to_string(&other).ok(),
    };
    members.into_iter().map(|(_, value)| text(value)).collect()
}
