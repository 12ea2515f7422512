//! The tools: name, description, parameters, and the command that each of them is.

use crate::commands::client::{Call, Client, encode};
use crate::commands::{files, messages, query};
use crate::http_client::Upload;
use crate::service_kind::ServiceKind;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Most entries, entities and requests in one answer.
const ENTRIES_MAX: usize = 500;
const ENTITIES_MAX: u64 = 200;
const REQUESTS_MAX: u64 = 100;
/// Bytes of a blob that are read.
const BLOB_BYTES_MAX: u64 = 64 << 10;

/// The effect of a tool on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Reads,
    Writes,
    /// Replaces or deletes what is stored.
    Destroys,
}

type Arguments = Map<String, Value>;

/// A tool. Its function returns JSON, or a sentence that says why there is none.
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    pub access: Access,
    parameters: &'static [Parameter],
    pub call: fn(&Client, &Arguments) -> Result<Value, String>,
}

/// A parameter: name, JSON type, whether it must be given, description.
type Parameter = (&'static str, &'static str, bool, &'static str);

impl Tool {
    /// The JSON schema of the arguments.
    pub fn schema(&self) -> Arguments {
        let properties = self.parameters.iter().map(|(name, kind, _, description)| {
            let schema = json!({"type": kind, "description": description});
            ((*name).to_owned(), schema)
        });
        let required = self
            .parameters
            .iter()
            .filter(|(_, _, is_required, _)| *is_required);
        let required: Vec<_> = required.map(|(name, ..)| *name).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert(
            "properties".to_owned(),
            properties.collect::<Arguments>().into(),
        );
        schema.insert("required".to_owned(), json!(required));
        schema
    }
}

/// All tools, reading ones first.
pub fn all() -> Vec<Tool> {
    reading().into_iter().chain(writing()).collect()
}

fn reading() -> [Tool; 7] {
    let tool = |name, description, parameters, call| Tool {
        name,
        description,
        access: Access::Reads,
        parameters,
        call,
    };
    [
        tool(
            "list",
            "List containers, queues and tables; or the blobs of a container, one level of directories at a time.",
            &[
                (
                    "path",
                    "string",
                    false,
                    "A container, with the directory to list: photos/2026/. Absent: all containers, queues and tables.",
                ),
                (
                    "deep",
                    "boolean",
                    false,
                    "All blobs below the path, not one level.",
                ),
            ],
            list,
        ),
        tool(
            "read_blob",
            "Read the first 64 KiB of a blob that is text.",
            &[("path", "string", true, "CONTAINER/NAME")],
            read_blob,
        ),
        tool(
            "query_entities",
            "Query a table. Answers entities, the plan of the query and the number of entities examined.",
            &[
                ("table", "string", true, "The table"),
                (
                    "filter",
                    "string",
                    false,
                    "As in $filter: PartitionKey eq 'Sales' and Age gt 30",
                ),
                (
                    "top",
                    "integer",
                    false,
                    "Most entities, at most 200; 50 if absent",
                ),
            ],
            query_entities,
        ),
        tool(
            "peek_messages",
            "Look at the next messages of a queue. Counts no delivery.",
            &[
                ("queue", "string", true, "The queue"),
                (
                    "count",
                    "integer",
                    false,
                    "Most messages, at most 32; 32 if absent",
                ),
            ],
            peek_messages,
        ),
        tool(
            "requests",
            "The last requests that the server had, newest last, with status, error code and the reason of each refusal.",
            &[
                (
                    "filter",
                    "string",
                    false,
                    "Words that all have to be in the request, or status:404 code:BlobNotFound operation:GetBlob client:python in:photos",
                ),
                (
                    "errors_only",
                    "boolean",
                    false,
                    "Only requests that were refused or failed",
                ),
                (
                    "count",
                    "integer",
                    false,
                    "Most requests, at most 100; 20 if absent",
                ),
            ],
            requests,
        ),
        tool(
            "request",
            "One request with headers, bodies, the operations of a batch, and the two strings to sign of a refused signature.",
            &[(
                "id",
                "string",
                true,
                "x-ms-request-id, from `requests` or from the log of a client",
            )],
            request,
        ),
        tool(
            "advice",
            "What the server would change about the workload that it has seen, by the rules of the table design guide.",
            &[],
            advice,
        ),
    ]
}

fn writing() -> [Tool; 6] {
    let tool = |name, description, access, parameters, call| Tool {
        name,
        description,
        access,
        parameters,
        call,
    };
    [
        tool(
            "put_blob",
            "Put a text as a block blob, in place of one that has the name.",
            Access::Destroys,
            &[
                ("path", "string", true, "CONTAINER/NAME"),
                ("text", "string", true, "The content"),
                ("content_type", "string", false, "text/plain if absent"),
            ],
            put_blob,
        ),
        tool(
            "delete_blob",
            "Delete a blob.",
            Access::Destroys,
            &[("path", "string", true, "CONTAINER/NAME")],
            delete_blob,
        ),
        tool(
            "send_message",
            "Put a message into a queue.",
            Access::Writes,
            &[
                ("queue", "string", true, "The queue"),
                ("text", "string", true, "The message"),
            ],
            send_message,
        ),
        tool(
            "put_entity",
            "Insert an entity, or replace the one that has its keys.",
            Access::Destroys,
            &[
                ("table", "string", true, "The table"),
                (
                    "entity",
                    "object",
                    true,
                    "PartitionKey, RowKey and properties; a type that JSON does not have stands beside a value as NAME@odata.type",
                ),
            ],
            put_entity,
        ),
        tool(
            "delete_entity",
            "Delete an entity.",
            Access::Destroys,
            &[
                ("table", "string", true, "The table"),
                ("partition_key", "string", true, "Its PartitionKey"),
                ("row_key", "string", true, "Its RowKey"),
            ],
            delete_entity,
        ),
        tool(
            "create",
            "Create a container, a queue or a table.",
            Access::Writes,
            &[
                ("kind", "string", true, "container, queue or table"),
                ("name", "string", true, "Its name"),
            ],
            create,
        ),
    ]
}

fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, String> {
    let found = arguments.get(name).and_then(Value::as_str);
    found.ok_or_else(|| format!("The argument '{name}' is missing, or is not a string."))
}

fn optional<'a>(arguments: &'a Arguments, name: &str) -> &'a str {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn flag(arguments: &Arguments, name: &str) -> bool {
    arguments
        .get(name)
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

