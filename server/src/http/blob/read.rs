//! Bodies on their way out, and the properties that go with them.

use super::super::body::{ChunkSource, streamed};
use super::super::error::{Failure, Result};
use super::super::headers::{empty, put, put_metadata};
use super::{Request, cross};
use crate::codec::date;
use axum::body::Body;
use axum::http::{Method, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazurite_blob::{Blob, BlobReader, BlobType, ByteRange};

/// Bytes of a body that wait for a slow client at a time.
const DOWNLOAD_CHUNK_BYTES: usize = 128 << 10;
/// Longest range whose MD5 is computed. Source: Get Blob, "Request headers", `x-ms-range-get-content-md5`.
const RANGE_MD5_BYTES_MAX: u64 = 4 << 20;

/// What a download begins with: its first bytes are read where the blob is found, so that small blobs need no more.
struct Begun {
    blob: Blob,
    range: Option<std::ops::Range<u64>>,
    first: Bytes,
    rest: BlobReader,
}

pub async fn get_blob(request: Request) -> Result<Response<Body>> {
    let (conditions, range) = (request.conditions()?, range(&request));
    let wants_md5 = wants_range_md5(&request, range)?;
    let overrides = overrides(&request);
    let begun = cross(move || {
        let download =
            request
                .app
                .blobs
                .get_blob(&request.address(), range, &conditions, request.now())?;
        let mut rest = download.body;
        let wanted = if wants_md5 {
            RANGE_MD5_BYTES_MAX as usize
        } else {
            DOWNLOAD_CHUNK_BYTES
        };
        let first = read_up_to(&mut rest, wanted)?;
        Ok(Begun {
            blob: download.blob,
            range: download.range,
            first,
            rest,
        })
    })
    .await?;
    if wants_md5 && begun.rest.remaining() > 0 {
        return Err(Failure::header("x-ms-range-get-content-md5", "true").with(
            "ExtendedErrorDetail",
            "The MD5 of a range is computed for ranges of at most 4 MiB.",
        ));
    }
    let mut response = empty(if begun.range.is_some() { 206 } else { 200 });
    put_blob_headers(&mut response, &begun.blob);
    put_content_md5(&mut response, &begun, wants_md5);
    if let Some(range) = &begun.range {
        let (first, last) = (range.start, range.end - 1);
        put(
            &mut response,
            "content-range",
            format!("bytes {first}-{last}/{}", begun.blob.length),
        );
    }
    for (name, value) in overrides {
        put(&mut response, name, value);
    }
    *response.body_mut() = body(begun);
    Ok(response)
}

pub async fn get_blob_properties(request: Request) -> Result<Response<Body>> {
    let conditions = request.conditions()?;
    let overrides = overrides(&request);
    let head = request.context.method == Method::HEAD;
    let blob = request
        .call(move |blobs, r| blobs.get_blob_properties(&r.address(), &conditions, r.now()))
        .await?;
    let mut response = empty(200);
    put_blob_headers(&mut response, &blob);
    put(&mut response, "x-ms-access-tier", "Hot");
    put(&mut response, "x-ms-access-tier-inferred", "true");
    if let Some(md5) = blob.headers.content_md5 {
        put(&mut response, "content-md5", STANDARD.encode(md5));
    }
    for (name, value) in overrides {
        put(&mut response, name, value);
    }
    if head {
        put(&mut response, "content-length", blob.length.to_string());
    }
    Ok(response)
}

/// `x-ms-range` beats `Range`. Forms other than `bytes=a-b` and `bytes=a-` are ignored. Source: Specifying the range
/// header for Blob service operations; RFC 9110, section 14.2.
fn range(request: &Request) -> Option<ByteRange> {
    let text = request
        .context
        .header("x-ms-range")
        .or_else(|| request.context.header("range"))?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => None,
        last => Some(last.parse().ok().filter(|last| *last >= first)?),
    };
    Some(ByteRange { first, last })
}

fn wants_range_md5(request: &Request, range: Option<ByteRange>) -> Result<bool> {
    let name = "x-ms-range-get-content-md5";
    match request
        .context
        .header(name)
        .map(|text| text.to_ascii_lowercase())
        .as_deref()
    {
        None | Some("false") => Ok(false),
        Some("true") if range.is_some() => Ok(true),
        Some(other) => Err(Failure::header(name, other)),
    }
}

