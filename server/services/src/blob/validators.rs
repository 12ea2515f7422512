//! Headers that the responses to all writes share: ETag, Last-Modified, version, encryption scope.

use crate::blob::encryption;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{ETAG, LAST_MODIFIED};
use lazurite_blob::{ETag, Written};
use lazurite_protocol::date;
use lazurite_protocol::response::headers::put;
use std::time::SystemTime;

/// Adds the headers of a write to its response.
pub fn with_validators(response: Response<Body>, written: &Written) -> Response<Body> {
    let mut response = with_etag(response, written.etag, written.last_modified);
    if let Some(version) = written.version {
        put(&mut response, "x-ms-version-id", version.to_string());
    }
    if let Some(scope) = &written.encryption_scope {
        put(&mut response, encryption::SCOPE, scope.clone());
    }
    response
}

/// Adds ETag and Last-Modified to a response.
pub fn with_etag(
    mut response: Response<Body>,
    etag: ETag,
    last_modified: SystemTime,
) -> Response<Body> {
    put(&mut response, ETAG, etag.quoted());
    put(&mut response, LAST_MODIFIED, date::rfc1123(last_modified));
    response
}