fn count(arguments: &Arguments, name: &str, usual: u64, most: u64) -> u64 {
    let given = arguments.get(name).and_then(Value::as_u64);
    given.unwrap_or(usual).clamp(1, most)
}

fn list(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let (mut entries, mut has_more) = (Vec::new(), false);
    files::facts(
        client,
        optional(arguments, "path"),
        flag(arguments, "deep"),
        &mut |fact| {
            has_more = entries.len() == ENTRIES_MAX;
            if !has_more {
                entries.push(fact);
            }
            !has_more
        },
    )?;
    Ok(json!({"entries": entries, "has_more": has_more}))
}

fn read_blob(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let resource = files::blob(text(arguments, "path")?)?;
    let mut reply = client.ask(ServiceKind::Blob, "GET", resource)?;
    let kind = reply.header("content-type").unwrap_or_default().to_owned();
    let length = reply
        .header("content-length")
        .and_then(|length| length.parse::<u64>().ok());
    let mut bytes = Vec::new();
    let read = reply.body().take(BLOB_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| format!("The content cannot be read: {error}."))?;
    let content = match std::str::from_utf8(&bytes) {
        Ok(content) => content,
        // A character is cut off.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Err(format!("The blob is no text: it is {kind}.")),
    };
    Ok(json!({"content_type": kind, "bytes": length, "text": content}))
}

fn query_entities(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let (table, filter) = (text(arguments, "table")?, optional(arguments, "filter"));
    let top = count(arguments, "top", 50, ENTITIES_MAX) as usize;
    let found = query::find(client, table, filter, top)?;
    Ok(json!({"entities": found.rows, "plan": found.plan, "has_more": found.has_more}))
}

fn peek_messages(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let most = count(arguments, "count", 32, 32) as u32;
    let messages = messages::peeked(client, text(arguments, "queue")?, most)?;
    Ok(json!({ "messages": messages }))
}

fn requests(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let most = count(arguments, "count", 20, REQUESTS_MAX) as usize;
    let filter = encode(optional(arguments, "filter")).replace('/', "%2F");
    let errors = if flag(arguments, "errors_only") {
        "&errors=yes"
    } else {
        ""
    };
    let (mut last, mut after) = (Vec::new(), 0);
    loop {
        let page = format!("/_lazurite/api/requests?after={after}&filter={filter}{errors}");
        let mut batch = client.administer(&page)?;
        if let Value::Array(requests) = batch["requests"].take() {
            last.extend(requests);
        }
        last.drain(..last.len().saturating_sub(most));
        let next = batch["next"].as_u64().unwrap_or(after);
        if next <= after {
            return Ok(json!({ "requests": last }));
        }
        after = next;
    }
}