/// Headers that a SAS puts in place of the blob's. Source: Create a service SAS, "Override response headers".
fn overrides(request: &Request) -> Vec<(&'static str, String)> {
    const PARAMETERS: [(&str, &str); 5] = [
        ("rscc", "cache-control"),
        ("rscd", "content-disposition"),
        ("rsce", "content-encoding"),
        ("rscl", "content-language"),
        ("rsct", "content-type"),
    ];
    let sent = |parameter: &str| {
        request
            .context
            .query
            .get_literal(parameter)
            .filter(|value| !value.is_empty())
    };
    let found = PARAMETERS
        .iter()
        .filter_map(|(parameter, name)| Some((*name, sent(parameter)?)));
    if request.by_sas {
        found.collect()
    } else {
        Vec::new()
    }
}

fn read_up_to(reader: &mut BlobReader, wanted: usize) -> Result<Bytes> {
    let Some(first) = reader.next_chunk(wanted)? else {
        return Ok(Bytes::new());
    };
    if first.len() == wanted || reader.remaining() == 0 {
        return Ok(first);
    }
    let mut bytes = Vec::with_capacity(wanted);
    bytes.extend_from_slice(&first);
    while bytes.len() < wanted {
        match reader.next_chunk(wanted - bytes.len())? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(bytes.into())
}

/// The first bytes, followed by the rest as the client takes it.
fn body(begun: Begun) -> Body {
    match begun.rest.remaining() {
        0 => Body::from(begun.first),
        remaining => {
            let length = begun.first.len() as u64 + remaining;
            streamed(begun.first, Rest(begun.rest), length)
        }
    }
}

struct Rest(BlobReader);

impl ChunkSource for Rest {
    fn next_chunk(&mut self) -> Result<Option<Bytes>> {
        Ok(self.0.next_chunk(DOWNLOAD_CHUNK_BYTES)?)
    }
}

fn put_blob_headers(response: &mut Response<Body>, blob: &Blob) {
    put(response, "etag", blob.etag.quoted());
    put(response, "last-modified", date::rfc1123(blob.last_modified));
    put(
        response,
        "x-ms-creation-time",
        date::rfc1123(blob.created_at),
    );
    put(response, "x-ms-blob-type", blob_type(blob));
    put(response, "x-ms-lease-status", "unlocked");
    put(response, "x-ms-lease-state", "available");
    put(response, "x-ms-server-encrypted", "true");
    put(response, "accept-ranges", "bytes");
    let headers = &blob.headers;
    put(
        response,
        "content-type",
        headers
            .content_type
            .as_deref()
            .unwrap_or("application/octet-stream"),
    );
    let optional = [
        ("content-encoding", &headers.content_encoding),
        ("content-language", &headers.content_language),
        ("cache-control", &headers.cache_control),
        ("content-disposition", &headers.content_disposition),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            put(response, name, value);
        }
    }
    put_metadata(response, &blob.metadata);
}

/// The whole blob's MD5 stands in `Content-MD5` of a whole answer only; of a range, that header is the range's own.
fn put_content_md5(response: &mut Response<Body>, begun: &Begun, wants_md5: bool) {
    use md5::Digest;
    let stored = begun
        .blob
        .headers
        .content_md5
        .map(|md5| STANDARD.encode(md5));
    match (&begun.range, stored) {
        (None, Some(md5)) => put(response, "content-md5", md5),
        (Some(_), Some(md5)) => put(response, "x-ms-blob-content-md5", md5),
        (_, None) => {}
    }
    if wants_md5 {
        put(
            response,
            "content-md5",
            STANDARD.encode(md5::Md5::digest(&begun.first)),
        );
    }
}

/// As on the wire.
pub fn blob_type(blob: &Blob) -> &'static str {
    match blob.blob_type() {
        BlobType::BlockBlob => "BlockBlob",
        BlobType::AppendBlob => "AppendBlob",
        BlobType::PageBlob => "PageBlob",
    }
}
