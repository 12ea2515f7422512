//! The tools of the MCP server.

use super::McpServer;
use crate::commands::{design_check, files, messages, query};
use crate::http_client::Upload;
use lazurite_base::terminal::ChangingLine;
use lazurite_cost::Prices;
use lazurite_mover::{Call, Client, encode};
use lazurite_protocol::service_kind::ServiceKind;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Read;

/// Maximum number of entries, entities and requests in one answer.
const ENTRIES_MAX: usize = 500;
const ENTITIES_MAX: usize = 200;
const REQUESTS_MAX: usize = 100;
/// Maximum number of bytes of the entities, and of patterns, of a design that is checked.
const DESIGN_BYTES_MAX: u64 = 64 << 20;
const DESIGN_PATTERNS_MAX: usize = 50;
/// Maximum number of bytes of a blob that are read.
const BLOB_BYTES_MAX: u64 = 64 << 10;
/// Maximum length of an answer: assistants read no more.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// JSON, or a sentence that says why the tool failed.
type Answer = Result<String, String>;

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// A container, with the directory to list: photos/2026/. Absent: all containers, queues and
    /// tables.
    #[serde(default)]
    path: String,
    /// All blobs below the path, not one level.
    #[serde(default)]
    deep: bool,
}

#[derive(Deserialize, JsonSchema)]
struct BlobPath {
    /// CONTAINER/NAME
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct EntityQuery {
    table: String,
    /// As in $filter: PartitionKey eq 'Sales' and Age gt 30
    #[serde(default)]
    filter: String,
    /// Most entities, at most 200; 50 if absent
    top: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct Peek {
    queue: String,
    /// Most messages, at most 32; 32 if absent
    count: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct RequestQuery {
    /// Words that all have to be in the request, or status:404 code:BlobNotFound operation:GetBlob
    /// client:python in:photos
    #[serde(default)]
    filter: String,
    /// Only requests that were refused or failed
    #[serde(default)]
    errors_only: bool,
    /// Most requests, at most 100; 20 if absent
    count: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct RequestId {
    /// x-ms-request-id, from `requests` or from the log of a client
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct Design {
    /// As the page what-if of the documentation describes it, such as:
    /// [tables.T] rows = 1000, partition-key = "Customer", row-key = "inverted(Placed)";
    /// [tables.T.properties] Customer = { text = "c{}", of = 50 }, Placed = { instant =
    /// "2026-01-01T00:00:00Z", every = 60 }; [[patterns]] name, table, does = "query", filter =
    /// "PartitionKey eq {Customer}", per-second = 5, must = { plan = "row range" }
    toml: String,
}

#[derive(Deserialize, JsonSchema)]
struct NewBlob {
    /// CONTAINER/NAME
    path: String,
    /// The content
    text: String,
    /// text/plain if absent
    content_type: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct NewMessage {
    queue: String,
    /// The message
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct NewEntity {
    table: String,
    /// PartitionKey, RowKey and properties; a type that JSON does not have stands next to a value
    /// as NAME@odata.type
    entity: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
struct EntityKeys {
    table: String,
    partition_key: String,
    row_key: String,
}

#[derive(Deserialize, JsonSchema)]
struct NewResource {
    kind: ResourceKind,
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ResourceKind {
    Container,
    Queue,
    Table,
}

#[tool_router(router = all_tools, vis = "pub(super)")]
impl McpServer {
    /// List containers, queues and tables; or the blobs of a container, one level of directories at
    /// a time.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn list(&self, Parameters(Place { path, deep }): Parameters<Place>) -> Answer {
        let (mut entries, mut has_more) = (Vec::new(), false);
        files::facts(&self.client, &path, deep, &mut |fact| {
            has_more = entries.len() == ENTRIES_MAX;
            if !has_more {
                entries.push(fact);
            }
            !has_more
        })?;
        answer(&json!({"entries": entries, "has_more": has_more}))
    }

    /// Read the first 64 KiB of a blob that is text.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn read_blob(&self, Parameters(BlobPath { path }): Parameters<BlobPath>) -> Answer {
        let mut reply = self
            .client
            .ask(ServiceKind::Blob, "GET", files::blob(&path)?)?;
        let kind = reply.header("content-type").unwrap_or_default().to_owned();
        let length = reply.header("content-length");
        let length = length.and_then(|length| length.parse::<u64>().ok());
        let mut bytes = Vec::new();
        let read = reply.body().take(BLOB_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| format!("The content cannot be read: {error}."))?;
        let content = match std::str::from_utf8(&bytes) {
            Ok(content) => content,
            // The limit has cut a character.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(format!("The blob is no text: it is {kind}.")),
        };
        answer(&json!({"content_type": kind, "bytes": length, "text": content}))
    }

    /// Query a table. Answers entities, the plan of the query and the number of entities examined.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn query_entities(&self, Parameters(query): Parameters<EntityQuery>) -> Answer {
        let top = query.top.unwrap_or(50).clamp(1, ENTITIES_MAX);
        let found = query::find(&self.client, &query.table, &query.filter, top)?;
        answer(&json!({"entities": found.rows, "plan": found.plan, "has_more": found.has_more}))
    }

    /// Look at the next messages of a queue. Counts no delivery.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn peek_messages(&self, Parameters(Peek { queue, count }): Parameters<Peek>) -> Answer {
        let messages = messages::peeked(&self.client, &queue, count.unwrap_or(32).clamp(1, 32))?;
        answer(&json!({ "messages": messages }))
    }

    /// The last requests that the server had, newest last, with status, error code and the reason
    /// of each refusal.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn requests(&self, Parameters(query): Parameters<RequestQuery>) -> Answer {
        let most = query.count.unwrap_or(20).clamp(1, REQUESTS_MAX);
        let filter = encode(&query.filter).replace('/', "%2F");
        let errors = if query.errors_only { "&errors=yes" } else { "" };
        let (mut last, mut after) = (Vec::new(), 0);
        loop {
            let page = format!("/_lazurite/api/requests?after={after}&filter={filter}{errors}");
            let mut batch = self.client.administer(&page)?;
            if let Value::Array(requests) = batch["requests"].take() {
                last.extend(requests);
            }
            last.drain(..last.len().saturating_sub(most));
            let next = batch["next"].as_u64().unwrap_or(after);
            if next <= after {
                return answer(&json!({ "requests": last }));
            }
            after = next;
        }
    }

    /// One request with headers, bodies, the operations of a batch, and the two strings to sign of
    /// a refused signature.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn request(&self, Parameters(RequestId { id }): Parameters<RequestId>) -> Answer {
        let id = encode(&id).replace('/', "%2F");
        answer(
            &self
                .client
                .administer(&format!("/_lazurite/api/requests/{id}"))?,
        )
    }

    /// What the server would change about the workload that it has seen, by the rules of the table
    /// design guide.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn advice(&self) -> Answer {
        answer(&self.client.advice()?)
    }

    /// Check a design of tables: keys, made-up entities, access patterns and what each must hold.
    /// Builds it in a fork of the store, which is then removed. Answers plan, rows examined,
    /// requests and price of each pattern, the hottest partition of each table, and what fails.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn check_design(&self, Parameters(Design { toml }): Parameters<Design>) -> Answer {
        let prices = Prices::default();
        let design = design_check::read(&toml, false)?;
        let bytes = design.bytes().map_err(|error| error.to_string())?;
        if bytes > DESIGN_BYTES_MAX || design.patterns.len() > DESIGN_PATTERNS_MAX {
            return Err(format!(
                "The design has {bytes} bytes and {} patterns, and the limits here are {DESIGN_BYTES_MAX} and {DESIGN_PATTERNS_MAX}.",
                design.patterns.len()
            ));
        }
        let progress = &mut ChangingLine::hidden();
        let outcome = design_check::build_and_check(&self.client, &design, &prices, progress)?;
        answer(&design_check::as_value(&outcome, &prices))
    }

    /// Put a text as a block blob, in place of one that has the name.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn put_blob(&self, Parameters(new): Parameters<NewBlob>) -> Answer {
        let kind = new.content_type.filter(|kind| !kind.is_empty());
        let kind = kind.as_deref().unwrap_or("text/plain");
        if kind.chars().any(char::is_control) {
            return Err("The content type has a control character.".to_owned());
        }
        files::put_content(
            &self.client,
            &new.path,
            kind,
            Upload::of(new.text.into_bytes()),
        )?;
        done()
    }

