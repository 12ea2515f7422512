//! The calls of the client libraries, by operation.

use lazurite_protocol::service_kind::ServiceKind;

/// The languages of [`CALLS`].
pub const LANGUAGES: [&str; 6] = ["Python", "JavaScript", ".NET", "Java", "Go", "Rust"];

/// Calls by operation, in the order of [`LANGUAGES`]. `{0}` is the container, queue or table, `{1}`
/// the blob, message or PartitionKey, `{2}` the RowKey, `{f}` the filter, `{p}` the prefix. A call
/// is empty if the library does not have it, as that of Rust for tables.
pub const CALLS: &[(&str, [&str; 6])] = &[
    (
        "ListContainers",
        [
            "list(service.list_containers())",
            "for await (const c of service.listContainers()) console.log(c.name);",
            "await foreach (var c in service.GetBlobContainersAsync()) Console.WriteLine(c.Name);",
            "service.listBlobContainers().forEach(c -> System.out.println(c.getName()));",
            "pager := client.NewListContainersPager(nil)\nfor pager.More() {\n\tpage, err := pager.NextPage(ctx)\n}",
            "let mut containers = service.list_containers(None)?;\nwhile let Some(container) = containers.try_next().await? {}",
        ],
    ),
    (
        "CreateContainer",
        [
            "service.create_container({0})",
            "await service.createContainer({0});",
            "await service.CreateBlobContainerAsync({0});",
            "service.createBlobContainer({0});",
            "_, err = client.CreateContainer(ctx, {0}, nil)",
            "service.blob_container_client({0}).create(None).await?;",
        ],
    ),
    (
        "DeleteContainer",
        [
            "service.delete_container({0})",
            "await service.deleteContainer({0});",
            "await service.DeleteBlobContainerAsync({0});",
            "service.deleteBlobContainer({0});",
            "_, err = client.DeleteContainer(ctx, {0}, nil)",
            "service.blob_container_client({0}).delete(None).await?;",
        ],
    ),
    (
        "GetContainerProperties",
        [
            "service.get_container_client({0}).get_container_properties()",
            "await service.getContainerClient({0}).getProperties();",
            "await service.GetBlobContainerClient({0}).GetPropertiesAsync();",
            "service.getBlobContainerClient({0}).getProperties();",
            "properties, err := client.ServiceClient().NewContainerClient({0}).GetProperties(ctx, nil)",
            "service.blob_container_client({0}).get_properties(None).await?;",
        ],
    ),
    (
        "ListBlobs",
        [
            "list(service.get_container_client({0}).list_blobs(name_starts_with={p}))",
            "for await (const b of service.getContainerClient({0}).listBlobsFlat({ prefix: {p} })) console.log(b.name);",
            "await foreach (var b in service.GetBlobContainerClient({0}).GetBlobsAsync(prefix: {p})) Console.WriteLine(b.Name);",
            "service.getBlobContainerClient({0}).listBlobs(new ListBlobsOptions().setPrefix({p}), null).forEach(b -> System.out.println(b.getName()));",
            "prefix := {p}\npager := client.NewListBlobsFlatPager({0}, &azblob.ListBlobsFlatOptions{Prefix: &prefix})\nfor pager.More() {\n\tpage, err := pager.NextPage(ctx)\n}",
            "let options = BlobContainerClientListBlobsOptions { prefix: Some({p}.to_string()), ..Default::default() };\nlet mut blobs = service.blob_container_client({0}).list_blobs(Some(options))?;\nwhile let Some(blob) = blobs.try_next().await? {}",
        ],
    ),
    (
        "GetBlob",
        [
            "service.get_blob_client({0}, {1}).download_blob().readall()",
            "await service.getContainerClient({0}).getBlobClient({1}).downloadToBuffer();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).DownloadContentAsync();",
            "service.getBlobContainerClient({0}).getBlobClient({1}).downloadContent();",
            "response, err := client.DownloadStream(ctx, {0}, {1}, nil)",
            "let data = service.blob_client({0}, {1}).download(None).await?.body.collect().await?;",
        ],
    ),
    (
        "GetBlobProperties",
        [
            "service.get_blob_client({0}, {1}).get_blob_properties()",
            "await service.getContainerClient({0}).getBlobClient({1}).getProperties();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).GetPropertiesAsync();",
            "service.getBlobContainerClient({0}).getBlobClient({1}).getProperties();",
            "properties, err := client.ServiceClient().NewContainerClient({0}).NewBlobClient({1}).GetProperties(ctx, nil)",
            "service.blob_client({0}, {1}).get_properties(None).await?;",
        ],
    ),
    (
        "PutBlob",
        [
            "service.get_blob_client({0}, {1}).upload_blob(data, overwrite=True)",
            "await service.getContainerClient({0}).getBlockBlobClient({1}).uploadData(data);",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).UploadAsync(data, overwrite: true);",
            "service.getBlobContainerClient({0}).getBlobClient({1}).upload(BinaryData.fromBytes(data), true);",
            "_, err = client.UploadBuffer(ctx, {0}, {1}, data, nil)",
            "service.blob_client({0}, {1}).upload(RequestContent::from(data), None).await?;",
        ],
    ),
    (
        "DeleteBlob",
        [
            "service.get_blob_client({0}, {1}).delete_blob()",
            "await service.getContainerClient({0}).getBlobClient({1}).delete();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).DeleteAsync();",
            "service.getBlobContainerClient({0}).getBlobClient({1}).delete();",
            "_, err = client.DeleteBlob(ctx, {0}, {1}, nil)",
            "service.blob_client({0}, {1}).delete(None).await?;",
        ],
    ),
    (
        "SetBlobMetadata",
        [
            "service.get_blob_client({0}, {1}).set_blob_metadata(metadata)",
            "await service.getContainerClient({0}).getBlobClient({1}).setMetadata(metadata);",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).SetMetadataAsync(metadata);",
            "service.getBlobContainerClient({0}).getBlobClient({1}).setMetadata(metadata);",
            "_, err = client.ServiceClient().NewContainerClient({0}).NewBlobClient({1}).SetMetadata(ctx, metadata, nil)",
            "service.blob_client({0}, {1}).set_metadata(&metadata, None).await?;",
        ],
    ),
    (
        "SnapshotBlob",
        [
            "service.get_blob_client({0}, {1}).create_snapshot()",
            "await service.getContainerClient({0}).getBlobClient({1}).createSnapshot();",
            "await service.GetBlobContainerClient({0}).GetBlobClient({1}).CreateSnapshotAsync();",
            "service.getBlobContainerClient({0}).getBlobClient({1}).createSnapshot();",
            "_, err = client.ServiceClient().NewContainerClient({0}).NewBlobClient({1}).CreateSnapshot(ctx, nil)",
            "service.blob_client({0}, {1}).create_snapshot(None).await?;",
        ],
    ),
    (
        "ListQueues",
        [
            "list(service.list_queues())",
            "for await (const q of service.listQueues()) console.log(q.name);",
            "await foreach (var q in service.GetQueuesAsync()) Console.WriteLine(q.Name);",
            "service.listQueues().forEach(q -> System.out.println(q.getName()));",
            "pager := client.NewListQueuesPager(nil)\nfor pager.More() {\n\tpage, err := pager.NextPage(ctx)\n}",
            "let mut queues = service.list_queues(None)?;\nwhile let Some(queue) = queues.try_next().await? {}",
        ],
    ),
    (
        "CreateQueue",
        [
            "service.create_queue({0})",
            "await service.createQueue({0});",
            "await service.CreateQueueAsync({0});",
            "service.createQueue({0});",
            "_, err = client.CreateQueue(ctx, {0}, nil)",
            "service.queue_client({0})?.create(None).await?;",
        ],
    ),
    (
        "DeleteQueue",
        [
            "service.delete_queue({0})",
            "await service.deleteQueue({0});",
            "await service.DeleteQueueAsync({0});",
            "service.deleteQueue({0});",
            "_, err = client.DeleteQueue(ctx, {0}, nil)",
            "service.queue_client({0})?.delete(None).await?;",
        ],
    ),
    (
        "PutMessage",
        [
            "service.get_queue_client({0}).send_message(text)",
            "await service.getQueueClient({0}).sendMessage(text);",
            "await service.GetQueueClient({0}).SendMessageAsync(text);",
            "service.getQueueClient({0}).sendMessage(text);",
            "_, err = client.NewQueueClient({0}).EnqueueMessage(ctx, text, nil)",
            "service.queue_client({0})?.send_message(message, None).await?;",
        ],
    ),
    (
        "GetMessages",
        [
            "service.get_queue_client({0}).receive_messages()",
            "await service.getQueueClient({0}).receiveMessages();",
            "await service.GetQueueClient({0}).ReceiveMessagesAsync();",
            "service.getQueueClient({0}).receiveMessage();",
            "messages, err := client.NewQueueClient({0}).DequeueMessages(ctx, nil)",
            "service.queue_client({0})?.receive_messages(None).await?;",
        ],
    ),
    (
        "PeekMessages",
        [
            "service.get_queue_client({0}).peek_messages()",
            "await service.getQueueClient({0}).peekMessages();",
            "await service.GetQueueClient({0}).PeekMessagesAsync();",
            "service.getQueueClient({0}).peekMessage();",
            "messages, err := client.NewQueueClient({0}).PeekMessages(ctx, nil)",
            "service.queue_client({0})?.peek_messages(None).await?;",
        ],
    ),
    (
        "ClearMessages",
        [
            "service.get_queue_client({0}).clear_messages()",
            "await service.getQueueClient({0}).clearMessages();",
            "await service.GetQueueClient({0}).ClearMessagesAsync();",
            "service.getQueueClient({0}).clearMessages();",
            "_, err = client.NewQueueClient({0}).ClearMessages(ctx, nil)",
            "service.queue_client({0})?.clear(None).await?;",
        ],
    ),
    (
        "QueryTables",
        [
            "list(service.list_tables())",
            "for await (const t of service.listTables()) console.log(t.name);",
            "await foreach (var t in service.QueryAsync()) Console.WriteLine(t.Name);",
            "service.listTables().forEach(t -> System.out.println(t.getName()));",
            "pager := client.NewListTablesPager(nil)\nfor pager.More() {\n\tpage, err := pager.NextPage(ctx)\n}",
            "",
        ],
    ),
    (
        "DeleteTable",
        [
            "service.delete_table({0})",
            "await service.deleteTable({0});",
            "await service.DeleteTableAsync({0});",
            "service.deleteTable({0});",
            "_, err = client.DeleteTable(ctx, {0}, nil)",
            "",
        ],
    ),
    (
        "QueryEntities",
        [
            "list(service.get_table_client({0}).query_entities({f}))",
            "for await (const e of table({0}).listEntities({ queryOptions: { filter: {f} } })) console.log(e);",
            "await foreach (var e in service.GetTableClient({0}).QueryAsync<TableEntity>({f})) Console.WriteLine(e.RowKey);",
            "service.getTableClient({0}).listEntities(new ListEntitiesOptions().setFilter({f}), null, null).forEach(e -> System.out.println(e.getRowKey()));",
            "filter := {f}\npager := client.NewClient({0}).NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})\nfor pager.More() {\n\tpage, err := pager.NextPage(ctx)\n}",
            "",
        ],
    ),
    (
        "GetEntity",
        [
            "service.get_table_client({0}).get_entity({1}, {2})",
            "await table({0}).getEntity({1}, {2});",
            "await service.GetTableClient({0}).GetEntityAsync<TableEntity>({1}, {2});",
            "service.getTableClient({0}).getEntity({1}, {2});",
            "response, err := client.NewClient({0}).GetEntity(ctx, {1}, {2}, nil)",
            "",
        ],
    ),
    (
        "InsertEntity",
        [
            "service.get_table_client({0}).create_entity(entity)",
            "await table({0}).createEntity(entity);",
            "await service.GetTableClient({0}).AddEntityAsync(entity);",
            "service.getTableClient({0}).createEntity(entity);",
            "_, err = client.NewClient({0}).AddEntity(ctx, entity, nil)",
            "",
        ],
    ),
    (
        "UpdateEntity",
        [
            "service.get_table_client({0}).update_entity(entity, mode=\"replace\")",
            "await table({0}).updateEntity(entity, \"Replace\");",
            "await service.GetTableClient({0}).UpdateEntityAsync(entity, entity.ETag, TableUpdateMode.Replace);",
            "service.getTableClient({0}).updateEntity(entity, TableEntityUpdateMode.REPLACE);",
            "_, err = client.NewClient({0}).UpdateEntity(ctx, entity, &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace})",
            "",
        ],
    ),
    (
        "MergeEntity",
        [
            "service.get_table_client({0}).update_entity(entity, mode=\"merge\")",
            "await table({0}).updateEntity(entity, \"Merge\");",
            "await service.GetTableClient({0}).UpdateEntityAsync(entity, entity.ETag, TableUpdateMode.Merge);",
            "service.getTableClient({0}).updateEntity(entity, TableEntityUpdateMode.MERGE);",
            "_, err = client.NewClient({0}).UpdateEntity(ctx, entity, &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge})",
            "",
        ],
    ),
    (
        "InsertOrReplaceEntity",
        [
            "service.get_table_client({0}).upsert_entity(entity, mode=\"replace\")",
            "await table({0}).upsertEntity(entity, \"Replace\");",
            "await service.GetTableClient({0}).UpsertEntityAsync(entity, TableUpdateMode.Replace);",
            "service.getTableClient({0}).upsertEntityWithResponse(entity, TableEntityUpdateMode.REPLACE, null, null);",
            "_, err = client.NewClient({0}).UpsertEntity(ctx, entity, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})",
            "",
        ],
    ),
    (
        "InsertOrMergeEntity",
        [
            "service.get_table_client({0}).upsert_entity(entity)",
            "await table({0}).upsertEntity(entity, \"Merge\");",
            "await service.GetTableClient({0}).UpsertEntityAsync(entity);",
            "service.getTableClient({0}).upsertEntity(entity);",
            "_, err = client.NewClient({0}).UpsertEntity(ctx, entity, nil)",
            "",
        ],
    ),
    (
        "DeleteEntity",
        [
            "service.get_table_client({0}).delete_entity({1}, {2})",
            "await table({0}).deleteEntity({1}, {2});",
            "await service.GetTableClient({0}).DeleteEntityAsync({1}, {2});",
            "service.getTableClient({0}).deleteEntity({1}, {2});",
            "_, err = client.NewClient({0}).DeleteEntity(ctx, {1}, {2}, nil)",
            "",
        ],
    ),
];

