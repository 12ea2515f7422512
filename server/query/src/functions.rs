//! Operators and functions on values.

use crate::RowError;
use crate::ast::{Function, Operator};
use crate::time::{DAY, Timestamp};
use crate::value::{Number, Value};
use std::borrow::Cow;

/// Longest text that an expression concatenates, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

type Evaluated<'a> = Result<Value<'a>, RowError>;

/// Applies a function to values that are not null.
pub fn apply<'a>(function: Function, first: Value<'a>, rest: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match (function, rest) {
        (Function::CharLength, _) => Value::Integer(first.into_text().chars().count() as i64),
        (Function::Lower, _) => Value::Text(Cow::Owned(first.into_text().to_lowercase())),
        (Function::Upper, _) => Value::Text(Cow::Owned(first.into_text().to_uppercase())),
        (Function::Substring, [start, length @ ..]) => {
            let length = length.first().map(Value::as_integer).transpose()?;
            Value::Text(Cow::Owned(substring(
                &first.into_text(),
                start.as_integer()?,
                length,
            )))
        }
        (Function::ToString, [format, ..]) => {
            let format = format.clone().into_text();
            Value::Text(Cow::Owned(first.as_timestamp()?.format(&format)))
        }
        (Function::ToTimestamp, _) => Value::Timestamp(first.as_timestamp()?),
        _ => Value::Null,
    })
}

/// Positions count from 0: in the documentation, `SUBSTRING('123456789', 1, 5)` is `23456`.
fn substring(text: &str, start: i64, length: Option<i64>) -> String {
    let from = usize::try_from(start).unwrap_or(0);
    // Positions before the first character count towards the length.
    let length = length.map(|length| length.saturating_add(start.min(0)));
    let length = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(0));
    text.chars().skip(from).take(length).collect()
}

/// Applies an operator. The result is null if an operand is.
pub fn calculate<'a>(left: Value<'a>, operator: Operator, right: Value<'a>) -> Evaluated<'a> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    if operator == Operator::Concatenate {
        let joined = left.into_text() + right.into_text();
        return if joined.len() > TEXT_BYTES_MAX {
            Err(RowError::overflow())
        } else {
            Ok(Value::Text(joined))
        };
    }
    if let Value::Timestamp(time) = left {
        return days_later(time, operator, &right);
    }
    match (left.as_number()?, right.as_number()?) {
        (Number::Integer(left), Number::Integer(right)) => integers(left, operator, right),
        (left, right) => floats(left.float(), operator, right.float()),
    }
}

/// Adds a number of days to a timestamp, or subtracts it. Source: Query acceleration SQL language
/// reference, "Operators", `+`.
fn days_later<'a>(time: Timestamp, operator: Operator, days: &Value<'a>) -> Evaluated<'a> {
    let milliseconds = days.as_number()?.float() * DAY as f64;
    let milliseconds = match operator {
        Operator::Add => milliseconds,
        Operator::Subtract => -milliseconds,
        _ => return Err(RowError::conversion()),
    };
    let moved = time.plus_milliseconds(milliseconds as i64);
    moved.map(Value::Timestamp).ok_or_else(RowError::overflow)
}

fn integers<'a>(left: i64, operator: Operator, right: i64) -> Evaluated<'a> {
    let number = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide | Operator::Remainder if right == 0 => {
            return Err(RowError::division());
        }
        Operator::Divide => left.checked_div(right),
        Operator::Remainder => left.checked_rem(right),
        Operator::Concatenate => None,
    };
    number.map(Value::Integer).ok_or_else(RowError::overflow)
}

fn floats<'a>(left: f64, operator: Operator, right: f64) -> Evaluated<'a> {
    let number = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::Remainder if right == 0.0 => {
            return Err(RowError::division());
        }
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Concatenate => f64::NAN,
    };
    if number.is_finite() {
        Ok(Value::Float(number))
    } else {
        Err(RowError::overflow())
    }
}
