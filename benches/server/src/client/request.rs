//! A request before it is signed: the service, the verb, the path after the account, the query, the
//! headers and the body.

use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::client::account::Service;

/// The bytes that are percent-encoded in a URL. Source: RFC 3986, section 2.3.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const ESCAPED_BUT_SLASH: &AsciiSet = &ESCAPED.remove(b'/');

/// Percent-encodes a text for a query value or a quoted key in a table path.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Percent-encodes a blob's name for a path, keeping slashes.
pub(crate) fn escape_path(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED_BUT_SLASH).to_string()
}

/// One request, built up by its chained methods and sent by [`Client`](super::Client).
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub(crate) service: Service,
    pub(crate) method: &'static str,
    /// Percent-encoded, below the account's endpoint, with its leading slash; empty for the account
    /// itself.
    pub(crate) path: String,
    /// The names and the decoded values.
    pub(crate) query: Vec<(&'static str, String)>,
    /// The headers, with names in lower case.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn new(service: Service, method: &'static str, path: String) -> Request<'a> {
        Request {
            service,
            method,
            path,
            query: Vec::new(),
            headers: Vec::new(),
            body: &[],
        }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl ToString) -> Request<'a> {
        self.query.push((name, value.to_string()));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Request<'a> {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn body(mut self, body: &'a [u8]) -> Request<'a> {
        self.body = body;
        self
    }

    /// Whether the method has a body, so that Content-Length is sent even if it is empty.
    pub(crate) fn has_body(&self) -> bool {
        matches!(self.method, "PUT" | "POST" | "PATCH")
    }

    /// All headers that are sent at `now`, except `authorization`.
    pub(super) fn headers_sent(&self, now: SystemTime) -> Vec<(&'static str, String)> {
        let mut headers = self.headers.clone();
        let is_length_given = headers.iter().any(|(name, _)| *name == "content-length");
        if self.has_body() && !is_length_given {
            headers.push(("content-length", self.body.len().to_string()));
        }
        headers.push(("x-ms-date", httpdate::fmt_http_date(now)));
        headers.push(("x-ms-version", version(self.service).to_owned()));
        headers
    }

    /// The request line and the header lines, without the final empty line.
    pub(super) fn head(
        &self,
        host: &str,
        target: &str,
        headers: &[(&'static str, String)],
    ) -> String {
        let mut head = format!("{} {target} HTTP/1.1\r\nhost: {host}\r\n", self.method);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    /// The query in the URL, `?name=value&…`; empty without parameters.
    pub(crate) fn encoded_query(&self) -> String {
        let pairs = self
            .query
            .iter()
            .map(|(name, value)| format!("{name}={}", escape(value)));
        let joined = pairs.collect::<Vec<_>>().join("&");
        if joined.is_empty() {
            joined
        } else {
            format!("?{joined}")
        }
    }
}

/// The API version that current SDKs send.
fn version(service: Service) -> &'static str {
    match service {
        Service::Blob | Service::Queue => "2026-10-06",
        Service::Table => "2019-02-02",
    }
}
