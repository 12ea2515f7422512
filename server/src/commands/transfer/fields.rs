//! The fields of the files of an export, and the headers that they become.

use crate::commands::client::encode;
use crate::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;

/// The version of the layout.
pub const FORMAT: u64 = 1;
pub const MANIFEST: &str = "lazurite-export.json";

/// The name of a container, a queue or a table, with its settings.
pub type Resource = (String, Map<String, Value>);

/// Text that stands in a query.
pub fn in_query(text: &str) -> String {
    encode(text).replace('/', "%2F")
}

/// A header with its value.
pub fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The text of a field of a JSON object; `None` if it is absent.
pub fn text_field<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{name}: {other} is no text")),
    }
}

/// The texts of a field that is a JSON object of texts; none if it is absent.
pub fn texts_field<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Vec<(&'a str, &'a str)>, String> {
    let texts = match fields.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(texts)) => texts,
        Some(other) => return Err(format!("{name}: {other} is no JSON object")),
    };
    let text = |(key, value): (&'a String, &'a Value)| match value {
        Value::String(value) => Ok((key.as_str(), value.as_str())),
        other => Err(format!("{name}.{key}: {other} is no text")),
    };
    texts.iter().map(text).collect()
}

/// Whether no header can have the character. A tab can stand in one.
pub fn cannot_be_sent(character: char) -> bool {
    character.is_control() && character != '\t'
}

/// Header lines of metadata.
pub fn metadata_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let metadata = texts_field(fields, "metadata")?;
    let headers = metadata.into_iter().map(|(name, value)| {
        let is_plain = |text: &str| !text.chars().any(cannot_be_sent);
        if is_plain(name) && is_plain(value) && !name.contains(':') {
            Ok((format!("x-ms-meta-{name}"), value.to_owned()))
        } else {
            Err(format!("metadata.{name}: it holds a control character"))
        }
    });
    headers.collect()
}

/// Error: a text cannot stand in the header of a request.
pub fn check_texts(texts: &BTreeMap<String, String>) -> Result<(), String> {
    let mut broken = texts
        .iter()
        .filter(|(_, text)| text.chars().any(cannot_be_sent));
    match broken.next() {
        Some((name, _)) => Err(format!("{name}: it holds a control character")),
        None => Ok(()),
    }
}

/// As [`io::Error`], with the path of the file.
pub fn at(path: &std::path::Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The file with the properties of a service.
pub fn properties_path(service: ServiceKind) -> String {
    format!("services/{}.xml", service.label())
}
