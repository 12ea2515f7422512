//! `lazurite doctor`: finds the known mistakes that keep a client from a connection string's
//! services.
//!
//! It sends requests as a client does, and checks name, port, scheme, certificate, account, key or
//! SAS, and clock. Each finding is one line: the problem, the reason, the remedy.

use crate::clock;
use crate::signed_request::Headers;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::terminal::{plain, print_line};
use lazurite_mover::target::{Answer, Credentials, Endpoint, SERVICES, Target};
use lazurite_protocol::date;
use serde_json::json;
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

/// Signed requests may be this old, or this far in the future. Source: Authorize with Shared Key,
/// "Specifying the Date header".
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Examines a connection string. `origin` says where it is from. The error is a sentence.
pub fn run(origin: &str, target: &Target, as_json: bool) -> Result<ExitCode, String> {
    if !as_json {
        print_line(format_args!("examining: {origin}"));
    }
    let mut findings = examine(target);
    findings.extend(proxy(target));
    if as_json {
        print_line(json!({ "examined": origin, "findings": findings }));
    } else {
        for finding in &findings {
            print_line(plain(finding));
        }
        if findings.is_empty() {
            print_line(nothing_found(target));
        }
    }
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says that no problem was found, and which services the connection string lacks.
fn nothing_found(target: &Target) -> String {
    let names = |title: &str| target.endpoints.iter().any(|(named, _)| *named == title);
    let absent: Vec<String> = SERVICES
        .iter()
        .filter(|(title, _)| !names(title))
        .map(|(title, _)| format!("{title}Endpoint"))
        .collect();
    if absent.is_empty() {
        return "nothing found: all services answer, and take the account and its credentials"
            .to_owned();
    }
    format!(
        "nothing found: the services in the connection string answer, and take the account and its credentials. It has no {}: Azure \
         Functions needs all three services",
        absent.join(" and no ")
    )
}

/// The problems of all services.
fn examine(target: &Target) -> Vec<String> {
    let answers: Vec<(&str, &Endpoint, Result<Answer, String>)> = target
        .endpoints
        .iter()
        .map(|(title, endpoint)| {
            let health = endpoint.ask("/_lazurite/health", Headers::new());
            (*title, endpoint, health)
        })
        .collect();
    let some_answer = answers
        .iter()
        .any(|(_, _, answer)| answer.as_ref().is_ok_and(is_of_emulator));
    let mut findings = Vec::new();
    for (title, endpoint, answer) in answers {
        let found = match answer {
            Err(reason) => Some(explain_silence(endpoint, title, &reason, some_answer)),
            Ok(answer) => examine_service(target, title, endpoint, &answer),
        };
        findings.extend(found.map(|found| format!("{title}: {found}")));
    }
    findings
}

/// The problem of a service that responds, if it has one.
fn examine_service(
    target: &Target,
    title: &str,
    endpoint: &Endpoint,
    health: &Answer,
) -> Option<String> {
    let authority = endpoint.authority();
    if health.is_of_other_scheme {
        let (spoken, named, way_out) = if endpoint.is_secure {
            ("http", "https", "with --https")
        } else {
            ("https", "http", "with --https, which serves both")
        };
        return Some(format!(
            "{authority} speaks {spoken}, the connection string says {named}. Write {spoken}://{authority}, or start Lazurite {way_out}"
        ));
    }
    if let Some(distrust) = &health.distrust {
        return Some(format!("{authority}: {distrust}"));
    }
    if !is_of_emulator(health) {
        let server = health.header("server").unwrap_or_default();
        return Some(format!(
            "another program answers on {authority} (server: {server:?}). Stop it, or start Lazurite on other ports with --port"
        ));
    }
    if !endpoint.names(&target.account) {
        return Some(format!(
            "the URL names no account {}: the account is the first part of the path. Write http://{authority}/{}",
            target.account, target.account
        ));
    }
    if let Some(finding) = clock(health) {
        return Some(finding);
    }
    match &target.credentials {
        Credentials::Key(key) => examine_account(target, title, endpoint, key),
        Credentials::Sas(sas) => examine_sas(title, endpoint, sas),
    }
}

/// Returns what is wrong with the account or its key. Sends a request without a signature,
/// which only a server with the account answers `403`, and then one with a signature.
fn examine_account(target: &Target, title: &str, endpoint: &Endpoint, key: &str) -> Option<String> {
    let (path, query) = listing(endpoint, title);
    let url = if query.is_empty() {
        path
    } else {
        format!("{path}?{query}")
    };
    let unsigned = endpoint.ask(&url, Headers::new()).ok()?;
    if unsigned.status != 403 {
        return Some(format!(
            "the server has no account {} (status {}). Start Lazurite with AZURITE_ACCOUNTS=\"{}:KEY\", or use its own account",
            target.account, unsigned.status, target.account
        ));
    }
    let Ok(key) = STANDARD.decode(key) else {
        return Some(
            "AccountKey is not base64: it was cut or changed when it was copied".to_owned(),
        );
    };
    let headers = target.signed_headers(title, &key, &url);
    let signed = endpoint.ask(&url, headers).ok()?;
    (signed.status != 200).then(|| {
        format!(
            "AccountKey is not a key of {} on this server (status {}). Take the one from the line that Lazurite prints at start, or \
             from AZURITE_ACCOUNTS",
            target.account, signed.status
        )
    })
}

/// The problem of a SAS, if it has one. A SAS that does not permit listing is fine.
fn examine_sas(title: &str, endpoint: &Endpoint, sas: &str) -> Option<String> {
    let (path, query) = listing(endpoint, title);
    let joint = if query.is_empty() { "" } else { "&" };
    let answer = endpoint
        .ask(&format!("{path}?{query}{joint}{sas}"), Headers::new())
        .ok()?;
    let code = answer.header("x-ms-error-code").unwrap_or_default();
    match (answer.status, code) {
        (200, _) => None,
        (403, "AuthenticationFailed") => Some(format!(
            "the SharedAccessSignature is not taken: {}",
            between(
                &answer,
                "<AuthenticationErrorDetail>",
                "</AuthenticationErrorDetail>"
            )
            .unwrap_or("it is expired, not valid yet, or not signed with this server's key")
        )),
        (403, _) => None,
        (status, _) => Some(format!(
            "a request with the SharedAccessSignature is answered {status} {code}: does the URL name the account?"
        )),
    }
}

fn explain_silence(endpoint: &Endpoint, title: &str, reason: &str, some_answer: bool) -> String {
    let (authority, port) = (endpoint.authority(), endpoint.port);
    if (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .is_err()
    {
        return format!(
            "the name {} leads nowhere. Names of a compose file are known inside its network only: from this machine use 127.0.0.1 and the \
             published port",
            endpoint.host
        );
    }
    let service = SERVICES.iter().find(|(name, _)| *name == title);
    let inside = service.map_or(port, |(_, usual)| *usual);
    let advice = if some_answer {
        format!(
            "other services do answer: start all of them (`lazurite`, not `azurite-blob`), or publish this port too (docker run -p \
             {port}:{inside})"
        )
    } else if SERVICES.iter().any(|(_, usual)| *usual == port) {
        "start Lazurite; in a container, publish its ports and let it listen on 0.0.0.0".to_owned()
    } else {
        "start Lazurite on this port, or write the port that it prints (10000, 10001 and 10002 unless a flag says otherwise)"
            .to_owned()
    };
    format!("nothing answers on {authority} ({reason}): {advice}")
}

/// The path and the query that list the account's resources.
fn listing(endpoint: &Endpoint, title: &str) -> (String, &'static str) {
    let (path, query) = match title {
        "Table" => ("/Tables", ""),
        _ => ("/", "comp=list"),
    };
    (
        format!("/{}{path}", endpoint.path).replace("//", "/"),
        query,
    )
}

/// The text in the body between two others.
fn between<'a>(answer: &'a Answer, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = answer.body.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

fn is_of_emulator(answer: &Answer) -> bool {
    let server = answer.header("server").unwrap_or_default();
    ["Lazurite", "Azurite"]
        .iter()
        .any(|name| server.starts_with(name))
}

/// The problem of clocks that differ too much for signed requests.
fn clock(answer: &Answer) -> Option<String> {
    let theirs = date::parse_http(answer.header("date")?)?;
    let now = clock::system_time();
    let skew = now
        .duration_since(theirs)
        .or_else(|_| theirs.duration_since(now))
        .ok()?;
    (skew > CLOCK_SKEW_MAX).then(|| {
        format!(
            "the clocks differ by {} minutes, and signatures are good for 15: set the clock of this machine or of the container's",
            skew.as_secs() / 60
        )
    })
}

/// The problem of a proxy variable that also applies to the endpoints.
fn proxy(target: &Target) -> Option<String> {
    let value = |name: &str| {
        let names = [name.to_owned(), name.to_ascii_lowercase()];
        names
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    };
    let proxy = value("HTTP_PROXY").or_else(|| value("ALL_PROXY"))?;
    let exempt = value("NO_PROXY").unwrap_or_default();
    let host = &target.endpoints.first()?.1.host;
    let is_exempt = exempt.split(',').any(|name| covers(name.trim(), host));
    (!is_exempt).then(|| {
        let place = proxy.rsplit('@').next().unwrap_or_default();
        format!(
            "proxy: clients may send requests for {host} to the proxy {place}: add it to NO_PROXY"
        )
    })
}

/// Whether an entry of NO_PROXY covers the host: the host, a domain above it, or `*`.
fn covers(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches("*.").trim_start_matches('.');
    let is_within = |rest: &str| rest.is_empty() || rest.ends_with('.');
    entry == "*" || !domain.is_empty() && host.strip_suffix(domain).is_some_and(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// The problems found if a listener sends this response to every request.
    fn findings(answer: String) -> Vec<String> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let text = format!("AccountName=a;AccountKey=AAAA;BlobEndpoint=http://{address}/a");
        examine(&Target::read(&text).unwrap())
    }

    #[test]
    fn a_clock_that_is_off_and_another_program_are_found() {
        let answer = |server: &str, date: std::time::SystemTime| {
            let date = date::rfc1123(date);
            format!(
                "HTTP/1.1 200 OK\r\nServer: {server}\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let now = clock::system_time();
        for skewed in [now - 3 * CLOCK_SKEW_MAX, now + 3 * CLOCK_SKEW_MAX] {
            let found = findings(answer("Lazurite/0.1.0", skewed));
            assert!(found[0].contains("the clocks differ by 4"), "{found:?}");
        }
        let found = findings(answer("nginx", now));
        assert!(found[0].contains("another program answers") && found[0].contains("nginx"));
    }

    #[test]
    fn a_missing_service_is_explained_by_the_others() {
        let endpoint = Endpoint::read("http://127.0.0.1:11001/a").unwrap();
        let found = explain_silence(&endpoint, "Queue", "refused", true);
        assert!(found.contains("docker run -p 11001:10001"), "{found}");
        let blob = "AccountName=a;AccountKey=AAAA;BlobEndpoint=http://127.0.0.1:1/a";
        let some = nothing_found(&Target::read(blob).unwrap());
        assert!(
            some.contains("no QueueEndpoint and no TableEndpoint"),
            "{some}"
        );
        let all = nothing_found(&Target::read("UseDevelopmentStorage=true").unwrap());
        assert!(!all.contains("Endpoint"), "{all}");
    }

    #[test]
    fn names_without_proxy_cover_domains() {
        for (name, host, is_covered) in [
            ("localhost", "localhost", true),
            (".local", "azurite.local", true),
            ("local", "azurite.local", true),
            ("*.local", "azurite.local", true),
            ("*", "azurite.local", true),
            ("local", "azuritelocal", false),
            ("127.0.0.1", "localhost", false),
        ] {
            assert_eq!(covers(name, host), is_covered, "{name} {host}");
        }
        assert!(!covers("", "localhost"));
    }
}
