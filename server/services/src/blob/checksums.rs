//! Checksums of bodies: those that a request claims, and those that a response shows.

use crate::blob::request::Request;
use crate::response::error::{Failure, Result, common};
use crate::response::headers::{CONTENT_MD5, REQUEST_SERVER_ENCRYPTED, put, put_static};
use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Checksummer, Checksums, Error, Md5};

/// The checksums of the body that the request claims.
pub fn claimed(request: &Request) -> Result<Checksums> {
    checksums_named(request, "content-md5", "x-ms-content-crc64")
}

/// The checksums in headers of these names.
pub fn checksums_named(
    request: &Request,
    md5_name: &'static str,
    crc64_name: &'static str,
) -> Result<Checksums> {
    let crc64 = match request.context.header(crc64_name) {
        Some(text) => {
            let bytes = STANDARD
                .decode(&text)
                .ok()
                .and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
            Some(
                bytes
                    .map(u64::from_le_bytes)
                    .ok_or_else(|| Failure::header(crc64_name, text))?,
            )
        }
        None => None,
    };
    Ok(Checksums {
        md5: md5(request, md5_name)?,
        crc64,
    })
}

pub fn md5(request: &Request, name: &str) -> Result<Option<Md5>> {
    let Some(text) = request.context.header(name) else {
        return Ok(None);
    };
    let bytes = STANDARD
        .decode(&text)
        .ok()
        .and_then(|bytes| Md5::try_from(bytes).ok());
    bytes.map(Some).ok_or_else(|| no_md5(name, text))
}

/// Adds the checksums of a body that was written to its response.
pub fn put_checksums(response: &mut Response<Body>, checksums: &Checksums) {
    put_values(response, checksums);
    put_static(response, REQUEST_SERVER_ENCRYPTED, "true");
}

/// Adds the checksums of a body to a response.
pub fn put_values(response: &mut Response<Body>, checksums: &Checksums) {
    if let Some(md5) = checksums.md5 {
        put(response, CONTENT_MD5, STANDARD.encode(md5));
    }
    if let Some(crc64) = checksums.crc64 {
        put(
            response,
            "x-ms-content-crc64",
            STANDARD.encode(crc64.to_le_bytes()),
        );
    }
}

/// Checks the checksums of a document, and returns those that the response shows: the MD5 if the
/// request claims one, else the CRC-64. Source: Put Block List, "Response headers".
pub fn check_document(claimed: &Checksums, document: &[u8]) -> Result<Checksums> {
    if claimed.md5.is_some() && claimed.crc64.is_some() {
        return Err(Error::BothCrc64AndMd5HeaderPresent.into());
    }
    let has_md5 = claimed.md5.is_some();
    let mut checksummer = Checksummer::new(has_md5, !has_md5);
    checksummer.update(document);
    let checksums = checksummer.finish();
    claimed.check(&checksums)?;
    Ok(checksums)
}

pub fn no_md5(name: &str, text: String) -> Failure {
    common::INVALID_MD5
        .with("HeaderName", name)
        .with("HeaderValue", text)
}
