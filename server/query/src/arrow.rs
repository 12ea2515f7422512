//! Writes rows as an Arrow IPC stream, in batches. The columns of the result correspond to those of
//! the schema by position. Source: Query Blob Contents, "Request body"; Apache Arrow, IPC streaming
//! format.

use crate::RowError;
use crate::value::{Number, Value};
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMillisecondArray,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// A batch is complete when it has this many rows, or values of this many bytes.
const BATCH_ROWS: usize = 8 << 10;
const BATCH_BYTES: usize = 128 << 10;
/// Maximum number of columns of a schema.
pub const FIELDS_MAX: usize = 1 << 10;
/// Maximum number of digits of a decimal.
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
    /// Arrow type `int64`.
    Int64,
    /// Arrow type `bool`.
    Boolean,
    /// Arrow type `timestamp[ms]` without a time zone. Values are in UTC.
    Timestamp,
    /// Arrow type `string`.
    Text,
    /// Arrow type `double`.
    Double,
    /// Arrow type `decimal128`.
    Decimal {
        /// The number of digits, 1 to 38.
        precision: u8,
        /// The number of digits after the point, at most `precision`.
        scale: u8,
    },
}

impl ArrowType {
    fn data_type(self) -> DataType {
        match self {
            ArrowType::Int64 => DataType::Int64,
            ArrowType::Boolean => DataType::Boolean,
            ArrowType::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, None),
            ArrowType::Text => DataType::Utf8,
            ArrowType::Double => DataType::Float64,
            ArrowType::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
        }
    }

    /// Converts a value. Errors: a value that the type cannot represent.
    fn cell(self, value: Value<'_>) -> Result<Cell, RowError> {
        if value.is_null() {
            return Ok(Cell::Null);
        }
        Ok(match self {
            ArrowType::Int64 => match value.as_number()? {
                Number::Float(number) if number.fract() != 0.0 => {
                    return Err(RowError::conversion());
                }
                _ => Cell::Integer(value.as_integer()?),
            },
            ArrowType::Boolean => value.as_truth()?.map_or(Cell::Null, Cell::Boolean),
            ArrowType::Timestamp => Cell::Integer(value.as_timestamp()?.milliseconds),
            ArrowType::Text => Cell::Text(value.into_text().into_owned()),
            ArrowType::Double => Cell::Float(value.as_number()?.float()),
            ArrowType::Decimal { precision, scale } => {
                Cell::Decimal(decimal(value, precision, scale)?)
            }
        })
    }

    /// An array of these cells, which [`Self::cell`] returned.
    fn array<'c>(self, cells: impl Iterator<Item = &'c Cell>) -> ArrayRef {
        match self {
            ArrowType::Int64 => Arc::new(cells.map(Cell::integer).collect::<Int64Array>()),
            ArrowType::Timestamp => {
                let cells = cells.map(Cell::integer);
                Arc::new(cells.collect::<TimestampMillisecondArray>())
            }
            ArrowType::Boolean => Arc::new(cells.map(Cell::boolean).collect::<BooleanArray>()),
            ArrowType::Text => Arc::new(cells.map(Cell::text).collect::<StringArray>()),
            ArrowType::Double => Arc::new(cells.map(Cell::float).collect::<Float64Array>()),
            ArrowType::Decimal { .. } => {
                let column = cells.map(Cell::decimal).collect::<Decimal128Array>();
                Arc::new(column.with_data_type(self.data_type()))
            }
        }
    }
}

/// A value of a column.
enum Cell {
    Null,
    /// A value of `Int64` or `Timestamp`.
    Integer(i64),
    Boolean(bool),
    Text(String),
    Float(f64),
    Decimal(i128),
}

impl Cell {
    fn bytes(&self) -> usize {
        match self {
            Cell::Text(text) => 4 + text.len(),
            _ => 16,
        }
    }

