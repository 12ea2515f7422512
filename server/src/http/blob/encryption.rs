//! Keys that clients bring, and encryption scopes: what requests say of them, and what answers tell.
//! Source: Provide an encryption key on a request to Blob Storage; Encryption scopes for Blob Storage.

use super::super::error::{Failure, Result, known};
use super::super::headers::put;
use crate::http::context::Context;
use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Blob, CustomerKey, Encryption};

const KEY_SHA256: &str = "x-ms-encryption-key-sha256";
/// The header that names an encryption scope.
pub const SCOPE: &str = "x-ms-encryption-scope";

/// Names of the headers of a key: of the blob that a request is about, or of its source.
#[derive(Debug, Clone, Copy)]
pub struct KeyHeaders {
    key: &'static str,
    sha256: &'static str,
    algorithm: &'static str,
}

/// Of the blob that a request is about.
pub const OWN: KeyHeaders = KeyHeaders {
    key: "x-ms-encryption-key",
    sha256: KEY_SHA256,
    algorithm: "x-ms-encryption-algorithm",
};
/// Of the source of a copy.
pub const OF_SOURCE: KeyHeaders = KeyHeaders {
    key: "x-ms-source-encryption-key",
    sha256: "x-ms-source-encryption-key-sha256",
    algorithm: "x-ms-source-encryption-algorithm",
};

/// The key that a request brings. It comes with its SHA-256 and its algorithm, and over HTTPS alone.
pub fn customer_key(context: &Context, headers: KeyHeaders) -> Result<Option<CustomerKey>> {
    if context.header(headers.key).is_none() && context.header(headers.sha256).is_none() {
        return Ok(None);
    }
    let bytes = |name: &'static str| {
        let text = context.required_header(name)?;
        let decoded = STANDARD.decode(&text).ok();
        let bytes = decoded.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        // The key itself is not repeated in an answer.
        bytes.ok_or_else(|| known::INVALID_HEADER_VALUE.with("HeaderName", name))
    };
    let (key, sha256) = (bytes(headers.key)?, bytes(headers.sha256)?);
    let algorithm = context.required_header(headers.algorithm)?;
    if algorithm != "AES256" {
        return Err(Failure::header(headers.algorithm, algorithm));
    }
    if !context.secure {
        let detail =
            "A customer-provided key is taken over HTTPS only; start Lazurite with --cert.";
        let failure = known::INVALID_HEADER_VALUE.with("HeaderName", headers.key);
        return Err(failure.with("ExtendedErrorDetail", detail));
    }
    Ok(Some(CustomerKey::new(key, sha256)?))
}

/// The scope that a write names, in its header or in its SAS.
pub fn scope(context: &Context) -> Option<String> {
    let of_sas = || {
        context
            .query
            .get_literal("ses")
            .filter(|text| !text.is_empty())
    };
    context.header(SCOPE).or_else(of_sas)
}

/// What a request said of its key or scope, on its answer.
#[derive(Debug)]
pub struct Said {
    key_sha256: Option<String>,
    scope: Option<String>,
}

impl Said {
    pub fn of(context: &Context) -> Said {
        Said {
            key_sha256: context.header(KEY_SHA256),
            scope: context.header(SCOPE),
        }
    }

    pub fn onto(self, response: &mut Response<Body>) {
        if let Some(sha256) = self.key_sha256 {
            put(response, KEY_SHA256, sha256);
        }
        if let Some(scope) = self.scope {
            put(response, SCOPE, scope);
        }
    }
}

/// What is told of a blob's encryption: (header, element, text).
pub fn encryption_text(blob: &Blob) -> Option<(&'static str, &'static str, String)> {
    match &blob.encryption {
        Encryption::None => None,
        Encryption::CustomerKey(sha256) => Some((
            KEY_SHA256,
            "CustomerProvidedKeySha256",
            STANDARD.encode(sha256),
        )),
        Encryption::Scope(name) => Some((SCOPE, "EncryptionScope", name.clone())),
    }
}
