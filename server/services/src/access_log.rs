//! The access log on standard output: a line for each request, in the common log format or as JSON.
//!
//! A line of text begins in the form that tools around Azurite expect. After the status follow
//! operation, duration, bytes, plan, error code, and the reason in one phrase. Signatures are
//! redacted, and control characters do not reach the terminal. A slow terminal delays no request:
//! see [`crate::output`].

use crate::observer::{Answer, End, ExchangeFacts, HowEnded, Observer};
use crate::output::LineWriter;
use crate::requests::{plan_of, push_headers, text_in};
use axum::http::header::HeaderMap;
use lazurite_base::terminal::plain;
use lazurite_protocol::target::redact;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Writes a line per request to standard output; a silent log writes none.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<LineWriter>,
    form: Form,
}

/// The format of the lines.
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

    /// A log that writes nothing.
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

    fn take(&self, line: &Line<'_>) {
        if let Some(lines) = &self.lines {
            lines.line(match self.form {
                Form::Json => line.json(),
                Form::Text => line.text(false),
                Form::Coloured => line.text(true),
            });
        }
    }
}

/// The facts of a finished exchange that its log line shows.
struct Line<'a> {
    exchange: &'a ExchangeFacts,
    end: &'a End,
    /// The plan of a table query; `None` for other requests.
    plan: Option<&'a str>,
}

impl Line<'_> {
    /// `127.0.0.1 - - [21/Nov/2026:03:58:31 +0000] "GET /account/c/b HTTP/1.1" 404 - GetBlob, 0.4
    /// ms, 215 B out, BlobNotFound: The specified blob does not exist.`
    fn text(&self, is_coloured: bool) -> String {
        let ExchangeFacts { origin, status, .. } = self.exchange;
        let (start, end) = match status.as_u16() {
            _ if !is_coloured => ("", ""),
            500.. => ("\u{1b}[31m", "\u{1b}[0m"),
            400.. => ("\u{1b}[33m", "\u{1b}[0m"),
            _ => ("\u{1b}[32m", "\u{1b}[0m"),
        };
        let mut line = format!(
            "{} - - [{}] \"{} {} HTTP/1.1\" {start}{}{end} - ",
            origin.peer.ip(),
            log_date(origin.now),
            self.exchange.method,
            redact(&self.exchange.target.to_string()),
            status.as_u16()
        );
        if !self.exchange.operation.is_empty() {
            line.push_str(self.exchange.operation);
            line.push_str(", ");
        }
        let _ = write!(line, "{:.1} ms", milliseconds(self.end.took));
        for (bytes, way) in [(self.end.received, "in"), (self.end.sent, "out")] {
            if bytes > 0 {
                let _ = write!(line, ", {bytes} B {way}");
            }
        }
        if self.end.how != HowEnded::Whole {
            let _ = write!(line, ", {}", self.end.how.word());
        }
        if let Some(plan) = self.plan {
            let _ = write!(line, ", {plan}");
        }
        if let Some(why) = &self.exchange.refusal {
            let _ = write!(line, ", {start}{}{end}: {}", why.code, plain(&why.reason));
        }
        line
    }

    fn json(&self) -> String {
        let ExchangeFacts { origin, .. } = self.exchange;
        let why = self.exchange.refusal.as_deref();
        serde_json::json!({
            "time": lazurite_protocol::date::iso8601(origin.now),
            "request_id": origin.request_id,
            "batch": self.exchange.batch,
            "peer": origin.peer.ip().to_string(),
            "service": origin.service.title(),
            "method": self.exchange.method.as_str(),
            "target": redact(&self.exchange.target.to_string()),
            "operation": self.exchange.operation,
            "status": self.exchange.status.as_u16(),
            "code": why.map(|why| &why.code),
            "reason": why.map(|why| &why.reason),
            "duration_ms": milliseconds(self.end.took),
            "request_bytes": self.end.received,
            "response_bytes": self.end.sent,
            "ended": self.end.how.word(),
            "plan": self.plan,
        })
        .to_string()
    }
}

/// Milliseconds, rounded to whole microseconds.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// The facts of one exchange that the log collects until its end.
#[derive(Debug, Default)]
pub struct AccessLogLine {
    plan: Option<String>,
    /// The headers of the request and of the answer, without secrets, for the log of `--debug`;
    /// `None` if debug events are off.
    heads: Option<[Vec<u8>; 2]>,
}

impl Observer for AccessLogLine {
    type Sink = AccessLog;