    fn integer(&self) -> Option<i64> {
        if let Cell::Integer(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    fn boolean(&self) -> Option<bool> {
        if let Cell::Boolean(truth) = self {
            Some(*truth)
        } else {
            None
        }
    }

    fn text(&self) -> Option<&str> {
        if let Cell::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    fn float(&self) -> Option<f64> {
        if let Cell::Float(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    fn decimal(&self) -> Option<i128> {
        if let Cell::Decimal(number) = self {
            Some(*number)
        } else {
            None
        }
    }
}

/// Writes an Arrow stream.
pub struct ArrowWriter {
    fields: Vec<ArrowField>,
    schema: SchemaRef,
    /// Holds messages until [`Self::flush`] takes them, at first the schema.
    stream: StreamWriter<Vec<u8>>,
    /// The cells of the current batch, row by row.
    cells: Vec<Cell>,
    rows: usize,
    bytes: usize,
}

impl ArrowWriter {
    /// A writer for rows of these fields. Error: Arrow cannot represent the schema.
    pub fn new(fields: Vec<ArrowField>) -> Result<ArrowWriter, ArrowError> {
        let columns = fields
            .iter()
            .map(|field| Field::new(&field.name, field.kind.data_type(), true));
        let schema = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
        Ok(ArrowWriter {
            stream: StreamWriter::try_new(Vec::new(), &schema)?,
            fields,
            schema,
            cells: Vec::new(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Adds a row, and writes the batch if it is complete. Errors: those of the values; a wrong
    /// number of columns; more than `bytes_max` bytes. A row with an error is left out.
    pub fn put_row<'v>(
        &mut self,
        out: &mut Vec<u8>,
        values: impl Iterator<Item = Result<Value<'v>, RowError>>,
        bytes_max: usize,
    ) -> Result<(), RowError> {
        let row_at = self.cells.len();
        match self.put_cells(values, bytes_max) {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => {
                self.cells.truncate(row_at);
                return Err(error);
            }
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.flush(out);
        }
        Ok(())
    }

    /// Adds the values of a row. Returns their size in bytes.
    fn put_cells<'v>(
        &mut self,
        values: impl Iterator<Item = Result<Value<'v>, RowError>>,
        bytes_max: usize,
    ) -> Result<usize, RowError> {
        let mut fields = self.fields.iter();
        let mut bytes = 0;
        for value in values {
            let field = fields.next().ok_or_else(column_count)?;
            let cell = field.kind.cell(value?)?;
            bytes += cell.bytes();
            if bytes > bytes_max {
                return Err(RowError::too_large());
            }
            self.cells.push(cell);
        }
        if fields.next().is_some() {
            return Err(column_count());
        }
        Ok(bytes)
    }

    /// Writes the rows of an incomplete batch.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if self.rows > 0 {
            self.write_batch()
                .expect("arrays have the types of the schema, and memory takes them");
            self.cells.clear();
            (self.rows, self.bytes) = (0, 0);
        }
        out.append(self.stream.get_mut());
    }

    fn write_batch(&mut self) -> Result<(), ArrowError> {
        let width = self.fields.len();
        let columns = self.fields.iter().enumerate().map(|(index, field)| {
            let cells = self.cells.iter().skip(index).step_by(width);
            field.kind.array(cells)
        });
        // Given explicitly, because a batch without columns has rows too.
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns = columns.collect();
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        self.stream.write(&batch)
    }

    /// Writes the rows of an incomplete batch, and the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
        self.stream
            .finish()
            .expect("memory takes all bytes, and the stream ends once");
        out.append(self.stream.get_mut());
    }
}

fn column_count() -> RowError {
    RowError::new(
        "InvalidColumnCount",
        "The row does not have as many columns as the Arrow schema.",
    )
}

/// The unscaled value, rounded to `scale` digits, with halves away from zero. Text without a point
/// or an exponent is the unscaled value itself, as in the recordings of the hosted service: the
/// field `400` is 4.00 in a column of scale 2.
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
    use arrow_ipc::reader::StreamReader;

    #[test]
    fn rows_are_written_in_batches_and_those_with_errors_are_left_out() {
        let kinds = [ArrowType::Text, ArrowType::Int64];
        let fields = kinds.map(|kind| ArrowField {
            name: "column".into(),
            kind,
        });
        let mut writer = ArrowWriter::new(fields.into()).unwrap();
        let mut out = Vec::new();
        let mut put = |text: &str, number: &'static str| {
            let values = [text.to_owned().into(), number.into()].map(|text| Ok(Value::Text(text)));
            writer.put_row(&mut out, values.into_iter(), 1 << 20)
        };
        for _ in 0..=BATCH_ROWS {
            put("a", "1").unwrap();
            put("b", "x").unwrap_err();
        }
        put(&"a".repeat(BATCH_BYTES), "1").unwrap();
        put("a", "1").unwrap();
        writer.finish(&mut out);
        let batches = StreamReader::try_new(&out[..], None).unwrap();
        let batches: Vec<_> = batches.map(|batch| batch.unwrap()).collect();
        let rows: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
        // A row of two short values counts for 21 bytes.
        assert_eq!(
            rows,
            [
                BATCH_BYTES / 21 + 1,
                BATCH_ROWS + 2 - BATCH_BYTES / 21 - 1,
                1
            ]
        );
        let texts: &StringArray = batches[0].column(0).as_any().downcast_ref().unwrap();
        assert!(texts.iter().all(|text| text == Some("a")));
    }

    /// As in `test_quick_query_output_in_arrow_format` of the client for Python.
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
