//! The account and the resource that a request addresses.

use crate::accounts::{Accounts, Addressed};
use crate::parameters::decode;
use crate::response::error::Failure;
use crate::service_kind::ServiceKind;
use std::borrow::Cow;
use std::net::IpAddr;

/// The address in the host and the path of a request.
pub struct Address {
    pub account: String,
    /// The fork of the store, if the account's name selects one.
    pub fork: Option<String>,
    pub account_as_sent: String,
    pub secondary: bool,
    pub path_style: bool,
    pub resource: String,
    /// The path over which the client computes its signature.
    pub path: String,
}

/// Maximum length of a part of a host or path that an error repeats, in characters.
const REPEATED_CHARACTERS_MAX: usize = 64;

/// Finds the account: the first label of the host if it names an account, otherwise the first path
/// segment. `None` if neither names an account.
pub fn address(
    service: ServiceKind,
    accounts: &Accounts,
    host: &str,
    raw_path: &str,
) -> Option<Address> {
    if let Some(found) = account_of_host(accounts, host) {
        return Some(Address {
            account_as_sent: first_label(host).to_owned(),
            account: found.account,
            fork: found.fork,
            secondary: found.secondary,
            path_style: false,
            resource: raw_path.strip_prefix('/').unwrap_or(raw_path).to_owned(),
            path: raw_path.to_owned(),
        });
    }
    if service == ServiceKind::Table
        && let Some(path) = behind_secondary(accounts, raw_path)
    {
        return Some(Address {
            secondary: true,
            ..address_of_path(accounts, path)?
        });
    }
    address_of_path(accounts, raw_path)
}

fn address_of_path(accounts: &Accounts, raw_path: &str) -> Option<Address> {
    let (first, rest) = split_path(raw_path);
    let found = accounts.find(&first)?;
    Some(Address {
        account: found.account,
        fork: found.fork,
        account_as_sent: first.into_owned(),
        secondary: found.secondary,
        path_style: true,
        // No resource begins with a slash, but a client that was given `http://HOST/ACCOUNT/` may
        // write two, as the one for Rust does.
        resource: rest.trim_start_matches('/').to_owned(),
        path: raw_path.to_owned(),
    })
}

/// The path after a secondary location that precedes the account: azure-data-tables for Python
/// writes `/ACCOUNT-secondary/ACCOUNT/…` and signs the part after the location. No other path of
/// tables has that many segments.
fn behind_secondary<'p>(accounts: &Accounts, path: &'p str) -> Option<&'p str> {
    let (location, rest) = path.strip_prefix('/')?.split_once('/')?;
    let (account, _) = rest.split_once('/')?;
    let location_of = Addressed {
        secondary: true,
        ..accounts.find(account)?
    };
    (account != location && accounts.find(location)? == location_of)
        .then(|| &path[1 + location.len()..])
}

/// The account that the first label of a host name with dots names. Tries the label as sent, then
/// in lower case.
fn account_of_host(accounts: &Accounts, host: &str) -> Option<Addressed> {
    if accounts.path_style_only || !host.contains('.') {
        return None;
    }
    let label = first_label(host);
    accounts
        .find(label)
        .or_else(|| accounts.find(&label.to_ascii_lowercase()))
}

fn first_label(host: &str) -> &str {
    host.split(['.', ':']).next().unwrap_or_default()
}

/// The first path segment, decoded, and the rest of the path as sent.
fn split_path(raw_path: &str) -> (Cow<'_, str>, &str) {
    let path = raw_path.strip_prefix('/').unwrap_or(raw_path);
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    (decode(first), rest)
}

/// The refusal of a request whose URL names no account. Explains how the URL was read and, to
/// clients nearby, which accounts there are.
pub fn no_account(accounts: &Accounts, host: &str, raw_path: &str, peer: IpAddr) -> Failure {
    let (first, _) = split_path(raw_path);
    let short = |text: &str| {
        text.chars()
            .take(REPEATED_CHARACTERS_MAX)
            .collect::<String>()
    };
    let by_host = if accounts.path_style_only {
        "host names are not read (--disableProductStyleUrl)".to_owned()
    } else if host.contains('.') {
        format!("the host name begins with \"{}\"", short(first_label(host)))
    } else {
        format!("the host name \"{}\" has no labels", short(host))
    };
    let by_path = if first.is_empty() {
        "the path is empty".to_owned()
    } else {
        format!("the path begins with \"{}\"", short(&first))
    };
    let known = if is_near(peer) {
        let names: Vec<_> = accounts.names().collect();
        format!("accounts here: {}", names.join(", "))
    } else {
        format!("accounts here: {}", accounts.names().count())
    };
    let message = format!(
        "The URL names no account of this server: {by_host}, {by_path}; {known}. Write http://HOST:PORT/ACCOUNT/..., or \
         http://ACCOUNT.HOST:PORT/...; AZURITE_ACCOUNTS=\"name:key\" makes other accounts."
    );
    // Requests for the root, such as probes, get the error code that Azurite sends.
    let code = if first.is_empty() {
        "InvalidQueryParameterValue"
    } else {
        "InvalidUri"
    };
    Failure::new(400, code, message)
}

