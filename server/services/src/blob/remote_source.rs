//! Fetches content from other servers, for copies whose source is not a blob of this server. Sends
//! the source's own credentials over HTTP or HTTPS, and reads the content in pieces of bounded
//! size. `--allow-copy-from` must allow the host, and `copy_allow_list.rs` its address: otherwise a
//! client that may write could make the server send requests to any address. Source: Copy Blob; Put
//! Blob From URL; Put Block From URL; Append Block From URL; Put Page From URL.

use crate::blob::copy_slots::CopySlot;
use crate::blob::fetcher::{Fetcher, unreachable, unverified};
use crate::blob::header_text;
use crate::blob::request::Request;
use crate::blob::tags::read_tags;
use crate::blob::upload::{begin, drain};
use crate::request::body::{Bounds, RequestBody, collect};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::{Body as HttpBody, Incoming};
use lazurite_blob::{
    BlobHeaders, BlobService, ByteRange, Checksums, CustomerKey, Metadata, Tags, Upload, UploadKind,
};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::parse_xml;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes of a document with the tags of a source: ten tags of 128 and 256
/// characters, fully escaped, with room to spare.
const TAGS_BYTES_MAX: usize = 64 << 10;

/// Request headers about the source of a copy, each with its name in a request to that source.
const OF_SOURCE: [(&str, &str); 9] = [
    ("x-ms-source-if-match", "if-match"),
    ("x-ms-source-if-none-match", "if-none-match"),
    ("x-ms-source-if-modified-since", "if-modified-since"),
    ("x-ms-source-if-unmodified-since", "if-unmodified-since"),
    ("x-ms-source-if-tags", "x-ms-if-tags"),
    ("x-ms-source-encryption-key", "x-ms-encryption-key"),
    (
        "x-ms-source-encryption-key-sha256",
        "x-ms-encryption-key-sha256",
    ),
    (
        "x-ms-source-encryption-algorithm",
        "x-ms-encryption-algorithm",
    ),
    ("x-ms-copy-source-authorization", "authorization"),
];

/// A source on another server, with the headers for requests to it.
#[derive(Debug)]
pub struct RemoteSource {
    fetcher: Arc<Fetcher>,
    uri: Uri,
    /// The URL without credentials.
    pub url: String,
    headers: HeaderMap,
}

impl RemoteSource {
    pub fn new(fetcher: Arc<Fetcher>, request: &Request, uri: Uri, url: String) -> RemoteSource {
        let sent = &request.context.headers;
        let mut headers = HeaderMap::new();
        for (name, there) in OF_SOURCE {
            if let Some(value) = sent.get(name) {
                headers.insert(HeaderName::from_static(there), value.clone());
            }
        }
        if let Ok(version) = HeaderValue::try_from(request.context.version.as_str()) {
            headers.insert(HeaderName::from_static("x-ms-version"), version);
        }
        RemoteSource {
            fetcher,
            uri,
            url,
            headers,
        }
    }

    /// Takes a slot for a copy that continues after its request. Error: `ServerBusy`.
    pub fn place(&self) -> Result<CopySlot> {
        self.fetcher.slots.take()
    }

    /// Gets the whole source for a copy. Errors: those of [`RemoteSource::get`];
    /// `SourceConditionNotMet` if the conditions on the source are not met.
    pub async fn get_for_copy(&self) -> Result<Found> {
        self.get(None)
            .await
            .map_err(|failure| match failure.status {
                StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED => {
                    lazurite_blob::Error::SourceConditionNotMet.into()
                }
                _ => failure,
            })
    }

    /// Gets the tags of a source that is a blob, with the credentials of the source. Errors:
    /// `InvalidHeaderValue` if the source's URL has no form for tags; `CannotVerifyCopySource` with
    /// the other server's message, or if its answer cannot be read.
    pub async fn get_tags(&self) -> Result<Tags> {
        let malformed = || Failure::header("x-ms-copy-source", self.url.as_str());
        let uri = tags_of(&self.uri).ok_or_else(malformed)?;
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-ms-version"] {
            if let Some(value) = self.headers.get(name) {
                headers.insert(name, value.clone());
            }
        }
        let response = self.fetcher.ask(&uri, &headers).await?;
        if response.status() != StatusCode::OK {
            return Err(refused(response.status(), response.headers()));
        }
        let bounds = Bounds {
            bytes_max: TAGS_BYTES_MAX as u64,
            silence_max: self.fetcher.patience.silence,
        };
        let body = RequestBody::bounded(response.into_body(), bounds);
        let no_tags = |_| unreachable("its tags cannot be read");
        let document = collect(body, TAGS_BYTES_MAX).await.map_err(no_tags)?;
        let root = parse_xml(&document).map_err(no_tags)?;
        read_tags(&root).map_err(no_tags)
    }

    /// Gets the source, or a range of it. Errors: `CannotVerifyCopySource` with the other server's
    /// message.
    pub async fn get(&self, range: Option<ByteRange>) -> Result<Found> {
        let mut headers = self.headers.clone();
        if let Some(range) = range {
            let last = range.last.map_or(String::new(), |last| last.to_string());
            let value = format!("bytes={}-{last}", range.first);
            let value = HeaderValue::try_from(value).expect("numbers are plain ASCII");
            headers.insert(header::RANGE, value);
        }
        let response = self.fetcher.ask(&self.uri, &headers).await?;
        let wanted = match range {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        match response.status() {
            status if status == wanted && !is_of(response.headers(), range) => {
                Err(unreachable("it answered with another range"))
            }
            status if status == wanted => {
                let (parts, body) = response.into_parts();
                Ok(Found {
                    headers: parts.headers,
                    body,
                    silence_max: self.fetcher.patience.silence,
                })
            }
            status => Err(refused(status, response.headers())),
        }
    }
}