    /// Delete a blob.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_blob(&self, Parameters(BlobPath { path }): Parameters<BlobPath>) -> Answer {
        files::remove(&self.client, &path)?;
        done()
    }

    /// Put a message into a queue.
    #[tool(annotations(destructive_hint = false, open_world_hint = false))]
    fn send_message(&self, Parameters(new): Parameters<NewMessage>) -> Answer {
        messages::put(&self.client, &new.queue, &new.text)?;
        done()
    }

    /// Insert an entity, or replace the one that has its keys.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn put_entity(&self, Parameters(NewEntity { table, entity }): Parameters<NewEntity>) -> Answer {
        let key = |name: &str| {
            let key = entity.get(name).and_then(Value::as_str);
            key.ok_or_else(|| format!("The property '{name}' is missing, or is not a string."))
        };
        let resource = entity_of(&table, key("PartitionKey")?, key("RowKey")?);
        let body = Value::Object(entity.clone()).to_string();
        send(
            &self.client,
            (ServiceKind::Table, "PUT", resource),
            &JSON,
            &body,
        )
    }

    /// Delete an entity.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_entity(&self, Parameters(keys): Parameters<EntityKeys>) -> Answer {
        let resource = entity_of(&keys.table, &keys.partition_key, &keys.row_key);
        let line = (ServiceKind::Table, "DELETE", resource);
        send(&self.client, line, &[("If-Match", "*")], "")
    }

    /// Create a container, a queue or a table.
    #[tool(annotations(destructive_hint = false, open_world_hint = false))]
    fn create(&self, Parameters(NewResource { kind, name }): Parameters<NewResource>) -> Answer {
        match kind {
            ResourceKind::Container => {
                let resource = format!("{}?restype=container", encode(&name));
                send(&self.client, (ServiceKind::Blob, "PUT", resource), &[], "")
            }
            ResourceKind::Queue => {
                let line = (ServiceKind::Queue, "PUT", encode(&name));
                send(&self.client, line, &[], "")
            }
            ResourceKind::Table => {
                let line = (ServiceKind::Table, "POST", "Tables".to_owned());
                let body = json!({"TableName": name}).to_string();
                send(&self.client, line, &JSON, &body)
            }
        }
    }
}

