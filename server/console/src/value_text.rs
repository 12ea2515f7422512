//! Converts values of entities to and from text, for display and forms.

use crate::format;
use lazurite_base::units;
pub use lazurite_services::table::value_text::{edit_text, hex, type_name};
use lazurite_table::{DateTime, Guid, Value};
use maud::{Markup, html};

/// The names of the types in forms.
pub const TYPES: [&str; 8] = [
    "String", "Int32", "Int64", "Double", "Boolean", "DateTime", "Guid", "Binary",
];
/// Maximum number of bytes of a value in a cell.
pub const CELL_BYTES_SHOWN: usize = 120;

/// A value for a cell, cut at about `bytes_max` bytes.
pub fn display(value: &Value, bytes_max: usize) -> Markup {
    match value {
        Value::String(text) if text.is_empty() => html! { i { "empty" } },
        Value::String(text) => format::cut(text, bytes_max),
        Value::Binary(bytes) => {
            let shown = &bytes[..bytes.len().min(bytes_max / 2)];
            html! {
                code { (hex(shown)) }
                @if shown.len() < bytes.len() { span.more { "… " (units::size(bytes.len() as u64)) } }
            }
        }
        Value::DateTime(time) => {
            html! { (time.to_text().replacen('T', " ", 1).trim_end_matches('Z')) }
        }
        other => html! { (edit_text(other)) },
    }
}

/// Parses the text of a value of this type; `None` if it is malformed.
pub fn parse(type_name: &str, text: &str) -> Option<Value> {
    let trimmed = text.trim();
    match type_name {
        "String" => Some(Value::String(text.to_owned())),
        "Int32" => trimmed.parse().ok().map(Value::Int32),
        "Int64" => trimmed.parse().ok().map(Value::Int64),
        "Double" => trimmed.parse().ok().map(Value::Double),
        "Boolean" => trimmed
            .to_ascii_lowercase()
            .parse()
            .ok()
            .map(Value::Boolean),
        "DateTime" => DateTime::parse(trimmed).ok().map(Value::DateTime),
        "Guid" => Guid::parse(trimmed).map(Value::Guid),
        "Binary" => from_hex(trimmed).map(Value::Binary),
        _ => None,
    }
}

/// Parses hexadecimal digits in either case, ignoring white space.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().filter(|letter| !letter.is_whitespace());
    let digits: Vec<u8> = digits
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| {
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_eight_types_survive_a_form() {
        let time = DateTime::parse("2026-11-25T19:00:00.1234567Z").unwrap();
        let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
        for value in [
            Value::String(" a\nb ".to_owned()),
            Value::Int32(i32::MIN),
            Value::Int64(i64::MAX),
            Value::Double(0.1),
            Value::Double(f64::NEG_INFINITY),
            Value::Boolean(true),
            Value::DateTime(time),
            Value::Guid(guid),
            Value::Binary(vec![0, 1, 0xff]),
        ] {
            assert!(TYPES.contains(&type_name(&value)));
            assert_eq!(parse(type_name(&value), &edit_text(&value)), Some(value));
        }
        assert!(matches!(parse("Double", "NaN"), Some(Value::Double(number)) if number.is_nan()));
    }

    #[test]
    fn text_of_another_type_is_refused() {
        for (type_name, text) in [
            ("Int32", "2147483648"),
            ("Boolean", "yes"),
            ("Guid", "x"),
            ("Binary", "abc"),
            ("DateTime", "today"),
            ("Edm", ""),
        ] {
            assert_eq!(parse(type_name, text), None, "{type_name} {text}");
        }
        assert_eq!(parse("Binary", "0A ff"), Some(Value::Binary(vec![10, 255])));
    }
}
