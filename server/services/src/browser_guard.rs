//! Keeps web pages out. The development key is public, so any page in a browser on this machine
//! could sign requests. Such requests have a foreign host name or a foreign origin.

use axum::http::Uri;
use axum::http::header::{
    ACCEPT_LANGUAGE, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER, USER_AGENT,
};
use lazurite_protocol::response::error::{Failure, Result};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::LazyLock;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a `Host` that is no host name. For browsers, also refuses names that other sites may own
/// (DNS rebinding). Other clients may use any name that their network has for this machine.
pub fn check_host(host: &str, headers: &HeaderMap, allowed_hosts: &[String]) -> Result<()> {
    let Some(name) = name_of(host) else {
        return Err(Failure::header("Host", host));
    };
    if is_from_browser(headers) && !may_lead_here(host, allowed_hosts) {
        let message = format!(
            "Requests of web browsers for the host name {name} are refused: a web page could point such a name at this machine. \
             Start Lazurite with --allowed-host {name} if it is yours."
        );
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    Ok(())
}

/// Whether a host name leads to this machine, or was named with `--allowed-host`.
pub fn may_lead_here(host: &str, allowed_hosts: &[String]) -> bool {
    name_of(host).is_some_and(|name| leads_here(name) || is_among(name, allowed_hosts))
}

/// True if `allowed_hosts` (`--allowed-host`) has this host. IPv6 addresses may be in brackets.
pub fn is_among(host: &str, allowed_hosts: &[String]) -> bool {
    let host = without_brackets(host);
    let is_same = |allowed: &String| without_brackets(allowed).eq_ignore_ascii_case(host);
    allowed_hosts.iter().any(is_same)
}

fn without_brackets(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host)
}

/// True if a proxy passed the request on, so that its peer address is not the sender's.
pub fn came_through_proxy(headers: &HeaderMap) -> bool {
    [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "cf-connecting-ip",
    ]
    .iter()
    .any(|name| headers.contains_key(*name))
}

/// True if a web browser may have sent the request. A page cannot keep its browser from sending
/// `Accept-Language`, and few other programs send it. The other headers are for browsers that do
/// not send `Accept-Language`.
fn is_from_browser(headers: &HeaderMap) -> bool {
    let is_mark = |name: &HeaderName| match name.as_str() {
        "accept-language" | "origin" | "referer" => true,
        name => name.starts_with("sec-fetch-"),
    };
    let agent = headers.get(&USER_AGENT).map(HeaderValue::as_bytes);
    headers.keys().any(is_mark) || agent.is_some_and(|agent| agent.starts_with(b"Mozilla/"))
}

/// Refuses cross-site requests of pages from other machines. Call it for accounts with a public
/// key: any page could have signed the request, made the user delegation key that signed it, or
/// written the token. Allows pages of this machine. Allows links that a user follows, because a
/// browser shows their target as a document that runs no scripts.
pub fn check_page(headers: &HeaderMap) -> Result<()> {
    let is =
        |name: &HeaderName, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    if !is(&SEC_FETCH_SITE, "cross-site") {
        return Ok(());
    }
    let follows_link = is(&SEC_FETCH_MODE, "navigate") && is(&SEC_FETCH_DEST, "document");
    let page = headers.get(ORIGIN).or_else(|| headers.get(REFERER));
    let is_near = page
        .and_then(|page| page.to_str().ok())
        .and_then(|page| page.parse::<Uri>().ok())
        .is_some_and(|page| page.host().is_some_and(is_this_machine));
    if !follows_link && !is_near {
        let message = "A web page of another machine may not read here with a public key: no CORS rule allows it.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    Ok(())
}

/// Whether a `Host` header can only mean this machine.
pub fn names_this_machine(host: &str) -> bool {
    name_of(host).is_some_and(is_this_machine)
}

/// True if a host is a loopback address, `localhost` or a name below it. Names are not resolved.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_localhost(host),
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Refuses a request from a page of another origin. Call it for operations that change data, unless
/// a CORS rule allows the page. The HTTP method does not show whether an operation changes data:
/// Get Messages is a GET, and hides messages.
pub fn check_origin(headers: &HeaderMap, host: &str) -> Result<()> {
    if is_cross_site(headers, host) {
        let message = "A web page of another origin may not write here: no CORS rule allows it.";
        return Err(Failure::new(403, "AuthorizationFailure", message));
    }
    Ok(())
}

/// The host without its port and, for an IPv6 address, without brackets. `None` if the text is no
/// host, for instance if it has user information. Source: RFC 9110, section 7.2.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port)
        }
        None => {
            let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (!name.is_empty() && name.bytes().all(is_legal)).then_some(())?;
            (name, port)
        }
    };
    let port = if port.is_empty() {
        ""
    } else {
        port.strip_prefix(':')?
    };
    let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some(name)
}

