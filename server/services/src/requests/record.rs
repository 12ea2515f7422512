//! One request and its response, as the ring keeps them.

use crate::observer::HowEnded;
use crate::request::body_copy::{BodyCopy, Copied};
use crate::requests::head::{Header, lines, text_in, value_in};
use crate::requests::why_refused::WhyRefused;
use lazurite_protocol::accounts::{SECONDARY, names_account};
use lazurite_protocol::request::context::ServiceKind;
use lazurite_protocol::target::redact;
use memchr::memchr;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Approximate size in bytes of a record without its texts.
const RECORD_BYTES: usize = size_of::<Record>() + 64;

/// One request and its response.
#[derive(Debug)]
pub struct Record {
    /// The position in the ring, counted from 1.
    pub number: u64,
    pub at: SystemTime,
    pub took: Duration,
    pub service: ServiceKind,
    pub peer: IpAddr,
    pub secure: bool,
    pub request_id: String,
    /// The account that the request addresses; `None` if it was refused before that was known.
    pub account: Option<Arc<str>>,
    /// The REST name; empty if the request was refused before its operation was known.
    pub operation: &'static str,
    pub status: u16,
    pub refusal: Option<Arc<WhyRefused>>,
    /// Number of bytes of the request's body that arrived.
    pub request_bytes: u64,
    /// Length of the request's body as its head declares it, in bytes; `None` if it does not.
    pub declared_bytes: Option<u64>,
    /// Number of bytes of the response's body that were handed to the connection.
    pub response_bytes: u64,
    /// How the response ended.
    pub ended: HowEnded,
    /// A number for the container, queue or table; 0 if the request names none. Set by the ring.
    pub resource: u64,
    /// Request line, request headers, an empty line, response headers. Secrets are removed.
    pub head: Vec<u8>,
    pub bodies: Option<Bodies>,
}

/// The copies of the bodies of a request and its response.
#[derive(Debug, Clone)]
pub struct Bodies {
    pub(super) request: Arc<BodyCopy>,
    pub(super) response: Arc<BodyCopy>,
}

impl Record {
    /// Whether the request had a body, even if it was refused before any byte arrived.
    pub fn has_body(&self) -> bool {
        let is_declared = match self.declared_bytes {
            Some(bytes) => bytes > 0,
            None => self.is_chunked(),
        };
        self.request_bytes > 0 || is_declared
    }

    /// Whether the whole body of the request arrived. A refused request need not be read to its
    /// end: if the length of its body is not declared, the answer is `false`.
    pub fn body_arrived(&self) -> bool {
        match self.declared_bytes {
            Some(bytes) => self.request_bytes == bytes,
            None => !self.is_chunked() || !self.is_error(),
        }
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some()
    }

    fn text(&self) -> Cow<'_, str> {
        text_in(&self.head)
    }

    pub fn method(&self) -> String {
        let text = self.text();
        text.split(' ').next().unwrap_or_default().to_owned()
    }

    /// The request target as logs show it.
    pub fn target(&self) -> String {
        let text = self.text();
        let line = text.lines().next().unwrap_or_default();
        redact(line.split_once(' ').map_or("", |(_, target)| target))
    }

    /// The headers of the request and those of the response.
    pub fn headers(&self) -> [Vec<Header>; 2] {
        let text = self.text();
        let (request, response) = text.split_once("\n\n").unwrap_or((&text, ""));
        [
            lines(request.split_once('\n').map_or("", |(_, rest)| rest)),
            lines(response),
        ]
    }

    /// A header of the request. The others are not parsed.
    pub fn header(&self, name: &str) -> Option<String> {
        value_in(&self.head, name)
    }

    /// A header of the response. The others are not parsed.
    pub fn response_header(&self, name: &str) -> Option<String> {
        let request_end = memchr::memmem::find(&self.head, b"\n\n")?;
        value_in(&self.head[request_end + 2..], name)
    }

    /// The start of the request's body, then that of the response's body; `None` if bodies are not
    /// kept. May contain secrets.
    pub fn bodies(&self) -> Option<[Copied; 2]> {
        let bodies = self.bodies.as_ref()?;
        Some([bodies.request.get(), bodies.response.get()])
    }

    /// Refused, failed, broken off, or a batch in which nothing was done.
    pub fn is_error(&self) -> bool {
        self.status >= 400 || self.refusal.is_some() || self.ended == HowEnded::BrokenOff
    }

    /// A number for the container, queue or table that the path names, within the account and
    /// service of the request; 0 if there is none. Computed for each request, so the path is not
    /// decoded.
    pub(super) fn resource_number(&self) -> u64 {
        let line = memchr(b'\n', &self.head);
        let line = text_in(&self.head[..line.unwrap_or(self.head.len())]);
        let target = line.split_once(' ').map_or("", |(_, target)| target);
        let path = self.below_account(target.split('?').next().unwrap_or_default());
        let name = path.split(['/', '(']).next().unwrap_or_default();
        if name.is_empty() {
            return 0;
        }
        let account = self.account.as_deref().unwrap_or_default();
        let name = [account, "/", name].concat();
        xxh3_64_with_seed(name.as_bytes(), self.service as u64).max(1)
    }

    /// A path without the account of the request and without slashes around it; the whole path if
    /// the host names the account.
    pub fn below_account<'p>(&self, path: &'p str) -> &'p str {
        let path = path.trim_matches('/');
        let account = self.account.as_deref().unwrap_or_default();
        let names = |name: &str| names_account(name, account);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if !names(first) || self.host_names_account() {
            return path;
        }
        let rest = rest.trim_start_matches('/');
        // azure-data-tables for Python repeats the account after `ACCOUNT-secondary`.
        let is_location = self.service == ServiceKind::Table && first.ends_with(SECONDARY);
        match rest.split_once('/') {
            Some((second, rest)) if is_location && names(second) => rest,
            _ => rest,
        }
    }

    /// Whether the host names the request's account, by the rules of `request/address.rs`.
    fn host_names_account(&self) -> bool {
        let account = self.account.as_deref().unwrap_or_default();
        let host = self.header("host").unwrap_or_default();
        let label = host.split(['.', ':']).next().unwrap_or_default();
        host.contains('.') && names_account(label, account)
    }

    /// Memory of the record in bytes, without the bodies.
    pub fn bytes(&self) -> usize {
        let account = self.account.as_ref().map_or(0, |account| account.len());
        let texts = self.head.capacity() + self.request_id.capacity() + account;
        let refusal = self.refusal.as_ref().map_or(0, |why| why.bytes());
        RECORD_BYTES + texts + refusal
    }
}
