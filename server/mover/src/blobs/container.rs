//! Creates containers with their settings, and lists their blobs.

use crate::asking::{ask_xml, send};
use crate::client::{Client, encode};
use crate::error::Result;
use crate::fields::{Resource, header, in_query, metadata_headers, text_field};
use crate::listing::put_metadata;
use crate::resource_kind::ResourceKind;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use serde_json::{Map, Value};

/// All containers with their settings, without policies.
pub fn containers(client: &Client) -> Result<Vec<Resource>> {
    let mut containers = Vec::new();
    pages(client, "?comp=list&include=metadata", |page| {
        for container in page
            .child("Containers")
            .iter()
            .flat_map(|all| &all.children)
        {
            let name = ResourceKind::Container.listed(container.raw_text("Name"))?;
            containers.push((name, settings_of(container)));
        }
        Ok(())
    })?;
    Ok(containers)
}

/// Passes the blobs of a container to `take`, as a listing with these datasets shows them.
pub fn each_listed(
    client: &Client,
    container: &str,
    include: &str,
    take: &mut dyn FnMut(&Element) -> Result<()>,
) -> Result<()> {
    let path = encode(container);
    let base = format!("{path}?restype=container&comp=list&include={include}");
    pages(client, &base, |page| {
        let blobs = page.child("Blobs");
        let mut blobs = blobs.into_iter().flat_map(|blobs| blobs.all("Blob"));
        blobs.try_for_each(&mut *take)
    })
}

/// Whether a container has any blob.
pub fn holds_any(client: &Client, container: &str) -> Result<bool> {
    let path = encode(container);
    let list = format!("{path}?restype=container&comp=list&maxresults=1");
    let page = ask_xml(client, ServiceKind::Blob, &list)?;
    let blobs = page.child("Blobs");
    Ok(blobs.is_some_and(|blobs| !blobs.children.is_empty()))
}

/// Creates a container without its policies. False if it exists.
pub fn make_container(
    client: &Client,
    container: &str,
    fields: &Map<String, Value>,
) -> Result<bool> {
    let mut headers = metadata_headers(fields)?;
    for (name, field) in [
        ("x-ms-blob-public-access", "publicAccess"),
        ("x-ms-default-encryption-scope", "defaultEncryptionScope"),
        (
            "x-ms-deny-encryption-scope-override",
            "denyEncryptionScopeOverride",
        ),
    ] {
        headers.extend(text_field(fields, field)?.map(|value| header(name, value)));
    }
    let path = format!("{}?restype=container", encode(container));
    match send(client, ServiceKind::Blob, "PUT", &path, &headers, b"") {
        Ok(_) => Ok(true),
        Err(error) if error.code() == "ContainerAlreadyExists" => Ok(false),
        Err(error) => Err(error),
    }
}

/// Passes each page of a listing to `read`.
pub fn pages(
    client: &Client,
    base: &str,
    mut read: impl FnMut(&Element) -> Result<()>,
) -> Result<()> {
    let mut marker = String::new();
    loop {
        let resource = match marker.as_str() {
            "" => base.to_owned(),
            marker => format!("{base}&marker={}", in_query(marker)),
        };
        let page = ask_xml(client, ServiceKind::Blob, &resource)?;
        read(&page)?;
        marker = page.raw_text("NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(());
        }
    }
}

fn settings_of(container: &Element) -> Map<String, Value> {
    let mut fields = Map::new();
    put_metadata(&mut fields, container);
    let properties = container.child("Properties");
    for (name, element) in [
        ("publicAccess", "PublicAccess"),
        ("defaultEncryptionScope", "DefaultEncryptionScope"),
        ("denyEncryptionScopeOverride", "DenyEncryptionScopeOverride"),
    ] {
        let value = properties.and_then(|properties| properties.child_text(element));
        let is_default = matches!(value.as_deref(), Some("$account-encryption-key" | "false"));
        if let Some(value) = value.filter(|_| !is_default) {
            fields.insert(name.to_owned(), value.into());
        }
    }
    fields
}

/// A property of a listed blob; empty if absent.
pub fn property<'a>(blob: &'a Element, name: &str) -> &'a str {
    let properties = blob.child("Properties");
    properties.map_or("", |all| all.raw_text(name))
}

/// The path of a blob in a request.
pub fn resource(container: &str, name: &str) -> String {
    format!("{}/{}", encode(container), encode(name))
}