fn request(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let id = encode(text(arguments, "id")?).replace('/', "%2F");
    client.administer(&format!("/_lazurite/api/requests/{id}"))
}

fn advice(client: &Client, _: &Arguments) -> Result<Value, String> {
    client.advice()
}

/// The answer of a tool that has nothing to tell.
fn done() -> Result<Value, String> {
    Ok(json!({"done": true}))
}

fn put_blob(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let kind = Some(optional(arguments, "content_type")).filter(|kind| !kind.is_empty());
    let content = text(arguments, "text")?.as_bytes().to_vec();
    let path = text(arguments, "path")?;
    let kind = checked_header(kind.unwrap_or("text/plain"))?;
    files::put_content(client, path, kind, Upload::of(content))?;
    done()
}

/// A value that stands in the head of a request.
fn checked_header(value: &str) -> Result<&str, String> {
    if value.chars().any(char::is_control) {
        return Err("The content type has a control character.".to_owned());
    }
    Ok(value)
}

fn delete_blob(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    files::remove(client, text(arguments, "path")?)?;
    done()
}

fn send_message(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    messages::put(client, text(arguments, "queue")?, text(arguments, "text")?)?;
    done()
}

/// The resource of an entity.
fn entity_of(table: &str, partition_key: &str, row_key: &str) -> String {
    let key = |key: &str| encode(&key.replace('\'', "''")).replace('/', "%2F");
    let table = encode(table);
    format!(
        "{table}(PartitionKey='{}',RowKey='{}')",
        key(partition_key),
        key(row_key)
    )
}

/// Sends a document to the Table service, or creates something.
fn send(
    client: &Client,
    service: ServiceKind,
    method: &str,
    resource: String,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Value, String> {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let call = Call {
        service,
        method,
        resource,
        headers: headers.collect(),
    };
    client.send(call, Upload::of(body.as_bytes().to_vec()))?;
    done()
}

fn put_entity(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let entity = arguments.get("entity").and_then(Value::as_object);
    let entity = entity.ok_or("The argument 'entity' is missing, or is not an object.")?;
    let (partition_key, row_key) = (text(entity, "PartitionKey")?, text(entity, "RowKey")?);
    let resource = entity_of(text(arguments, "table")?, partition_key, row_key);
    let body = Value::Object(entity.clone()).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
    ];
    send(client, ServiceKind::Table, "PUT", resource, &headers, &body)
}

fn delete_entity(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let keys = (
        text(arguments, "partition_key")?,
        text(arguments, "row_key")?,
    );
    let resource = entity_of(text(arguments, "table")?, keys.0, keys.1);
    send(
        client,
        ServiceKind::Table,
        "DELETE",
        resource,
        &[("If-Match", "*")],
        "",
    )
}

fn create(client: &Client, arguments: &Arguments) -> Result<Value, String> {
    let name = text(arguments, "name")?;
    match text(arguments, "kind")? {
        "container" => {
            let resource = format!("{}?restype=container", encode(name));
            send(client, ServiceKind::Blob, "PUT", resource, &[], "")
        }
        "queue" => send(client, ServiceKind::Queue, "PUT", encode(name), &[], ""),
        "table" => {
            let body = json!({"TableName": name}).to_string();
            let headers = [
                ("Content-Type", "application/json"),
                ("Accept", "application/json"),
            ];
            send(
                client,
                ServiceKind::Table,
                "POST",
                "Tables".to_owned(),
                &headers,
                &body,
            )
        }
        kind => Err(format!("'{kind}' is not container, queue or table.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_of_their_own_and_schemas() {
        let tools = all();
        let names: std::collections::BTreeSet<_> = tools.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), tools.len());
        let list = tools[0].schema();
        assert_eq!(list["properties"]["deep"]["type"], "boolean");
        let put = tools.iter().find(|tool| tool.name == "put_blob").unwrap();
        assert_eq!(put.schema()["required"], json!(["path", "text"]));
    }

    #[test]
    fn keys_of_an_entity_hold_any_letter() {
        assert_eq!(
            entity_of("T", "a/b'c", "é"),
            "T(PartitionKey='a%2Fb%27%27c',RowKey='%C3%A9')"
        );
    }
}
