//! Checksums of bodies: those that a request claims, and those that a response shows.

use crate::blob::request::Request;
use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Checksummer, Checksums, Error};
use lazurite_protocol::request::checksums;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{
    CONTENT_MD5, REQUEST_SERVER_ENCRYPTED, put, put_static,
};

/// The checksums of the body that the request claims.
pub fn claimed(request: &Request) -> Result<Checksums> {
    checksums::claimed(&request.context, checksums::OF_BODY)
}

/// Adds the checksums of a written body to the response, and the encryption flag.
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

/// Checks a document against the claimed checksums. Returns the checksum for the response: the MD5
/// if the request claimed one, else the CRC-64. Source: Put Block List, "Response headers".
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
