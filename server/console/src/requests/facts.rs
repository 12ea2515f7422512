//! Facts that the pages derive from the record of a request.

use crate::context::Console;
use crate::links;
use lazurite_base::units::count;
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::date;
use lazurite_protocol::request::address::address;
use lazurite_protocol::request::context::Query;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::requests::Record;
use lazurite_services::table::address::Address;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The decoded path below the account, without leading and trailing slashes.
pub fn resource(record: &Record) -> String {
    let target = record.target();
    below_account(record, target.split('?').next().unwrap_or_default())
}

/// A decoded path below the account, without leading and trailing slashes.
pub fn below_account(record: &Record, path: &str) -> String {
    let path = percent_decode_str(record.below_account(path));
    path.decode_utf8_lossy().trim_matches('/').to_owned()
}

/// The record of a request by its id. Error: `404` if it is not kept or not shown.
pub fn find(console: &Console, id: &str) -> Result<Arc<Record>> {
    let found = console
        .requests
        .find(id)
        .filter(|record| console.shows_request(record));
    found.ok_or_else(|| {
        let kept = count(console.requests.totals().kept);
        let message =
            format!("No request with the id '{id}' is kept. The last {kept} requests are.");
        Failure::new(404, "RequestNotFound", message)
    })
}

/// The account of a request, with the name of a fork as the client wrote it; `None` if the request
/// was refused before its account was known.
pub fn account(console: &Console, record: &Record) -> Option<String> {
    account_in(console, record, &record.target())
}

/// The same for a request with another target.
pub fn account_in(console: &Console, record: &Record, target: &str) -> Option<String> {
    let account = record.account.as_deref()?;
    let host = record.header("host").unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let addressed = address(record.service, console.all_accounts(), &host, path);
    Some(match addressed.and_then(|addressed| addressed.fork) {
        Some(fork) => name_of_fork(account, &fork),
        None => account.to_owned(),
    })
}

/// Scheme, host and target as the client sent them, without secrets.
pub fn url(record: &Record) -> String {
    let host = record.header("host").unwrap_or_default();
    let scheme = if record.secure { "https" } else { "http" };
    format!("{scheme}://{host}{}", record.target())
}

/// The client library and its version, from the User-Agent.
pub fn client(record: &Record) -> String {
    let agent = record.header("user-agent").unwrap_or_default();
    // Azure's libraries put the name of the application, if there is one, before their own.
    let words: Vec<_> = agent.split_whitespace().collect();
    let library = words.iter().find(|word| word.starts_with("azsdk-"));
    let word = library.or(words.first()).copied().unwrap_or_default();
    word.trim_start_matches("azsdk-").replacen('/', " ", 1)
}

/// The API version that a request names; empty if none.
pub fn version(record: &Record) -> String {
    record.header("x-ms-version").unwrap_or_default()
}

/// The PartitionKey in the address or the filter of a request to a table.
pub fn partition(record: &Record) -> Option<String> {
    if record.service != ServiceKind::Table {
        return None;
    }
    let address = Address::parse(&links::encode(&resource(record)));
    let keys = address.ok().map(|address| address.names().1);
    let named = keys
        .map(|keys| keys.partition_key)
        .filter(|key| !key.is_empty());
    named.or_else(|| {
        let target = record.target();
        let filter = Query::parse(target.split_once('?')?.1)
            .ok()?
            .get("$filter")?;
        let (_, rest) = filter.split_once("PartitionKey eq '")?;
        let end = rest.replace("''", "\u{1}\u{1}").find('\'')?;
        Some(rest[..end].replace("''", "'"))
    })
}

/// A target without its percent encoding, so that filters and names are readable; unchanged if
/// decoding would hide something.
pub fn readable(target: &str) -> Cow<'_, str> {
    let is_plain = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    match percent_decode_str(target).decode_utf8() {
        Ok(decoded) if decoded.chars().all(is_plain) => decoded,
        _ => target.into(),
    }
}

/// The duration of a request, as text.
pub fn milliseconds(record: &Record) -> String {
    format!("{:.1} ms", record.took.as_secs_f64() * 1000.0)
}

/// The plan and the cost of a table query.
pub fn plan(record: &Record) -> Option<String> {
    lazurite_services::requests::plan_with(|name| record.response_header(name))
}

/// A record as JSON, for pages and the command line.
pub fn summary(record: &Record) -> Value {
    let why = record.refusal.as_ref();
    json!({
        "number": record.number,
        "at": date::iso8601(record.at),
        "request_id": record.request_id,
        "service": record.service.label(),
        "method": record.method(),
        "target": record.target(),
        "operation": record.operation,
        "status": record.status,
        "code": why.map(|why| &why.code),
        "reason": why.map(|why| &why.reason),
        "duration_ms": (record.took.as_secs_f64() * 1e6).round() / 1e3,
        "request_bytes": record.request_bytes,
        "response_bytes": record.response_bytes,
        "ended": record.ended.word(),
        "client": client(record),
        "version": version(record),
        "partition": partition(record),
        "peer": record.peer.to_string(),
        "plan": plan(record),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_decoded_unless_that_hides_something() {
        for (target, shown) in [
            (
                "/a/T()?$filter=RowKey%20eq%20%27x%27",
                "/a/T()?$filter=RowKey eq 'x'",
            ),
            ("/a/c/b+c", "/a/c/b+c"),
            ("/a/c/line%0Abreak", "/a/c/line%0Abreak"),
            ("/a/c/gnp.%E2%80%AEexe", "/a/c/gnp.%E2%80%AEexe"),
            ("/a/c/%FF", "/a/c/%FF"),
        ] {
            assert_eq!(readable(target), shown);
        }
    }
}