/// True for hosts that can only be this server: IP addresses, `localhost` and its subdomains, this
/// machine's name, `host.docker.internal`. In a container, also any name without a dot, since the
/// container network assigns such names. Elsewhere, such a name may be that of another machine.
fn leads_here(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
        || is_localhost(name)
        || name.eq_ignore_ascii_case("host.docker.internal")
        || !name.contains('.') && (in_container() || is_own_name(name))
}

fn is_own_name(name: &str) -> bool {
    crate::platform::host_name().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

/// Checks once for the signs of a container: the marker files of container engines, and an
/// environment variable of Kubernetes.
fn in_container() -> bool {
    static ANSWER: LazyLock<bool> = LazyLock::new(|| {
        let marks = ["/.dockerenv", "/run/.containerenv"];
        marks.iter().any(|mark| Path::new(mark).exists())
            || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
    });
    *ANSWER
}

fn is_cross_site(headers: &HeaderMap, host: &str) -> bool {
    let text = |name: HeaderName| {
        headers
            .get(&name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let foreign_origin = headers.get(&ORIGIN).is_some()
        && text(ORIGIN)
            .split_once("://")
            .is_none_or(|(_, origin)| !origin.eq_ignore_ascii_case(host));
    // Browsers send `Sec-Fetch-Site` only to trustworthy addresses, such as localhost. Elsewhere a
    // request for an image or a page has neither that header nor `Origin`; a script's request has
    // `Origin`.
    let unknown_origin = !headers.contains_key(ORIGIN)
        && !headers.contains_key(SEC_FETCH_SITE)
        && headers.contains_key(ACCEPT_LANGUAGE)
        && text(USER_AGENT).starts_with("Mozilla/");
    foreign_origin || unknown_origin || text(SEC_FETCH_SITE) == "cross-site"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of the refusal of a browser's request to `host`; `None` if it is not refused.
    fn status_of_host(host: &str) -> Option<u16> {
        status_of_sender(host, "accept-language", "en")
    }

    fn status_of_sender(host: &str, name: &'static str, value: &'static str) -> Option<u16> {
        let allowed = ["storage.example".to_owned()];
        let headers = HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(name),
            axum::http::HeaderValue::from_static(value),
        )]);
        let failure = check_host(host, &headers, &allowed).err()?;
        Some(failure.status.as_u16())
    }

    #[test]
    fn browsers_alone_are_held_to_the_names_of_this_machine() {
        let host = "devstoreaccount1.blob.azure:10000";
        for (name, value) in [
            ("accept-language", ""),
            ("accept-language", "*"),
            ("origin", "null"),
            ("referer", "http://evil.example/"),
            ("sec-fetch-mode", "cors"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ] {
            assert_eq!(status_of_sender(host, name, value), Some(403), "{name}");
        }
        for host in [
            host,
            "storage:10000",
            "azurite.local",
            "azurite.default.svc.cluster.local:10000",
            "host.docker.internal:10000",
            "storage-secondary.example:10000",
            "a_b.internal",
        ] {
            let agent = "azsdk-python-storage-blob/12.27.0 Python/3.11.7";
            assert_eq!(status_of_sender(host, "user-agent", agent), None, "{host}");
        }
        let status = status_of_sender("x:y@evil.example", "user-agent", "curl/8");
        assert_eq!(status, Some(400));
    }

    #[test]
    fn addresses_are_allowed_with_and_without_brackets() {
        for allowed in ["fd00::7", "[fd00::7]", "FD00::7"] {
            let allowed = [allowed.to_owned()];
            assert!(is_among("[fd00::7]", &allowed) && is_among("fd00::7", &allowed));
            assert!(!is_among("[fd00::8]", &allowed) && !is_among("", &allowed));
        }
    }

    #[test]
    fn only_names_that_lead_here_are_served() {
        let good = [
            "127.0.0.1:10000",
            "[::1]:10000",
            "[::1]",
            "localhost",
            "a.blob.localhost:1",
            "Storage.example",
        ];
        for host in good {
            assert_eq!(status_of_host(host), None, "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
        ] {
            assert_eq!(status_of_host(host), Some(403), "{host}");
        }
        for host in [
            "",
            ":80",
            "[::1].evil.example",
            "[::1]:80.evil.example",
            "[evil.example]",
            "[::1",
            "x:y@evil.example",
            "localhost@evil.example",
            "localhost:80@evil.example",
            "localhost:123456",
            "local host",
            "localhost/",
        ] {
            assert_eq!(status_of_host(host), Some(400), "{host}");
        }
    }

    #[test]
    fn a_name_without_a_dot_is_served_where_such_names_lead_here() {
        for host in ["azurite:10000", "my_container"] {
            let expected = if in_container() { None } else { Some(403) };
            assert_eq!(status_of_host(host), expected, "{host}");
        }
        let own = crate::platform::host_name().unwrap().to_ascii_uppercase();
        assert!(leads_here(&own), "{own}");
    }

    #[test]
    fn pages_of_other_machines_read_nothing_with_the_well_known_key() {
        let refused = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            check_page(&parts.headers).is_err()
        };
        let cross = ("sec-fetch-site", "cross-site");
        assert!(!refused(&[]));
        assert!(!refused(&[("sec-fetch-site", "same-site")]));
        assert!(refused(&[cross]), "a page that hides where it is");
        for near in [
            "http://localhost:3000/",
            "http://127.0.0.1:8080/a?b",
            "https://[::1]/",
            "http://app.localhost/",
        ] {
            assert!(!refused(&[cross, ("referer", near)]), "{near}");
        }
        for far in [
            "https://evil.example/",
            "http://localhost.evil.example/",
            "http://10.1.2.3/",
            "null",
        ] {
            assert!(refused(&[cross, ("referer", far)]), "{far}");
            assert!(refused(&[cross, ("origin", far)]), "{far}");
        }
        let link = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(!refused(&[cross, link[0], link[1]]));
        assert!(refused(&[cross, link[0], ("sec-fetch-dest", "iframe")]));
    }

    #[test]
    fn pages_of_other_origins_may_not_change_anything() {
        let refused = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            check_origin(&parts.headers, "localhost:10000").is_err()
        };
        let browser = [("user-agent", "Mozilla/5.0"), ("accept-language", "en")];
        assert!(!refused(&[]));
        assert!(!refused(&[("origin", "http://localhost:10000")]));
        assert!(refused(&[("origin", "http://evil.example")]));
        assert!(refused(&[("origin", "null")]));
        assert!(refused(&[("sec-fetch-site", "cross-site")]));
        assert!(!refused(&[
            browser[0],
            browser[1],
            ("sec-fetch-site", "none")
        ]));
        assert!(refused(&browser), "a picture of a page on another machine");
        assert!(
            !refused(&[browser[0]]),
            "a shell that calls itself a browser"
        );
    }
}
