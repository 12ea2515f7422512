//! The access log on standard output: a line for each request, in the common log format or as JSON.
//!
//! A line begins as the tools that wrap Azurite expect it; what follows the status says why:
//! operation, duration, bytes, plan, error code, and the reason in one phrase. Signatures are
//! redacted, control characters escaped. A slow terminal slows no request: see [`crate::output`].

use crate::output::LineWriter;
use crate::request::context::RequestOrigin;
use crate::request::target::redact;
use crate::requests::{WhyRefused, head_of, plan_of, push_headers, text_in};
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderMap};
use axum::http::{Method, Request, Response, Uri};
use hyper::body::Body as _;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

/// Takes lines for standard output; nothing at all when silent.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<LineWriter>,
    form: Form,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    /// Text for a terminal.
    Coloured,
    Json,
}

impl AccessLog {
    pub fn new(lines: LineWriter, form: Form) -> AccessLog {
        AccessLog {
            lines: Some(lines),
            form,
        }
    }

    /// A log that takes nothing.
    pub fn silent() -> AccessLog {
        AccessLog {
            lines: None,
            form: Form::Text,
        }
    }

    /// Whether anything is written.
    fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    pub fn take(&self, served: &Served<'_>) {
        if let Some(lines) = &self.lines {
            lines.line(match self.form {
                Form::Json => served.json(),
                Form::Text => served.text(false),
                Form::Coloured => served.text(true),
            });
        }
    }
}

/// A request that has its response, as the log shows it.
pub struct Served<'a> {
    pub peer: IpAddr,
    pub now: SystemTime,
    pub request_id: &'a str,
    /// Of the batch that the request was a part of.
    pub batch: Option<&'a str>,
    pub service: &'static str,
    pub method: &'a str,
    pub target: &'a Uri,
    pub status: u16,
    /// The REST name; empty if the request got no further.
    pub operation: &'a str,
    pub took: Duration,
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
    pub plan: Option<String>,
    pub why: Option<&'a WhyRefused>,
}

impl Served<'_> {
    /// `127.0.0.1 - - [21/Nov/2026:03:58:31 +0000] "GET /account/c/b HTTP/1.1" 404 - GetBlob, 0.4
    /// ms, 215 B out, BlobNotFound: The specified blob does not exist.`
    fn text(&self, is_coloured: bool) -> String {
        let (start, end) = match self.status {
            _ if !is_coloured => ("", ""),
            500.. => ("\u{1b}[31m", "\u{1b}[0m"),
            400.. => ("\u{1b}[33m", "\u{1b}[0m"),
            _ => ("\u{1b}[32m", "\u{1b}[0m"),
        };
        let mut line = format!(
            "{} - - [{}] \"{} {} HTTP/1.1\" {start}{}{end} - ",
            self.peer,
            log_date(self.now),
            self.method,
            redact(&self.target.to_string()),
            self.status
        );
        if !self.operation.is_empty() {
            line.push_str(self.operation);
            line.push_str(", ");
        }
        let _ = write!(line, "{:.1} ms", milliseconds(self.took));
        for (bytes, way) in [(self.request_bytes, "in"), (self.response_bytes, "out")] {
            if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
                let _ = write!(line, ", {bytes} B {way}");
            }
        }
        if let Some(plan) = &self.plan {
            let _ = write!(line, ", {plan}");
        }
        if let Some(why) = self.why {
            let _ = write!(line, ", {start}{}{end}: {}", why.code, plain(&why.reason));
        }
        line
    }

    fn json(&self) -> String {
        let why = self.why;
        serde_json::json!({
            "time": crate::codec::date::iso8601(self.now),
            "request_id": self.request_id,
            "batch": self.batch,
            "peer": self.peer.to_string(),
            "service": self.service,
            "method": self.method,
            "target": redact(&self.target.to_string()),
            "operation": self.operation,
            "status": self.status,
            "code": why.map(|why| &why.code),
            "reason": why.map(|why| &why.reason),
            "duration_ms": milliseconds(self.took),
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "plan": self.plan,
        })
        .to_string()
    }
}

