//! OData JSON: entities in and out at the three metadata levels. Types that JSON does not have travel as text beside an
//! annotation. Source: Payload Format for Table Service Operations; Understanding the Table Service Data Model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_table::{
    DateTime, DateTimeError, Entity, Error, Guid, InvalidInput, OutOfRangeInput, Value,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt::{self, Write};

/// How much an answer says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    None,
    Minimal,
    Full,
}

impl Level {
    /// As in media types.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "nometadata",
            Level::Minimal => "minimalmetadata",
            Level::Full => "fullmetadata",
        }
    }
}

/// The body of an Insert, Update or Merge. Keys are `None` when absent or null; nulls among the properties are dropped.
#[derive(Debug, Default, PartialEq)]
pub struct EntityBody {
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub properties: Vec<(String, Value)>,
}

/// Reads an entity. Errors: `InvalidInput` for what is not JSON, not flat, or not of its type; `OutOfRangeInput` for
/// instants before 1601; `DuplicatePropertiesSpecified`.
pub fn read_entity(bytes: &[u8]) -> Result<EntityBody, Error> {
    let invalid = || Error::InvalidInput(InvalidInput::Request);
    let text = std::str::from_utf8(bytes).map_err(|_| invalid())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader
        .deserialize_map(Members)
        .and_then(|members| reader.end().map(|()| members));
    let members = members.map_err(|_| invalid())?;
    let mut annotations = HashMap::new();
    for (name, raw) in &members {
        if let Some(property) = name.strip_suffix("@odata.type") {
            annotations.insert(property, string(raw).ok_or_else(invalid)?);
        }
    }
    let mut body = EntityBody::default();
    for (name, raw) in &members {
        let annotation = annotations.get(name.as_str()).map(String::as_str);
        match name.as_str() {
            "Timestamp" => {}
            name if name.contains("@odata.") || name.starts_with("odata.") => {}
            "PartitionKey" => set_key(&mut body.partition_key, raw)?,
            "RowKey" => set_key(&mut body.row_key, raw)?,
            _ => {
                if let Some(value) = read_value(name, raw.get(), annotation)? {
                    body.properties.push((name.clone(), value));
                }
            }
        }
    }
    Ok(body)
}

/// The service finds own properties that are given twice; keys are told apart here.
fn set_key(key: &mut Option<String>, raw: &RawValue) -> Result<(), Error> {
    if raw.get() == "null" {
        return Ok(());
    }
    let text = string(raw).ok_or(Error::InvalidInput(InvalidInput::Request))?;
    match key.replace(text) {
        Some(_) => Err(Error::DuplicatePropertiesSpecified),
        None => Ok(()),
    }
}

/// The members of an object in order, repeated ones too.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// One property's value; `None` for null.
fn read_value(name: &str, raw: &str, annotation: Option<&str>) -> Result<Option<Value>, Error> {
    let invalid = || Error::InvalidInput(InvalidInput::Request);
    let text = match raw.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'{' | b'[') | None => return Err(invalid()),
        Some(b'"') => Some(serde_json::from_str::<String>(raw).map_err(|_| invalid())?),
        Some(_) => None,
    };
    // What stands unquoted is read by the same rules as the text in quotes, but for booleans and strings.
    let plain = text.as_deref().unwrap_or(raw);
    let value = match (annotation, &text) {
        (None, Some(text)) => Value::String(text.clone()),
        (None, None) => read_bare(raw).ok_or_else(invalid)?,
        (Some("Edm.String"), Some(text)) => Value::String(text.clone()),
        (Some("Edm.Int32"), _) => Value::Int32(plain.parse().map_err(|_| invalid())?),
        (Some("Edm.Int64"), _) => Value::Int64(plain.parse().map_err(|_| invalid())?),
        (Some("Edm.Double"), _) => Value::Double(read_double(plain).ok_or_else(invalid)?),
        (Some("Edm.Boolean"), _) => Value::Boolean(read_boolean(plain).ok_or_else(invalid)?),
        (Some("Edm.DateTime"), Some(text)) => Value::DateTime(read_instant(name, text)?),
        (Some("Edm.Guid"), Some(text)) => Value::Guid(Guid::parse(text).ok_or_else(invalid)?),
        (Some("Edm.Binary"), Some(text)) => {
            Value::Binary(STANDARD.decode(text).map_err(|_| invalid())?)
        }
        _ => return Err(invalid()),
    };
    Ok(Some(value))
}

