//! Customer-provided keys and encryption scopes, in the headers of requests and responses.
//! Source: Provide an encryption key on a request to Blob Storage; Encryption scopes for Blob
//! Storage.

use axum::body::Body;
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Blob, CustomerKey, Encryption};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::put;
use std::borrow::Cow;

const KEY_SHA256: &str = "x-ms-encryption-key-sha256";
/// The header with the name of an encryption scope.
pub const SCOPE: &str = "x-ms-encryption-scope";
/// The header with the default encryption scope of a container's blobs.
pub const DEFAULT_SCOPE: &str = "x-ms-default-encryption-scope";
/// The header that decides whether a container's blobs must use its default scope.
pub const DENIES_OTHERS: &str = "x-ms-deny-encryption-scope-override";
/// Stands for the absence of a scope. It is not a valid name, so no blob has such a scope.
pub const ACCOUNT_KEY: &str = "$account-encryption-key";

/// The names of the headers of a customer key: for the blob itself, or for the source of a copy.
#[derive(Debug, Clone, Copy)]
pub struct KeyHeaders {
    key: &'static str,
    sha256: &'static str,
    algorithm: &'static str,
}

/// The headers with the key of the blob that a request addresses.
pub const OWN: KeyHeaders = KeyHeaders {
    key: "x-ms-encryption-key",
    sha256: KEY_SHA256,
    algorithm: "x-ms-encryption-algorithm",
};
/// The headers with the key of the source of a copy.
pub const OF_SOURCE: KeyHeaders = KeyHeaders {
    key: "x-ms-source-encryption-key",
    sha256: "x-ms-source-encryption-key-sha256",
    algorithm: "x-ms-source-encryption-algorithm",
};

/// Reads the customer-provided key of a request. A request must have all three headers or none, and
/// may have them only over HTTPS.
pub fn customer_key(context: &Context, headers: KeyHeaders) -> Result<Option<CustomerKey>> {
    let names = [headers.key, headers.sha256, headers.algorithm];
    if names.iter().all(|name| context.header(name).is_none()) {
        return Ok(None);
    }
    let bytes = |name: &'static str| {
        let text = context.required_header(name)?;
        let decoded = STANDARD.decode(&text).ok();
        let bytes = decoded.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        // The error does not repeat the key.
        bytes.ok_or_else(|| common::INVALID_HEADER_VALUE.with("HeaderName", name))
    };
    let (key, sha256) = (bytes(headers.key)?, bytes(headers.sha256)?);
    let algorithm = context.required_header(headers.algorithm)?;
    if algorithm != "AES256" {
        return Err(Failure::header(headers.algorithm, algorithm));
    }
    if !context.secure {
        let detail =
            "A customer-provided key is taken over HTTPS only; start Lazurite with --cert.";
        let failure = common::INVALID_HEADER_VALUE.with("HeaderName", headers.key);
        return Err(failure.with("ExtendedErrorDetail", detail));
    }
    Ok(Some(CustomerKey::new(key, sha256)?))
}

/// The scope that a request names, in its header or in its SAS. Only writes use it. Source: Shared
/// access signature error codes: a header that contradicts the SAS is `InvalidHeaderValue`.
pub fn scope(context: &Context) -> Result<Option<String>> {
    match (context.header(SCOPE), scope_of_sas(context)) {
        (Some(named), Some(signed)) if named != signed => Err(Failure::header(SCOPE, named)),
        (named, signed) => Ok(named.or(signed)),
    }
}

/// The encryption scope that a SAS requires for its writes, if any.
pub fn scope_of_sas(context: &Context) -> Option<String> {
    let signed = context.query.get_literal("ses");
    signed.filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// The encryption settings of a new container: its default scope (`None` for the account's own
/// key), and whether all its blobs must use that scope. Source: Create Container, "Request headers
/// (encryption scopes)": both headers, or neither; Shared access signature error codes: the error
/// for a SAS with another scope.
pub fn scope_of_container(context: &Context) -> Result<(Option<String>, bool)> {
    if context.header(DEFAULT_SCOPE).is_none() && context.header(DENIES_OTHERS).is_none() {
        return Ok((None, false));
    }
    let default = context.required_header(DEFAULT_SCOPE)?;
    let denies = context.required_header(DENIES_OTHERS)?;
    let denies = match denies.to_ascii_lowercase().as_str() {
        "true" => true,
        "false" => false,
        _ => return Err(Failure::header(DENIES_OTHERS, denies)),
    };
    if denies && scope_of_sas(context).is_some_and(|signed| signed != default) {
        return Err(lazurite_blob::Error::RequestForbiddenByContainerEncryptionPolicy.into());
    }
    Ok((Some(default).filter(|name| name != ACCOUNT_KEY), denies))
}

/// The SHA-256 of the key in a request, for its response.
pub fn customer_key_sha256(context: &Context) -> Option<String> {
    context.header(KEY_SHA256)
}

/// Adds the SHA-256 of the customer key, if there was one, to the response.
pub fn echo_customer_key(response: &mut Response<Body>, key_sha256: Option<String>) {
    if let Some(sha256) = key_sha256 {
        put(response, KEY_SHA256, sha256);
    }
}

/// The encryption property of a blob, if it has one: (header, element, text).
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
