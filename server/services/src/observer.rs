//! Observers see exchanges: each request from its head to the last byte of its answer.
//!
//! The access log, `$logs` with the metrics, the pages of Requests and the advisor are observers;
//! `pipeline/observers.rs` has the list. An observer makes a value for each exchange that it wants
//! to see. It neither changes nor delays the exchange. Figures come from the end: how many bytes
//! were sent, how long that took, and whether the client took all of them.

use crate::request::operation::Logged;
use crate::requests::WhyRefused;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderMap};
use axum::http::{Method, Response, StatusCode, Uri};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::properties::ServiceProperties;
use lazurite_protocol::request::context::{Context, RequestOrigin};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The status of a request whose client left before there was an answer. Only logs show it. Source:
/// nginx, `NGX_HTTP_CLIENT_CLOSED_REQUEST`, which other servers have taken over.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Sees one exchange. A request inside a batch is an exchange of its own.
pub trait Observer: Sized {
    /// Where the observer leaves its record.
    type Sink;

    /// Called when the head of a request has come, before anything may refuse it. `None`: this
    /// exchange is not observed, or not before [`Observer::routed`].
    fn begun(_: &Self::Sink, _: &ExchangeFacts, _headers: &HeaderMap) -> Option<Self> {
        None
    }

    /// Called when the operation and the properties of its service are known, before the
    /// credentials are checked. Only called if [`Observer::begun`] returned `None`, and not for
    /// requests that were refused before.
    fn routed(
        _: &Self::Sink,
        _: &ExchangeFacts,
        _: &Routing<'_>,
        _: &ServiceProperties,
    ) -> Option<Self> {
        None
    }

    /// Called when the caller is known, but not for requests that were refused before. `this` is
    /// the value so far, which the returned value replaces.
    fn authenticated(
        this: Option<Self>,
        _: &Self::Sink,
        _: &ExchangeFacts,
        _: &Routing<'_>,
        _: &Caller,
    ) -> Option<Self> {
        this
    }

    /// The head of the answer is complete. Returns whether the observer wants to see the end.
    fn answered(
        &mut self,
        sink: &Self::Sink,
        exchange: &ExchangeFacts,
        answer: &mut Answer,
    ) -> bool;

    /// A part of the body is about to be sent.
    fn sent(&mut self, _data: &[u8]) {}

    /// Called when the answer has ended. If the client left before the answer began,
    /// [`Observer::answered`] was not called, and the status is [`CLIENT_CLOSED_REQUEST`].
    fn ended(self, sink: &Self::Sink, exchange: &ExchangeFacts, end: &End);
}

/// A response. Its extensions have the facts that handlers leave for observers.
pub type Answer = Response<Body>;

/// The facts of an exchange that all observers share. The facts of the answer are set once its head
/// is known.
#[derive(Debug)]
pub struct ExchangeFacts {
    pub origin: RequestOrigin,
    /// The request id of the batch that contains the request, if one does.
    pub batch: Option<String>,
    /// True if the server sent the request to itself.
    pub is_own: bool,
    pub method: Method,
    pub target: Uri,
    /// Bytes of the request's body as its head declares them; `None` for a body in chunks and for
    /// no body.
    pub declared_bytes: Option<u64>,
    pub started: Instant,
    /// The account that the request addresses; `None` if it was refused before that was known.
    pub account: Option<Arc<str>>,
    /// The REST name of the operation; empty if the request was refused before that was known.
    pub operation: &'static str,
    pub status: StatusCode,
    pub refusal: Option<Arc<WhyRefused>>,
    /// From `started` until the head of the answer was complete.
    pub answered_after: Duration,
}

impl ExchangeFacts {
    /// The facts of a request that has just arrived.
    pub fn new(
        origin: RequestOrigin,
        method: Method,
        target: Uri,
        headers: &HeaderMap,
    ) -> ExchangeFacts {
        ExchangeFacts {
            origin,
            batch: None,
            is_own: false,
            method,
            target,
            declared_bytes: content_length(headers),
            started: Instant::now(),
            account: None,
            operation: "",
            status: StatusCode::OK,
            refusal: None,
            answered_after: Duration::ZERO,
        }
    }

    /// True if the request was refused or failed, or if it is a batch in which nothing was done.
    pub fn is_refused(&self) -> bool {
        self.status.as_u16() >= 400 || self.refusal.is_some()
    }
}

/// The number in a Content-Length header; `None` if it is absent or malformed.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(&CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A request and the operation that it asks for.
pub struct Routing<'a> {
    pub context: &'a Context,
    /// `None` if neither logs nor metrics show the operation.
    pub operation: Option<Logged>,
}

/// The end of an answer.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Number of bytes of the request's body that had arrived by then.
    pub received: u64,
    /// Number of bytes of the answer's body that were handed to the connection.
    pub sent: u64,
    /// From the start of the exchange to the end of the answer.
    pub took: Duration,
    pub how: HowEnded,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    /// The last byte was handed to the connection.
    Whole,
    /// The connection ended first: the client left or was too slow, or the server stopped.
    Disconnected,
    /// The server broke the answer off: the store was unreadable, or a fault required it.
    BrokenOff,
}

impl HowEnded {
    /// The name that logs and pages show.
    pub fn word(self) -> &'static str {
        match self {
            HowEnded::Whole => "whole",
            HowEnded::Disconnected => "disconnected",
            HowEnded::BrokenOff => "broken off",
        }
    }
}
