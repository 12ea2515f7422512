//! Values and their conversions. If two types differ, the value of the type with lower precedence
//! is converted to the other type. In ascending order of precedence: text, Boolean, integer, float,
//! timestamp. Source: Query acceleration SQL language reference, "Operators", "Casts".

use crate::RowError;
use crate::ast::Type;
use crate::time::Timestamp;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A document, with its members in their original order.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// A number as text: a decimal, or a number whose text neither a 64-bit integer nor a float
    /// reproduces.
    Number(String),
    Text(String),
    /// A string with half of a surrogate pair, which a text cannot have. Kept as it is in the
    /// document, with its quotes and escapes.
    Literal(String),
    Timestamp(Timestamp),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// The row does not have the field. Acts like null, except for IS MISSING.
    Missing,
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// A number as text: see [`Json::Number`]. Arithmetic uses an integer if the text is one, and
    /// otherwise a float.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// A column in any encoding. Copied as it is, or decoded before it is evaluated.
    Bytes(&'a [u8]),
    Timestamp(Timestamp),
    /// A list, an object or a [`Json::Literal`]. A literal can be copied, but its evaluation is an
    /// error.
    Json(&'a Json),
}

/// An integer or a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub fn float(self) -> f64 {
        match self {
            Number::Integer(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

impl Json {
    /// The approximate length in bytes of the document as text.
    pub fn bytes(&self) -> usize {
        match self {
            Json::Text(text) | Json::Number(text) | Json::Literal(text) => text.len(),
            Json::List(items) => items.iter().map(Json::bytes).sum(),
            Json::Object(members) => {
                let bytes = members
                    .iter()
                    .map(|(name, value)| name.len() + value.bytes());
                bytes.sum()
            }
            _ => 8,
        }
    }
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Boolean(truth) => Value::Boolean(*truth),
            Json::Integer(number) => Value::Integer(*number),
            Json::Float(number) => Value::Float(*number),
            Json::Number(text) => Value::Number(Cow::Borrowed(text)),
            Json::Text(text) => Value::Text(Cow::Borrowed(text)),
            Json::Timestamp(time) => Value::Timestamp(*time),
            Json::Literal(_) | Json::List(_) | Json::Object(_) => Value::Json(json),
        }
    }
}

impl<'a> Value<'a> {
    /// The value of a condition; `None` becomes null.
    pub fn truth(truth: Option<bool>) -> Value<'a> {
        truth.map_or(Value::Null, Value::Boolean)
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::Missing)
    }

    /// The value as a condition; `None` for null.
    pub fn as_truth(&self) -> Result<Option<bool>, RowError> {
        match self {
            Value::Null | Value::Missing => Ok(None),
            Value::Boolean(truth) => Ok(Some(*truth)),
            Value::Integer(number) => Ok(Some(*number != 0)),
            Value::Text(text) => parse_truth(text).map(Some).ok_or_else(RowError::conversion),
            _ => Err(RowError::conversion()),
        }
    }

    /// The value as a number. Error: it is neither a number, a Boolean nor the text of a number.
    pub fn as_number(&self) -> Result<Number, RowError> {
        let number = match self {
            Value::Boolean(truth) => Some(Number::Integer(i64::from(*truth))),
            Value::Integer(number) => Some(Number::Integer(*number)),
            Value::Float(number) => Some(Number::Float(*number)),
            Value::Text(text) | Value::Number(text) => parse_number(text),
            _ => None,
        };
        number.ok_or_else(RowError::conversion)
    }

    /// The value as an integer; a fraction is cut off. Error: it is too large, or is not a number.
    pub fn as_integer(&self) -> Result<i64, RowError> {
        match self.as_number()? {
            Number::Integer(number) => Ok(number),
            Number::Float(number) => whole(number).ok_or_else(RowError::conversion),
        }
    }

    pub fn as_timestamp(&self) -> Result<Timestamp, RowError> {
        let time = match self {
            Value::Timestamp(time) => Some(*time),
            Value::Text(text) => Timestamp::parse(text),
            _ => None,
        };
        time.ok_or_else(RowError::conversion)
    }

    /// The value as text; null is the empty text.
    pub fn into_text(self) -> Cow<'a, str> {
        match self {
            Value::Null | Value::Missing => Cow::Borrowed(""),
            Value::Text(text) | Value::Number(text) => text,
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
            Value::Boolean(truth) => Cow::Borrowed(if truth { "true" } else { "false" }),
            Value::Integer(number) => Cow::Owned(number.to_string()),
            Value::Float(number) => Cow::Owned(number.to_string()),
            Value::Timestamp(time) => Cow::Owned(time.to_string()),
            Value::Json(json) => Cow::Owned(serde_json::to_string(json).unwrap_or_default()),
        }
    }

    /// The value as the bytes of a column. Error: it cannot be converted to text.
    pub fn into_bytes(self) -> Result<Cow<'a, [u8]>, RowError> {
        Ok(match self {
            Value::Bytes(bytes) => Cow::Borrowed(bytes),
            value => match value.decoded()?.into_text() {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        })
    }

    /// Decodes a value that is bytes. Error: they are not UTF-8.
    pub fn without_bytes(self) -> Result<Value<'a>, RowError> {
        match self {
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::Text(Cow::Borrowed(text))),
                Err(_) => Err(RowError::not_utf8()),
            },
            value => Ok(value),
        }
    }

    /// Decodes a value before it is evaluated. Error: it is not valid text.
    pub fn decoded(self) -> Result<Value<'a>, RowError> {
        match self {
            Value::Json(Json::Literal(_)) => Err(RowError::not_unicode()),
            value => value.without_bytes(),
        }
    }

    /// Converts the value as CAST does. Errors: `InvalidTypeConversion`.
    pub fn cast(self, to: Type) -> Result<Value<'a>, RowError> {
        if self.is_null() {
            return Ok(Value::Null);
        }
        Ok(match to {
            Type::Integer => match self {
                // A text with a fraction is not an integer, although a float is truncated to one.
                Value::Text(text) => {
                    Value::Integer(text.trim().parse().map_err(|_| RowError::conversion())?)
                }
                other => Value::Integer(other.as_integer()?),
            },
            Type::Float => Value::Float(self.as_number()?.float()),
            Type::Text => Value::Text(self.into_text()),
            Type::Timestamp => Value::Timestamp(self.as_timestamp()?),
            Type::Boolean => Value::truth(self.as_truth()?),
        })
    }

    /// Compares two values; `None` if one is null or NaN. Errors: `InvalidTypeConversion`.
    pub fn compare(&self, other: &Value<'_>) -> Result<Option<Ordering>, RowError> {
        use Value as V;
        if self.is_null() || other.is_null() {
            return Ok(None);
        }
        Ok(match (self, other) {
            (V::Timestamp(_), _) | (_, V::Timestamp(_)) => {
                let (left, right) = (self.as_timestamp()?, other.as_timestamp()?);
                Some(left.milliseconds.cmp(&right.milliseconds))
            }
            (V::Integer(_) | V::Float(_) | V::Number(_), _)
            | (_, V::Integer(_) | V::Float(_) | V::Number(_)) => {
                match (self.as_number()?, other.as_number()?) {
                    (Number::Integer(left), Number::Integer(right)) => Some(left.cmp(&right)),
                    (Number::Integer(left), Number::Float(right)) => compare_mixed(left, right),
                    (Number::Float(left), Number::Integer(right)) => {
                        compare_mixed(right, left).map(Ordering::reverse)
                    }
                    (Number::Float(left), Number::Float(right)) => left.partial_cmp(&right),
                }
            }
            (V::Boolean(_), _) | (_, V::Boolean(_)) => {
                Some(self.as_truth()?.cmp(&other.as_truth()?))
            }
            (V::Text(left), V::Text(right)) => Some(left.cmp(right)),
            _ => return Err(RowError::conversion()),
        })
    }

    /// A value that does not borrow from its row. Lists, objects and bytes become text.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Number(text) => Value::Number(Cow::Owned(text.into_owned())),
            Value::Json(_) | Value::Bytes(_) => {
                Value::Text(Cow::Owned(self.into_text().into_owned()))
            }
            Value::Missing => Value::Missing,
            Value::Null => Value::Null,
            Value::Boolean(truth) => Value::Boolean(truth),
            Value::Integer(number) => Value::Integer(number),
            Value::Float(number) => Value::Float(number),
            Value::Timestamp(time) => Value::Timestamp(time),
        }
    }
}