fn answer(value: &Value) -> Answer {
    let text = value.to_string();
    if text.len() > ANSWER_BYTES_MAX {
        return Err("The answer is longer than 256 KiB: ask for fewer.".to_owned());
    }
    Ok(text)
}

/// The answer of a tool without a result.
fn done() -> Answer {
    answer(&json!({"done": true}))
}

/// The path of an entity in a request.
fn entity_of(table: &str, partition_key: &str, row_key: &str) -> String {
    let key = |key: &str| encode(&key.replace('\'', "''")).replace('/', "%2F");
    let table = encode(table);
    format!(
        "{table}(PartitionKey='{}',RowKey='{}')",
        key(partition_key),
        key(row_key)
    )
}

const JSON: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json"),
];

/// Sends a request and discards the response's body.
fn send(
    client: &Client,
    (service, method, resource): (ServiceKind, &str, String),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_descriptions_and_schemas() {
        let tools = McpServer::all_tools();
        for tool in tools.list_all() {
            assert!(
                tool.description.is_some() && tool.annotations.is_some(),
                "{}",
                tool.name
            );
        }
        let list = &tools.get("list").unwrap().input_schema;
        assert_eq!(list["properties"]["deep"]["type"], "boolean");
        let put = &tools.get("put_blob").unwrap().input_schema;
        assert_eq!(put["required"], json!(["path", "text"]));
    }

    #[test]
    fn keys_of_an_entity_hold_any_letter() {
        assert_eq!(
            entity_of("T", "a/b'c", "é"),
            "T(PartitionKey='a%2Fb%27%27c',RowKey='%C3%A9')"
        );
    }
}
