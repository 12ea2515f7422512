//! Parsers of values that need more than their type: hosts and sizes. A refusal says what to write
//! instead; the parser of the command line puts the flag and the value before it.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use lazurite_protocol::service_kind::ServiceKind;
use std::net::{IpAddr, Ipv6Addr};

/// The prefix of a host that copies may read at private addresses.
const PRIVATE: &str = "private:";

/// Smallest `--extentMemoryLimit`, in megabytes. A tenth of a megabyte has no room for the first
/// files of a store; with a quarter, small blobs can be written.
const MEMORY_MEGABYTES_MIN: f64 = 0.25;

/// Maximum number of bytes that a process can address: 47 bits on x86-64 and ARM64.
const ADDRESSABLE_BYTES: f64 = (1_u64 << if usize::BITS > 32 { 47 } else { 32 }) as f64;

const BYTES_PER_MEGABYTE: f64 = 1_048_576.0;

/// A parser of services by their names.
pub fn service() -> impl TypedValueParser<Value = ServiceKind> {
    let names = ServiceKind::ALL.map(ServiceKind::label);
    PossibleValuesParser::new(names).try_map(|name| {
        let is_named = |service: &ServiceKind| service.label() == name;
        ServiceKind::ALL
            .into_iter()
            .find(is_named)
            .ok_or("not a service")
    })
}

/// A host, as written in a URL: a name or an address, without scheme, port and path. The error is
/// a clause.
pub fn host(text: &str) -> Result<String, String> {
    if is_host(text) {
        return Ok(text.to_owned());
    }
    Err(match host_in(text) {
        Some(host) => format!("write the host alone, without scheme, port and path: {host}"),
        None if text.contains('*') => "patterns are not matched: name each host".to_owned(),
        None => "it takes the name or the address of a host".to_owned(),
    })
}

/// Parses `--allow-copy-from`: a host, perhaps after `private:`. The error is a clause.
pub fn copy_source(text: &str) -> Result<String, String> {
    let name = text.strip_prefix(PRIVATE).unwrap_or(text);
    host(name).map_err(|reason| match host_in(name) {
        Some(host) if name.contains(':') => {
            format!("write the host alone, which allows all its ports: {host}")
        }
        _ => reason,
    })?;
    Ok(text.to_owned())
}

/// An address to listen on: a host, which may have a zone if it is an address of IPv6. The error is
/// a clause.
pub fn listen_address(text: &str) -> Result<String, String> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    // Cutting the zone also cut the closing bracket.
    let address = match address.strip_prefix('[') {
        Some(inner) if !inner.ends_with(']') && text.ends_with(']') => inner,
        _ => address,
    };
    host(address).map_err(|reason| match host_in(address) {
        Some(host) => format!("write the address alone; flags of their own set ports: {host}"),
        None => reason,
    })?;
    Ok(text.to_owned())
}

/// Parses `--extentMemoryLimit` to bytes. The error is a clause.
pub fn memory_limit(text: &str) -> Result<u64, String> {
    let megabytes: f64 = text
        .parse()
        .map_err(|_| "it takes a number of megabytes".to_owned())?;
    let bytes = megabytes * BYTES_PER_MEGABYTE;
    // Also false for NaN.
    if megabytes >= MEMORY_MEGABYTES_MIN && bytes <= ADDRESSABLE_BYTES {
        return Ok(bytes as u64);
    }
    Err(format!(
        "a store in memory takes {MEMORY_MEGABYTES_MIN} megabytes or more, and a process can address {}",
        ADDRESSABLE_BYTES / BYTES_PER_MEGABYTE
    ))
}

fn is_host(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let inner = rest.strip_suffix(']');
        return inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !text.is_empty() && text.bytes().all(is_letter);
    is_name || text.parse::<IpAddr>().is_ok()
}

/// The host in a URL, or before a port or a path.
fn host_in(text: &str) -> Option<&str> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    (host != text && is_host(host)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_alone() {
        for text in ["storage", "a.b-c_d", "10.0.0.7", "::1", "[::1]", "0"] {
            assert_eq!(host(text).as_deref(), Ok(text));
            assert_eq!(listen_address(text).as_deref(), Ok(text));
            let private = format!("private:{text}");
            assert_eq!(copy_source(&private).as_deref(), Ok(&*private));
        }
        for text in ["fe80::1%eth0", "[fe80::1%2]"] {
            assert_eq!(listen_address(text).as_deref(), Ok(text));
        }
        for (text, advice) in [
            ("", "name or the address"),
            ("http://x", ": x"),
            ("https://x:8080/a?b", ": x"),
            ("x:80", ": x"),
            ("a/b", ": a"),
            ("[::1]:80", ": [::1]"),
            ("*", "name each host"),
            ("*.example.com", "name each host"),
            ("a b", "name or the address"),
            ("[x]", "name or the address"),
        ] {
            for parser in [host, copy_source, listen_address] {
                let refusal = parser(text).unwrap_err();
                assert!(refusal.contains(advice), "{text}: {refusal}");
            }
        }
        assert!(copy_source("private:").is_err());
        let refusal = copy_source("x:80").unwrap_err();
        assert!(refusal.contains("all its ports: x"), "{refusal}");
    }

    #[test]
    fn memory_is_limited_to_what_a_store_needs_and_a_process_can_address() {
        assert_eq!(memory_limit("64"), Ok(64 << 20));
        assert_eq!(memory_limit("0.25"), Ok(1 << 18));
        for text in ["0", "-1", "0.001", "1e30", "inf", "NaN", "", "many"] {
            assert!(memory_limit(text).is_err(), "{text}");
        }
    }
}
