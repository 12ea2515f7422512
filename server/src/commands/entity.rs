//! `lazurite entity`: reads, writes and deletes entities. Values are written as in `$filter`.

use crate::cli::{EntityAction, EntityPutArguments};
use crate::commands::confirm::confirm;
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::{Words, report, say};
use crate::http_client::Upload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::count;
use lazurite_mover::bulk::{Work, delete_entities, list_entities};
use lazurite_mover::{Call, Client, Reply, RequestError, encode};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_table::{DateTime, Guid};
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::time::Duration;

const RETRY: Duration = Duration::from_secs(30);
const JSON: &str = "application/json;odata=fullmetadata";
/// Properties of an entity that are not its own.
const OF_SERVICE: [&str; 4] = ["PartitionKey", "RowKey", "Timestamp", "odata.etag"];

/// Runs the action. The error is a sentence.
pub fn run(client: &Client, action: &EntityAction, as_json: bool) -> Result<ExitCode, String> {
    match action {
        EntityAction::Get {
            table,
            partition_key,
            row_key,
        } => get(client, &Keys::new(table, partition_key, row_key), as_json),
        EntityAction::Put(arguments) => put_named(client, arguments, as_json),
        EntityAction::Delete {
            table,
            partition_key: Some(partition_key),
            row_key: Some(row_key),
            if_match,
            ..
        } => {
            let keys = Keys::new(table, partition_key, row_key);
            delete(client, &keys, if_match)?;
            let fact = json!({"table": table, "PartitionKey": partition_key, "RowKey": row_key, "done": true});
            say(as_json, fact, &format!("deleted {keys}"));
            Ok(ExitCode::SUCCESS)
        }
        EntityAction::Delete {
            table,
            filter: Some(filter),
            yes,
            ..
        } => delete_found(client, table, filter, *yes, as_json),
        EntityAction::Delete { .. } => {
            Err("name the PartitionKey and the RowKey, or a --filter".to_owned())
        }
    }
}

/// The keys of an entity.
pub struct Keys<'a> {
    table: &'a str,
    partition: &'a str,
    row: &'a str,
}

impl<'a> Keys<'a> {
    pub fn new(table: &'a str, partition: &'a str, row: &'a str) -> Keys<'a> {
        Keys {
            table,
            partition,
            row,
        }
    }

    /// The path in a request.
    fn resource(&self) -> String {
        let key = |key: &str| encode(&key.replace('\'', "''")).replace('/', "%2F");
        format!(
            "{}(PartitionKey='{}',RowKey='{}')",
            encode(self.table),
            key(self.partition),
            key(self.row)
        )
    }

    fn explain(&self, client: &Client, error: RequestError) -> String {
        let subject = Subject::Entity(self.table, self.partition, self.row);
        match &error {
            RequestError::Refused(refusal) if refusal.status == 412 => format!(
                "{self} has another ETag by now, and stays as it is: `lazurite entity get` shows it"
            ),
            RequestError::Refused(refusal) if refusal.status == 409 => {
                format!("{self} is there already: without --insert it is replaced")
            }
            _ => explain(client, subject, error),
        }
    }
}

impl std::fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} '{}', '{}'", self.table, self.partition, self.row)
    }
}

/// The keys and properties of an entity, with the types that JSON does not have, and its ETag.
pub fn fields(client: &Client, keys: &Keys<'_>) -> Result<Value, String> {
    let call = Call {
        service: ServiceKind::Table,
        method: "GET",
        resource: keys.resource(),
        headers: vec![("Accept".to_owned(), JSON.to_owned())],
    };
    let reply = client.send(call, Upload::empty());
    let reply = reply.map_err(|error| keys.explain(client, error))?;
    let etag = reply.header("etag").unwrap_or_default().to_owned();
    let entity: Map<String, Value> = serde_json::from_str(&reply.text()?)
        .map_err(|error| format!("the answer cannot be read: {error}"))?;
    let is_kept = |name: &str| !name.starts_with("odata.");
    let entity = entity.into_iter().filter(|(name, _)| is_kept(name));
    let mut fields: Map<String, Value> = entity.collect();
    fields.insert("odata.etag".to_owned(), etag.into());
    Ok(fields.into())
}

