//! Rows of an answer: delimited or as JSON, each of bounded length.

use super::delimited::{Dialect, write_value};
use super::eval::Row;
use super::value::{Json, Value};
use super::{RECORD_BYTES_MAX, RowError};
use std::borrow::Cow;

/// Longest row of an answer, in bytes.
const ROW_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;

/// What content is, or an answer is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Delimited text.
    Delimited(Dialect),
    /// JSON documents.
    Json {
        /// Between documents.
        separator: String,
    },
}

impl Format {
    /// Its length in bytes.
    pub(super) fn longest_separator(&self) -> usize {
        match self {
            Format::Delimited(dialect) => {
                let (column, record) = (&dialect.column_separator, &dialect.record_separator);
                column.len().max(record.len())
            }
            Format::Json { separator } => separator.len(),
        }
    }
}

/// `*`: all that a row has.
pub fn put_all(
    output: &Format,
    out: &mut Vec<u8>,
    row: Row<'_>,
    header: Option<&[String]>,
) -> Result<(), RowError> {
    let header = header.unwrap_or_default();
    match row {
        Row::Delimited { values, .. } => {
            let named = values.iter().enumerate().map(|(place, value)| {
                let name = header.get(place).map(|name| Cow::Borrowed(name.as_str()));
                let name = name.unwrap_or_else(|| Cow::Owned(format!("_{}", place + 1)));
                (name, Ok(Value::Text(Cow::Borrowed(*value))))
            });
            put_row(output, out, named)
        }
        Row::Document(Json::Object(members)) => {
            let named = members
                .iter()
                .map(|(name, value)| (Cow::Borrowed(name.as_str()), Ok(Value::from(value))));
            put_row(output, out, named)
        }
        Row::Document(other) => {
            put_row(output, out, [(Cow::Borrowed("_1"), Ok(Value::from(other)))])
        }
    }
}

/// Writes a row in place of the last one. Errors: those of its values; `RecordTooLarge`.
pub fn put_row<'a>(
    output: &Format,
    out: &mut Vec<u8>,
    named: impl IntoIterator<Item = (Cow<'a, str>, Result<Value<'a>, RowError>)>,
) -> Result<(), RowError> {
    out.clear();
    let bounded = |out: &Vec<u8>| match out.len() > ROW_BYTES_MAX {
        true => Err(RowError::new(
            "RecordTooLarge",
            "A row of the answer is too large.",
        )),
        false => Ok(()),
    };
    match output {
        Format::Delimited(dialect) => {
            for (place, (_, value)) in named.into_iter().enumerate() {
                if place > 0 {
                    out.extend_from_slice(dialect.column_separator.as_bytes());
                }
                write_value(dialect, out, &value?.into_text());
                bounded(out)?;
            }
            out.extend_from_slice(dialect.record_separator.as_bytes());
        }
        Format::Json { separator } => {
            for (name, value) in named {
                let value = value?;
                // What a document does not have, the row has not either.
                if matches!(value, Value::Missing) {
                    continue;
                }
                out.push(if out.is_empty() { b'{' } else { b',' });
                put_json(out, &Value::Text(name));
                out.push(b':');
                put_json(out, &value);
                bounded(out)?;
            }
            if out.is_empty() {
                out.push(b'{');
            }
            out.push(b'}');
            out.extend_from_slice(separator.as_bytes());
        }
    }
    Ok(())
}

fn put_json(out: &mut Vec<u8>, value: &Value<'_>) {
    serde_json::to_writer(out, value)
        .expect("values have texts for keys, and memory takes all bytes");
}

/// Writes a record after what there is.
pub fn put_delimited<'a>(
    dialect: &Dialect,
    out: &mut Vec<u8>,
    values: impl Iterator<Item = Cow<'a, str>>,
) {
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.extend_from_slice(dialect.column_separator.as_bytes());
        }
        write_value(dialect, out, &value);
    }
    out.extend_from_slice(dialect.record_separator.as_bytes());
}
