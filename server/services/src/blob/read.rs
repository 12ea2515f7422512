//! Downloads: the bodies of blobs in responses, and the headers with their properties.

use crate::blob::checksums;
use crate::blob::copy_state::copy_texts;
use crate::blob::encryption::encryption_text;
use crate::blob::header_text;
use crate::blob::immutability::protection_texts;
use crate::blob::lake::put_path_headers;
use crate::blob::lease::put_lease;
use crate::blob::long_read::{LongRead, long_read};
use crate::blob::request::{Request, STRUCTURED_BODY};
use crate::blob::tier::tier_texts;
use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::response::streamed::{ChunkSource, Room, streamed};
use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, LAST_MODIFIED, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazurite_blob::{Blob, BlobHeaders, BlobService, BlobType, ByteRange, Checksummer, Conditions};
use lazurite_protocol::date;
use lazurite_protocol::request::context::text_of;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{
    BLOB_TYPE, CONTENT_MD5, CREATION_TIME, SERVER_ENCRYPTED, empty, put, put_metadata, put_static,
    put_value,
};
use lazurite_protocol::structured::{self, Encoder};
use std::borrow::Cow;
use std::time::SystemTime;

/// Bytes of a body that are read at a time: one chunk of the value log, which can only be verified
/// as a whole.
pub const DOWNLOAD_CHUNK_BYTES: usize = 256 << 10;
/// Maximum number of bytes of a range whose checksum is computed. Source: Get Blob, "Request
/// headers", `x-ms-range-get-content-md5`.
const RANGE_CHECKSUM_BYTES_MAX: u64 = 4 << 20;

/// The checksum of a range that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeChecksum {
    Md5,
    Crc64,
}

/// The beginning of a download: its first bytes are read together with the record, so that small
/// blobs need no second read.
struct Begun {
    blob: Box<Blob>,
    range: Option<std::ops::Range<u64>>,
    first: Bytes,
    /// The share of the memory budget that `first` was read into.
    room: Room,
    rest: LongRead,
}

/// Get Blob. Keeps browsers from running scripts in a blob: such a script would have the origin of
/// the service, and could read everything that the service shows.
pub async fn get_blob(request: Box<Request>) -> Result<Response<Body>> {
    let mut response = download(request).await?;
    let content_type = response.headers().get(CONTENT_TYPE).map(text_of);
    let no_sniff = const { HeaderValue::from_static("nosniff") };
    put_value(&mut response, X_CONTENT_TYPE_OPTIONS, no_sniff);
    if !is_inert(content_type.as_deref().unwrap_or_default()) {
        put_static(&mut response, CONTENT_SECURITY_POLICY, "sandbox");
    }
    Ok(response)
}

/// True if no browser runs scripts in a document of this type. Accepts only types that all browsers
/// parse alike: some browsers end a type at a blank or a parenthesis, take the last of several
/// types between commas, or know other XML types. A sandbox for every type would keep browsers from
/// showing PDF.
fn is_inert(content_type: &str) -> bool {
    const TYPES: [&str; 15] = [
        "application/gzip",
        "application/json",
        "application/octet-stream",
        "application/pdf",
        "application/zip",
        "image/avif",
        "image/bmp",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "image/x-icon",
        "text/css",
        "text/csv",
        "text/plain",
    ];
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let essence = essence.trim_ascii().to_ascii_lowercase();
    let is_token = |text: &str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-.+".contains(&byte);
        !text.is_empty() && text.bytes().all(is_legal)
    };
    let plays = |kind: &str| essence.strip_prefix(kind).is_some_and(is_token);
    let is_known = TYPES.contains(&&*essence) || plays("audio/") || plays("video/");
    let is_xml = essence.ends_with("+xml");
    let has_one_value = !parameters.contains(',');
    is_known && !is_xml && has_one_value
}

/// Get Blob, also for static websites, whose pages may run scripts.
pub async fn download(request: Box<Request>) -> Result<Response<Body>> {
    let (conditions, range) = (request.conditions()?, range(&request));
    let wanted_checksum = range_checksum(&request, range)?;
    let structured = structured(&request, wanted_checksum)?;
    let (overrides, now) = (overrides(&request), request.now());
    let begin = move || begin(&request, range, &conditions, wanted_checksum.is_some());
    let begun = match wanted_checksum {
        None => blocking_pool::read(begin)?,
        Some(_) => on_blocking_pool(begin).await?,
    };
    if let Some(checksum) = wanted_checksum
        && begun.rest.remaining() > 0
    {
        return Err(Failure::header(checksum.header(), "true").with(
            "ExtendedErrorDetail",
            "The checksum of a range is computed for ranges of at most 4 MiB.",
        ));
    }
    let mut response = empty(if begun.range.is_some() { 206 } else { 200 });
    put_blob_headers(&mut response, &begun.blob, now);
    put_checksums(&mut response, &begun, wanted_checksum);
    put_range(&mut response, &begun);
    for (name, value) in overrides {
        put(&mut response, name, value);
    }
    if structured {
        put_structured_body(&mut response, begun);
    } else {
        *response.body_mut() = body(begun);
    }
    Ok(response)
}

