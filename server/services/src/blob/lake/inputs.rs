//! Groups of headers and parameters of Data Lake Storage. The rows of `operations.rs` combine them.

use crate::blob::header_text;
use crate::blob::request::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{BlobHeaders, Metadata};
use lazurite_protocol::request::checksums::no_md5;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::inputs::{Inputs, headers, parameters};
use lazurite_protocol::request::path_properties::{self, PROPERTIES as PROPERTIES_HEADER};
use lazurite_protocol::response::error::{Failure, Result};

pub const PROPERTIES: Inputs = headers(&["x-ms-properties"]);
/// The headers that a read of the file returns.
pub const PATH_HEADERS: Inputs = headers(&[
    "x-ms-cache-control",
    "x-ms-content-disposition",
    "x-ms-content-encoding",
    "x-ms-content-language",
    "x-ms-content-type",
]);
pub const CONTENT_MD5: Inputs = headers(&["x-ms-content-md5"]);
pub const OWNERS: Inputs = headers(&["x-ms-owner", "x-ms-group"]);
pub const PERMISSIONS: Inputs = headers(&["x-ms-permissions"]);
pub const ACL: Inputs = headers(&["x-ms-acl"]);
pub const UMASK: Inputs = headers(&["x-ms-umask"]);
pub const EXPIRY: Inputs = headers(&["x-ms-expiry-option", "x-ms-expiry-time"]);
/// A lease that the operation acquires, renews or releases.
pub const LEASE_STEPS: Inputs = headers(&[
    "x-ms-lease-action",
    "x-ms-lease-duration",
    "x-ms-proposed-lease-id",
]);
pub const NEW_LEASE: Inputs = headers(&["x-ms-lease-duration", "x-ms-proposed-lease-id"]);
pub const SOURCE_CONDITIONS: Inputs = headers(&[
    "x-ms-source-if-match",
    "x-ms-source-if-modified-since",
    "x-ms-source-if-none-match",
    "x-ms-source-if-unmodified-since",
    "x-ms-source-lease-id",
]);
pub const PAGE: Inputs = parameters(&["continuation", "maxresults"]);

/// The metadata in `x-ms-properties`; `None` without the header.
pub fn properties(context: &Context) -> Result<Option<Metadata>> {
    let text = context.headers.get(PROPERTIES_HEADER);
    let text = text.map(lazurite_protocol::request::context::text_of);
    text.map(|text| path_properties::parse(&text)).transpose()
}

/// The headers that the request gives the path.
pub fn path_headers(request: &Request) -> Result<BlobHeaders> {
    let header = |name: &str| header_text::sent(&request.context, name);
    let name = "x-ms-content-md5";
    let md5 = request.context.header(name).map(|text| {
        let decoded = STANDARD.decode(&text).ok();
        decoded.ok_or_else(|| no_md5(name, text))
    });
    Ok(BlobHeaders {
        content_type: header("x-ms-content-type"),
        content_encoding: header("x-ms-content-encoding"),
        content_language: header("x-ms-content-language"),
        cache_control: header("x-ms-cache-control"),
        content_disposition: header("x-ms-content-disposition"),
        content_md5: md5.transpose()?,
    })
}

/// A parameter that is `true` or `false`; `None` if absent. Error: it is neither.
pub fn flag(context: &Context, name: &'static str) -> Result<Option<bool>> {
    let Some(text) = context.query.get(name) else {
        return Ok(None);
    };
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(Failure::parameter(
            name,
            text,
            "It is neither true nor false.",
        )),
    }
}

/// The whole number in a required parameter, at least 0.
pub fn required_number(context: &Context, name: &'static str) -> Result<u64> {
    let text = context.required_parameter(name)?;
    let reason = "It is not a whole number of at least 0.";
    let number = text.trim().parse().ok();
    number.ok_or_else(|| Failure::parameter(name, text, reason))
}

/// `maxResults`: at least 1.
pub fn max_results(context: &Context) -> Result<Option<u32>> {
    let number = context.integer("maxresults")?;
    match number {
        Some(number) if number < 1 => {
            let reason = "It must be at least 1.";
            Err(Failure::parameter("maxResults", number.to_string(), reason))
        }
        number => Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))),
    }
}

/// `continuation`: where a page begins.
pub fn continuation(context: &Context) -> Option<String> {
    context
        .query
        .get("continuation")
        .filter(|text| !text.is_empty())
}
