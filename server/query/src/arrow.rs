//! Writes rows as an Arrow IPC stream, in batches. The columns of the result correspond to those of the schema by position.
//! Source: Query Blob Contents, "Request body"; Apache Arrow, IPC streaming format.

use crate::RowError;
use crate::arrow_stream::{self, Column, ColumnType};
use crate::value::{Number, Value};

/// Rows, or bytes of values, that complete a batch.
const BATCH_ROWS: usize = 8 << 10;
const BATCH_BYTES: usize = 128 << 10;
/// Most columns of a schema.
pub const FIELDS_MAX: usize = 1 << 10;
/// Most digits of a decimal.
pub const PRECISION_MAX: u8 = 38;

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrowField {
    /// The name in the stream.
    pub name: String,
    /// The type of the values. All may be null.
    pub kind: ArrowType,
}

/// The type of a column. Source: the official clients' `ArrowType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowType {
    /// `int64`
    Int64,
    /// `bool`
    Boolean,
    /// `timestamp[ms]`, in UTC, although the type has no zone.
    Timestamp,
    /// `string`
    Text,
    /// `double`
    Double,
    /// `decimal`: 128 bits.
    Decimal {
        /// The number of digits, 1 to 38.
        precision: u8,
        /// The number of digits after the point, at most `precision`.
        scale: u8,
    },
}

impl ArrowType {
    fn column(self) -> ColumnType {
        match self {
            ArrowType::Int64 => ColumnType::Integer,
            ArrowType::Boolean => ColumnType::Flag,
            ArrowType::Timestamp => ColumnType::Milliseconds,
            ArrowType::Text => ColumnType::Text,
            ArrowType::Double => ColumnType::Double,
            ArrowType::Decimal { precision, scale } => ColumnType::Decimal { precision, scale },
        }
    }

    /// Converts a value. Errors: a value that the type cannot represent.
    fn cell(self, value: Value<'_>) -> Result<Option<Cell>, RowError> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(match self {
            ArrowType::Int64 => match value.as_number()? {
                Number::Float(number) if number.fract() != 0.0 => {
                    return Err(RowError::conversion());
                }
                _ => Cell::Integer(value.as_integer()?),
            },
            ArrowType::Boolean => match value.as_truth()? {
                Some(truth) => Cell::Boolean(truth),
                None => return Ok(None),
            },
            ArrowType::Timestamp => Cell::Integer(value.as_timestamp()?.milliseconds),
            ArrowType::Text => Cell::Text(value.into_text().into_owned()),
            ArrowType::Double => Cell::Float(value.as_number()?.float()),
            ArrowType::Decimal { precision, scale } => {
                Cell::Decimal(decimal(value, precision, scale)?)
            }
        }))
    }
}

/// A value of a column.
enum Cell {
    /// A value of `Int64` or `Timestamp`.
    Integer(i64),
    Boolean(bool),
    Text(String),
    Float(f64),
    Decimal(i128),
}

impl Cell {
    fn append_to(&self, column: &mut Column) {
        match self {
            Cell::Integer(number) => column.append_number(number.to_le_bytes()),
            Cell::Boolean(truth) => column.append_flag(*truth),
            Cell::Text(text) => column.append_text(text),
            Cell::Float(number) => column.append_number(number.to_le_bytes()),
            Cell::Decimal(number) => column.append_number(number.to_le_bytes()),
        }
    }
}

/// Writes an Arrow stream.
pub struct ArrowWriter {
    fields: Vec<ArrowField>,
    /// The beginning of the stream, until it is written.
    schema: Vec<u8>,
    /// The rows of the current batch.
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl ArrowWriter {
    pub fn new(fields: Vec<ArrowField>) -> ArrowWriter {
        let named = fields
            .iter()
            .map(|field| (&field.name[..], field.kind.column()));
        let schema = arrow_stream::schema(named, &[]);
        ArrowWriter {
            columns: columns(&fields),
            fields,
            schema,
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a row, and writes the batch if it is complete. Errors: those of the values; a wrong number of columns.
    pub fn put_row<'v>(
        &mut self,
        out: &mut Vec<u8>,
        values: impl Iterator<Item = Result<Value<'v>, RowError>>,
        bytes_max: usize,
    ) -> Result<(), RowError> {
        let mut row = Vec::with_capacity(self.fields.len());
        let mut bytes = 0;
        for value in values {
            let Some(field) = self.fields.get(row.len()) else {
                return Err(column_count());
            };
            let cell = field.kind.cell(value?)?;
            bytes += match &cell {
                Some(Cell::Text(text)) => 4 + text.len(),
                _ => 16,
            };
            if bytes > bytes_max {
                return Err(RowError::too_large());
            }
            row.push(cell);
        }
        if row.len() != self.fields.len() {
            return Err(column_count());
        }
        for (column, cell) in self.columns.iter_mut().zip(&row) {
            match cell {
                Some(cell) => cell.append_to(column),
                None => column.append_null(),
            }
        }
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.flush(out);
        }
        Ok(())
    }

    /// Writes the rows of an incomplete batch.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.schema);
        if self.rows > 0 {
            out.extend(arrow_stream::batch(self.rows, self.columns.iter()));
            self.columns = columns(&self.fields);
            (self.rows, self.bytes) = (0, 0);
        }
    }

