//! A request as a command of curl, and as a call of a client library.

use crate::console::requests::related::resource;
use crate::console::requests::{Record, url};
use crate::request::context::Query;
use crate::service_kind::ServiceKind;
use crate::table::address::Address;
use std::borrow::Cow;

/// Headers that curl writes itself.
const HEADERS_OF_CURL: [&str; 4] = ["host", "content-length", "connection", "transfer-encoding"];

/// The request as curl.
pub fn curl(record: &Record) -> String {
    // `-g`: brackets and braces of a target are no pattern.
    let mut command = format!(
        "curl -g -i -X {} {}",
        quoted(&record.method()),
        quoted(&url(record))
    );
    let [request, _] = record.headers();
    for (name, value) in request
        .iter()
        .filter(|(name, _)| !HEADERS_OF_CURL.contains(&name.as_str()))
    {
        command.push_str(&format!(
            " \\\n  -H {}",
            quoted(&format!("{name}: {value}"))
        ));
    }
    command
}

/// A word that a shell takes as it is: a method, too, may have backquotes and pipes in it.
fn quoted(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The languages of [`CALLS`].
pub const LANGUAGES: [&str; 3] = ["Python", "JavaScript", ".NET"];

/// Calls by operation, in Python, JavaScript and C#. `{0}` is the container, queue or table, `{1}` the blob, message or PartitionKey, `{2}`
/// the RowKey, `{f}` the filter, `{p}` the prefix. A call of a container begins with that of its client.
const CALLS: &[(&str, [&str; 3])] = &[
    (
        "ListContainers",
        [
            "list(service.list_containers())",
            "for await (const c of service.listContainers()) console.log(c.name);",
            "await foreach (var c in service.GetBlobContainersAsync()) Console.WriteLine(c.Name);",
        ],
    ),
    (
        "CreateContainer",
        [
            "service.create_container({0})",
            "await service.createContainer({0});",
            "await service.CreateBlobContainerAsync({0});",
        ],
    ),
    (
        "DeleteContainer",
        [
            "service.delete_container({0})",
            "await service.deleteContainer({0});",
            "await service.DeleteBlobContainerAsync({0});",
        ],
    ),
    (
        "GetContainerProperties",
        [
            "service.get_container_client({0}).get_container_properties()",
            "await service.getContainerClient({0}).getProperties();",
            "await service.GetBlobContainerClient({0}).GetPropertiesAsync();",
        ],
    ),
    (
        "ListBlobs",
        [
            "list(service.get_container_client({0}).list_blobs(name_starts_with={p}))",
            "for await (const b of service.getContainerClient({0}).listBlobsFlat({ prefix: {p} })) console.log(b.name);",
            "await foreach (var b in service.GetBlobContainerClient({0}).GetBlobsAsync(prefix: {p})) Console.WriteLine(b.Name);",
        ],
    ),
    (
        "GetBlob",
        [
            "service.get_blob_client({0}, {1}).download_blob().readall()",
            "await service.getContainerClient({0}).getBlobClient({1}).downloadToBuffer();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).DownloadContentAsync();",
        ],
    ),
    (
        "GetBlobProperties",
        [
            "service.get_blob_client({0}, {1}).get_blob_properties()",
            "await service.getContainerClient({0}).getBlobClient({1}).getProperties();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).GetPropertiesAsync();",
        ],
    ),
    (
        "PutBlob",
        [
            "service.get_blob_client({0}, {1}).upload_blob(data, overwrite=True)",
            "await service.getContainerClient({0}).getBlockBlobClient({1}).uploadData(data);",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).UploadAsync(data, overwrite: true);",
        ],
    ),
    (
        "DeleteBlob",
        [
            "service.get_blob_client({0}, {1}).delete_blob()",
            "await service.getContainerClient({0}).getBlobClient({1}).delete();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).DeleteAsync();",
        ],
    ),
    (
        "SetBlobMetadata",
        [
            "service.get_blob_client({0}, {1}).set_blob_metadata(metadata)",
            "await service.getContainerClient({0}).getBlobClient({1}).setMetadata(metadata);",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).SetMetadataAsync(metadata);",
        ],
    ),
    (
        "SnapshotBlob",
        [
            "service.get_blob_client({0}, {1}).create_snapshot()",
            "await service.getContainerClient({0}).getBlobClient({1}).createSnapshot();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).CreateSnapshotAsync();",
        ],
    ),
    (
        "ListQueues",
        [
            "list(service.list_queues())",
            "for await (const q of service.listQueues()) console.log(q.name);",
            "await foreach (var q in service.GetQueuesAsync()) Console.WriteLine(q.Name);",
        ],
    ),
    (
        "CreateQueue",
        [
            "service.create_queue({0})",
            "await service.createQueue({0});",
            "await service.CreateQueueAsync({0});",
        ],
    ),
    (
        "DeleteQueue",
        [
            "service.delete_queue({0})",
            "await service.deleteQueue({0});",
            "await service.DeleteQueueAsync({0});",
        ],
    ),
    (
        "PutMessage",
        [
            "service.get_queue_client({0}).send_message(text)",
            "await service.getQueueClient({0}).sendMessage(text);",
            "await service.GetQueueClient({0}).SendMessageAsync(text);",
        ],
    ),
    (
        "GetMessages",
        [
            "service.get_queue_client({0}).receive_messages()",
            "await service.getQueueClient({0}).receiveMessages();",
            "await service.GetQueueClient({0}).ReceiveMessagesAsync();",
        ],
    ),
    (
        "PeekMessages",
        [
            "service.get_queue_client({0}).peek_messages()",
            "await service.getQueueClient({0}).peekMessages();",
            "await service.GetQueueClient({0}).PeekMessagesAsync();",
        ],
    ),
    (
        "ClearMessages",
        [
            "service.get_queue_client({0}).clear_messages()",
            "await service.getQueueClient({0}).clearMessages();",
            "await service.GetQueueClient({0}).ClearMessagesAsync();",
        ],
    ),
    (
        "QueryTables",
        [
            "list(service.list_tables())",
            "for await (const t of service.listTables()) console.log(t.name);",
            "await foreach (var t in service.QueryAsync()) Console.WriteLine(t.Name);",
        ],
    ),
    (
        "DeleteTable",
        [
            "service.delete_table({0})",
            "await service.deleteTable({0});",
            "await service.DeleteTableAsync({0});",
        ],
    ),
    (
        "QueryEntities",
        [
            "list(service.get_table_client({0}).query_entities({f}))",
            "for await (const e of table({0}).listEntities({ queryOptions: { filter: {f} } })) console.log(e);",
            "await foreach (var e in service.GetTableClient({0}).QueryAsync<TableEntity>({f})) Console.WriteLine(e.RowKey);",
        ],
    ),
    (
        "GetEntity",
        [
            "service.get_table_client({0}).get_entity({1}, {2})",
            "await table({0}).getEntity({1}, {2});",
            "await service.GetTableClient({0}).GetEntityAsync<TableEntity>({1}, {2});",
        ],
    ),
    (
        "InsertEntity",
        [
            "service.get_table_client({0}).create_entity(entity)",
            "await table({0}).createEntity(entity);",
            "await service.GetTableClient({0}).AddEntityAsync(entity);",
        ],
    ),
    (
        "UpdateEntity",
        [
            "service.get_table_client({0}).update_entity(entity, mode=\"replace\")",
            "await table({0}).updateEntity(entity, \"Replace\");",
            "await service.GetTableClient({0}).UpdateEntityAsync(entity, entity.ETag, TableUpdateMode.Replace);",
        ],
    ),
    (
        "MergeEntity",
        [
            "service.get_table_client({0}).update_entity(entity, mode=\"merge\")",
            "await table({0}).updateEntity(entity, \"Merge\");",
            "await service.GetTableClient({0}).UpdateEntityAsync(entity, entity.ETag, TableUpdateMode.Merge);",
        ],
    ),
    (
        "InsertOrReplaceEntity",
        [
            "service.get_table_client({0}).upsert_entity(entity, mode=\"replace\")",
            "await table({0}).upsertEntity(entity, \"Replace\");",
            "await service.GetTableClient({0}).UpsertEntityAsync(entity, TableUpdateMode.Replace);",
        ],
    ),
    (
        "InsertOrMergeEntity",
        [
            "service.get_table_client({0}).upsert_entity(entity)",
            "await table({0}).upsertEntity(entity, \"Merge\");",
            "await service.GetTableClient({0}).UpsertEntityAsync(entity);",
        ],
    ),
    (
        "DeleteEntity",
        [
            "service.get_table_client({0}).delete_entity({1}, {2})",
            "await table({0}).deleteEntity({1}, {2});",
            "await service.GetTableClient({0}).DeleteEntityAsync({1}, {2});",
        ],
    ),
];