/// Reads the first chunk of the content, or the whole range if its checksum is wanted.
fn begin(
    request: &Request,
    range: Option<ByteRange>,
    conditions: &Conditions,
    wants_checksum: bool,
) -> Result<Begun> {
    let open = |blobs: &BlobService, r: &Request| blobs.get_blob(&r.address(), range, conditions);
    let download = request.run(open)?;
    let (blob, range, mut rest) = long_read(request, conditions.customer_key, download);
    let room = Room::take();
    let first = if wants_checksum {
        read_up_to(&mut rest, RANGE_CHECKSUM_BYTES_MAX as usize)?
    } else {
        rest.next_chunk_at_once(DOWNLOAD_CHUNK_BYTES.min(room.bytes()))?
            .unwrap_or_default()
    };
    Ok(Begun {
        blob,
        range,
        first,
        room,
        rest,
    })
}

fn put_range(response: &mut Response<Body>, begun: &Begun) {
    if let Some(range) = &begun.range {
        let (first, last) = (range.start, range.end - 1);
        let text = format!("bytes {first}-{last}/{}", begun.blob.length);
        put(response, CONTENT_RANGE, text);
    }
}

fn put_structured_body(response: &mut Response<Body>, begun: Begun) {
    let length = begun.first.len() as u64 + begun.rest.remaining();
    let name = "x-ms-structured-content-length";
    put(response, STRUCTURED_BODY, structured::FORM);
    put(response, name, length.to_string());
    *response.body_mut() = structured_body(begun);
}

pub async fn get_blob_properties(request: Box<Request>) -> Result<Response<Body>> {
    let conditions = request.conditions()?;
    let (overrides, now) = (overrides(&request), request.now());
    let head = request.context.method == Method::HEAD;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.get_blob_properties(&r.address(), &conditions)
    };
    let blob = request.read(call)?;
    let mut response = empty(200);
    put_blob_headers(&mut response, &blob, now);
    if let Some(md5) = &blob.headers.content_md5 {
        put(&mut response, CONTENT_MD5, STANDARD.encode(md5));
    }
    for (name, value) in overrides {
        put(&mut response, name, value);
    }
    if head {
        put(&mut response, CONTENT_LENGTH, blob.length.to_string());
    }
    Ok(response)
}

/// `x-ms-range` takes precedence over `Range`. Forms other than `bytes=a-b` and `bytes=a-` are
/// ignored. Source: Specifying the range header for Blob service operations; RFC 9110, section
/// 14.2.
pub fn range(request: &Request) -> Option<ByteRange> {
    let text = request
        .context
        .header("x-ms-range")
        .or_else(|| request.context.header("range"))?;
    parse_range(&text)
}

/// Parses `bytes=a-b` or `bytes=a-`; `None` if the text is neither, or `b` is less than `a`.
pub fn parse_range(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => None,
        last => Some(last.parse().ok().filter(|last| *last >= first)?),
    };
    Some(ByteRange { first, last })
}

impl RangeChecksum {
    fn header(self) -> &'static str {
        match self {
            RangeChecksum::Md5 => "x-ms-range-get-content-md5",
            RangeChecksum::Crc64 => "x-ms-range-get-content-crc64",
        }
    }
}

fn range_checksum(request: &Request, range: Option<ByteRange>) -> Result<Option<RangeChecksum>> {
    let wanted = |checksum: RangeChecksum| {
        let text = request
            .context
            .header(checksum.header())
            .map(|text| text.to_ascii_lowercase());
        match text.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") if range.is_some() => Ok(true),
            Some(other) => Err(Failure::header(checksum.header(), other)),
        }
    };
    match (wanted(RangeChecksum::Md5)?, wanted(RangeChecksum::Crc64)?) {
        (true, true) => Err(Failure::header(RangeChecksum::Crc64.header(), "true").with(
            "ExtendedErrorDetail",
            "Either the MD5 or the CRC64 of a range can be asked for.",
        )),
        (true, false) => Ok(Some(RangeChecksum::Md5)),
        (false, true) => Ok(Some(RangeChecksum::Crc64)),
        (false, false) => Ok(None),
    }
}

