//! Who is calling, and may they? Authentication finds the [`Caller`]; `policy.rs` says what a caller may do.
//!
//! Nothing here reads stored data but the access policies a SAS refers to, which the caller of this module fetches.

pub mod bearer;
pub mod delegation;
pub mod policy;
pub mod sas;
pub mod shared_key;

use crate::http::context::Context;
use crate::http::error::{Failure, Result, known};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Who sent the request, as far as it can be known.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Holds an account key: may do everything.
    Owner,
    /// Holds a SAS whose signature and times are good; what it covers is for [`policy`].
    Sas(Box<sas::Grant>),
    /// Holds a token that an issuer might have written: may do everything but what only owners may.
    Bearer(bearer::Bearer),
    /// Sent no credentials.
    Anonymous,
}

impl Caller {
    /// Whether an account's key opens the request: directly, or as what signed a SAS.
    pub fn has_key(&self) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Sas(grant) => grant.by_account_key,
            Caller::Bearer(_) | Caller::Anonymous => false,
        }
    }
}

/// HMAC-SHA256 of `text` in base64, as every signature of the protocol is.
pub fn sign(key: &[u8], text: &[u8]) -> String {
    #[cfg(test)]
    HASHED_BYTES.with(|hashed| hashed.set(hashed.get() + text.len()));
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        mac.finalize().into_bytes(),
    )
}

#[cfg(test)]
thread_local! {
    /// How much this thread has hashed for signatures.
    static HASHED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub fn hashed_bytes() -> usize {
    HASHED_BYTES.get()
}

/// Whether `signature` is that of `text` by any of the keys, in time that does not depend on where they differ.
pub fn verify(keys: &[Vec<u8>], text: &[u8], signature: &str) -> bool {
    let matches =
        |key: &Vec<u8>| bool::from(sign(key, text).as_bytes().ct_eq(signature.as_bytes()));
    keys.iter().fold(false, |found, key| found | matches(key))
}

/// Longest detail of a refusal, in bytes. Details repeat the string to sign, which is as long as the request.
const DETAIL_BYTES_MAX: usize = 8 * 1024;

/// `AuthenticationFailed` with the sentence that tells a person what to look at, cut at [`DETAIL_BYTES_MAX`].
pub fn failed(detail: impl Into<String>) -> Failure {
    let mut detail = detail.into();
    detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
    known::AUTHENTICATION_FAILED.with("AuthenticationErrorDetail", detail)
}

/// Reads the credentials of a request. `policy` is the stored access policy that a SAS names, already looked up;
/// `takes_tokens` says whether the server was started with `--oauth`.
pub fn authenticate(
    context: &Context,
    keys: &[Vec<u8>],
    sas: Option<sas::Sas<'_>>,
    policy: Option<&sas::StoredPolicy>,
    takes_tokens: bool,
) -> Result<Caller> {
    let mut authorizations = context.headers.get_all("authorization").iter();
    if authorizations.nth(1).is_some() {
        let detail = "The request has more than one Authorization header.";
        return Err(known::INVALID_AUTHENTICATION_INFO.with("AuthenticationErrorDetail", detail));
    }
    let authorization = context.header("authorization");
    let token = authorization
        .as_deref()
        .and_then(|text| text.strip_prefix("Bearer "));
    let bearer = match token {
        Some(_) if !takes_tokens => {
            return Err(failed(
                "Bearer tokens are taken by a server that was started with --oauth basic.",
            ));
        }
        Some(token) => Some(bearer::verify(context, token)?),
        None => None,
    };
    match (sas, bearer, authorization) {
        // Keys of this kind are given to bearers of tokens. Where none are taken, an older one must not outlive that decision.
        (Some(sas), _, _) if sas.kind == sas::Kind::UserDelegation && !takes_tokens => Err(failed(
            "A user delegation SAS is taken by a server that was started with --oauth basic.",
        )),
        (Some(sas), bearer, _) => {
            let grant = sas.verify(context, keys, policy, bearer.as_ref())?;
            Ok(Caller::Sas(Box::new(grant)))
        }
        (None, Some(bearer), _) => Ok(Caller::Bearer(bearer)),
        (None, None, Some(authorization)) => {
            shared_key::verify(&shared_key::SignedRequest { context }, &authorization, keys)?;
            Ok(Caller::Owner)
        }
        (None, None, None) => Ok(Caller::Anonymous),
    }
}

/// The SAS that counts for a request. An `Authorization` header stands instead of one, except beside a SAS that is for
/// one user alone, who shows a token. Source: Create a user delegation SAS, "Specify a signed delegated user object ID".
pub fn sas_of(context: &Context) -> Result<Option<sas::Sas<'_>>> {
    match context.headers.contains_key("authorization") && !context.query.has("sduoid") {
        true => Ok(None),
        false => sas::Sas::parse(context),
    }
}
