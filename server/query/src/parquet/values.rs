//! Converts values of Parquet columns to JSON values. Source: Apache Parquet, Logical types.
//!
//! | Parquet | here |
//! | --- | --- |
//! | BOOLEAN | Boolean |
//! | integers | integer; outside of signed 64 bits a number as text |
//! | FLOAT16, FLOAT, DOUBLE | float |
//! | DECIMAL | number as text |
//! | STRING, ENUM, JSON, bytes in UTF-8 | text |
//! | DATE, TIMESTAMP, INT96 | timestamp, in milliseconds, UTC |
//! | TIME | text |
//! | struct | object |

use crate::RowError;
use crate::time::{DAY, Timestamp};
use crate::value::Json;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::data_type::Decimal;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

type Converted = Result<Json, RowError>;

/// Converts a row to an object, with the columns in the order of `schema`. Errors: a value without
/// an equivalent.
pub fn object(row: Row, schema: &Type) -> Converted {
    let columns = row.into_columns().into_iter().zip(schema.get_fields());
    let members = columns.map(|((name, field), schema)| Ok((name, json(field, schema)?)));
    members.collect::<Result<_, _>>().map(Json::Object)
}

fn json(field: Field, schema: &Type) -> Converted {
    Ok(match field {
        Field::Null => Json::Null,
        Field::Bool(truth) => Json::Boolean(truth),
        Field::Byte(number) => Json::Integer(number.into()),
        Field::Short(number) => Json::Integer(number.into()),
        Field::Int(number) => Json::Integer(number.into()),
        Field::UByte(number) => Json::Integer(number.into()),
        Field::UShort(number) => Json::Integer(number.into()),
        Field::UInt(number) => Json::Integer(number.into()),
        Field::ULong(number) => match i64::try_from(number) {
            Ok(number) => Json::Integer(number),
            Err(_) => Json::Number(number.to_string()),
        },
        Field::Long(number) => match schema.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => timestamp(number, per_millisecond(&time.unit))?,
            Some(LogicalType::Time(time)) => clock(number, per_millisecond(&time.unit)),
            _ => Json::Integer(number),
        },
        Field::Float16(number) => Json::Float(number.to_f64()),
        // Via the shortest text: a direct conversion to 64 bits would show more digits.
        Field::Float(number) => Json::Float(number.to_string().parse().unwrap_or(number.into())),
        Field::Double(number) => Json::Float(number),
        Field::Decimal(decimal) => Json::Number(decimal_text(&decimal)?),
        Field::Str(text) => Json::Text(text),
        Field::Bytes(bytes) => {
            let text = String::from_utf8(bytes.data().to_vec());
            Json::Text(text.map_err(|_| RowError::not_utf8())?)
        }
        Field::Date(days) => timestamp(i64::from(days) * DAY, 1)?,
        Field::TimeMillis(milliseconds) => clock(milliseconds.into(), 1),
        Field::TimeMicros(microseconds) => clock(microseconds, 1_000),
        Field::TimestampMillis(milliseconds) => timestamp(milliseconds, 1)?,
        Field::TimestampMicros(microseconds) => timestamp(microseconds, 1_000)?,
        Field::Group(row) => object(row, schema)?,
        // Does not occur: `ParquetReader` refuses repeated columns.
        Field::ListInternal(_) | Field::MapInternal(_) => return Err(RowError::conversion()),
    })
}

fn per_millisecond(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::MILLIS => 1,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1_000_000,
    }
}

/// A timestamp from a time since 1970, rounded down to milliseconds.
fn timestamp(number: i64, per_millisecond: i64) -> Converted {
    let timestamp = Timestamp::of_milliseconds(number.div_euclid(per_millisecond));
    timestamp
        .map(Json::Timestamp)
        .ok_or_else(RowError::overflow)
}

/// A time of day as text, from a time since midnight.
fn clock(number: i64, per_millisecond: i64) -> Json {
    let milliseconds = number / per_millisecond;
    let (seconds, milliseconds) = (milliseconds / 1_000, milliseconds % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Json::Text(format!(
        "{hour:02}:{minute:02}:{second:02}.{milliseconds:03}"
    ))
}

/// Formats a decimal. Its unscaled value has up to 16 bytes, big-endian.
fn decimal_text(decimal: &Decimal) -> Result<String, RowError> {
    let (bytes, scale) = (decimal.data(), decimal.scale());
    let scale = usize::try_from(scale).map_err(|_| RowError::overflow())?;
    if bytes.len() > 16 || scale > 38 {
        return Err(RowError::overflow());
    }
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    let unscaled = i128::from_be_bytes(wide);
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if is_negative { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    Ok(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_all_their_digits() {
        for (value, scale, text) in [
            (1234, 2, "12.34"),
            (-5, 2, "-0.05"),
            (7, 0, "7"),
            (-1200, 2, "-12.00"),
        ] {
            let decimal = Decimal::from_i32(value, 9, scale);
            assert_eq!(decimal_text(&decimal).as_deref(), Ok(text));
        }
        let wide = Decimal::from_bytes(vec![1; 17].into(), 40, 2);
        assert!(decimal_text(&wide).is_err());
        let negative = Decimal::from_bytes(vec![0xff, 0x38].into(), 4, 1);
        assert_eq!(decimal_text(&negative).as_deref(), Ok("-20.0"));
    }
}
