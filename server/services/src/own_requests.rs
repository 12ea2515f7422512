//! Requests of the server to itself, and how the server recognises them.

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};
use std::sync::LazyLock;

/// The header that marks the server's own requests, with the secret of this process as its value.
/// The ports for these requests ask for no certificate, and any program of this machine can connect
/// to them.
pub const OWN_REQUEST: &str = "x-lazurite-own-request";
/// The name of the secret in a connection string.
pub const OWN_SECRET: &str = "LazuriteOwnRequests";

/// The secret of this process: 32 random bytes in hexadecimal digits.
pub static SECRET: LazyLock<String> = LazyLock::new(|| {
    let mut random = [0; 32];
    getrandom::fill(&mut random).expect("the start of the server needs random numbers too");
    random.iter().map(|byte| format!("{byte:02x}")).collect()
});

/// Whether this process sent the request: the request has the secret.
pub fn is_own_request(headers: &HeaderMap) -> bool {
    const NAME: HeaderName = HeaderName::from_static(OWN_REQUEST);
    let sent = headers.get(NAME).map(HeaderValue::as_bytes);
    // In constant time, which does not reveal how many bytes are right.
    sent.is_some_and(|sent| {
        let differences = sent
            .iter()
            .zip(SECRET.bytes())
            .map(|(sent, own)| sent ^ own);
        sent.len() == SECRET.len() && differences.fold(0, |all, one| all | one) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_makes_a_request_ones_own() {
        let is_own = |sent: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(sent) = sent {
                headers.insert(OWN_REQUEST, HeaderValue::from_str(sent).unwrap());
            }
            is_own_request(&headers)
        };
        assert!(is_own(Some(&SECRET)));
        let (other, longer) = ("0".repeat(SECRET.len()), format!("{}0", *SECRET));
        for sent in [
            None,
            Some(""),
            Some(&SECRET[1..]),
            Some(&other),
            Some(&longer),
        ] {
            assert!(!is_own(sent), "{sent:?}");
        }
    }
}
