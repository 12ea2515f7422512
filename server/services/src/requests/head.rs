//! The head of an exchange as text: the request line, the headers of the request, an empty line,
//! and the headers of the response, each header on its own line. Secrets are removed before a head
//! is kept.

use crate::own_requests::OWN_REQUEST;
use axum::http::header::{HeaderMap, HeaderValue};
use axum::http::uri::PathAndQuery;
use axum::http::{Method, Uri};
use lazurite_protocol::request::context::text_of;
use lazurite_protocol::target::{
    may_have_secret, redact, without_credentials, without_secret_parameters,
};
use memchr::memchr_iter;
use std::borrow::Cow;

/// Initial capacity of a head. Most heads are shorter.
const HEAD_BYTES_USUAL: usize = 1024;
/// Maximum number of bytes of a head that are kept, without the mark below.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The line in place of headers that were too long to be kept. No header has this name.
const CUT: &str = "…:cut\n";

/// Headers with credentials, or with URLs that may contain them.
const SECRET_HEADERS: [&str; 17] = [
    OWN_REQUEST,
    "x-ms-copy-source-authorization",
    "x-ms-copy-source",
    "x-ms-rename-source",
    "x-ms-encryption-key",
    "x-ms-source-encryption-key",
    "cookie",
    "x-identity-header",
    "proxy-authorization",
    "x-forwarded-authorization",
    "x-ms-authorization-auxiliary",
    "x-functions-key",
    "x-api-key",
    "api-key",
    "ocp-apim-subscription-key",
    "referer",
    "location",
];

/// The set of the lengths of these names, as bits: rules out most headers without comparing.
const SECRET_LENGTHS: u64 = {
    let (mut lengths, mut next) = (0, 0);
    while next < SECRET_HEADERS.len() {
        lengths |= 1 << SECRET_HEADERS[next].len();
        next += 1;
    }
    lengths
};

/// Name and value of a header, with secrets removed.
pub type Header = (String, String);

/// Whether a header, given in lower case, has credentials or URLs that may contain them.
pub fn is_secret(name: &str) -> bool {
    name.len() < 64 && SECRET_LENGTHS & (1 << name.len()) != 0 && SECRET_HEADERS.contains(&name)
}

/// The request line of a head, with secrets removed.
pub fn head_of(method: &Method, target: &Uri) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
    head.extend_from_slice(method.as_str().as_bytes());
    head.push(b' ');
    let target = target.path_and_query().map_or("", PathAndQuery::as_str);
    head.extend_from_slice(without_credentials(target).as_bytes());
    head.truncate(HEAD_BYTES_MAX);
    head.push(b'\n');
    head
}

/// Appends a line for each header until the head has its maximum length, and then a mark. Removes
/// secrets.
pub fn push_headers(head: &mut Vec<u8>, headers: &HeaderMap) {
    let start = head.len();
    push_lines(head, headers, |head, value| {
        head.extend_from_slice(value.as_bytes());
    });
    // One search over all lines: most requests have no secret.
    if may_have_secret(&head[start..]) {
        head.truncate(start);
        push_lines(head, headers, push_without_secret_parameters);
    }
}

fn push_without_secret_parameters(head: &mut Vec<u8>, value: &HeaderValue) {
    if may_have_secret(value.as_bytes()) {
        head.extend_from_slice(without_secret_parameters(&text_of(value)).as_bytes());
    } else {
        head.extend_from_slice(value.as_bytes());
    }
}

/// Like [`push_headers`]. `push_value` appends the value of a header that is not one of
/// [`SECRET_HEADERS`].
fn push_lines(
    head: &mut Vec<u8>,
    headers: &HeaderMap,
    push_value: impl Fn(&mut Vec<u8>, &HeaderValue),
) {
    for (name, value) in headers {
        let name = name.as_str();
        if head.len() + name.len() + value.len() + 2 > HEAD_BYTES_MAX {
            head.extend_from_slice(CUT.as_bytes());
            return;
        }
        head.extend_from_slice(name.as_bytes());
        head.push(b':');
        match name {
            "authorization" => push_credentials(head, value.as_bytes()),
            name if is_secret(name) => {
                head.extend_from_slice(without_secret(name, &text_of(value)).as_bytes());
            }
            _ => push_value(head, value),
        }
        head.push(b'\n');
    }
}

/// Appends the scheme of credentials, and the account if they are a shared key.
fn push_credentials(head: &mut Vec<u8>, value: &[u8]) {
    let scheme = value.iter().position(|&byte| byte == b' ').unwrap_or(0);
    let is_key = value.starts_with(b"SharedKey");
    let account = value.iter().position(|&byte| byte == b':');
    let shown = account.filter(|_| is_key).map_or(scheme, |colon| colon + 1);
    head.extend_from_slice(&value[..shown]);
    head.extend_from_slice("…".as_bytes());
}