/// The beginning of a program with a call to this service.
pub fn beginning(service: ServiceKind, language: &str) -> String {
    let title = service.title();
    let lower = title.to_ascii_lowercase();
    match language {
        "Python" => python(service, title, &lower),
        "JavaScript" => javascript(service, title, &lower),
        "Java" => java(service, title, &lower),
        "Go" => go(service, &lower),
        "Rust" => format!(
            "use azure_core::http::{{RequestContent, Url}};\nuse azure_storage_{lower}::{{clients::*, models::*}};\nuse futures::TryStreamExt;\n// The URL of the service, with a SAS.\nlet service = {title}ServiceClient::new(Url::parse(&url)?, None, None)?;\n"
        ),
        _ => dotnet(service, title),
    }
}

fn python(service: ServiceKind, title: &str, lower: &str) -> String {
    let package = match service {
        ServiceKind::Table => "azure.data.tables".to_owned(),
        ServiceKind::Blob | ServiceKind::Queue => format!("azure.storage.{lower}"),
    };
    format!(
        "from {package} import {title}ServiceClient\nservice = {title}ServiceClient.from_connection_string(connection)\n"
    )
}

fn javascript(service: ServiceKind, title: &str, lower: &str) -> String {
    if service == ServiceKind::Table {
        return "const { TableClient, TableServiceClient } = require(\"@azure/data-tables\");\nconst options = { allowInsecureConnection: true };\n\
                const service = TableServiceClient.fromConnectionString(connection, options);\n\
                const table = (name) => TableClient.fromConnectionString(connection, name, options);\n"
            .to_owned();
    }
    format!(
        "const {{ {title}ServiceClient }} = require(\"@azure/storage-{lower}\");\nconst service = {title}ServiceClient.fromConnectionString(connection);\n"
    )
}

