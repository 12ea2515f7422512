//! Keeps web pages out. The development key is public, so any page that a browser on this machine shows could sign
//! requests; two things give such requests away, and both are refused before credentials are looked at.

use super::error::{Failure, Result};
use axum::http::Method;
use axum::http::header::{HeaderMap, ORIGIN};
use std::net::IpAddr;

/// Refuses a host name that could be anybody's (DNS rebinding).
pub fn check_host(host: &str, allowed_hosts: &[String]) -> Result<()> {
    let name = name_of(host);
    if !(leads_here(name)
        || allowed_hosts
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name)))
    {
        let message = format!(
            "Requests for the host name {name} are refused: a web page could point such a name at this machine. Start \
             Lazurite with --allowed-host {name} if it is yours."
        );
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    Ok(())
}

/// Refuses a write that another origin's page makes. Whoever calls has found no CORS rule that allows it.
pub fn check_origin(method: &Method, headers: &HeaderMap, host: &str) -> Result<()> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && is_cross_site(headers, host) {
        let message = "A web page of another origin may not write here: no CORS rule allows it.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    Ok(())
}

/// The host without its port; the brackets of an IPv6 address go too.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Addresses, `localhost` and names under it, names without a dot (containers), and Docker's name for this machine.
fn leads_here(name: &str) -> bool {
    let ends_with = |end: &str| {
        let start = name.len().checked_sub(end.len());
        start
            .and_then(|start| name.get(start..))
            .is_some_and(|found| found.eq_ignore_ascii_case(end))
    };
    name.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || ends_with(".localhost")
        || name.eq_ignore_ascii_case("host.docker.internal")
}

fn is_cross_site(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let foreign_origin = headers.contains_key(ORIGIN)
        && text("origin")
            .split_once("://")
            .is_none_or(|(_, origin)| !origin.eq_ignore_ascii_case(host));
    foreign_origin || text("sec-fetch-site") == "cross-site"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, host: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = axum::http::Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let allowed = ["storage.example".to_owned()];
        check_host(host, &allowed)
            .and_then(|()| check_origin(&parts.method, &parts.headers, host))
            .err()
            .map(|failure| failure.status.as_u16())
    }

    #[test]
    fn only_names_that_lead_here_are_served() {
        let good = [
            "127.0.0.1:10000",
            "[::1]:10000",
            "localhost",
            "a.blob.localhost:1",
            "azurite:10000",
            "Storage.example",
        ];
        for host in good {
            assert_eq!(code("GET", host, &[]), None, "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
        ] {
            assert_eq!(code("GET", host, &[]), Some(403), "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_may_not_write() {
        let put = |headers: &[(&str, &str)]| code("PUT", "localhost:10000", headers);
        assert_eq!(put(&[]), None);
        assert_eq!(put(&[("origin", "http://localhost:10000")]), None);
        assert_eq!(put(&[("origin", "http://evil.example")]), Some(403));
        assert_eq!(put(&[("origin", "null")]), Some(403));
        assert_eq!(put(&[("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(
            code(
                "GET",
                "localhost:10000",
                &[("origin", "http://evil.example")]
            ),
            None
        );
    }
}
