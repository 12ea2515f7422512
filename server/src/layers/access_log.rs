//! The access log on standard output, in the common log format, as the tools that wrap Azurite expect it.
//!
//! Signatures are redacted, control characters escaped. A slow terminal slows no request: see [`crate::output`].

use crate::output::LineWriter;
use crate::request::context::RequestOrigin;
use crate::request::target::redact;
use axum::http::{Method, Request, StatusCode, Uri};
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

/// What the logs of the server say of a request, once it has a response.
pub struct RequestLog {
    method: Method,
    target: Uri,
}

impl RequestLog {
    pub fn new<B>(request: &Request<B>) -> RequestLog {
        RequestLog {
            method: request.method().clone(),
            target: request.uri().clone(),
        }
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    pub fn target(&self) -> &Uri {
        &self.target
    }

    /// A line in the access log, and one in the log for debugging.
    pub fn end(self, access_log: &AccessLog, origin: &RequestOrigin, status: StatusCode) {
        let RequestLog { method, target } = self;
        let status = status.as_u16();
        access_log.request(
            origin.peer.ip(),
            origin.now,
            method.as_str(),
            &target,
            status,
        );
        tracing::info!(request_id = origin.request_id, service = origin.service.title(), %method, target = redact(&target.to_string()), status, "request");
    }
}

/// `21/Nov/2026:03:58:31 +0000`
fn log_date(now: SystemTime) -> String {
    let text = crate::codec::date::rfc1123(now);
    let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
    format!("{day}/{month}/{year}:{clock} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_common_log_format() {
        let time = crate::codec::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap();
        assert_eq!(log_date(time), "21/Nov/2026:03:58:31 +0000");
    }
}