/// Whether the peer is on this machine or in a private network, such as that of containers.
fn is_near(peer: IpAddr) -> bool {
    match peer.to_canonical() {
        IpAddr::V4(peer) => peer.is_loopback() || peer.is_private() || peer.is_link_local(),
        IpAddr::V6(peer) => {
            peer.is_loopback() || peer.is_unique_local() || peer.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves an address among the accounts `acct`, `other` and `MiXed`. Returns the account,
    /// whether its secondary is addressed, whether the path names it, and the resource.
    fn resolve(
        service: ServiceKind,
        host: &str,
        path: &str,
    ) -> Option<(String, bool, bool, String)> {
        let accounts = Accounts::parse("acct:AAAA;other:AAAA;MiXed:AAAA").unwrap();
        let found = address(service, &accounts, host, path)?;
        Some((
            found.account,
            found.secondary,
            found.path_style,
            found.resource,
        ))
    }

    #[test]
    fn account_is_the_first_label_if_it_exists_else_the_first_segment() {
        const PATH: bool = true;
        const HOST: bool = false;
        for (host, path, account, secondary, style, resource) in [
            ("127.0.0.1:10000", "/acct/c/b", "acct", false, PATH, "c/b"),
            ("127.0.0.1:1", "/acct//c//b", "acct", false, PATH, "c//b"),
            ("[::1]:10000", "/acct/c", "acct", false, PATH, "c"),
            ("[fd00::1.2.3.4]:1", "/acct/c", "acct", false, PATH, "c"),
            ("storage:1", "/acct-secondary", "acct", true, PATH, ""),
            ("storage.internal:1", "/acct/c", "acct", false, PATH, "c"),
            ("a.svc.cluster.local", "/acct/c", "acct", false, PATH, "c"),
            ("host.docker.internal:1", "/acct", "acct", false, PATH, ""),
            (
                "acct.blob.localhost:1",
                "/c//b",
                "acct",
                false,
                HOST,
                "c//b",
            ),
            ("ACCT.Blob.Localhost", "/c", "acct", false, HOST, "c"),
            (
                "mixed.blob.localhost",
                "/MiXed/c",
                "MiXed",
                false,
                PATH,
                "c",
            ),
            ("MiXed.blob.localhost", "/c", "MiXed", false, HOST, "c"),
            ("acct-secondary.blob.azure", "/c", "acct", true, HOST, "c"),
            ("acct.localhost:1", "/", "acct", false, HOST, ""),
            (
                "acct.queue.svc.cluster.local",
                "/c",
                "acct",
                false,
                HOST,
                "c",
            ),
            // A host without a dot is the name of a machine or a container, not an account.
            ("acct:10000", "/other/c", "other", false, PATH, "c"),
            // Both name an account: the host's label counts, and the segment is a container.
            (
                "acct.blob.localhost",
                "/other/c",
                "acct",
                false,
                HOST,
                "other/c",
            ),
            (
                "acct.blob.localhost",
                "/acct/c",
                "acct",
                false,
                HOST,
                "acct/c",
            ),
            (
                "acct.blob.localhost",
                "/acct-secondary",
                "acct",
                false,
                HOST,
                "acct-secondary",
            ),
        ] {
            for service in ServiceKind::ALL {
                let expected = (account.to_owned(), secondary, style, resource.to_owned());
                assert_eq!(
                    resolve(service, host, path),
                    Some(expected),
                    "{service:?} {host} {path}"
                );
            }
        }
        for (host, path) in [
            ("127.0.0.1:10000", "/unknown/c"),
            ("acct:10000", "/"),
            ("storage.internal", "/"),
            ("azurite.local", "/ACCT/c"),
        ] {
            assert_eq!(
                resolve(ServiceKind::Blob, host, path),
                None,
                "{host} {path}"
            );
        }
    }

    #[test]
    fn host_names_are_not_read_with_a_flag() {
        let accounts = Accounts::parse("acct:AAAA").unwrap().path_style_only(true);
        let resolve = |path| address(ServiceKind::Blob, &accounts, "acct.blob.localhost", path);
        assert!(resolve("/c").is_none());
        assert_eq!(resolve("/acct/acct").unwrap().resource, "acct");
        let near = "127.0.0.1".parse().unwrap();
        let refused = no_account(&accounts, "acct.blob.localhost", "/c", near);
        let message = &refused.message;
        assert!(message.contains("--disableProductStyleUrl"), "{message}");
    }

    #[test]
    fn a_refusal_says_how_the_url_was_read_and_names_the_accounts_to_machines_nearby() {
        let accounts = Accounts::parse("acct:AAAA;other:AAAA").unwrap();
        for (peer, names) in [
            ("127.0.0.1", "accounts here: acct, other."),
            ("172.17.0.1", "accounts here: acct, other."),
            ("::ffff:10.0.0.1", "accounts here: acct, other."),
            ("fd00::1", "accounts here: acct, other."),
            ("8.8.8.8", "accounts here: 2."),
            ("2001:db8::1", "accounts here: 2."),
        ] {
            let peer = peer.parse().unwrap();
            let refused = no_account(&accounts, "foo.bar.com:1", "/con%20t/b", peer);
            assert_eq!(
                (refused.status.as_u16(), &*refused.code),
                (400, "InvalidUri")
            );
            for part in [names, "begins with \"foo\"", "begins with \"con t\""] {
                assert!(refused.message.contains(part), "{}", refused.message);
            }
        }
    }

    #[test]
    fn the_root_without_an_account_is_refused_with_a_code_of_its_own() {
        let accounts = Accounts::parse("acct:AAAA").unwrap();
        let near = "127.0.0.1".parse().unwrap();
        for (path, code) in [("/", "InvalidQueryParameterValue"), ("/c", "InvalidUri")] {
            let refused = no_account(&accounts, "storage", path, near);
            assert_eq!((refused.status.as_u16(), &*refused.code), (400, code));
        }
        let refused = no_account(&accounts, "storage", "/", near);
        for part in ["\"storage\" has no labels", "the path is empty"] {
            assert!(refused.message.contains(part), "{}", refused.message);
        }
    }
}
