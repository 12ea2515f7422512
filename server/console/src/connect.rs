//! Connection strings, endpoints, and a few lines for each client library.

use crate::context::Console;
use crate::endpoints::{KEY_OMITTED, connection_string};
use crate::layout::{self, copy_button};
use crate::respond::{Page, Visit};
use axum::extract::{Path, State};
use maud::html;
use std::sync::Arc;

pub async fn page(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    visit: Visit,
) -> Page {
    let connection = connection_string(&console, &visit, &account, None);
    let content = html! {
        (layout::trail(&[("Home", "/_lazurite/".to_owned())], "Connect"))
        h1 { "Connect to " code { (account) } }
        p { "Every official client takes a connection string. Each snippet reads it from the environment:" }
        @let export = format!("export AZURE_STORAGE_CONNECTION_STRING=\"{connection}\"");
        div.copied { code { (export) } (copy_button(&export)) }
        @if connection.contains(KEY_OMITTED) { p { "Put the key of the account in the place of " code { (KEY_OMITTED) } "." } }
        @for (index, (title, services)) in SNIPPETS.iter().enumerate() {
            details.language open[index == 0] {
                summary { h2 { (title) } }
                div.columns {
                    @for (service, install, snippet) in services {
                        div {
                            h3 { (service) }
                            @if !install.is_empty() { div.copied { code { (install) } (copy_button(install)) } }
                            div.copied { pre { code { (snippet) } } (copy_button(snippet)) }
                        }
                    }
                }
            }
        }
        details.language {
            summary { h2 { "Rust" } }
            p { "The crate " code { "object_store" } " takes no connection string; this reads its parts:" }
            div.copied { pre { code { (RUST) } } (copy_button(RUST)) }
        }
    };
    Ok(layout::page_in(
        &console, &account, "Home", "Connect", content,
    ))
}