fn get(client: &Client, keys: &Keys<'_>, as_json: bool) -> Result<ExitCode, String> {
    let fields = fields(client, keys)?;
    if as_json {
        print_line(fields);
        return Ok(ExitCode::SUCCESS);
    }
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    let mut rows = vec![
        (
            "PartitionKey".to_owned(),
            literal(&keys.partition.into(), "Edm.String"),
        ),
        ("RowKey".to_owned(), literal(&keys.row.into(), "Edm.String")),
    ];
    rows.push(("Timestamp".to_owned(), text("Timestamp")));
    rows.push(("ETag".to_owned(), text("odata.etag")));
    let is_own = |name: &str| !name.contains('@') && !OF_SERVICE.contains(&name);
    let properties = fields.as_object().into_iter().flatten();
    for (name, value) in properties.filter(|(name, _)| is_own(name)) {
        let kind = fields[format!("{name}@odata.type")].as_str();
        rows.push((
            name.clone(),
            literal(value, kind.unwrap_or_else(|| plain_type(value))),
        ));
    }
    let width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    for (name, value) in rows {
        print_line(format_args!("{:width$}  {}", plain(&name), plain(&value)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The type of a value without an annotation.
fn plain_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "Edm.Boolean",
        Value::Number(number) if number.is_f64() => "Edm.Double",
        Value::Number(_) => "Edm.Int32",
        _ => "Edm.String",
    }
}

/// A value as `$filter` and `entity put` write it.
fn literal(value: &Value, kind: &str) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match kind {
        "Edm.String" => format!("'{}'", text.replace('\'', "''")),
        "Edm.Int64" => format!("{text}L"),
        "Edm.DateTime" => format!("datetime'{text}'"),
        "Edm.Guid" => format!("guid'{text}'"),
        "Edm.Binary" => {
            let bytes = STANDARD.decode(&text).unwrap_or_default();
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("binary'{digits}'")
        }
        _ => text,
    }
}

/// The JSON value and the type of a property that a command line writes. Error: a clause.
fn parsed(text: &str) -> Result<(Value, &'static str), String> {
    if let Some(inner) = quoted(text, "")? {
        return Ok((inner.into(), "Edm.String"));
    }
    for (prefix, kind) in [
        ("datetime", "Edm.DateTime"),
        ("guid", "Edm.Guid"),
        ("binary", "Edm.Binary"),
        ("X", "Edm.Binary"),
    ] {
        if let Some(inner) = quoted(text, prefix)? {
            let value = match kind {
                "Edm.Binary" => base64_of_digits(&inner)?,
                "Edm.DateTime" if DateTime::parse(&inner).is_err() => {
                    return Err(format!(
                        "{text}: write a time as in datetime'2026-11-30T18:00:00Z'"
                    ));
                }
                "Edm.Guid" if Guid::parse(&inner).is_none() => {
                    return Err(format!(
                        "{text}: a guid has 32 hexadecimal digits, in groups of 8, 4, 4, 4 and 12"
                    ));
                }
                _ => inner,
            };
            return Ok((value.into(), kind));
        }
        let rest = text.strip_prefix(prefix).unwrap_or_default();
        if has_lost_quotes(prefix, rest) {
            return Err(format!(
                "{text}: the shell took the quotes away. Quote the whole: \"NAME={prefix}'{rest}'\""
            ));
        }
    }
    Ok(match text {
        "true" => (true.into(), "Edm.Boolean"),
        "false" => (false.into(), "Edm.Boolean"),
        _ => number(text)?.unwrap_or_else(|| (text.into(), "Edm.String")),
    })
}

/// Whether the text after a prefix is a value of its type, without the quotes around it.
fn has_lost_quotes(prefix: &str, rest: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_hexdigit();
    match prefix {
        "datetime" => rest.starts_with(|c: char| c.is_ascii_digit()),
        "guid" => rest.len() == 36 && rest.chars().all(|c| is_hex(c) || c == '-'),
        "binary" => rest.contains(|c: char| c.is_ascii_digit()) && rest.chars().all(is_hex),
        _ => false,
    }
}

/// The text between `prefix'` and `'`, with doubled quotes made single; `None` if it is not one.
fn quoted(text: &str, prefix: &str) -> Result<Option<String>, String> {
    let Some(rest) = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('\''))
    else {
        return Ok(None);
    };
    let inner = rest
        .strip_suffix('\'')
        .ok_or_else(|| format!("{text}: the closing ' is missing"))?;
    if inner.replace("''", "").contains('\'') {
        return Err(format!("{text}: write '' for a quote inside"));
    }
    Ok(Some(inner.replace("''", "'")))
}

