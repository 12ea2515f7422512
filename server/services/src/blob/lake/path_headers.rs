//! The headers of a response that only paths have, in both protocols.

use axum::body::Body;
use axum::http::Response;
use lazurite_blob::Blob;
use lazurite_protocol::request::path_properties::{IS_FOLDER, PROPERTIES, write};
use lazurite_protocol::response::headers::{put, put_static};

/// Adds owner, access control and kind of a path, and its metadata as Data Lake Storage writes it.
/// Does nothing for a blob of a flat container. Clients of Data Lake Storage read properties by the
/// Blob protocol, so both protocols return these headers.
pub fn put_path_headers(response: &mut Response<Body>, blob: &Blob) {
    let Some(access) = &blob.access else {
        return;
    };
    put_static(response, "x-ms-resource-type", resource_type(blob));
    put(response, "x-ms-owner", &access.owner);
    put(response, "x-ms-group", &access.group);
    put(response, "x-ms-permissions", access.permissions_text());
    put(response, "x-ms-acl", access.acl_text());
    if let Some(context) = &blob.encryption_context {
        put(response, "x-ms-encryption-context", context);
    }
    let properties = write(&blob.metadata);
    if !properties.is_empty() {
        put(response, PROPERTIES, properties);
    }
    let is_marked = |(name, _): &(String, String)| name.eq_ignore_ascii_case(IS_FOLDER);
    if blob.is_directory() && !blob.metadata.iter().any(is_marked) {
        put_static(response, "x-ms-meta-hdi_isfolder", "true");
    }
}

/// The kind of a path, as headers and listings spell it.
pub fn resource_type(blob: &Blob) -> &'static str {
    if blob.is_directory() {
        "directory"
    } else {
        "file"
    }
}
