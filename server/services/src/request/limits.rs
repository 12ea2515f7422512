//! Limits of a request's head: its target, its headers, its framing.

use crate::connection::framing::RawHead;
use axum::http::Uri;
use axum::http::header::{CONNECTION, HeaderMap, HeaderValue};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::METADATA_PREFIX;

/// Maximum length of a request target in bytes. Long filters must fit.
const TARGET_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes of all headers of a request. The prefix of metadata does not count, so
/// that 8 KiB of metadata may be in any number of pairs.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Maximum number of headers besides metadata: as many as the HTTP library accepts.
pub const HEADERS_MAX: usize = 100;

/// Refuses a head that is too long or ambiguous. Call it before any other check.
pub fn check_framing(uri: &Uri, headers: &HeaderMap, raw: &RawHead) -> Result<()> {
    let close =
        |failure: Failure| failure.with_header(CONNECTION, HeaderValue::from_static("close"));
    check_sizes(uri, headers).map_err(close)?;
    if raw.ambiguous_length {
        let message = "The request has both a Content-Length and a Transfer-Encoding.";
        let failure = Failure::new(400, "InvalidHeaderValue", message);
        return Err(close(failure.with("HeaderName", "Content-Length")));
    }
    Ok(())
}

pub fn target_too_long() -> Failure {
    let message = format!("The request URI is longer than {TARGET_BYTES_MAX} bytes.");
    Failure::new(414, "UriTooLong", message)
}

/// Refuses a request, or one inside a batch, whose target or headers are too long.
pub fn check_sizes(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let authority = uri
        .authority()
        .map_or(0, |authority| authority.as_str().len());
    let target = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if authority + target > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    let length: usize = headers
        .iter()
        .map(|(name, value)| {
            let name = name.as_str();
            name.strip_prefix(METADATA_PREFIX).unwrap_or(name).len() + value.len()
        })
        .sum();
    if length > HEADER_BYTES_MAX {
        let message = format!("The request's headers come to more than {HEADER_BYTES_MAX} bytes.");
        return Err(Failure::new(431, "RequestHeaderFieldsTooLarge", message));
    }
    Ok(())
}
