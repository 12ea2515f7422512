//! Writes responses from stored rows as they are read, without copying entities.

use crate::chunks::all_bytes;
use crate::odata::Level;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_table::{EntityView, Error, ValueRef};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::fmt::Write;

/// The context of responses with entities of a table.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The metadata level that the client asks for.
    pub level: Level,
    /// The URL of the service, without a final slash.
    pub base_url: &'a str,
    /// The account of the table.
    pub account: &'a str,
    /// The name of the table.
    pub table: &'a str,
    /// The properties to write; `None` for all.
    pub select: Option<&'a [String]>,
}

/// Initial capacity for the JSON of an entity, in bytes.
const ENTITY_BYTES_USUAL: usize = 1536;

impl Frame<'_> {
    /// The whole response to Insert Entity or Get Entity.
    pub fn single(&self, entity: &EntityView<'_>) -> Result<String, Error> {
        let mut out = String::with_capacity(ENTITY_BYTES_USUAL);
        out.push('{');
        if self.level != Level::None {
            self.metadata(&mut out, "/@Element");
        }
        self.members(&mut out, entity)?;
        out.push('}');
        Ok(out)
    }

    /// The text before the entities of a page; [`Frame::entity`] and [`Frame::end_list`] follow.
    pub fn begin_list(&self) -> String {
        let mut out = String::with_capacity(4 * ENTITY_BYTES_USUAL);
        out.push('{');
        if self.level != Level::None {
            self.metadata(&mut out, "");
            out.push(',');
        }
        out.push_str("\"value\":[");
        out
    }

    /// Appends an entity to a page.
    pub fn entity(&self, out: &mut String, entity: &EntityView<'_>) -> Result<(), Error> {
        out.push_str(if out.ends_with('[') { "{" } else { ",{" });
        self.members(out, entity)?;
        out.push('}');
        Ok(())
    }

    /// Appends the text after the entities of a page.
    pub fn end_list(&self, out: &mut String) {
        out.push_str("]}");
    }

    fn metadata(&self, out: &mut String, element: &str) {
        out.push_str("\"odata.metadata\":\"");
        for part in [self.base_url, "/$metadata#", self.table, element] {
            escaped(out, part);
        }
        if let Some(names) = self.select {
            escaped(out, "&$select=");
            escaped(out, &names.join(","));
        }
        out.push('"');
    }

    /// Metadata comes before the properties, as streaming readers require.
    fn members(&self, out: &mut String, entity: &EntityView<'_>) -> Result<(), Error> {
        let instant = entity.timestamp().to_full_text();
        if self.level == Level::Full {
            self.full_members(out, entity, &instant);
        } else if self.level == Level::Minimal {
            etag(out, &instant);
        }
        let Some(names) = self.select else {
            next_member(out, "PartitionKey", entity.partition_key());
            next_member(out, "RowKey", entity.row_key());
            self.timestamp(out, &instant);
            for property in entity.properties() {
                let (name, value) = property?;
                self.property(out, name, value);
            }
            return Ok(());
        };
        for name in names {
            self.selected(out, entity, &instant, name)?;
        }
        Ok(())
    }

    fn full_members(&self, out: &mut String, entity: &EntityView<'_>, instant: &str) {
        let id = entity_path(self.table, entity.partition_key(), entity.row_key());
        next_member(
            out,
            "odata.type",
            &format!("{}.{}", self.account, self.table),
        );
        next_member(out, "odata.id", &format!("{}/{id}", self.base_url));
        etag(out, instant);
        next_member(out, "odata.editLink", &id);
    }

    /// Writes a selected property; `null` if the entity does not have it. Source: Query Entities,
    /// "Remarks".
    fn selected(
        &self,
        out: &mut String,
        entity: &EntityView<'_>,
        instant: &str,
        name: &str,
    ) -> Result<(), Error> {
        match name {
            "PartitionKey" => next_member(out, name, entity.partition_key()),
            "RowKey" => next_member(out, name, entity.row_key()),
            "Timestamp" => self.timestamp(out, instant),
            _ => match entity.property(name)? {
                Some(value) => self.property(out, name, value),
                None => {
                    comma(out);
                    quoted(out, name);
                    out.push_str(":null");
                }
            },
        }
        Ok(())
    }

    fn timestamp(&self, out: &mut String, instant: &str) {
        if self.level == Level::Full {
            next_member(out, "Timestamp@odata.type", "Edm.DateTime");
        }
        next_member(out, "Timestamp", instant);
    }

    fn property(&self, out: &mut String, name: &str, value: ValueRef<'_>) {
        if self.level != Level::None
            && let Some(edm) = annotation(value)
        {
            comma(out);
            for part in ["\"", name, "@odata.type\":\"", edm, "\""] {
                out.push_str(part);
            }
        }
        comma(out);
        // Names of properties have no characters that JSON escapes.
        for part in ["\"", name, "\":"] {
            out.push_str(part);
        }
        write_value(out, value);
    }
}