/// Compares exactly, since a 64-bit integer can lie between two floats. `None` for NaN.
fn compare_mixed(integer: i64, float: f64) -> Option<Ordering> {
    match whole(float) {
        Some(whole) => {
            let fraction = float - float.trunc();
            Some(
                integer
                    .cmp(&whole)
                    .then(0.0f64.total_cmp(&(fraction + 0.0))),
            )
        }
        None => 0.0.partial_cmp(&float),
    }
}

/// Truncates the fraction; `None` outside of 64 bits.
fn whole(number: f64) -> Option<i64> {
    let limit = 9_223_372_036_854_775_808.0;
    (-limit..limit).contains(&number).then_some(number as i64)
}

fn parse_truth(text: &str) -> Option<bool> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") || text == "1" {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn parse_number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Some(Number::Integer(number));
    }
    // Rust also parses words such as "inf".
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number: f64 = text.parse().ok().filter(|_| is_number)?;
    number.is_finite().then_some(Number::Float(number))
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Boolean(truth) => serializer.serialize_bool(*truth),
            Json::Integer(number) => serializer.serialize_i64(*number),
            Json::Float(number) => serializer.serialize_f64(*number),
            Json::Number(text) | Json::Literal(text) => serialize_raw(text, serializer),
            Json::Text(text) => serializer.serialize_str(text),
            Json::Timestamp(time) => serializer.collect_str(time),
            Json::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Json::Object(members) => {
                let mut object = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    object.serialize_entry(name, value)?;
                }
                object.end()
            }
        }
    }
}

