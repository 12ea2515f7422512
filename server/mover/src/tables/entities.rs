//! Tables and their entities. A line is an entity as the service writes it with minimal metadata,
//! so all types stay exact: its text is copied, not read and written again.

use crate::asking::{patiently, send};
use crate::client::{Call, Client, Reply, encode};
use crate::error::{Error, Result};
use crate::fields::header;
use crate::resource_kind::ResourceKind;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::Upload;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub const JSON: &str = "application/json;odata=minimalmetadata";

/// The fields of an entity, by name.
pub type Fields<'a> = BTreeMap<String, &'a RawValue>;

fn get(client: &Client, resource: &str) -> Result<Reply> {
    let headers = [header("Accept", JSON)];
    send(client, ServiceKind::Table, "GET", resource, &headers, &[])
}

/// The names of all tables.
pub fn tables(client: &Client) -> Result<Vec<String>> {
    let mut more = String::new();
    let mut tables = Vec::new();
    loop {
        let reply = get(client, &format!("Tables?$top=1000{more}"))?;
        more = reply.continuation();
        let document: Value = serde_json::from_str(&reply.text()?).map_err(unreadable)?;
        let names = document["value"].as_array().into_iter().flatten();
        let names = names.filter_map(|table| table["TableName"].as_str());
        for name in names {
            tables.push(ResourceKind::Table.listed(name)?);
        }
        if more.is_empty() {
            return Ok(tables);
        }
    }
}

/// The lines of a page of entities, and the parameters of the next page. `more` is empty for the
/// first page; the returned parameters are empty after the last page.
pub fn read_page(client: &Client, table: &str, more: &str) -> Result<(Vec<String>, String)> {
    let resource = format!("{}()?$top=1000{more}", encode(table));
    let (page, more) = patiently(client, || {
        let call = Call {
            service: ServiceKind::Table,
            method: "GET",
            resource: resource.clone(),
            headers: vec![header("Accept", JSON)],
        };
        let reply = client.send(call, Upload::empty())?;
        let more = reply.continuation();
        Ok::<_, Error>((reply.text()?, more))
    })?;
    let document: Fields<'_> = serde_json::from_str(&page).map_err(unreadable)?;
    let entities = document.get("value").map_or("[]", |value| value.get());
    let entities: Vec<Fields<'_>> = serde_json::from_str(entities).map_err(unreadable)?;
    Ok((entities.iter().map(line_of).collect(), more))
}

/// The error for a response that cannot be parsed.
fn unreadable(error: serde_json::Error) -> Error {
    Error::broken(format!("the answer cannot be read: {error}"))
}

/// The line of an entity: the keys, then all other properties in the order of their names.
fn line_of(entity: &Fields<'_>) -> String {
    let keys = ["PartitionKey", "RowKey"];
    let is_kept =
        |name: &str| !keys.contains(&name) && !name.starts_with("odata.") && name != "Timestamp";
    let first = keys.iter().filter_map(|key| entity.get_key_value(*key));
    let others = entity.iter().filter(|(name, _)| is_kept(name));
    let mut line = String::from("{");
    for (name, value) in first.chain(others) {
        if line.len() > 1 {
            line.push(',');
        }
        let _ = write!(line, "{}:{}", json!(name), value.get());
    }
    line + "}\n"
}

/// Creates a table without its policies. False if it exists.
pub fn make_table(client: &Client, table: &str) -> Result<bool> {
    let body = json!({ "TableName": table }).to_string();
    let headers = [
        header("Content-Type", "application/json"),
        header("Accept", JSON),
        header("Prefer", "return-no-content"),
    ];
    match send(
        client,
        ServiceKind::Table,
        "POST",
        "Tables",
        &headers,
        body.as_bytes(),
    ) {
        Ok(_) => Ok(true),
        Err(error) if error.code() == "TableAlreadyExists" => Ok(false),
        Err(error) => Err(error),
    }
}

/// PartitionKey and RowKey of a line.
pub fn keys_of(line: &str) -> Result<(String, String), String> {
    let entity: Fields<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    Ok((key(&entity, "PartitionKey")?, key(&entity, "RowKey")?))
}

fn key(entity: &Fields<'_>, name: &str) -> Result<String, String> {
    let value = entity
        .get(name)
        .ok_or_else(|| format!("{name}: every entity has one"))?;
    serde_json::from_str(value.get()).map_err(|_| format!("{name}: it is no text"))
}

/// Whether a table has any entity.
pub fn holds_any(client: &Client, table: &str) -> Result<bool> {
    let reply = get(client, &format!("{}()?$top=1", encode(table)))?;
    let document: Value = serde_json::from_str(&reply.text()?).map_err(unreadable)?;
    let page = document["value"].as_array();
    Ok(page.is_some_and(|page| !page.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_keys_first_and_numbers_as_they_were_written() {
        let text = r#"{"odata.etag":"x","A":1.0,"PartitionKey":"p","RowKey":"r","B@odata.type":"Edm.Int64","B":"9","Timestamp":"t","C":1E-7}"#;
        let entity: Fields<'_> = serde_json::from_str(text).unwrap();
        let line = r#"{"PartitionKey":"p","RowKey":"r","A":1.0,"B":"9","B@odata.type":"Edm.Int64","C":1E-7}"#;
        assert_eq!(line_of(&entity), format!("{line}\n"));
    }
}
