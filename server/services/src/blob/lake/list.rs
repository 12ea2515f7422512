//! The listing of paths, as JSON. Source: Path - List, "Response body".

use crate::blob::encryption::ACCOUNT_KEY;
use crate::blob::lake::inputs::{continuation, max_results};
use crate::blob::request::Request;
use crate::blob::validators::with_etag;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use lazurite_blob::{Blob, BlobEntry, BlobService, Encryption, ListPaths, ListedBlob};
use lazurite_protocol::date;
use lazurite_protocol::request::data_lake::normalized;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{empty, put, put_static};
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From the start of Windows file times, 1601, to that of Unix times.
const FILE_TIMES_BEFORE_1970: Duration = Duration::from_secs(11_644_473_600);

/// One path. All values are texts, as the hosted service writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Path<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_directory: Option<&'static str>,
    content_length: String,
    creation_time: String,
    last_modified: String,
    /// Clients look for one of the two spellings.
    #[serde(rename = "eTag")]
    e_tag: String,
    etag: String,
    owner: &'a str,
    group: &'a str,
    permissions: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_time: Option<String>,
    #[serde(rename = "EncryptionScope")]
    encryption_scope: &'a str,
    #[serde(rename = "EncryptionContext", skip_serializing_if = "Option::is_none")]
    encryption_context: Option<&'a str>,
}

#[derive(Serialize)]
struct Paths<'a> {
    paths: Vec<Path<'a>>,
}

pub async fn list_paths(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let recursive = context.required_parameter("recursive")?;
    let parameter = |name| context.query.get(name).unwrap_or_default();
    let list = ListPaths {
        directory: normalized(&parameter("directory")),
        recursive: match recursive.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => {
                let reason = "It is neither true nor false.";
                return Err(Failure::parameter("recursive", recursive, reason));
            }
        },
        begin_from: parameter("beginFrom"),
        marker: continuation(context),
        max_results: max_results(context)?,
        caller: request.rights.user.clone(),
    };
    let call = move |blobs: &BlobService, r: &Request| {
        let container = blobs.get_container_properties(r.account(), &r.container)?;
        let page = blobs.list_paths(r.account(), &r.container, &list)?;
        let listed = page.entries.iter().filter_map(|entry| match entry {
            BlobEntry::Blob(listed) | BlobEntry::Directory(listed) => path(listed),
            BlobEntry::Prefix(_) => None,
        });
        let paths = Paths {
            paths: listed.collect(),
        };
        let document = serde_json::to_string(&paths).unwrap_or_default();
        let response = json(document, page.next_marker);
        Ok(with_etag(response, container.etag, container.last_modified))
    };
    request.call(call).await
}

/// A listed path; `None` for a file that has only uncommitted data.
fn path(listed: &ListedBlob) -> Option<Path<'_>> {
    let blob = listed.blob.as_ref()?;
    let access = blob.access.as_ref()?;
    Some(Path {
        name: listed.name.trim_end_matches('/'),
        is_directory: blob.is_directory().then_some("true"),
        content_length: blob.length.to_string(),
        creation_time: file_time(blob.created_at),
        last_modified: date::rfc1123(blob.last_modified),
        e_tag: blob.etag.to_string(),
        etag: blob.etag.to_string(),
        owner: &access.owner,
        group: &access.group,
        permissions: access.permissions_text(),
        expiry_time: blob.expires_at.map(file_time),
        encryption_scope: encryption_scope(blob),
        encryption_context: blob.encryption_context.as_deref(),
    })
}

fn encryption_scope(blob: &Blob) -> &str {
    match &blob.encryption {
        Encryption::Scope(scope) => scope,
        Encryption::None | Encryption::CustomerKey(_) => ACCOUNT_KEY,
    }
}

/// A time as a Windows file time: intervals of 100 ns since 1601.
fn file_time(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_1601 = since_1970 + FILE_TIMES_BEFORE_1970;
    (since_1601.as_nanos() / 100).to_string()
}

/// A response with a JSON document, and where the next page begins.
pub fn json(document: String, next_marker: Option<String>) -> Response<Body> {
    let mut response = empty(200);
    put_static(
        &mut response,
        CONTENT_TYPE,
        "application/json;charset=utf-8",
    );
    if let Some(marker) = next_marker {
        put(&mut response, "x-ms-continuation", marker);
    }
    *response.body_mut() = Body::from(document);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_times_begin_in_1601() {
        assert_eq!(file_time(UNIX_EPOCH), "116444736000000000");
        let later = UNIX_EPOCH + Duration::from_millis(1_500);
        assert_eq!(file_time(later), "116444736015000000");
    }
}
