//! The HMACs of signatures, and the refusal of a wrong signature.

use crate::response::error::{Failure, common};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::cell::RefCell;

/// HMAC-SHA256 of `text` in base64, as clients sign.
pub fn sign(key: &[u8], text: &[u8]) -> String {
    STANDARD.encode(mac(key, text).finalize().into_bytes())
}

fn mac(key: &[u8], text: &[u8]) -> Hmac<Sha256> {
    #[cfg(any(test, feature = "testing"))]
    HASHED_BYTES.with(|hashed| hashed.set(hashed.get() + text.len()));
    let mut mac = keyed(key);
    mac.update(text);
    mac
}

/// Maximum number of keys for which a thread keeps the state of an HMAC.
const KEYS_KEPT: usize = 8;

thread_local! {
    /// HMACs that have hashed their key, by key. Reuse saves two of the five blocks hashed for a
    /// usual request.
    static KEYED: RefCell<Vec<(Vec<u8>, Hmac<Sha256>)>> = const { RefCell::new(Vec::new()) };
}

/// An HMAC that has processed the key and no text.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    KEYED.with_borrow_mut(|kept| {
        if let Some((_, mac)) = kept.iter().find(|(known, _)| known == key) {
            return mac.clone();
        }
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        if kept.len() == KEYS_KEPT {
            kept.clear();
        }
        kept.push((key.to_vec(), mac.clone()));
        mac
    })
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// The number of bytes that this thread has hashed for signatures.
    static HASHED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(any(test, feature = "testing"))]
pub fn hashed_bytes() -> usize {
    HASHED_BYTES.get()
}

/// True if `signature` is the base64 HMAC-SHA256 of `text` with one of the keys. Takes the same
/// time wherever the signatures differ.
pub fn verify(keys: &[Vec<u8>], text: &[u8], signature: &str) -> bool {
    let Ok(signature) = STANDARD.decode(signature) else {
        return false;
    };
    let matches = |key: &Vec<u8>| mac(key, text).verify_slice(&signature).is_ok();
    keys.iter().fold(false, |found, key| found | matches(key))
}

/// Maximum number of bytes of a refusal's detail. Without a limit, the detail could be as long as
/// the request: it may repeat the string to sign.
const DETAIL_BYTES_MAX: usize = 8 * 1024;

/// `AuthenticationFailed` with the likely cause, cut at [`DETAIL_BYTES_MAX`].
pub fn failed(detail: impl Into<String>) -> Failure {
    let mut detail = detail.into();
    detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
    common::AUTHENTICATION_FAILED.with("AuthenticationErrorDetail", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_cut_between_characters() {
        let detail = |text: String| failed(text).details.remove(0).1;
        assert_eq!(detail("a".repeat(DETAIL_BYTES_MAX)).len(), DETAIL_BYTES_MAX);
        let long = "a".to_owned() + &"\u{e4}".repeat(DETAIL_BYTES_MAX);
        assert_eq!(detail(long).len(), DETAIL_BYTES_MAX - 1);
    }

    #[test]
    fn keys_beyond_those_whose_state_is_kept_sign_as_well() {
        let sign_with = |key: u8| sign(&[key], b"text");
        let signatures: Vec<_> = (0..3 * KEYS_KEPT as u8).map(sign_with).collect();
        let distinct: std::collections::BTreeSet<_> = signatures.iter().collect();
        assert_eq!(distinct.len(), signatures.len());
        assert!(KEYED.with_borrow(|kept| kept.len() <= KEYS_KEPT));
        assert_eq!(
            (0..3 * KEYS_KEPT as u8).map(sign_with).collect::<Vec<_>>(),
            signatures
        );
    }
}