/// For a service: its name, the command that installs its client library, if it needs one, and the
/// lines of code. `tests/clients/snippets.py` runs those of three languages.
type Snippet = (&'static str, &'static str, &'static str);

/// The snippets of each language. Each reads the connection string from the environment.
const SNIPPETS: [(&str, [Snippet; 3]); 7] = [
    (
        "Python",
        [
            (
                "Blob",
                "pip install azure-storage-blob",
                "import os\nfrom azure.storage.blob import BlobServiceClient\n\nservice = BlobServiceClient.from_connection_string(os.environ[\"AZURE_STORAGE_CONNECTION_STRING\"])\nfor container in service.list_containers():\n    print(container.name)",
            ),
            (
                "Queue",
                "pip install azure-storage-queue",
                "import os\nfrom azure.storage.queue import QueueServiceClient\n\nservice = QueueServiceClient.from_connection_string(os.environ[\"AZURE_STORAGE_CONNECTION_STRING\"])\nfor queue in service.list_queues():\n    print(queue.name)",
            ),
            (
                "Table",
                "pip install azure-data-tables",
                "import os\nfrom azure.data.tables import TableServiceClient\n\nservice = TableServiceClient.from_connection_string(os.environ[\"AZURE_STORAGE_CONNECTION_STRING\"])\nfor table in service.list_tables():\n    print(table.name)",
            ),
        ],
    ),
    (
        "JavaScript",
        [
            (
                "Blob",
                "npm install @azure/storage-blob",
                "import { BlobServiceClient } from \"@azure/storage-blob\";\n\nconst service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);\nfor await (const container of service.listContainers()) console.log(container.name);",
            ),
            (
                "Queue",
                "npm install @azure/storage-queue",
                "import { QueueServiceClient } from \"@azure/storage-queue\";\n\nconst service = QueueServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);\nfor await (const queue of service.listQueues()) console.log(queue.name);",
            ),
            (
                "Table",
                "npm install @azure/data-tables",
                "import { TableServiceClient } from \"@azure/data-tables\";\n\nconst service = TableServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING, { allowInsecureConnection: true });\nfor await (const table of service.listTables()) console.log(table.name);",
            ),
        ],
    ),
    (
        "Shell",
        [
            (
                "Blob",
                "",
                "lazurite create container photos\necho blue | lazurite put - photos/lake.txt\nlazurite ls photos",
            ),
            (
                "Queue",
                "",
                "lazurite create queue orders\nlazurite send orders '{\"order\": 7}'\nlazurite peek orders",
            ),
            (
                "Table",
                "",
                "lazurite create table People\nlazurite entity put People Sales 1 Name=Anna Age=34\nlazurite query People \"Age gt 30\"",
            ),
        ],
    ),
    (
        ".NET",
        [
            (
                "Blob",
                "dotnet add package Azure.Storage.Blobs",
                "using Azure.Storage.Blobs;\n\nvar service = new BlobServiceClient(Environment.GetEnvironmentVariable(\"AZURE_STORAGE_CONNECTION_STRING\"));\nforeach (var container in service.GetBlobContainers()) Console.WriteLine(container.Name);",
            ),
            (
                "Queue",
                "dotnet add package Azure.Storage.Queues",
                "using Azure.Storage.Queues;\n\nvar service = new QueueServiceClient(Environment.GetEnvironmentVariable(\"AZURE_STORAGE_CONNECTION_STRING\"));\nforeach (var queue in service.GetQueues()) Console.WriteLine(queue.Name);",
            ),
            (
                "Table",
                "dotnet add package Azure.Data.Tables",
                "using Azure.Data.Tables;\n\nvar service = new TableServiceClient(Environment.GetEnvironmentVariable(\"AZURE_STORAGE_CONNECTION_STRING\"));\nforeach (var table in service.Query()) Console.WriteLine(table.Name);",
            ),
        ],
    ),
    (
        "Java",
        [
            (
                "Blob",
                "com.azure:azure-storage-blob",
                "import com.azure.storage.blob.BlobServiceClientBuilder;\n\nvar service = new BlobServiceClientBuilder()\n    .connectionString(System.getenv(\"AZURE_STORAGE_CONNECTION_STRING\"))\n    .buildClient();\nservice.listBlobContainers().forEach(container -> System.out.println(container.getName()));",
            ),
            (
                "Queue",
                "com.azure:azure-storage-queue",
                "import com.azure.storage.queue.QueueServiceClientBuilder;\n\nvar service = new QueueServiceClientBuilder()\n    .connectionString(System.getenv(\"AZURE_STORAGE_CONNECTION_STRING\"))\n    .buildClient();\nservice.listQueues().forEach(queue -> System.out.println(queue.getName()));",
            ),
            (
                "Table",
                "com.azure:azure-data-tables",
                "import com.azure.data.tables.TableServiceClientBuilder;\n\nvar service = new TableServiceClientBuilder()\n    .connectionString(System.getenv(\"AZURE_STORAGE_CONNECTION_STRING\"))\n    .buildClient();\nservice.listTables().forEach(table -> System.out.println(table.getName()));",
            ),
        ],
    ),
    (
        "Go",
        [
            (
                "Blob",
                "go get github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
                "client, err := azblob.NewClientFromConnectionString(os.Getenv(\"AZURE_STORAGE_CONNECTION_STRING\"), nil)\nif err != nil {\n\tlog.Fatal(err)\n}\nfor pager := client.NewListContainersPager(nil); pager.More(); {\n\tpage, err := pager.NextPage(context.Background())\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tfor _, container := range page.ContainerItems {\n\t\tfmt.Println(*container.Name)\n\t}\n}",
            ),
            (
                "Queue",
                "go get github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue",
                "client, err := azqueue.NewServiceClientFromConnectionString(os.Getenv(\"AZURE_STORAGE_CONNECTION_STRING\"), nil)\nif err != nil {\n\tlog.Fatal(err)\n}\nfor pager := client.NewListQueuesPager(nil); pager.More(); {\n\tpage, err := pager.NextPage(context.Background())\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tfor _, queue := range page.Queues {\n\t\tfmt.Println(*queue.Name)\n\t}\n}",
            ),
            (
                "Table",
                "go get github.com/Azure/azure-sdk-for-go/sdk/data/aztables",
                "client, err := aztables.NewServiceClientFromConnectionString(os.Getenv(\"AZURE_STORAGE_CONNECTION_STRING\"), nil)\nif err != nil {\n\tlog.Fatal(err)\n}\nfor pager := client.NewListTablesPager(nil); pager.More(); {\n\tpage, err := pager.NextPage(context.Background())\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tfor _, table := range page.Tables {\n\t\tfmt.Println(*table.Name)\n\t}\n}",
            ),
        ],
    ),
    (
        "Azure CLI",
        [
            (
                "Blob",
                "pip install azure-cli",
                "az storage container list --output table",
            ),
            (
                "Queue",
                "pip install azure-cli",
                "az storage queue list --output table",
            ),
            (
                "Table",
                "pip install azure-cli",
                "az storage table list --output table",
            ),
        ],
    ),
];

const RUST: &str = "let connection = std::env::var(\"AZURE_STORAGE_CONNECTION_STRING\")?;\nlet part = |name: &str| connection.split(';').find_map(|part| part.strip_prefix(name)).unwrap_or_default();\nlet photos = object_store::azure::MicrosoftAzureBuilder::new()\n    .with_account(part(\"AccountName=\"))\n    .with_access_key(part(\"AccountKey=\"))\n    .with_endpoint(part(\"BlobEndpoint=\").to_owned())\n    .with_allow_http(true)\n    .with_container_name(\"photos\")\n    .build()?;";