/// The value of a secret header without its secrets.
fn without_secret(name: &str, value: &str) -> String {
    match name {
        "x-ms-copy-source" | "x-ms-rename-source" | "referer" | "location" => redact(value),
        _ => "…".to_owned(),
    }
}

/// The text of a head, or of a part of one. A line that is not UTF-8 is read as Latin-1, as
/// [`text_of`] reads headers.
pub fn text_in(head: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(head) {
        return text.into();
    }
    let latin = |line: &[u8]| line.iter().map(|&byte| char::from(byte)).collect();
    let lines = head.split(|&byte| byte == b'\n');
    let texts = lines.map(|line| str::from_utf8(line).map_or_else(|_| latin(line), str::to_owned));
    texts.collect::<Vec<String>>().join("\n").into()
}

/// The value of the first line with this name, up to the first empty line.
pub(super) fn value_in(lines: &[u8], name: &str) -> Option<String> {
    let mut start = 0;
    for end in memchr_iter(b'\n', lines).chain([lines.len()]) {
        let line = &lines[start..end];
        if line.is_empty() {
            return None;
        }
        let value = line.strip_prefix(name.as_bytes());
        if let Some(value) = value.and_then(|value| value.strip_prefix(b":")) {
            return Some(text_in(value).into_owned());
        }
        start = end + 1;
    }
    None
}

pub(super) fn lines(text: &str) -> Vec<Header> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The plan of a table query and the number of rows examined, from the headers of its response.
pub fn plan_of(headers: &HeaderMap) -> Option<String> {
    plan_with(|name| headers.get(name).map(text_of))
}

/// Like [`plan_of`], with any source of headers.
pub fn plan_with(header: impl Fn(&str) -> Option<String>) -> Option<String> {
    let plan = header("x-lazurite-plan")?;
    let examined = header("x-lazurite-examined").unwrap_or_default();
    Some(format!("{plan}, {examined} examined"))
}

/// Removes secrets from details of refusals, strings to sign and bodies. Secrets are the signatures
/// that a refusal quotes, because one of them could be valid for another request; the values of
/// secret headers; and secret parameters. Splits lines at line feeds and at `\n`, the form of a
/// line feed in JSON.
pub fn without_secrets(text: &str) -> String {
    let line = |line: &str| {
        // Readers of batches may take a lone CR for the end of a line.
        let part = |part: &str| {
            part.split_inclusive('\r')
                .map(without_secret_value)
                .collect()
        };
        let parts: Vec<String> = line.split("\\n").map(part).collect();
        parts.join("\\n")
    };
    let mut was_secret = false;
    let lines = text.split('\n').map(|text| {
        // A line that begins with white space continues the header before it.
        let continues = was_secret && text.starts_with([' ', '\t']);
        was_secret = continues || names_secret(text);
        if continues && !names_secret(text) {
            " …".to_owned()
        } else {
            line(text)
        }
    });
    let lines: Vec<_> = lines.collect();
    without_quoted_signatures(&lines.join("\n"))
}

/// Whether a line, or its part after the last CR within it, is a header with a secret.
fn names_secret(line: &str) -> bool {
    let part = line.trim_end_matches('\r').rsplit('\r').next();
    let name = part.and_then(|part| part.split_once(':'));
    name.is_some_and(|(name, _)| {
        let name = name.trim().to_ascii_lowercase();
        name == "authorization" || is_secret(&name)
    })
}

/// A line without secret header values and secret parameters.
fn without_secret_value(line: &str) -> String {
    let Some((name, value)) = line.split_once(':') else {
        return without_secret_parameters(line);
    };
    let header = name.trim().to_ascii_lowercase();
    let (value, end) = match value.strip_suffix('\r') {
        Some(value) => (value, "\r"),
        None => (value, ""),
    };
    if header == "authorization" {
        let mut line = format!("{name}: ").into_bytes();
        push_credentials(&mut line, value.trim_start().as_bytes());
        String::from_utf8_lossy(&line).into_owned() + end
    } else if is_secret(&header) {
        format!("{name}:{}{end}", without_secret(&header, value))
    } else {
        without_secret_parameters(line)
    }
}

/// A text without the signatures that it quotes.
fn without_quoted_signatures(text: &str) -> String {
    let quoted = "found in the HTTP request '";
    let mut parts = text.split(quoted);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let after = part.split_once('\'').map_or("", |(_, after)| after);
        format!("{shown}{quoted}…'{after}")
    })
}