fn dotnet(service: ServiceKind, title: &str) -> String {
    let package = match service {
        ServiceKind::Table => "Azure.Data.Tables",
        ServiceKind::Blob => "Azure.Storage.Blobs",
        ServiceKind::Queue => "Azure.Storage.Queues",
    };
    format!("using {package};\nvar service = new {title}ServiceClient(connection);\n")
}

fn java(service: ServiceKind, title: &str, lower: &str) -> String {
    let package = match service {
        ServiceKind::Table => "com.azure.data.tables".to_owned(),
        ServiceKind::Blob | ServiceKind::Queue => format!("com.azure.storage.{lower}"),
    };
    format!(
        "import {package}.*;\nimport {package}.models.*;\nvar service = new {title}ServiceClientBuilder().connectionString(connection).buildClient();\n"
    )
}

fn go(service: ServiceKind, lower: &str) -> String {
    let (package, client) = match service {
        ServiceKind::Table => ("data/aztables".to_owned(), "NewServiceClient"),
        ServiceKind::Blob => ("storage/azblob".to_owned(), "NewClient"),
        ServiceKind::Queue => (format!("storage/az{lower}"), "NewServiceClient"),
    };
    let name = package.split('/').next_back().unwrap_or_default();
    format!(
        "import \"github.com/Azure/azure-sdk-for-go/sdk/{package}\"\n\nclient, err := {name}.{client}FromConnectionString(connection, nil)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_call_in_each_language_with_a_library() {
        for (operation, calls) in CALLS {
            for (language, call) in LANGUAGES.iter().zip(calls) {
                let has_library =
                    *language != "Rust" || !call.is_empty() || is_of_tables(operation);
                assert!(has_library, "{operation} in {language}");
                assert_eq!(
                    call.matches(['(', '[']).count(),
                    call.matches([')', ']']).count(),
                    "{call}"
                );
            }
        }
    }

    fn is_of_tables(operation: &str) -> bool {
        operation.contains("Table") || operation.contains("Entit")
    }
}
