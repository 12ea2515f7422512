//! Observers see exchanges: each request from its head to the last byte of its answer.
//!
//! The access log, `$logs` with the metrics, the pages of Requests and the advisor are observers;
//! `pipeline/observers.rs` has the list. An observer makes a value for each exchange that it wants
//! to see. It neither changes nor delays the exchange. Figures come from the end: how many bytes
//! were sent, how long that took, and whether the client took all of them.

use crate::auth::Caller;
use crate::properties::ServiceProperties;
use crate::request::context::{Context, RequestOrigin};
use crate::request::operation::Logged;
use crate::requests::WhyRefused;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, HeaderMap};
use axum::http::{Method, Response, StatusCode, Uri};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The status of a request whose client left before there was an answer. Only logs show it. Source:
/// nginx, `NGX_HTTP_CLIENT_CLOSED_REQUEST`, which other servers have taken over.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Sees one exchange. A request inside a batch is an exchange of its own.
pub trait Observer: Sized {
    /// Where it leaves what it saw.
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

    /// The answer has its head. Returns whether the observer wants to see the end.
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

/// An answer; its extensions have the facts that handlers leave for observers.
pub type Answer = Response<Body>;

/// The facts of an exchange that all observers share. The facts of the answer are set once its head
/// is known.
#[derive(Debug)]
pub struct ExchangeFacts {
    pub origin: RequestOrigin,
    /// Of the batch that the request is a part of.
    pub batch: Option<String>,
    /// The request is one of the server to itself.
    pub is_own: bool,
    pub method: Method,
    pub target: Uri,
    /// Bytes of the request's body as its head declares them; `None` for a body in chunks and for
    /// no body.
    pub declared_bytes: Option<u64>,
    pub started: Instant,
    /// Whose resource the request names; `None` if it was refused before that was known.
    pub account: Option<Arc<str>>,
    /// The REST name; empty if the request got no further.
    pub operation: &'static str,
    pub status: StatusCode,
    pub refusal: Option<Arc<WhyRefused>>,
    /// From `started` until the answer had its head.
    pub answered_after: Duration,
}

impl ExchangeFacts {
    /// Of a request that begins now.
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

    /// Refused, failed, or a batch of which nothing was done.
    pub fn is_refused(&self) -> bool {
        self.status.as_u16() >= 400 || self.refusal.is_some()
    }
}

/// The number in a Content-Length header.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(&CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The operation that a request asks for.
pub struct Routing<'a> {
    pub context: &'a Context,
    /// `None`: neither logs nor metrics show the operation.
    pub operation: Option<Logged>,
}

/// The end of an answer.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Bytes of the request's body that came before the end.
    pub received: u64,
    /// Bytes of the answer's body that were handed to the connection.
    pub sent: u64,
    /// From the start of the exchange.
    pub took: Duration,
    pub how: HowEnded,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    /// With its last byte.
    Whole,
    /// The connection ended first: the client left or was too slow, or the server stopped.
    Disconnected,
    /// The server broke it off: the store could not be read, or a fault was asked for.
    BrokenOff,
}

impl HowEnded {
    /// As logs and pages show it.
    pub fn word(self) -> &'static str {
        match self {
            HowEnded::Whole => "whole",
            HowEnded::Disconnected => "disconnected",
            HowEnded::BrokenOff => "broken off",
        }
    }
}
