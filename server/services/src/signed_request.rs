//! Requests that the program itself sends to a service: signed with Shared Key, and for the Table
//! service with Shared Key Lite.

use crate::clock;
use lazurite_protocol::auth::shared_key::LINES;
use lazurite_protocol::auth::signature;
use lazurite_protocol::date;
use lazurite_protocol::service_kind::ServiceKind;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::time::Duration;

/// How long a SAS of [`sas_to_read`] is valid.
const SAS_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The headers of a request. Their names may be in any case.
pub type Headers = Vec<(String, String)>;

/// Adds a date and a signature with `key` to the headers of a request. `target` is path and query
/// as they are sent. Uses Shared Key Lite for Table, because Azurite is quicker with it. Uses
/// Shared Key for Blob and Queue, because Azurite's Blob service accepts nothing else.
pub fn sign(
    service: ServiceKind,
    (account, key): (&str, &[u8]),
    (method, target): (&str, &str),
    body_bytes: u64,
    headers: &mut Headers,
) {
    let now = date::rfc1123(clock::system_time());
    headers.push(("x-ms-date".to_owned(), now.clone()));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let resource = format!("/{account}{path}");
    let (scheme, text) = if service == ServiceKind::Table {
        let comp = query.split('&').find(|pair| pair.starts_with("comp="));
        let comp = comp.map(|comp| format!("?{comp}")).unwrap_or_default();
        ("SharedKeyLite", format!("{now}\n{resource}{comp}"))
    } else {
        let values = LINES.map(|name| signed_value(headers, name, body_bytes));
        let (values, own, query) = (
            values.join("\n"),
            canonical(headers),
            canonical_query(query),
        );
        (
            "SharedKey",
            format!("{method}\n{values}\n{own}{resource}{query}"),
        )
    };
    let signature = signature::sign(key, text.as_bytes());
    headers.push((
        "Authorization".to_owned(),
        format!("{scheme} {account}:{signature}"),
    ));
}

/// The parameters of a SAS that lets its bearer read the blobs of a container, with their tags, for
/// [`SAS_LIFETIME`]. Source: Create a service SAS, "Construct the signature string".
pub fn sas_to_read((account, key): (&str, &[u8]), container: &str) -> String {
    const VERSION: &str = "2021-12-02";
    const PERMISSIONS: &str = "rt";
    let end = date::iso8601_seconds(clock::system_time() + SAS_LIFETIME);
    let canonical = format!("/blob/{account}/{container}");
    // The empty lines are, in order: start; policy, addresses, protocol; snapshot, scope and five
    // headers of answers.
    let mut lines = vec![PERMISSIONS, "", &end, &canonical, "", "", "", VERSION, "c"];
    lines.extend([""; 7]);
    let signature = signature::sign(key, lines.join("\n").as_bytes());
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (end, signature) = (encoded(&end), encoded(&signature));
    format!("sv={VERSION}&sr=c&sp={PERMISSIONS}&se={end}&sig={signature}")
}

fn signed_value(headers: &Headers, name: &str, body_bytes: u64) -> String {
    match name {
        // `x-ms-date` has the date, so this line of the string to sign is empty.
        "date" => String::new(),
        "content-length" if body_bytes == 0 => String::new(),
        "content-length" => body_bytes.to_string(),
        _ => {
            let mut all = headers.iter();
            let found = all.find(|(given, _)| given.eq_ignore_ascii_case(name));
            found.map_or_else(String::new, |(_, value)| value.clone())
        }
    }
}

/// The decoded parameters of a query, in the order of their names.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            (name.to_ascii_lowercase(), value.into_owned())
        })
        .collect();
    pairs.sort();
    pairs
        .iter()
        .map(|(name, value)| format!("\n{name}:{value}"))
        .collect()
}

/// The `x-ms-` headers, in the order of their names.
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