/// Appends `odata.etag`: `W/"datetime'…'"`, in which only the fixed quotes need escapes.
fn etag(out: &mut String, instant: &str) {
    comma(out);
    out.push_str("\"odata.etag\":\"W/\\\"datetime'");
    for part in [
        &instant[..13],
        "%3A",
        &instant[14..16],
        "%3A",
        &instant[17..],
    ] {
        out.push_str(part);
    }
    out.push_str("'\\\"\"");
}

/// The type to annotate; `None` if JSON shows the type.
fn annotation(value: ValueRef<'_>) -> Option<&'static str> {
    match value {
        ValueRef::String(_) | ValueRef::Int32(_) | ValueRef::Boolean(_) => None,
        ValueRef::Double(number) if number.is_finite() => None,
        ValueRef::Double(_) => Some("Edm.Double"),
        ValueRef::Int64(_) => Some("Edm.Int64"),
        ValueRef::DateTime(_) => Some("Edm.DateTime"),
        ValueRef::Guid(_) => Some("Edm.Guid"),
        ValueRef::Binary(_) => Some("Edm.Binary"),
    }
}

fn write_value(out: &mut String, value: ValueRef<'_>) {
    let written = match value {
        ValueRef::String(text) => {
            quoted(out, text);
            Ok(())
        }
        ValueRef::Int32(number) => write!(out, "{number}"),
        ValueRef::Int64(number) => write!(out, "\"{number}\""),
        // The debug form is the shortest that parses back, and always has a point or an exponent.
        ValueRef::Double(number) if number.is_finite() => write!(out, "{number:?}"),
        ValueRef::Double(number) if number.is_nan() => out.write_str("\"NaN\""),
        ValueRef::Double(number) => {
            write!(out, "\"{}Infinity\"", if number < 0.0 { "-" } else { "" })
        }
        ValueRef::Boolean(truth) => out.write_str(if truth { "true" } else { "false" }),
        ValueRef::DateTime(instant) => {
            out.push('"');
            out.push_str(&instant.to_text());
            out.write_str("\"")
        }
        ValueRef::Guid(guid) => write!(out, "\"{guid}\""),
        ValueRef::Binary(bytes) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.write_str("\"")
        }
    };
    written.expect("writing to a string does not fail");
}

/// The path `T(PartitionKey='p',RowKey='r')`, with quotes doubled and characters percent-encoded.
pub fn entity_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let mut path = String::with_capacity(32 + table.len() + partition_key.len() + row_key.len());
    path.push_str(table);
    path.push_str("(PartitionKey='");
    push_key(&mut path, partition_key);
    path.push_str("',RowKey='");
    push_key(&mut path, row_key);
    path.push_str("')");
    path
}

fn push_key(path: &mut String, key: &str) {
    for (index, part) in key.split('\'').enumerate() {
        if index > 0 {
            path.push_str("''");
        }
        path.extend(utf8_percent_encode(part, IN_KEYS));
    }
}

/// Characters that are percent-encoded in the keys of an entity's address. A quote is only doubled,
/// as recorded answers of the service show.
const IN_KEYS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'+')
    .add(b'&')
    .add(b'/')
    .add(b'\\')
    // The JavaScript client takes braces in a part of a batch for an error document.
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'^');

/// The response with one table. Source: Create Table, "Response body".
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

/// The response with a page of tables. Source: Query Tables, "Response body".
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
    escaped(out, text);
    out.push('"');
}

fn escaped(out: &mut String, text: &str) {
    if all_bytes(text, |byte| !matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        return out.push_str(text);
    }
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
}
