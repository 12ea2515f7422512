//! Who is calling, and may they? Authentication finds the [`Caller`]; `policy.rs` says what a caller may do.
//!
//! Nothing here reads stored data but the access policies a SAS refers to, which the caller of this module fetches.

pub mod policy;
pub mod sas;
pub mod shared_key;

use crate::http::error::{Failure, Result, known};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Who sent the request, as far as it can be known.
#[derive(Debug)]
pub enum Caller {
    /// Holds an account key: may do everything.
    Owner,
    /// Holds a SAS whose signature and times are good; what it covers is for [`policy`].
    Sas(Box<sas::Grant>),
    /// Sent no credentials.
    Anonymous,
}

/// HMAC-SHA256 of `text` in base64, as every signature of the protocol is.
pub fn sign(key: &[u8], text: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        mac.finalize().into_bytes(),
    )
}

/// Whether `signature` is that of `text` by any of the keys, in time that does not depend on where they differ.
pub fn verify(keys: &[Vec<u8>], text: &[u8], signature: &str) -> bool {
    let matches =
        |key: &Vec<u8>| bool::from(sign(key, text).as_bytes().ct_eq(signature.as_bytes()));
    keys.iter().fold(false, |found, key| found | matches(key))
}

/// `AuthenticationFailed` with the sentence that tells a person what to look at.
pub fn failed(detail: impl Into<String>) -> Failure {
    known::AUTHENTICATION_FAILED.with("AuthenticationErrorDetail", detail)
}

/// Reads the credentials of a request. `policy` is the stored access policy that a SAS names, already looked up.
pub fn authenticate(
    request: &shared_key::SignedRequest<'_>,
    keys: &[Vec<u8>],
    sas: Option<sas::Sas<'_>>,
    policy: Option<&sas::StoredPolicy>,
) -> Result<Caller> {
    if let Some(authorization) = request.context.header("authorization") {
        shared_key::verify(request, &authorization, keys)?;
        return Ok(Caller::Owner);
    }
    match sas {
        Some(sas) => Ok(Caller::Sas(Box::new(sas.verify(
            request.context,
            keys,
            policy,
        )?))),
        None => Ok(Caller::Anonymous),
    }
}