/// To the microsecond.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Text without control characters, which could act on a terminal or forge a line.
fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// The number in a Content-Length header.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(&CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Facts about a request for the logs, until it has a response.
pub struct RequestLog {
    method: Method,
    target: Uri,
    started: Instant,
    request_bytes: Option<u64>,
    /// The request line and the headers, secrets cut, for the log of `--debug`; `None` if that
    /// takes no such events.
    head: Option<Vec<u8>>,
}

impl RequestLog {
    pub fn new<B>(request: &Request<B>) -> RequestLog {
        let (method, target, headers) = (request.method(), request.uri(), request.headers());
        let head = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            let mut head = head_of(method, target);
            push_headers(&mut head, headers);
            head
        });
        RequestLog {
            method: method.clone(),
            target: target.clone(),
            started: Instant::now(),
            request_bytes: content_length(headers),
            head,
        }
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    pub fn target(&self) -> &Uri {
        &self.target
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn request_bytes(&self) -> Option<u64> {
        self.request_bytes
    }

    /// A line in the access log, and one in the log for debugging, with the headers if that wants
    /// them.
    pub fn end(
        &self,
        access_log: &AccessLog,
        origin: &RequestOrigin,
        operation: &str,
        why: Option<&WhyRefused>,
        response: &Response<Body>,
    ) {
        let status = response.status().as_u16();
        if access_log.is_on() {
            access_log.take(&Served {
                peer: origin.peer.ip(),
                now: origin.now,
                request_id: &origin.request_id,
                batch: None,
                service: origin.service.title(),
                method: self.method.as_str(),
                target: &self.target,
                status,
                operation,
                took: self.started.elapsed(),
                request_bytes: self.request_bytes,
                response_bytes: response.body().size_hint().exact(),
                plan: plan_of(response.headers()),
                why,
            });
        }
        let request_id = &origin.request_id;
        tracing::info!(request_id, service = origin.service.title(), method = %self.method, target = redact(&self.target.to_string()), status, "request");
        let Some(head) = &self.head else {
            return;
        };
        let mut answer = Vec::new();
        push_headers(&mut answer, response.headers());
        let (head, answer) = (text_in(head), text_in(&answer));
        let (_, head) = head.split_once('\n').unwrap_or_default();
        tracing::debug!(request_id, request = head, response = &*answer, "headers");
        for (name, text) in why.iter().flat_map(|why| &why.details) {
            tracing::debug!(request_id, name = &**name, text, "reason");
        }
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

    fn line(served: impl FnOnce(&Served<'_>) -> String) -> String {
        let why = WhyRefused {
            code: "BlobNotFound".to_owned(),
            reason: "The specified\u{1b}[2J blob does not exist.".to_owned(),
            details: Vec::new(),
            client_signed: None,
        };
        served(&Served {
            peer: [127, 0, 0, 1].into(),
            now: crate::codec::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap(),
            request_id: "id",
            batch: None,
            service: "Blob",
            method: "GET",
            target: &"/a/c/b?sig=c2VjcmV0".parse().unwrap(),
            status: 404,
            operation: "GetBlob",
            took: Duration::from_micros(420),
            request_bytes: Some(0),
            response_bytes: Some(215),
            plan: None,
            why: Some(&why),
        })
    }

    #[test]
    fn a_line_says_why_behind_the_common_log_format() {
        let common = "127.0.0.1 - - [21/Nov/2026:03:58:31 +0000] \"GET /a/c/b?sig=REDACTED HTTP/1.1\" 404 - ";
        let why = "GetBlob, 0.4 ms, 215 B out, BlobNotFound: The specified\u{fffd}[2J blob does not exist.";
        assert_eq!(line(|served| served.text(false)), format!("{common}{why}"));
        let coloured = line(|served| served.text(true));
        assert!(
            coloured.contains(" \u{1b}[33m404\u{1b}[0m - GetBlob"),
            "{coloured}"
        );
    }

    #[test]
    fn a_line_of_json_has_the_same_facts() {
        let line: serde_json::Value = serde_json::from_str(&line(|served| served.json())).unwrap();
        assert_eq!(line["target"], "/a/c/b?sig=REDACTED");
        assert_eq!(line["duration_ms"], 0.42);
        assert_eq!(
            (&line["status"], &line["code"]),
            (&404.into(), &"BlobNotFound".into())
        );
    }
}
