//! Requests that the program itself sends to a service: signed with Shared Key Lite.

use crate::clock;
use crate::codec::date;
use crate::service_kind::ServiceKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Headers of a request, names in any case.
pub type Headers = Vec<(String, String)>;

/// Adds a date and the signature of a key to the headers of a request. `target` is path and query as they are sent.
/// Source: Authorize with Shared Key, "Shared Key Lite".
pub fn sign(
    service: ServiceKind,
    (account, key): (&str, &[u8]),
    (method, target): (&str, &str),
    headers: &mut Headers,
) {
    let now = date::rfc1123(clock::system_time());
    headers.push(("x-ms-date".to_owned(), now.clone()));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let comp = query.split('&').find(|pair| pair.starts_with("comp="));
    let comp = comp.map(|comp| format!("?{comp}")).unwrap_or_default();
    let resource = format!("/{account}{path}{comp}");
    let text = if service == ServiceKind::Table {
        format!("{now}\n{resource}")
    } else {
        let header = |wanted: &str| {
            let found = headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value.as_str())
        };
        let (md5, kind) = (header("content-md5"), header("content-type"));
        format!(
            "{method}\n{md5}\n{kind}\n\n{}{resource}",
            canonical(headers)
        )
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    headers.push((
        "Authorization".to_owned(),
        format!("SharedKeyLite {account}:{signature}"),
    ));
}

/// The headers of the protocol in the order of their names.
fn canonical(headers: &Headers) -> String {
    let own = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()));
    let mut own: Vec<_> = own.filter(|(name, _)| name.starts_with("x-ms-")).collect();
    own.sort();
    own.iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect()
}