/// Whether the request asks for the body in segments with checksums.
fn structured(request: &Request, checksum: Option<RangeChecksum>) -> Result<bool> {
    match request.context.header(STRUCTURED_BODY) {
        None => Ok(false),
        Some(form) if !structured::is_served(&form) => Err(Failure::header(STRUCTURED_BODY, form)),
        Some(_) if checksum.is_some() => {
            let detail =
                "A structured body has checksums of its own; that of the range cannot be added.";
            Err(common::INVALID_INPUT.with("ExtendedErrorDetail", detail))
        }
        Some(_) => Ok(true),
    }
}

/// The response headers that a SAS sets in place of the blob's. The signature must cover them:
/// otherwise each holder of the link could change them. Source: Create a service SAS, "Override
/// response headers".
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
            .map(Cow::into_owned)
    };
    let found = PARAMETERS
        .iter()
        .filter_map(|(parameter, name)| Some((*name, sent(parameter)?)));
    if request.overrides_headers() {
        found.collect()
    } else {
        Vec::new()
    }
}

fn read_up_to(reader: &mut LongRead, wanted: usize) -> Result<Bytes> {
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

/// The first chunk, followed by the rest as the client receives it.
fn body(begun: Begun) -> Body {
    match begun.rest.remaining() {
        0 => Body::from(begun.first),
        remaining => {
            let length = begun.first.len() as u64 + remaining;
            streamed(begun.first, begun.room, Rest(begun.rest), length)
        }
    }
}

/// The body in segments. Their checksums are computed as the client receives them.
fn structured_body(begun: Begun) -> Body {
    let left = begun.rest.remaining();
    let mut encoder = Encoder::new(begun.first.len() as u64 + left);
    let length = encoder.length();
    let mut first = encoder.head().to_vec();
    first.extend_from_slice(&encoder.encode(&begun.first, left));
    match left {
        0 => Body::from(first),
        left => {
            let rest = InSegments {
                rest: Rest(begun.rest),
                encoder,
                left,
            };
            streamed(first.into(), begun.room, rest, length)
        }
    }
}

struct InSegments {
    rest: Rest,
    encoder: Encoder,
    left: u64,
}

impl ChunkSource for InSegments {
    fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        let Some(chunk) = self.rest.next_chunk(bytes_max)? else {
            return Ok(None);
        };
        self.left -= chunk.len() as u64;
        Ok(Some(self.encoder.encode(&chunk, self.left)))
    }

    fn is_slow(&self) -> bool {
        self.rest.is_slow()
    }

    fn release(&mut self) {
        self.rest.release();
    }
}

/// The part of a blob's content that was not read yet, as a source of chunks.
pub struct Rest(pub LongRead);

impl ChunkSource for Rest {
    fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>> {
        self.0.next_chunk(bytes_max.min(DOWNLOAD_CHUNK_BYTES))
    }

    fn is_slow(&self) -> bool {
        self.0.is_in_parts()
    }

    fn release(&mut self) {
        self.0.release();
    }
}

/// Adds the headers that describe a blob, without those of checksums.
pub fn put_blob_headers(response: &mut Response<Body>, blob: &Blob, now: SystemTime) {
    put(response, ETAG, blob.etag.quoted());
    put(response, LAST_MODIFIED, date::rfc1123(blob.last_modified));
    put(response, CREATION_TIME, date::rfc1123(blob.created_at));
    put(response, BLOB_TYPE, blob_type(blob));
    if blob.is_current {
        put_lease(response, &blob.lease, now);
    }
    for (name, _, text) in tier_texts(blob, now) {
        put(response, name, text);
    }
    for (name, _, text) in protection_texts(blob) {
        put(response, name, text);
    }
    if let Some(time) = blob.expires_at {
        put(response, "x-ms-expiry-time", date::rfc1123(time));
    }
    if let Some((name, _, text)) = encryption_text(blob) {
        put(response, name, text);
    }
    for (name, _, text) in blob.copy.iter().flat_map(copy_texts) {
        put(response, name, text);
    }
    if !blob.tags.is_empty() {
        put(response, "x-ms-tag-count", blob.tags.len().to_string());
    }
    put_type_headers(response, blob);
    if let Some(version) = blob.version {
        put(response, "x-ms-version-id", version.to_string());
        if blob.is_current {
            put_static(response, "x-ms-is-current-version", "true");
        }
    }
    let is_encrypted = const { HeaderValue::from_static("true") };
    let ranges = const { HeaderValue::from_static("bytes") };
    put_value(response, SERVER_ENCRYPTED, is_encrypted);
    put_value(response, ACCEPT_RANGES, ranges);
    put_content_headers(response, &blob.headers);
    put_metadata(response, &blob.metadata);
    put_path_headers(response, blob);
}