/// How a program begins that makes such a call.
fn beginning(service: ServiceKind, language: &str) -> String {
    let title = service.title();
    let lower = title.to_ascii_lowercase();
    let package = if service == ServiceKind::Table {
        "data-tables"
    } else {
        "storage-"
    };
    let (python, dotnet) = match service {
        ServiceKind::Table => (
            "azure.data.tables".to_owned(),
            "Azure.Data.Tables".to_owned(),
        ),
        ServiceKind::Blob => (
            "azure.storage.blob".to_owned(),
            "Azure.Storage.Blobs".to_owned(),
        ),
        ServiceKind::Queue => (
            "azure.storage.queue".to_owned(),
            "Azure.Storage.Queues".to_owned(),
        ),
    };
    match (language, service) {
        ("Python", _) => format!(
            "from {python} import {title}ServiceClient\nservice = {title}ServiceClient.from_connection_string(connection)\n"
        ),
        ("JavaScript", ServiceKind::Table) => format!(
            "const {{ TableClient, TableServiceClient }} = require(\"@azure/{package}\");\nconst options = {{ allowInsecureConnection: true }};\n\
             const service = TableServiceClient.fromConnectionString(connection, options);\n\
             const table = (name) => TableClient.fromConnectionString(connection, name, options);\n"
        ),
        ("JavaScript", _) => format!(
            "const {{ {title}ServiceClient }} = require(\"@azure/{package}{lower}\");\nconst service = {title}ServiceClient.fromConnectionString(connection);\n"
        ),
        _ => format!("using {dotnet};\nvar service = new {title}ServiceClient(connection);\n"),
    }
}