fn base64_of_digits(digits: &str) -> Result<String, String> {
    let wrong = || format!("{digits}: binary has two hexadecimal digits for each byte");
    if !digits.len().is_multiple_of(2) || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let bytes = (0..digits.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    let bytes: Result<Vec<u8>, _> = bytes.collect();
    Ok(STANDARD.encode(bytes.map_err(|_| wrong())?))
}

/// A number, as `$filter` writes it; `None` if the text does not begin as one.
fn number(text: &str) -> Result<Option<(Value, &'static str)>, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    if let Some(long) = text.strip_suffix(['L', 'l']) {
        return Ok(long
            .parse::<i64>()
            .ok()
            .map(|long| (long.to_string().into(), "Edm.Int64")));
    }
    if digits.chars().all(|c| c.is_ascii_digit()) {
        // Leading zeros make a code, such as a postal code, not a number.
        if digits.len() > 1 && digits.starts_with('0') {
            return Ok(None);
        }
        let number = text.parse::<i32>();
        let number = number.map_err(|_| {
            format!("{text} is no 32-bit integer: write {text}L for a 64-bit one, or quote it twice, \"'{text}'\", for a text")
        })?;
        return Ok(Some((number.into(), "Edm.Int32")));
    }
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    Ok(double.map(|double| (double.into(), "Edm.Double")))
}

fn put_named(
    client: &Client,
    arguments: &EntityPutArguments,
    as_json: bool,
) -> Result<ExitCode, String> {
    let keys = Keys::new(
        &arguments.table,
        &arguments.partition_key,
        &arguments.row_key,
    );
    check_key("PartitionKey", &arguments.partition_key)?;
    check_key("RowKey", &arguments.row_key)?;
    let mut entity = Map::new();
    let mut words = Vec::new();
    for property in &arguments.properties {
        let (name, value) = property
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("{property:?} is no property: write NAME=VALUE"))?;
        if ["PartitionKey", "RowKey", "Timestamp"].contains(&name) {
            return Err(format!(
                "{name} is no property: the keys stand before the properties"
            ));
        }
        if entity.contains_key(name) {
            return Err(format!("{name} is given twice"));
        }
        let (value, kind) = parsed(value).map_err(|reason| format!("{name}: {reason}"))?;
        words.push(format!("{name} {}", literal(&value, kind)));
        entity.insert(format!("{name}@odata.type"), kind.into());
        entity.insert(name.to_owned(), value);
    }
    let manner = match (arguments.insert, arguments.merge) {
        (true, _) => Manner::Insert,
        (_, true) => Manner::Merge,
        _ => Manner::Replace,
    };
    let etag = put(client, &keys, entity, manner, arguments.if_match.as_deref())?;
    let fact = json!({
        "table": arguments.table, "PartitionKey": arguments.partition_key, "RowKey": arguments.row_key, "etag": etag, "done": true,
    });
    let verb = match manner {
        Manner::Insert => "inserted",
        Manner::Merge => "merged",
        Manner::Replace => "put",
    };
    say(
        as_json,
        fact,
        &format!("{verb} {keys}: {}", words.join(", ")),
    );
    Ok(ExitCode::SUCCESS)
}

/// Refuses a key that no entity can have. Source: Understanding the Table service data model,
/// "Characters disallowed in key fields".
fn check_key(name: &str, key: &str) -> Result<(), String> {
    if key.contains(['/', '\\', '#', '?']) {
        return Err(format!(
            "{name} {key:?}: a key has none of the characters / \\ # ?"
        ));
    }
    Ok(())
}

/// What happens to an entity that has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It is replaced, as a whole.
    Replace,
    /// It keeps the properties that are not named.
    Merge,
    /// It stays, and the command fails.
    Insert,
}