/// The headers that only page blobs or append blobs have.
fn put_type_headers(response: &mut Response<Body>, blob: &Blob) {
    if let Some(number) = blob.sequence_number() {
        put(response, "x-ms-blob-sequence-number", number.to_string());
    }
    if let Some(count) = blob.committed_block_count() {
        let name = "x-ms-blob-committed-block-count";
        put(response, name, count.to_string());
        if blob.is_sealed() {
            put_static(response, "x-ms-blob-sealed", "true");
        }
    }
}

/// Adds the headers that a writer gave the blob, without its MD5.
fn put_content_headers(response: &mut Response<Body>, headers: &BlobHeaders) {
    match headers.content_type.as_deref() {
        None => put_static(response, CONTENT_TYPE, "application/octet-stream"),
        // Set Blob Properties has cleared the type: send none.
        Some("") => {}
        Some(content_type) => put_kept(response, CONTENT_TYPE, content_type),
    }
    let optional = [
        (CONTENT_ENCODING, &headers.content_encoding),
        (CONTENT_LANGUAGE, &headers.content_language),
        (CACHE_CONTROL, &headers.cache_control),
        (CONTENT_DISPOSITION, &headers.content_disposition),
    ];
    for (name, text) in optional {
        if let Some(text) = text {
            put_kept(response, name, text);
        }
    }
}

fn put_kept(response: &mut Response<Body>, name: HeaderName, text: &str) {
    if let Some(value) = header_text::value(text) {
        put_value(response, name, value);
    }
}

/// Adds the checksums. `Content-MD5` is that of the blob if the whole blob is sent, else that of
/// the range if the request asks for it.
fn put_checksums(response: &mut Response<Body>, begun: &Begun, wanted: Option<RangeChecksum>) {
    let stored = begun
        .blob
        .headers
        .content_md5
        .as_ref()
        .map(|md5| STANDARD.encode(md5));
    match (&begun.range, stored) {
        (None, Some(md5)) => put(response, CONTENT_MD5, md5),
        (Some(_), Some(md5)) => put(response, "x-ms-blob-content-md5", md5),
        (_, None) => {}
    }
    let asked = |checksum| wanted == Some(checksum);
    let mut checksummer = Checksummer::new(asked(RangeChecksum::Md5), asked(RangeChecksum::Crc64));
    checksummer.update(&begun.first);
    checksums::put_values(response, &checksummer.finish());
}

/// The type of the blob as on the wire.
pub fn blob_type(blob: &Blob) -> &'static str {
    match blob.blob_type() {
        BlobType::BlockBlob => "BlockBlob",
        BlobType::AppendBlob => "AppendBlob",
        BlobType::PageBlob => "PageBlob",
    }
}

#[cfg(test)]
mod tests {
    use super::is_inert;

    #[test]
    fn only_types_that_all_browsers_read_alike_are_shown_without_a_sandbox() {
        for inert in [
            "image/png",
            "IMAGE/PNG",
            "video/mp4",
            "audio/x-wav",
            "text/plain",
            "text/plain; charset=utf-8",
            "text/plain ;charset=\"utf-8\"",
            "application/json;odata=minimalmetadata",
            "application/octet-stream",
            "application/pdf",
        ] {
            assert!(is_inert(inert), "{inert}");
        }
        for sandboxed in [
            "",
            "text",
            "text/html",
            "Text/HTML; charset=utf-8",
            "text/html foo",
            "text/html(x",
            "text/plain text/html",
            "text/plain,text/html",
            "text/plain;a,text/html",
            "image/png,image/svg+xml",
            "text/xml",
            "text/xsl",
            "text/rdf",
            "application/xml",
            "application/xhtml+xml",
            "image/svg+xml",
            "video/a+xml",
            "video/",
            "video/x(",
            "audio/x,text/html",
            "multipart/x-mixed-replace; boundary=a",
            "unknown/unknown",
            "*/*",
            "text/plain\u{e9}",
        ] {
            assert!(!is_inert(sandboxed), "{sandboxed}");
        }
    }
}