/// The request as a call of each client library; empty for operations that are rarely called by hand.
pub fn calls(record: &Record) -> Vec<(&'static str, String)> {
    let Some((_, calls)) = CALLS
        .iter()
        .find(|(operation, _)| *operation == record.operation)
    else {
        return Vec::new();
    };
    let arguments = arguments(record);
    let call = |(language, call): (&'static str, &&str)| {
        let mut text = beginning(record.service, language);
        text.push_str(&filled(call, &arguments));
        (language, text)
    };
    LANGUAGES.into_iter().zip(calls).map(call).collect()
}

/// What stands in a call for each mark.
fn arguments(record: &Record) -> Vec<(&'static str, String)> {
    let path = resource(record);
    let [first, second, third] = if record.service == ServiceKind::Table {
        let address = Address::parse(&crate::console::layout::encode(&path));
        let (table, keys) = address.map(Address::names).unwrap_or_default();
        [table, keys.partition_key, keys.row_key]
    } else {
        let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
        [first.to_owned(), rest.to_owned(), String::new()]
    };
    let target = record.target();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let parameter = |name: &str| {
        let query = Query::parse(query).ok();
        query.and_then(|query| query.get(name)).unwrap_or_default()
    };
    let (filter, prefix) = (parameter("$filter"), parameter("prefix"));
    vec![
        ("{0}", first),
        ("{1}", second),
        ("{2}", third),
        ("{f}", filter),
        ("{p}", prefix),
    ]
}

/// A call with its marks replaced by texts in quotes. All three languages read the escapes of JSON.
fn filled(call: &str, arguments: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = call;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let argument = arguments.iter().find(|(mark, _)| rest.starts_with(mark));
        let (mark, value): (&str, Cow<'_, str>) = match argument {
            Some((mark, value)) => (
                mark,
                serde_json::Value::from(value.as_str()).to_string().into(),
            ),
            None => ("{", "{".into()),
        };
        text.push_str(&value);
        rest = &rest[mark.len()..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_header_does_not_end_the_word() {
        assert_eq!(quoted("GET"), "GET");
        assert_eq!(quoted("X|touch$IFS`x`|X"), "'X|touch$IFS`x`|X'");
        assert_eq!(quoted("a'; rm -rf /'"), "'a'\\''; rm -rf /'\\'''");
    }

    #[test]
    fn marks_become_texts_in_quotes_and_braces_stay() {
        let arguments = [("{0}", "a\"{1}".to_owned()), ("{1}", "b".to_owned())];
        assert_eq!(
            filled("f({0}, { x: {1} })", &arguments),
            "f(\"a\\\"{1}\", { x: \"b\" })"
        );
    }
}
