//! Headers that the responses to all writes share: ETag, Last-Modified, version, encryption scope.

use crate::blob::encryption;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{ETAG, LAST_MODIFIED};
use lazurite_blob::Written;
use lazurite_protocol::date;
use lazurite_protocol::response::headers::put;

/// Adds the headers of a write to its response.
pub fn with_validators(mut response: Response<Body>, written: &Written) -> Response<Body> {
    put(&mut response, ETAG, written.etag.quoted());
    put(
        &mut response,
        LAST_MODIFIED,
        date::rfc1123(written.last_modified),
    );
    if let Some(version) = written.version {
        put(&mut response, "x-ms-version-id", version.to_string());
    }
    if let Some(scope) = &written.encryption_scope {
        put(&mut response, encryption::SCOPE, scope.clone());
    }
    response
}