/// Writes an entity. With an ETag only if it has that one; `*` is any. Returns the new ETag.
pub fn put(
    client: &Client,
    keys: &Keys<'_>,
    mut entity: Map<String, Value>,
    manner: Manner,
    if_match: Option<&str>,
) -> Result<String, String> {
    let (method, resource) = match manner {
        Manner::Replace => ("PUT", keys.resource()),
        Manner::Merge => ("MERGE", keys.resource()),
        Manner::Insert => ("POST", encode(keys.table)),
    };
    entity.insert("PartitionKey".to_owned(), keys.partition.into());
    entity.insert("RowKey".to_owned(), keys.row.into());
    let mut headers = vec![
        ("Content-Type".to_owned(), "application/json".to_owned()),
        (
            "Accept".to_owned(),
            "application/json;odata=minimalmetadata".to_owned(),
        ),
        ("Prefer".to_owned(), "return-no-content".to_owned()),
    ];
    headers.extend(if_match.map(|etag| ("If-Match".to_owned(), etag.to_owned())));
    let body = Value::Object(entity).to_string().into_bytes();
    let reply = send(client, (method, resource), headers, body);
    let reply = reply.map_err(|error| keys.explain(client, error))?;
    Ok(reply.header("etag").unwrap_or_default().to_owned())
}

/// Deletes an entity, if it has this ETag; `*` is any.
pub fn delete(client: &Client, keys: &Keys<'_>, if_match: &str) -> Result<(), String> {
    let headers = vec![
        ("If-Match".to_owned(), if_match.to_owned()),
        ("Accept".to_owned(), "application/json".to_owned()),
    ];
    let deleted = send(client, ("DELETE", keys.resource()), headers, Vec::new());
    deleted
        .map(drop)
        .map_err(|error| keys.explain(client, error))
}

fn send(
    client: &Client,
    (method, resource): (&str, String),
    headers: Vec<(String, String)>,
    body: Vec<u8>,
) -> Result<Reply, RequestError> {
    let call = Call {
        service: ServiceKind::Table,
        method,
        resource,
        headers,
    };
    client.send(call, Upload::of(body))
}

/// Deletes what a filter finds, after a question with the number.
fn delete_found(
    client: &Client,
    table: &str,
    filter: &str,
    yes: bool,
    as_json: bool,
) -> Result<ExitCode, String> {
    let list = list_entities(client, table, filter);
    let list = list.map_err(|error| explain(client, Subject::Filter(table, filter), error))?;
    if list.count == 0 {
        return Err(format!("the filter finds no entity of {table}"));
    }
    let noun = if list.count == 1 {
        "entity"
    } else {
        "entities"
    };
    let question = format!(
        "Delete {} {noun} of {table} that the filter finds?",
        count(list.count)
    );
    confirm(&plain(&question), yes)?;
    let work = Work::begin(("deleted", "entities"), list.count);
    let outcome = delete_entities(&client.with_retry(RETRY), list, work);
    let words = Words {
        verb: "deleted",
        noun: ["entity", "entities"],
        skipped: "were gone already",
        way_on: "The same command goes on from there",
    };
    report(&outcome, words, as_json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_of_filters_and_are_printed_as_they_are_written() {
        for (text, kind) in [
            ("'it''s'", "Edm.String"),
            ("'34'", "Edm.String"),
            ("34", "Edm.Int32"),
            ("-34", "Edm.Int32"),
            ("34L", "Edm.Int64"),
            ("1.5", "Edm.Double"),
            ("true", "Edm.Boolean"),
            ("datetime'2026-11-30T18:00:00Z'", "Edm.DateTime"),
            ("guid'6c9d3b06-1f0b-4c5e-8ee3-8e0d5f9a3c11'", "Edm.Guid"),
            ("binary'00ff'", "Edm.Binary"),
        ] {
            let (value, found) = parsed(text).unwrap();
            assert_eq!((found, literal(&value, found).as_str()), (kind, text));
        }
        // The shell has taken the quotes away, or there were none.
        for text in ["Anna", "01234", "2026-11-30", "binaryfile", "x'y", ""] {
            assert_eq!(parsed(text).unwrap(), (text.into(), "Edm.String"));
        }
        assert_eq!(parsed("X'0A'").unwrap(), ("Cg==".into(), "Edm.Binary"));
    }

    #[test]
    fn values_that_cannot_be_meant_are_refused() {
        for (text, reason) in [
            ("3000000000", "3000000000L"),
            ("'x", "closing"),
            ("'a'b'", "''"),
            ("datetime2026-11-30T18:00:00Z", "quotes"),
            ("binary00ff", "quotes"),
            ("guid6c9d3b06-1f0b-4c5e-8ee3-8e0d5f9a3c11", "quotes"),
            ("datetime'2026'", "write a time"),
            ("guid'1'", "32 hexadecimal digits"),
            ("binary'0'", "digits"),
            ("binary'xx'", "digits"),
            ("binary'ä'", "digits"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
