//! The access log on standard output, in the common log format, as the tools that wrap Azurite expect it.
//!
//! Signatures are redacted, control characters escaped. A slow terminal slows no request: see [`crate::output`].

use crate::http::context::decode;
use crate::output::LineWriter;
use axum::http::Uri;
use std::net::IpAddr;
use std::time::SystemTime;

/// Takes lines for standard output; nothing at all when silent.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<LineWriter>,
}

impl AccessLog {
    pub fn new(lines: LineWriter) -> AccessLog {
        AccessLog { lines: Some(lines) }
    }

    /// A log that takes nothing.
    pub fn silent() -> AccessLog {
        AccessLog { lines: None }
    }

    /// One request: `127.0.0.1 - - [21/Nov/2026:03:58:31 +0000] "PUT /account/c/b HTTP/1.1" 201 -`.
    pub fn request(&self, peer: IpAddr, now: SystemTime, method: &str, target: &Uri, status: u16) {
        let Some(lines) = &self.lines else {
            return;
        };
        lines.line(format!(
            "{peer} - - [{}] \"{method} {} HTTP/1.1\" {status} -",
            log_date(now),
            redact(&target.to_string())
        ));
    }
}

/// `21/Nov/2026:03:58:31 +0000`
fn log_date(now: SystemTime) -> String {
    let text = crate::codec::date::rfc1123(now);
    let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
    format!("{day}/{month}/{year}:{clock} +0000")
}

/// A request target without its signature and with nothing that could forge a line.
pub fn redact(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if decode(name).eq_ignore_ascii_case("sig") => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{path}{separator}{query}")
        .escape_default()
        .to_string()
        .replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_control_characters_stay_out_of_the_log() {
        assert_eq!(
            redact("/a/c?sv=1&sig=abc%3D&se=2"),
            "/a/c?sv=1&sig=REDACTED&se=2"
        );
        assert_eq!(redact("/a?%73ig=abc"), "/a?%73ig=REDACTED");
        assert_eq!(redact("/a/T(PartitionKey='p')"), "/a/T(PartitionKey='p')");
        assert_eq!(redact("/a\u{1b}[2J"), "/a\\u{1b}[2J");
    }

    #[test]
    fn dates_are_those_of_the_common_log_format() {
        let time = crate::codec::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap();
        assert_eq!(log_date(time), "21/Nov/2026:03:58:31 +0000");
    }
}
