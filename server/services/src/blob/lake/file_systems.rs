//! Operations on file systems.

use crate::blob::container;
use crate::blob::lake::inputs::{continuation, max_results, properties};
use crate::blob::lake::list::json;
use crate::blob::lease::put_lease;
use crate::blob::request::Request;
use crate::blob::validators::with_etag;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{BlobService, ListContainers};
use lazurite_protocol::date;
use lazurite_protocol::request::path_properties::{PROPERTIES, write};
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{empty, put};
use serde_json::{Value, json};

/// Whether the file system has a hierarchical namespace.
const NAMESPACE: &str = "x-ms-namespace-enabled";

pub async fn list_file_systems(request: Box<Request>) -> Result<Response<Body>> {
    let list = ListContainers {
        prefix: request.context.query.get("prefix").unwrap_or_default(),
        marker: continuation(&request.context),
        max_results: max_results(&request.context)?,
        metadata: false,
        system: false,
        deleted: false,
    };
    let call = move |blobs: &BlobService, r: &Request| {
        let page = blobs.list_containers(r.account(), &list)?;
        let file_systems = page.containers.iter().map(|(name, container)| {
            json!({
                "name": name,
                "lastModified": date::rfc1123(container.last_modified),
                "eTag": container.etag.quoted(),
                "DefaultEncryptionScope": container::default_scope(container),
            })
        });
        let file_systems: Vec<Value> = file_systems.collect();
        let document = json!({ "filesystems": file_systems });
        Ok(json(document.to_string(), page.next_marker))
    };
    request.call(call).await
}

pub async fn create_file_system(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = properties(&request.context)?.unwrap_or_default();
    let namespace = request.context.hierarchical.to_string();
    let mut response = container::create(request, metadata).await?;
    put(&mut response, NAMESPACE, namespace);
    Ok(response)
}

pub async fn get_file_system_properties(request: Box<Request>) -> Result<Response<Body>> {
    let now = request.now();
    let container = container::read(request).await?;
    let mut response = with_etag(empty(200), container.etag, container.last_modified);
    let properties = write(&container.metadata);
    if !properties.is_empty() {
        put(&mut response, PROPERTIES, properties);
    }
    put_lease(&mut response, &container.lease, now);
    put(&mut response, NAMESPACE, container.hierarchical.to_string());
    Ok(response)
}

pub async fn set_file_system_properties(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = properties(&request.context)?.unwrap_or_default();
    container::set_metadata(request, metadata).await
}