/// A number or truth value without annotation. Whole numbers are Int32, never wider: the client would not know.
fn read_bare(raw: &str) -> Option<Value> {
    match raw {
        "true" => Some(Value::Boolean(true)),
        "false" => Some(Value::Boolean(false)),
        number if number.contains(['.', 'e', 'E']) => read_double(number).map(Value::Double),
        number => number.parse().ok().map(Value::Int32),
    }
}

/// Values too large for a double are refused; only the words mean the infinities.
fn read_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ if text
            .bytes()
            .any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) =>
        {
            None
        }
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn read_boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" => Some(true),
        "false" | "False" => Some(false),
        _ => None,
    }
}

fn read_instant(name: &str, text: &str) -> Result<DateTime, Error> {
    DateTime::parse(text).map_err(|error| match error {
        DateTimeError::Malformed => Error::InvalidInput(InvalidInput::Request),
        DateTimeError::OutOfRange => {
            let (name, value) = (name.to_owned(), text.to_owned());
            Error::OutOfRangeInput(OutOfRangeInput::Parameter { name, value })
        }
    })
}

/// What answers about a table's entities refer to.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub level: Level,
    pub base_url: &'a str,
    pub account: &'a str,
    pub table: &'a str,
    /// The properties asked for; `None` for all.
    pub select: Option<&'a [String]>,
}

impl Frame<'_> {
    /// An entity that is an answer of its own: of Insert or Get Entity.
    pub fn single(&self, entity: &Entity) -> String {
        let mut out = String::with_capacity(256);
        out.push('{');
        if self.level != Level::None {
            member(
                &mut out,
                "odata.metadata",
                &format!("{}/@Element{}", self.metadata_url(), self.select_suffix()),
            );
        }
        self.members(&mut out, entity);
        out.push('}');
        out
    }

    /// The entities of a page.
    pub fn list(&self, entities: &[Entity]) -> String {
        let mut out = String::with_capacity(64 + 256 * entities.len());
        out.push('{');
        if self.level != Level::None {
            member(
                &mut out,
                "odata.metadata",
                &format!("{}{}", self.metadata_url(), self.select_suffix()),
            );
            out.push(',');
        }
        out.push_str("\"value\":[");
        for (index, entity) in entities.iter().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",{" });
            self.members(&mut out, entity);
            out.push('}');
        }
        out.push_str("]}");
        out
    }

    fn metadata_url(&self) -> String {
        format!("{}/$metadata#{}", self.base_url, self.table)
    }

    fn select_suffix(&self) -> String {
        self.select.map_or(String::new(), |names| {
            format!("&$select={}", names.join(","))
        })
    }

    /// `odata.*` first: readers that stream rely on it.
    fn members(&self, out: &mut String, entity: &Entity) {
        if self.level == Level::Full {
            let id = entity_path(self.table, &entity.partition_key, &entity.row_key);
            next_member(
                out,
                "odata.type",
                &format!("{}.{}", self.account, self.table),
            );
            next_member(out, "odata.id", &format!("{}/{id}", self.base_url));
            next_member(out, "odata.etag", &entity.etag().to_string());
            next_member(out, "odata.editLink", &id);
        }
        if self.level == Level::Minimal {
            next_member(out, "odata.etag", &entity.etag().to_string());
        }
        match self.select {
            None => self.all_properties(out, entity),
            Some(names) => names
                .iter()
                .for_each(|name| self.selected(out, entity, name)),
        }
    }

    fn all_properties(&self, out: &mut String, entity: &Entity) {
        next_member(out, "PartitionKey", &entity.partition_key);
        next_member(out, "RowKey", &entity.row_key);
        self.timestamp(out, entity);
        for (name, value) in &entity.properties {
            self.property(out, name, value);
        }
    }

    /// What an entity does not have is null to who asks for it. Source: Query Entities, "Remarks".
    fn selected(&self, out: &mut String, entity: &Entity, name: &str) {
        match name {
            "PartitionKey" => next_member(out, name, &entity.partition_key),
            "RowKey" => next_member(out, name, &entity.row_key),
            "Timestamp" => self.timestamp(out, entity),
            _ => match entity.property(name) {
                Some(value) => self.property(out, name, value),
                None => {
                    comma(out);
                    quoted(out, name);
                    out.push_str(":null");
                }
            },
        }
    }

    fn timestamp(&self, out: &mut String, entity: &Entity) {
        if self.level == Level::Full {
            next_member(out, "Timestamp@odata.type", "Edm.DateTime");
        }
        next_member(out, "Timestamp", &entity.timestamp.to_full_string());
    }

    fn property(&self, out: &mut String, name: &str, value: &Value) {
        if self.level != Level::None
            && let Some(edm) = annotation(value)
        {
            next_member(out, &format!("{name}@odata.type"), edm);
        }
        comma(out);
        quoted(out, name);
        out.push(':');
        write_value(out, value);
    }
}