    fn begun(
        log: &AccessLog,
        exchange: &ExchangeFacts,
        headers: &HeaderMap,
    ) -> Option<AccessLogLine> {
        let heads = tracing::enabled!(tracing::Level::DEBUG).then(|| {
            let mut head = Vec::new();
            push_headers(&mut head, headers);
            [head, Vec::new()]
        });
        // The lines of a seed would hide those of clients. The log of --debug has its requests.
        let is_shown = log.is_on() && !exchange.is_own;
        let is_wanted = is_shown || tracing::enabled!(tracing::Level::INFO);
        is_wanted.then_some(AccessLogLine { plan: None, heads })
    }

    fn answered(&mut self, log: &AccessLog, _: &ExchangeFacts, answer: &mut Answer) -> bool {
        if log.is_on() {
            self.plan = plan_of(answer.headers());
        }
        if let Some([_, head]) = &mut self.heads {
            push_headers(head, answer.headers());
        }
        true
    }

    fn ended(self, log: &AccessLog, exchange: &ExchangeFacts, end: &End) {
        if !exchange.is_own {
            log.take(&Line {
                exchange,
                end,
                plan: self.plan.as_deref(),
            });
        }
        let origin = &exchange.origin;
        let request_id = &origin.request_id;
        tracing::info!(
            request_id,
            batch = exchange.batch,
            service = origin.service.title(),
            method = %exchange.method,
            target = redact(&exchange.target.to_string()),
            status = exchange.status.as_u16(),
            "request"
        );
        let Some([request, answer]) = &self.heads else {
            return;
        };
        let (request, answer) = (text_in(request), text_in(answer));
        tracing::debug!(
            request_id,
            request = &*request,
            response = &*answer,
            "headers"
        );
        for (name, text) in exchange.refusal.iter().flat_map(|why| &why.details) {
            tracing::debug!(request_id, name = &**name, text, "reason");
        }
    }
}

/// The time in UTC as access logs write it: `21/Nov/2026:03:58:31 +0000`.
fn log_date(now: SystemTime) -> String {
    let text = lazurite_protocol::date::rfc1123(now);
    let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..25]);
    format!("{day}/{month}/{year}:{clock} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::WhyRefused;
    use axum::http::{Method, StatusCode};
    use lazurite_protocol::request::context::{RequestOrigin, ServiceKind};
    use std::sync::Arc;

    #[test]
    fn dates_are_those_of_the_common_log_format() {
        let time = lazurite_protocol::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap();
        assert_eq!(log_date(time), "21/Nov/2026:03:58:31 +0000");
    }

    fn line(form: impl FnOnce(&Line<'_>) -> String, how: HowEnded) -> String {
        let origin = RequestOrigin {
            now: lazurite_protocol::date::parse_iso8601("2026-11-21T03:58:31Z").unwrap(),
            ..lazurite_protocol::testing::origin(ServiceKind::Blob)
        };
        let target = "/a/c/b?sig=c2VjcmV0".parse().unwrap();
        let why = WhyRefused {
            code: "BlobNotFound".to_owned(),
            reason: "The specified\u{1b}[2J blob does not exist.".to_owned(),
            details: Vec::new(),
            client_signed: None,
        };
        let exchange = ExchangeFacts {
            operation: "GetBlob",
            status: StatusCode::NOT_FOUND,
            refusal: Some(Arc::new(why)),
            ..ExchangeFacts::new(origin, Method::GET, target, &HeaderMap::new())
        };
        form(&Line {
            exchange: &exchange,
            end: &End {
                received: 0,
                sent: 215,
                took: Duration::from_micros(420),
                how,
            },
            plan: None,
        })
    }

    #[test]
    fn a_line_says_why_behind_the_common_log_format() {
        let common =
            "10.0.0.5 - - [21/Nov/2026:03:58:31 +0000] \"GET /a/c/b?sig=REDACTED HTTP/1.1\" 404 - ";
        let why = "GetBlob, 0.4 ms, 215 B out, BlobNotFound: The specified\u{fffd}[2J blob does not exist.";
        let plain = line(|line| line.text(false), HowEnded::Whole);
        assert_eq!(plain, format!("{common}{why}"));
        let coloured = line(|line| line.text(true), HowEnded::Whole);
        assert!(
            coloured.contains(" \u{1b}[33m404\u{1b}[0m - GetBlob"),
            "{coloured}"
        );
    }

    #[test]
    fn a_line_of_json_has_the_same_facts() {
        let line = line(|line| line.json(), HowEnded::Disconnected);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["ended"], "disconnected");
        assert_eq!(line["target"], "/a/c/b?sig=REDACTED");
        assert_eq!(line["duration_ms"], 0.42);
        assert_eq!(
            (&line["status"], &line["code"]),
            (&404.into(), &"BlobNotFound".into())
        );
    }
}
