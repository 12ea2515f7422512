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
        p { "Every official client takes a connection string. The snippets read it from the environment:" }
        @let export = format!("export AZURE_STORAGE_CONNECTION_STRING=\"{connection}\"");
        div.copied { code { (export) } (copy_button(&export)) }
        @if connection.contains(KEY_OMITTED) { p { "Put the key of the account in the place of " code { (KEY_OMITTED) } "." } }
        @for (title, install, snippet) in SNIPPETS {
            section {
                h2 { (title) }
                div.copied { code { (install) } (copy_button(install)) }
                div.copied { pre { code { (snippet) } } (copy_button(snippet)) }
            }
        }
    };
    Ok(layout::page(&console, "Home", "Connect", content))
}

/// For each client library: its title, the command that installs it, and the lines of code.
const SNIPPETS: [(&str, &str, &str); 7] = [
    (
        "Python",
        "pip install azure-storage-blob",
        "import os\nfrom azure.storage.blob import BlobServiceClient\n\nservice = BlobServiceClient.from_connection_string(os.environ[\"AZURE_STORAGE_CONNECTION_STRING\"])\nfor container in service.list_containers():\n    print(container.name)",
    ),
    (
        "JavaScript",
        "npm install @azure/storage-blob",
        "import { BlobServiceClient } from \"@azure/storage-blob\";\n\nconst service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);\nfor await (const container of service.listContainers()) console.log(container.name);",
    ),
    (
        ".NET",
        "dotnet add package Azure.Storage.Blobs",
        "using Azure.Storage.Blobs;\n\nvar service = new BlobServiceClient(Environment.GetEnvironmentVariable(\"AZURE_STORAGE_CONNECTION_STRING\"));\nawait foreach (var container in service.GetBlobContainersAsync()) Console.WriteLine(container.Name);",
    ),
    (
        "Java",
        "com.azure:azure-storage-blob",
        "var service = new BlobServiceClientBuilder()\n    .connectionString(System.getenv(\"AZURE_STORAGE_CONNECTION_STRING\"))\n    .buildClient();\nservice.listBlobContainers().forEach(container -> System.out.println(container.getName()));",
    ),
    (
        "Go",
        "go get github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
        "client, err := azblob.NewClientFromConnectionString(os.Getenv(\"AZURE_STORAGE_CONNECTION_STRING\"), nil)\nif err != nil {\n\tlog.Fatal(err)\n}\npager := client.NewListContainersPager(nil)",
    ),
    (
        "Rust",
        "cargo add object_store --features azure",
        "let store = object_store::azure::MicrosoftAzureBuilder::new()\n    .with_use_emulator(true)\n    .with_container_name(\"photos\")\n    .build()?;",
    ),
    (
        "Azure CLI",
        "pip install azure-cli",
        "az storage container list --output table",
    ),
];