/// The URL of the tags of the blob at `uri`.
fn tags_of(uri: &Uri) -> Option<Uri> {
    let separator = if uri.query().is_some() { '&' } else { '?' };
    let target = uri.path_and_query()?.as_str();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{target}{separator}comp=tags").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Whether a response has the requested range, which may be cut off at the end of the source.
fn is_of(headers: &HeaderMap, range: Option<ByteRange>) -> bool {
    let Some(range) = range else {
        return true;
    };
    let text = headers.get(header::CONTENT_RANGE);
    let text = text.and_then(|value| value.to_str().ok()?.strip_prefix("bytes "));
    let bounds = text.and_then(|text| text.split('/').next()?.split_once('-'));
    let Some((first, last)) = bounds else {
        return false;
    };
    let ends_inside = |last: u64| range.last.is_none_or(|wanted| last <= wanted);
    first.parse() == Ok(range.first) && last.parse().is_ok_and(ends_inside)
}

/// The failure of a copy if the other server refused the request for the source.
fn refused(status: StatusCode, headers: &HeaderMap) -> Failure {
    let code = headers
        .get("x-ms-error-code")
        .map(lazurite_protocol::request::context::text_of);
    let code = code.unwrap_or_else(|| "InvalidSource".to_owned());
    // Any other status, such as that of a redirect, becomes 400.
    let own_status = match status.as_u16() {
        refusal @ (304 | 400..=599) => refusal,
        _ => 400,
    };
    unverified(Failure::new(
        own_status,
        code,
        format!("The copy source answered {status}."),
    ))
}

/// A source whose response has begun. Its content is still to be read.
pub struct Found {
    headers: HeaderMap,
    body: Incoming,
    silence_max: Duration,
}

impl Found {
    /// Length of the content in bytes; 0 if the server does not declare it.
    pub fn length(&self) -> u64 {
        self.body.size_hint().lower()
    }

    /// Refuses a source that is known to be longer than `limit` bytes.
    pub fn check_length(&self, limit: u64) -> Result<()> {
        if self.length() > limit {
            return Err(common::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string()));
        }
        Ok(())
    }

    /// True if the source is a block blob or does not give a type of blob.
    pub fn may_be_block_blob(&self) -> bool {
        let blob_type = self.headers.get("x-ms-blob-type");
        blob_type.is_none_or(|blob_type| blob_type == "BlockBlob")
    }

    /// The headers for a blob with the content of this source.
    pub fn blob_headers(&self) -> BlobHeaders {
        let text = |name: &str| self.headers.get(name).map(header_text::kept);
        let md5 = |text: String| STANDARD.decode(text).ok();
        BlobHeaders {
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            content_language: text("content-language"),
            cache_control: text("cache-control"),
            content_disposition: text("content-disposition"),
            content_md5: text("content-md5").and_then(md5),
        }
    }

    /// The metadata in the `x-ms-meta-` headers of the source.
    pub fn metadata(&self) -> Metadata {
        let pairs = self.headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-ms-meta-")?;
            Some((
                name.to_owned(),
                lazurite_protocol::request::context::text_of(value),
            ))
        });
        pairs.collect()
    }

    /// Stores the content as it arrives, at most `bytes_max`. Errors: `RequestBodyTooLarge`, before
    /// anything is read if the length is known; a checksum differs; the source ends early, or
    /// stalls.
    pub async fn store(
        self,
        blobs: &BlobService,
        (kind, bytes_max): (UploadKind, u64),
        claimed: Checksums,
        key: Option<CustomerKey>,
    ) -> Result<Upload> {
        let bounds = Bounds {
            bytes_max: bytes_max.min(kind.bytes_max()),
            silence_max: self.silence_max,
        };
        self.check_length(bounds.bytes_max)?;
        let upload = begin(blobs, kind, claimed, key)?;
        let body = RequestBody::bounded(self.body, bounds);
        let stored = drain(upload, body, &mut None).await;
        stored.map_err(|failure| match &*failure.code {
            "IncompleteBody" => unreachable("its answer ended early"),
            "RequestTimeout" => unreachable("its answer stopped coming"),
            _ => failure,
        })
    }
}

#[cfg(test)]
#[path = "remote_source_tests.rs"]
mod tests;
