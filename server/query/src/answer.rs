//! Writes the rows of a result as delimited text, JSON or Arrow. The length of a row is limited.

use crate::arrow::{ArrowField, ArrowWriter};
use crate::delimited::{Dialect, write_record};
use crate::eval::Row;
use crate::value::{Json, Value};
use crate::{RECORD_BYTES_MAX, RowError};
use std::borrow::Cow;
use std::convert::Infallible;

/// Longest row of a result, in bytes.
const ROW_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;
/// Longest separator of a result, in bytes, since values are searched for it and every row contains
/// it.
const SEPARATOR_BYTES_MAX: usize = 64;

/// The format of the content or of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Delimited text.
    Delimited(Dialect),
    /// JSON documents.
    Json {
        /// The separator between documents.
        separator: String,
    },
    /// Parquet, for content only.
    Parquet,
    /// An Arrow IPC stream with these columns, for results only.
    Arrow(Vec<ArrowField>),
}

/// Writes the rows of a result.
pub struct RowWriter {
    format: RowFormat,
    /// The row that is being written. It is added to the result only if it is complete.
    row: Vec<u8>,
}

enum RowFormat {
    Delimited(Dialect),
    Json { separator: String },
    Arrow(Box<ArrowWriter>),
}

impl RowWriter {
    /// Errors: the unsupported part of a result.
    pub fn new(format: Format) -> Result<RowWriter, &'static str> {
        let longest_separator = match &format {
            Format::Delimited(Dialect {
                column_separator,
                record_separator,
                ..
            }) => column_separator.len().max(record_separator.len()),
            Format::Json { separator } => separator.len(),
            Format::Arrow(_) | Format::Parquet => 0,
        };
        if longest_separator > SEPARATOR_BYTES_MAX {
            return Err("A separator of more than 64 bytes");
        }
        let format = match format {
            Format::Delimited(dialect) => RowFormat::Delimited(dialect),
            Format::Json { separator } => RowFormat::Json { separator },
            Format::Arrow(fields) => {
                let writer = ArrowWriter::new(fields).map_err(|_| "The Arrow schema")?;
                RowFormat::Arrow(Box::new(writer))
            }
            Format::Parquet => return Err("Parquet (OutputSerialization)"),
        };
        Ok(RowWriter {
            format,
            row: Vec::new(),
        })
    }

    /// Writes the names of the columns if the result has a header.
    pub fn put_header<'n>(&self, out: &mut Vec<u8>, names: impl Iterator<Item = &'n [u8]>) {
        if let RowFormat::Delimited(dialect) = &self.format
            && dialect.has_header
        {
            let names = names.map(|name| Ok::<_, Infallible>(Cow::Borrowed(name)));
            let Ok(()) = write_record(dialect, out, names, |_| Ok(()));
        }
    }

    /// Writes all values of a row, for `*`.
    pub fn put_all(
        &mut self,
        out: &mut Vec<u8>,
        row: Row<'_>,
        header: Option<&[String]>,
    ) -> Result<(), RowError> {
        let header = header.unwrap_or_default();
        if let (Row::Delimited { values, .. }, RowFormat::Delimited(dialect)) = (row, &self.format)
        {
            // Copied unchanged, in any encoding.
            let values = values.iter().map(|value| Ok(Cow::Borrowed(*value)));
            self.row.clear();
            write_record(dialect, &mut self.row, values, check_length)?;
            out.extend_from_slice(&self.row);
            return Ok(());
        }
        match row {
            Row::Delimited { values, .. } => {
                let named = values.iter().enumerate().map(|(place, value)| {
                    let name = header.get(place).map(|name| Cow::Borrowed(name.as_str()));
                    let name = name.unwrap_or_else(|| Cow::Owned(format!("_{}", place + 1)));
                    let text = std::str::from_utf8(value).map_err(|_| RowError::not_utf8());
                    (name, text.map(|text| Value::Text(Cow::Borrowed(text))))
                });
                self.put_row(out, named)
            }
            Row::Document(Json::Object(members)) => {
                let named = members
                    .iter()
                    .map(|(name, value)| (Cow::Borrowed(name.as_str()), Ok(Value::from(value))));
                self.put_row(out, named)
            }
            Row::Document(other) => {
                self.put_row(out, [(Cow::Borrowed("_1"), Ok(Value::from(other)))])
            }
        }
    }

    /// Writes a row. Errors: those of its values; `RecordTooLarge`; a number of columns that does
    /// not fit the format.
    pub fn put_row<'a>(
        &mut self,
        out: &mut Vec<u8>,
        named: impl IntoIterator<Item = (Cow<'a, str>, Result<Value<'a>, RowError>)>,
    ) -> Result<(), RowError> {
        let row = &mut self.row;
        row.clear();
        match &mut self.format {
            RowFormat::Delimited(dialect) => {
                let bytes = |value: Value<'a>| match value.into_text() {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                };
                let values = named.into_iter().map(|(_, value)| value.map(bytes));
                write_record(dialect, row, values, check_length)?;
            }
            RowFormat::Json { separator } => {
                for (name, value) in named {
                    let value = value?;
                    // A field that is missing in the document is missing in the row.
                    if matches!(value, Value::Missing) {
                        continue;
                    }
                    row.push(if row.is_empty() { b'{' } else { b',' });
                    put_json(row, &Value::Text(name));
                    row.push(b':');
                    put_json(row, &value);
                    check_length(row)?;
                }
                if row.is_empty() {
                    row.push(b'{');
                }
                row.push(b'}');
                row.extend_from_slice(separator.as_bytes());
            }
            RowFormat::Arrow(writer) => {
                let values = named.into_iter().map(|(_, value)| value);
                return writer.put_row(out, values, ROW_BYTES_MAX);
            }
        }
        out.extend_from_slice(row);
        Ok(())
    }

    /// Writes the rows of an incomplete batch.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if let RowFormat::Arrow(writer) = &mut self.format {
            writer.flush(out);
        }
    }

    /// Writes the end of the result.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let RowFormat::Arrow(writer) = &mut self.format {
            writer.finish(out);
        }
    }
}

fn check_length(row: &[u8]) -> Result<(), RowError> {
    if row.len() > ROW_BYTES_MAX {
        return Err(RowError::too_large());
    }
    Ok(())
}

fn put_json(out: &mut Vec<u8>, value: &Value<'_>) {
    serde_json::to_writer(out, value).expect("keys are texts, and writing to memory cannot fail");
}
