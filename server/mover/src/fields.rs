//! The fields in the files of an export, and the headers made of them.

use crate::client::encode;
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;

/// The format version of the layout.
pub const FORMAT: u64 = 1;
pub const MANIFEST: &str = "lazurite-export.json";

/// The name of a container, a queue or a table, with its settings.
pub type Resource = (String, Map<String, Value>);

/// Percent-encodes a text for a query.
pub fn in_query(text: &str) -> String {
    encode(text).replace('/', "%2F")
}

/// A header as name and value.
pub fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The text in a field; `None` if absent. Error: the value is not a text.
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

/// The texts in a field that is an object of texts; none if absent.
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

/// Whether headers cannot have the character. They can have a tab.
pub fn cannot_be_sent(character: char) -> bool {
    character.is_control() && character != '\t'
}

/// The headers for the metadata in these fields.
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

/// Refuses texts that headers cannot have.
pub fn check_texts(texts: &BTreeMap<String, String>) -> Result<(), String> {
    let mut broken = texts
        .iter()
        .filter(|(_, text)| text.chars().any(cannot_be_sent));
    match broken.next() {
        Some((name, _)) => Err(format!("{name}: it holds a control character")),
        None => Ok(()),
    }
}

/// The text of an I/O error, after the path of its file.
pub fn at(path: &std::path::Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The path in the layout of a service's properties.
pub fn properties_path(service: ServiceKind) -> String {
    format!("services/{}.xml", service.label())
}
