//! The tools of the MCP server.

use super::McpServer;
use crate::commands::entity::{self, Keys, Manner};
use crate::commands::nearest::{Subject, explain};
use crate::commands::{blobs, create, design_check, list, messages, query};
use lazurite_base::terminal::ChangingLine;
use lazurite_cost::Prices;
use lazurite_mover::bulk::{
    Outcome, Place, Work, delete_blobs, delete_entities, list_blobs, list_entities,
};
use lazurite_mover::{BlobsCopy, NewBlob, ResourceKind, content_type, encode, put_stream};
use lazurite_protocol::service_kind::ServiceKind;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::schemars::{self, JsonSchema};
use rmcp::{tool, tool_router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::{Cursor, Read};

/// Maximum number of entries, entities, requests and changes in one answer.
const ENTRIES_MAX: usize = 500;
const ENTITIES_MAX: usize = 200;
const REQUESTS_MAX: usize = 100;
const CHANGES_MAX: usize = 200;
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
#[serde(deny_unknown_fields)]
struct Listing {
    /// A container, with the directory to list: photos/2026/. Absent: all containers, queues and
    /// tables.
    #[serde(default)]
    path: String,
    /// All blobs below the path, not one level.
    #[serde(default)]
    deep: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BlobPath {
    /// CONTAINER/NAME
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntityQuery {
    table: String,
    /// As in $filter: PartitionKey eq 'Sales' and Age gt 30
    #[serde(default)]
    filter: String,
    /// Most entities, at most 200; 50 if absent
    top: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Peek {
    queue: String,
    /// Most messages, at most 32; 32 if absent
    count: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
struct RequestId {
    /// x-ms-request-id, from `requests` or from the log of a client
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Design {
    /// As the page what-if of the documentation describes it, such as:
    /// [tables.T] rows = 1000, partition-key = "Customer", row-key = "inverted(Placed)";
    /// [tables.T.properties] Customer = { text = "c{}", of = 50 }, Placed = { instant =
    /// "2026-01-01T00:00:00Z", every = 60 }; [[patterns]] name, table, does = "query", filter =
    /// "PartitionKey eq {Customer}", per-second = 5, must = { plan = "row range" }
    toml: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextBlob {
    /// CONTAINER/NAME
    path: String,
    /// The content
    text: String,
    /// The one for the name if absent
    content_type: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    queue: String,
    /// The message
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewEntity {
    table: String,
    /// PartitionKey, RowKey and properties; a type that JSON does not have stands next to a value
    /// as NAME@odata.type
    entity: Map<String, Value>,
    /// Keep the properties that are not named
    #[serde(default)]
    merge: bool,
    /// Only if the entity has this ETag
    if_match: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntityKeys {
    table: String,
    partition_key: String,
    row_key: String,
    /// Only if the entity has this ETag
    if_match: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntityToRead {
    table: String,
    partition_key: String,
    row_key: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EntitiesToDelete {
    table: String,
    /// As in $filter: PartitionKey eq 'Sales' and Age gt 30
    filter: String,
    /// How many it finds, which has to be right
    expected_count: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BlobsToDelete {
    /// CONTAINER/BEGINNING of the names: photos/2026/
    path: String,
    /// How many blobs that are, which has to be right
    expected_count: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CopyPaths {
    /// CONTAINER/NAME; with recursive CONTAINER/DIRECTORY
    from: String,
    /// CONTAINER/NAME; with recursive CONTAINER/DIRECTORY
    to: String,
    /// All blobs of the directory
    #[serde(default)]
    recursive: bool,
    /// Delete the originals
    #[serde(default, rename = "move")]
    move_: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SnapshotName {
    /// The name of the snapshot
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Comparison {
    /// A snapshot
    from: String,
    /// Another snapshot; the store as it is now if absent
    to: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewResource {
    kind: NewKind,
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NewKind {
    Container,
    Queue,
    Table,
}

impl From<NewKind> for ResourceKind {
    fn from(kind: NewKind) -> ResourceKind {
        match kind {
            NewKind::Container => ResourceKind::Container,
            NewKind::Queue => ResourceKind::Queue,
            NewKind::Table => ResourceKind::Table,
        }
    }
}

#[tool_router(router = all_tools, vis = "pub(super)")]
impl McpServer {
    /// List containers, queues and tables; or the blobs of a container, one level of directories at
    /// a time.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn list(&self, Parameters(Listing { path, deep }): Parameters<Listing>) -> Answer {
        let (mut entries, mut has_more) = (Vec::new(), false);
        list::facts(&self.client, &path, deep, &mut |fact| {
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
        let place = Place::of_blob(&path)?;
        let reply = self.client.ask(ServiceKind::Blob, "GET", place.resource());
        let explained = |error| explain(&self.client, Subject::Blob(&place), error);
        let mut reply = reply.map_err(explained)?;
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

    /// Read an entity with its types and its ETag.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn get_entity(&self, Parameters(keys): Parameters<EntityToRead>) -> Answer {
        let keys = Keys::new(&keys.table, &keys.partition_key, &keys.row_key);
        answer(&entity::fields(&self.client, &keys)?)
    }

    /// Whether the server runs, where, its version, disk space and memory, its snapshots and forks.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn status(&self) -> Answer {
        answer(&self.client.administer("/_lazurite/api/status")?)
    }

    /// What differs between a snapshot and the store, or another snapshot.
    #[tool(annotations(read_only_hint = true, open_world_hint = false))]
    fn compare_state(&self, Parameters(Comparison { from, to }): Parameters<Comparison>) -> Answer {
        let name = |name: &str| encode(name).replace('/', "%2F");
        let to = name(to.as_deref().unwrap_or("now"));
        let page = format!(
            "/_lazurite/state/diff?limit={CHANGES_MAX}&from={}&to={to}",
            name(&from)
        );
        answer(&self.client.administer(&page)?)
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
    fn put_blob(&self, Parameters(new): Parameters<TextBlob>) -> Answer {
        let place = Place::of_blob(&new.path)?;
        let kind = new.content_type.filter(|kind| !kind.is_empty());
        let blob = NewBlob {
            resource: &place.resource(),
            content_type: kind.as_deref().unwrap_or_else(|| content_type(&place.name)),
            keeps_existing: false,
        };
        let text: Box<dyn Read> = Box::new(Cursor::new(new.text.into_bytes()));
        let put = put_stream(&self.client, ("the text", text), blob);
        put.map_err(|error| explain(&self.client, Subject::Blob(&place), error))?;
        done()
    }

    /// Delete a blob.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_blob(&self, Parameters(BlobPath { path }): Parameters<BlobPath>) -> Answer {
        blobs::delete(&self.client, &Place::of_blob(&path)?, false)?;
        done()
    }

    /// Put a message into a queue.
    #[tool(annotations(destructive_hint = false, open_world_hint = false))]
    fn send_message(&self, Parameters(new): Parameters<NewMessage>) -> Answer {
        messages::put(&self.client, &new.queue, &new.text)?;
        done()
    }

    /// Insert an entity, or replace the one that has its keys; with merge, that one keeps the
    /// properties that are not named.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn put_entity(&self, Parameters(new): Parameters<NewEntity>) -> Answer {
        let key = |name: &str| {
            let key = new.entity.get(name).and_then(Value::as_str);
            key.ok_or_else(|| format!("The property '{name}' is missing, or is not a string."))
        };
        let keys = Keys::new(&new.table, key("PartitionKey")?, key("RowKey")?);
        let manner = if new.merge {
            Manner::Merge
        } else {
            Manner::Replace
        };
        let etag = new.if_match.as_deref();
        let etag = entity::put(&self.client, &keys, new.entity.clone(), manner, etag)?;
        answer(&json!({ "done": true, "etag": etag }))
    }

    /// Delete an entity.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_entity(&self, Parameters(keys): Parameters<EntityKeys>) -> Answer {
        let etag = keys.if_match.as_deref().unwrap_or("*");
        let keys = Keys::new(&keys.table, &keys.partition_key, &keys.row_key);
        entity::delete(&self.client, &keys, etag)?;
        done()
    }

    /// Delete the entities that a filter finds, if their number is the expected one. Those that are
    /// changed meanwhile stay.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_entities(&self, Parameters(wanted): Parameters<EntitiesToDelete>) -> Answer {
        let (table, filter) = (wanted.table.as_str(), wanted.filter.as_str());
        let list = list_entities(&self.client, table, filter);
        let list =
            list.map_err(|error| explain(&self.client, Subject::Filter(table, filter), error))?;
        check_count(list.count, wanted.expected_count)?;
        let work = Work::unattended(list.count);
        done_by_number(&delete_entities(&self.client, list, work))
    }

    /// Delete the blobs of a container whose names begin with a text, if their number is the expected
    /// one. Those that are changed meanwhile stay.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn delete_blobs(&self, Parameters(wanted): Parameters<BlobsToDelete>) -> Answer {
        let place = Place::read(&wanted.path)?;
        let list = list_blobs(&self.client, &place.container, &place.name, "", &mut |_| {
            true
        });
        let container = Subject::Container(&place.container);
        let list = list.map_err(|error| explain(&self.client, container, error))?;
        check_count(list.count, wanted.expected_count)?;
        let work = Work::unattended(list.count);
        done_by_number(&delete_blobs(&self.client, list, false, work))
    }

    /// Copy a blob, or all blobs of a directory, to another place of the account.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn copy_blobs(&self, Parameters(wanted): Parameters<CopyPaths>) -> Answer {
        let read = if wanted.recursive {
            Place::read
        } else {
            Place::of_blob
        };
        let copy = BlobsCopy {
            from: &self.client,
            to: &self.client,
            source: read(&wanted.from)?,
            destination: read(&wanted.to)?,
            is_recursive: wanted.recursive,
            moves: wanted.move_,
            keeps_existing: false,
        };
        if copy.is_onto_itself()? {
            return Err("The source and the destination are the same.".to_owned());
        }
        let container = Subject::Container(&copy.source.container);
        let outcome = copy.run(Work::unattended);
        done_by_number(&outcome.map_err(|error| explain(&self.client, container, error))?)
    }

    /// Create a container, a queue or a table.
    #[tool(annotations(destructive_hint = false, open_world_hint = false))]
    fn create(&self, Parameters(NewResource { kind, name }): Parameters<NewResource>) -> Answer {
        if create::create_one(&self.client, kind.into(), &name, None)? {
            done()
        } else {
            Err(format!("{name} is there already."))
        }
    }

    /// Save the store as a snapshot.
    #[tool(annotations(destructive_hint = false, open_world_hint = false))]
    fn save_snapshot(&self, Parameters(SnapshotName { name }): Parameters<SnapshotName>) -> Answer {
        let page = snapshot_page(&name, "");
        answer(&self.client.change("PUT", &page)?)
    }

    /// Replace the contents of the store by those of a snapshot.
    #[tool(annotations(destructive_hint = true, open_world_hint = false))]
    fn restore_snapshot(
        &self,
        Parameters(SnapshotName { name }): Parameters<SnapshotName>,
    ) -> Answer {
        let page = snapshot_page(&name, "/restore");
        answer(&self.client.change("POST", &page)?)
    }
}

fn snapshot_page(name: &str, end: &str) -> String {
    let name = encode(name).replace('/', "%2F");
    format!("/_lazurite/state/snapshots/{name}{end}")
}

/// Refuses a deletion of another number than the assistant expects.
fn check_count(count: u64, expected: u64) -> Result<(), String> {
    if count == expected {
        return Ok(());
    }
    Err(format!(
        "It would delete {count}, not {expected}. Nothing was deleted: look again, and say {count} if that is meant."
    ))
}

/// The answer of a work on many items.
fn done_by_number(outcome: &Outcome) -> Answer {
    if let Err(reason) = &outcome.ended {
        return Err(format!(
            "{reason}. {} of {} were done before.",
            outcome.done, outcome.total
        ));
    }
    answer(&json!({
        "done": outcome.done, "total": outcome.total, "skipped": outcome.skipped, "left_out": outcome.left_out,
        "notes": outcome.notes,
    }))
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
        for tool in tools.list_all() {
            assert!(
                tool.input_schema.get("additionalProperties") == Some(&false.into())
                    || tool
                        .input_schema
                        .get("properties")
                        .and_then(Value::as_object)
                        .is_none_or(Map::is_empty),
                "{} takes any argument",
                tool.name
            );
        }
        let put = &tools.get("put_blob").unwrap().input_schema;
        assert_eq!(put["required"], json!(["path", "text"]));
    }
}