    /// Writes the rows of an incomplete batch, and the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
        out.extend(arrow_stream::END);
    }
}

fn columns(fields: &[ArrowField]) -> Vec<Column> {
    let kinds = fields.iter().map(|field| field.kind.column());
    kinds.map(Column::new).collect()
}

fn column_count() -> RowError {
    RowError::new(
        "InvalidColumnCount",
        "The row does not have as many columns as the Arrow schema.",
    )
}

/// The unscaled value, rounded to `scale` digits, with halves away from zero. Text without a point is the unscaled value
/// itself, as in the recordings of the hosted service: the field `400` is 4.00 in a column of scale 2.
fn decimal(value: Value<'_>, precision: u8, scale: u8) -> Result<i128, RowError> {
    let number = value.as_number()?;
    let is_unscaled = matches!(&value, Value::Text(text) if !text.contains(['.', 'e', 'E']));
    let scale = if is_unscaled { 0 } else { scale };
    let text = match value {
        Value::Text(text) | Value::Number(text) if !text.contains(['e', 'E']) => text,
        _ => match number {
            Number::Integer(number) => number.to_string().into(),
            Number::Float(number) => number.to_string().into(),
        },
    };
    let text = text.trim();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut unscaled = 0i128;
    let kept = fraction.bytes().chain(std::iter::repeat(b'0'));
    for digit in whole.bytes().chain(kept.take(scale.into())) {
        let next = unscaled.checked_mul(10);
        let next = next.and_then(|next| next.checked_add((digit - b'0').into()));
        unscaled = next.ok_or_else(RowError::overflow)?;
    }
    let rounds_up = fraction.as_bytes().get(usize::from(scale)) >= Some(&b'5');
    unscaled = unscaled.saturating_add(rounds_up.into());
    if unscaled >= 10i128.pow(precision.into()) {
        return Err(RowError::overflow());
    }
    Ok(if is_negative { -unscaled } else { unscaled })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client for Python, `test_quick_query_output_in_arrow_format`: one row, and no error.
    #[test]
    fn text_without_a_point_is_the_unscaled_value_of_a_decimal() {
        let of = |value: Value<'_>| decimal(value, 4, 2).ok();
        assert_eq!(of(Value::Text("400".into())), Some(400));
        assert_eq!(of(Value::Text(" -7".into())), Some(-7));
        assert_eq!(of(Value::Text("4.0".into())), Some(400));
        assert_eq!(of(Value::Text("4e0".into())), Some(400));
        assert_eq!(of(Value::Integer(4)), Some(400));
        assert_eq!(of(Value::Float(4.0)), Some(400));
    }

    #[test]
    fn decimals_keep_their_digits_or_are_refused() {
        let of = |text: &'static str, precision, scale| {
            decimal(Value::Text(text.into()), precision, scale).ok()
        };
        assert_eq!(of("12.3", 4, 2), Some(1230));
        assert_eq!(of("-0.005", 4, 2), Some(-1));
        assert_eq!(of(" 1e2 ", 5, 2), Some(10_000));
        assert_eq!(of("99.995", 4, 2), None);
        assert_eq!(of("100.0", 4, 2), None);
        assert_eq!(of("10000", 4, 2), None);
        assert_eq!(of("x", 4, 2), None);
        let digits = "12345678901234567890123456789012345678";
        assert_eq!(
            of(digits, 38, 0).map(|it| it.to_string()).as_deref(),
            Some(digits)
        );
        assert_eq!(of("123456789012345678901234567890123456789", 38, 0), None);
    }
}
