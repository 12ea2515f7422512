//! The values of entities as text.

use lazurite_table::Value;

/// The name of the type, as users see it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "String",
        Value::Int32(_) => "Int32",
        Value::Int64(_) => "Int64",
        Value::Double(_) => "Double",
        Value::Boolean(_) => "Boolean",
        Value::DateTime(_) => "DateTime",
        Value::Guid(_) => "Guid",
        Value::Binary(_) => "Binary",
    }
}

/// The whole value as text; binary values in hexadecimal.
pub fn edit_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Boolean(is_true) => is_true.to_string(),
        Value::DateTime(time) => time.to_full_text().to_string(),
        Value::Guid(guid) => guid.to_string(),
        Value::Binary(bytes) => hex(bytes),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
