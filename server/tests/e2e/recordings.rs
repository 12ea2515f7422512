//! Replays requests of the clients for .NET and Java, and compares the answers with those of the
//! service. The tests cannot install these clients; the requests come from the recordings that the
//! clients' repositories publish.
//!
//! A transcript in `recordings/` holds the facts of one recording: method, target, headers and body
//! of each request, then status, headers and parts of the body of the answer. Names are shortened,
//! signatures and dates are made anew, and content types lose the spaces between their parameters.
//! `*` stands for any value, and `{name} place` keeps a header, or the text after a tag, for later
//! requests.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::forks::with_names;
use crate::http::{Request, Response, sign};
use crate::server::{ACCOUNT, Server, Service};

/// The characters that clients percent-encode in a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-');
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const RECORDINGS: [(Service, &str); 6] = [
    (Service::Blob, include_str!("recordings/dotnet-blob.txt")),
    (Service::Blob, include_str!("recordings/java-blob.txt")),
    (Service::Queue, include_str!("recordings/dotnet-queue.txt")),
    (Service::Queue, include_str!("recordings/java-queue.txt")),
    (Service::Table, include_str!("recordings/dotnet-table.txt")),
    (Service::Table, include_str!("recordings/java-table.txt")),
];

#[test]
fn recorded_requests_get_the_recorded_answers() {
    let server = Server::fresh();
    for (service, transcript) in RECORDINGS {
        replay(&server, None, service, transcript);
    }
}

#[test]
fn recorded_requests_get_the_recorded_answers_in_a_fork_made_at_first_use() {
    let (_location, server) = with_names(&[], &["--forks"]);
    for (service, transcript) in RECORDINGS {
        replay(&server, Some("recorded"), service, transcript);
    }
    // The fork's resources are not visible in the account.
    for service in [Service::Blob, Service::Queue] {
        let list = Request::new(service, "GET", "/?comp=list");
        let text = list.send(&server).is(200).text();
        assert!(!text.contains("<Name>"), "{text}");
    }
}

fn replay(server: &Server, fork: Option<&str>, service: Service, transcript: &str) {
    let account = fork.map_or(ACCOUNT.to_owned(), |fork| format!("{ACCOUNT}--{fork}"));
    let port = server.ports.of(service);
    let date = |time| httpdate::fmt_http_date(time);
    let now = SystemTime::now();
    let mut names = HashMap::from([
        ("now".to_owned(), date(now)),
        ("tomorrow".to_owned(), date(now + DAY)),
        ("host".to_owned(), format!("127.0.0.1:{port}")),
        (
            "endpoint".to_owned(),
            format!("http://127.0.0.1:{port}/{account}"),
        ),
    ]);
    for exchange in transcript.split("\n===\n") {
        let (asked, expected) = exchange
            .split_once("\n---\n")
            .expect("a request has an answer");
        let response = request(fork, &account, service, asked, &names).send(server);
        compare(&response, expected, &mut names, asked);
    }
}

/// The request that a transcript describes, signed for this server.
fn request(
    fork: Option<&str>,
    account: &str,
    service: Service,
    text: &str,
    names: &HashMap<String, String>,
) -> Request {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines().filter(|line| !line.starts_with('#'));
    let (method, target) = lines
        .next()
        .and_then(|line| line.split_once(' '))
        .expect("a request line");
    let encoded = |value: &str| utf8_percent_encode(value, ENCODED).to_string();
    let target = filled(target, names, encoded);
    let mut request = Request::new(service, method, &target);
    if let Some(fork) = fork {
        request = request.in_fork(fork);
    }
    let mut date = None;
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a header");
        let value = filled(value, names, str::to_owned);
        if name == "Date" || name == "x-ms-date" {
            date = Some(value.clone());
        }
        // The tests sign x-ms-date instead; clients for Java only send Date.
        if name == "Date" && service != Service::Table {
            continue;
        }
        request = request.header(name, &value);
    }
    if service == Service::Table {
        request = lightly_signed(request, account, &target, &date.expect("a date"));
    }
    // Bodies of .NET clients have CR LF line ends.
    let body = filled(body, names, str::to_owned).replace('\n', "\r\n");
    request.body(body)
}

/// Signs the request as the clients for tables do, both that for .NET and that for Java. Source:
/// Authorize with Shared Key, "Shared Key Lite for the Table service".
fn lightly_signed(request: Request, account: &str, target: &str, date: &str) -> Request {
    let path = target.split('?').next().expect("a path");
    let signature = sign(&format!("{date}\n/{account}/{account}{path}"));
    request.without("x-ms-date").header(
        "Authorization",
        &format!("SharedKeyLite {account}:{signature}"),
    )
}

fn compare(response: &Response, expected: &str, names: &mut HashMap<String, String>, asked: &str) {
    let body = String::from_utf8_lossy(&response.body).into_owned();
    let (head, parts) = expected.split_once("\n\n").unwrap_or((expected, ""));
    let (status, headers) = head.split_once('\n').unwrap_or((head, ""));
    assert_eq!(
        response.status.to_string(),
        status,
        "{asked}\n{response:?}\n{body}"
    );
    for line in headers.lines().filter(|line| !line.starts_with('{')) {
        let (name, value) = line.split_once(": ").expect("a header");
        let given = response.header(name);
        assert!(
            given.is_some(),
            "no {name} in the answer to\n{asked}\n{response:?}"
        );
        if value != "*" {
            let value = filled(value, names, str::to_owned);
            assert_eq!(
                given,
                Some(value.as_str()),
                "{name} of the answer to\n{asked}"
            );
        }
    }
    for part in parts.lines().filter(|line| !line.starts_with('{')) {
        let part = filled(part, names, str::to_owned);
        assert!(
            body.contains(&part),
            "no {part:?} in the answer to\n{asked}\n{body}"
        );
    }
    for line in expected.lines().filter(|line| line.starts_with('{')) {
        let (name, place) = line[1..].split_once("} ").expect("a name and a place");
        let value = found(response, &body, place);
        names.insert(
            name.to_owned(),
            value.unwrap_or_else(|| panic!("no {place}: {body}")),
        );
    }
}

/// The value at a place: of a header, or between a tag and the next one.
fn found(response: &Response, body: &str, place: &str) -> Option<String> {
    if !place.starts_with('<') {
        return response.header(place).map(str::to_owned);
    }
    let text = body.split_once(place)?.1;
    Some(text.split('<').next()?.to_owned())
}

/// `text` with the names in braces replaced by their values, encoded by `encoded`.
fn filled(text: &str, names: &HashMap<String, String>, encoded: impl Fn(&str) -> String) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), &encoded(value))
    })
}