/// Serializes JSON text unchanged.
fn serialize_raw<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let raw = RawValue::from_string(json.to_owned()).map_err(serde::ser::Error::custom)?;
    raw.serialize(serializer)
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Missing | Value::Null => serializer.serialize_unit(),
            Value::Boolean(truth) => serializer.serialize_bool(*truth),
            Value::Integer(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Number(text) => serialize_raw(text, serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_str(&String::from_utf8_lossy(bytes)),
            Value::Timestamp(time) => serializer.collect_str(time),
            Value::Json(json) => json.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn text(text: &str) -> Value<'_> {
        Value::Text(Cow::Borrowed(text))
    }

    #[test]
    fn documents_round_trip_in_order() {
        let written = r#"{"b":1,"a":[null,true,-2.5,"x\n"],"c":{"z":{},"y":9007199254740993}}"#;
        let json = parse(written.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), written);
        let large = parse(b"18446744073709551615").unwrap();
        assert_eq!(large, Json::Number("18446744073709551615".to_owned()));
    }

    #[test]
    fn values_of_different_types_are_compared_as_the_type_of_higher_precedence() {
        let order = |left: Value<'_>, right: Value<'_>| left.compare(&right).unwrap();
        assert_eq!(
            order(text("300"), Value::Integer(250)),
            Some(Ordering::Greater)
        );
        assert_eq!(order(text("2.5"), Value::Integer(3)), Some(Ordering::Less));
        let near = Value::Integer(9_007_199_254_740_993);
        let limit = 9_007_199_254_740_992.0;
        assert_eq!(order(near, Value::Float(limit)), Some(Ordering::Greater));
        for (integer, float, expected) in [
            (-2, -2.5, Ordering::Greater),
            (2, 2.5, Ordering::Less),
            (0, -0.0, Ordering::Equal),
            (i64::MAX, 1e300, Ordering::Less),
            (i64::MIN, -1e300, Ordering::Greater),
        ] {
            let integer = Value::Integer(integer);
            let float = Value::Float(float);
            assert_eq!(order(integer.clone(), float.clone()), Some(expected));
            assert_eq!(order(float, integer), Some(expected.reverse()));
        }
        assert_eq!(order(text("300"), text("4")), Some(Ordering::Less));
        assert_eq!(
            order(Value::Boolean(true), text("TRUE")),
            Some(Ordering::Equal)
        );
        assert_eq!(
            order(Value::Integer(i64::MAX), Value::Integer(i64::MAX - 1)),
            Some(Ordering::Greater)
        );
        let time = Value::Timestamp(Timestamp::parse("2020").unwrap());
        assert_eq!(
            order(text("2020-01-01T01:00+01:00"), time),
            Some(Ordering::Equal)
        );
        assert_eq!(order(Value::Null, text("a")), None);
        for (left, right) in [
            (text("a"), Value::Integer(1)),
            (text(""), Value::Float(0.0)),
            (text("x"), Value::Boolean(true)),
        ] {
            assert!(left.compare(&right).is_err(), "{left:?} {right:?}");
        }
    }

    #[test]
    fn casts_convert_values_that_fit() {
        let cast = |value: Value<'static>, to| value.cast(to);
        assert_eq!(cast(text(" 12 "), Type::Integer), Ok(Value::Integer(12)));
        assert_eq!(
            cast(Value::Float(-2.9), Type::Integer),
            Ok(Value::Integer(-2))
        );
        assert_eq!(
            cast(Value::Boolean(true), Type::Float),
            Ok(Value::Float(1.0))
        );
        assert_eq!(cast(Value::Float(0.5), Type::Text), Ok(text("0.5")));
        assert_eq!(cast(Value::Missing, Type::Integer), Ok(Value::Null));
        assert_eq!(
            cast(text("false"), Type::Boolean),
            Ok(Value::Boolean(false))
        );
        for (value, to) in [
            (text("1.5"), Type::Integer),
            (Value::Float(1e19), Type::Integer),
            (text("inf"), Type::Float),
            (text("1e999"), Type::Float),
            (Value::Integer(1), Type::Timestamp),
            (text("maybe"), Type::Boolean),
        ] {
            assert_eq!(
                cast(value.clone(), to),
                Err(RowError::conversion()),
                "{value:?}"
            );
        }
    }
}