/// The type of a value, where JSON alone would not tell it.
fn annotation(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(_) | Value::Int32(_) | Value::Boolean(_) => None,
        Value::Double(number) if number.is_finite() => None,
        Value::Double(_) => Some("Edm.Double"),
        Value::Int64(_) => Some("Edm.Int64"),
        Value::DateTime(_) => Some("Edm.DateTime"),
        Value::Guid(_) => Some("Edm.Guid"),
        Value::Binary(_) => Some("Edm.Binary"),
    }
}

fn write_value(out: &mut String, value: &Value) {
    let written = match value {
        Value::String(text) => {
            quoted(out, text);
            Ok(())
        }
        Value::Int32(number) => write!(out, "{number}"),
        Value::Int64(number) => write!(out, "\"{number}\""),
        // The debug form is the shortest that reads back, and always has a point or an exponent.
        Value::Double(number) if number.is_finite() => write!(out, "{number:?}"),
        Value::Double(number) if number.is_nan() => out.write_str("\"NaN\""),
        Value::Double(number) => {
            write!(out, "\"{}Infinity\"", if *number < 0.0 { "-" } else { "" })
        }
        Value::Boolean(truth) => write!(out, "{truth}"),
        Value::DateTime(instant) => write!(out, "\"{instant}\""),
        Value::Guid(guid) => write!(out, "\"{guid}\""),
        Value::Binary(bytes) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
            Ok(())
        }
    };
    written.expect("writing to a string does not fail");
}

/// `T(PartitionKey='p',RowKey='r')`, quotes doubled, percent-encoded.
pub fn entity_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let escape = |key: &str| utf8_percent_encode(&key.replace('\'', "''"), IN_KEYS).to_string();
    format!(
        "{table}(PartitionKey='{}',RowKey='{}')",
        escape(partition_key),
        escape(row_key)
    )
}

const IN_KEYS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'\'')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'+')
    .add(b'&')
    .add(b'/')
    .add(b'\\');

/// The answer about one table. Source: Create Table, "Response body".
pub fn table_single(level: Level, base_url: &str, account: &str, table: &str) -> String {
    let mut out = String::from("{");
    if level != Level::None {
        member(
            &mut out,
            "odata.metadata",
            &format!("{base_url}/$metadata#Tables/@Element"),
        );
    }
    table_members(&mut out, level, base_url, account, table);
    out.push('}');
    out
}

/// A page of tables. Source: Query Tables, "Response body".
pub fn table_list(level: Level, base_url: &str, account: &str, tables: &[String]) -> String {
    let mut out = String::from("{");
    if level != Level::None {
        member(
            &mut out,
            "odata.metadata",
            &format!("{base_url}/$metadata#Tables"),
        );
        out.push(',');
    }
    out.push_str("\"value\":[");
    for (index, table) in tables.iter().enumerate() {
        out.push_str(if index == 0 { "{" } else { ",{" });
        table_members(&mut out, level, base_url, account, table);
        out.push('}');
    }
    out.push_str("]}");
    out
}

fn table_members(out: &mut String, level: Level, base_url: &str, account: &str, table: &str) {
    if level == Level::Full {
        next_member(out, "odata.type", &format!("{account}.Tables"));
        next_member(out, "odata.id", &format!("{base_url}/Tables('{table}')"));
        next_member(out, "odata.editLink", &format!("Tables('{table}')"));
    }
    next_member(out, "TableName", table);
}

fn next_member(out: &mut String, name: &str, text: &str) {
    comma(out);
    member(out, name, text);
}

fn comma(out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
}

fn member(out: &mut String, name: &str, text: &str) {
    quoted(out, name);
    out.push(':');
    quoted(out, text);
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain_from..at]);
        if escape.is_empty() {
            write!(out, "\\u{byte:04x}").expect("writing to a string does not fail");
        } else {
            out.push_str(escape);
        }
        plain_from = at + 1;
    }
    out.push_str(&text[plain_from..]);
    out.push('"');
}

#[cfg(test)]
#[path = "odata_tests.rs"]
mod tests;
