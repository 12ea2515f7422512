//! Writes the rows of a result as delimited text, JSON or Arrow. The length of a row is limited.

use crate::Refused;
use crate::arrow::{ArrowField, ArrowWriter};
use crate::delimited::{DelimitedWriter, Dialect};
use crate::eval::Row;
use crate::value::{Json, Value};
use crate::{RECORD_BYTES_MAX, RowError};
use std::borrow::Cow;
use std::convert::Infallible;

/// Maximum length of a row of the result, in bytes.
const ROW_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;
/// Maximum length of a separator in bytes. Every row contains one.
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

impl Format {
    /// Errors: text in this format would be ambiguous, or a separator is too long.
    pub fn check(&self) -> Result<(), Refused> {
        let longest_separator = match self {
            Format::Delimited(dialect) => {
                dialect.check().map_err(Refused::Ambiguous)?;
                dialect
                    .column_separator
                    .len()
                    .max(dialect.record_separator.len())
            }
            Format::Json { separator } => {
                if separator.contains(['{', '[']) {
                    return Err(Refused::Ambiguous("A separator of JSON contains { or [."));
                }
                separator.len()
            }
            Format::Arrow(_) | Format::Parquet => 0,
        };
        if longest_separator > SEPARATOR_BYTES_MAX {
            return Err(Refused::Unsupported("A separator of more than 64 bytes"));
        }
        Ok(())
    }
}

/// Writes the rows of a result.
pub struct RowWriter {
    format: RowFormat,
    /// The JSON of the row that is being written. It is added to the result only if it is complete.
    row: Vec<u8>,
}

enum RowFormat {
    Delimited(DelimitedWriter),
    Json { separator: String },
    Arrow(Box<ArrowWriter>),
}

impl RowWriter {
    /// `format` must pass [`Format::check`]. Errors: the unsupported part of a result.
    pub fn new(format: Format) -> Result<RowWriter, &'static str> {
        let format = match format {
            Format::Delimited(dialect) => RowFormat::Delimited(DelimitedWriter::new(dialect)),
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
        if let RowFormat::Delimited(writer) = &self.format
            && writer.has_header()
        {
            let names = names.map(|name| Ok::<_, Infallible>(Cow::Borrowed(name)));
            let Ok(()) = writer.write_record(out, names, |_| Ok(()));
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
        match row {
            Row::Delimited { values, .. } => {
                if let RowFormat::Delimited(writer) = &self.format {
                    return write_delimited(
                        writer,
                        out,
                        values.iter().map(|value| Ok(value.into())),
                    );
                }
                let named = values.iter().enumerate().map(|(place, value)| {
                    let name = header.get(place).map(|name| Cow::Borrowed(name.as_str()));
                    let name = name.unwrap_or_else(|| Cow::Owned(format!("_{}", place + 1)));
                    (name, Ok(Value::Bytes(value)))
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
            RowFormat::Delimited(writer) => {
                let values = named
                    .into_iter()
                    .map(|(_, value)| value.and_then(Value::into_bytes));
                return write_delimited(writer, out, values);
            }
            RowFormat::Json { separator } => {
                for (name, value) in named {
                    let value = value?.without_bytes()?;
                    // A field that the document lacks is left out of the row.
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
                let values = named
                    .into_iter()
                    .map(|(_, value)| value.and_then(Value::decoded));
                return writer.put_row(out, values, ROW_BYTES_MAX);
            }
        }
        out.extend_from_slice(row);
        Ok(())
    }

    /// Writes the rows of an incomplete batch; does nothing for formats without batches.
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

/// Writes a row. If a value has an error, writes nothing and returns the error.
fn write_delimited<'v>(
    writer: &DelimitedWriter,
    out: &mut Vec<u8>,
    values: impl Iterator<Item = Result<Cow<'v, [u8]>, RowError>>,
) -> Result<(), RowError> {
    let start = out.len();
    let written = writer.write_record(out, values, |out| check_length(&out[start..]));
    if written.is_err() {
        out.truncate(start);
    }
    written
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
