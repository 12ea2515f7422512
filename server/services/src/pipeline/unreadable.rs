//! The answer to a head that the HTTP library cannot read. The answer has a request id, and the
//! observers see it. No step runs, because there is no request.

use crate::app::App;
use crate::connection::listener::Client;
use crate::observer::ExchangeFacts;
use crate::pipeline::observers::Observers;
use crate::pipeline::refusal::error_format;
use crate::request::limits::{self, HEADERS_MAX};
use crate::requests::WhyRefused;
use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use axum::http::{Method, Response, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::BodyExt;
use lazurite_protocol::date;
use lazurite_protocol::request::context::ApiVersion;
use lazurite_protocol::response::common_headers::CommonHeaders;
use lazurite_protocol::response::error::{Failure, render};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The bytes of the response to a malformed head, which is refused with `status`.
pub fn refuse(app: &App, client: &Client, status: StatusCode) -> Vec<u8> {
    let store = app.stores.load_current();
    let origin = store.request_origin(client);
    // Placeholders for the log: a malformed head has no method and target.
    let (method, target) = (
        Method::from_bytes(b"-").expect("a token"),
        Uri::from_static("*"),
    );
    let headers = HeaderMap::new();
    let mut facts = ExchangeFacts {
        is_own: client.is_own,
        ..ExchangeFacts::new(origin, method, target, &headers)
    };
    let observers = Observers::begin(&store, &facts, &headers);
    let failure = failure(status);
    facts.refusal = Some(WhyRefused::of(&failure).into());
    let (origin, version) = (&facts.origin, ApiVersion::NEWEST);
    let (id, now) = (&origin.request_id, origin.now);
    let format = error_format(origin.service, &facts.target, None);
    let mut answer = render(failure, format, id, now, false);
    CommonHeaders::default().onto(&mut answer, id, version);
    let (close, date) = (HeaderValue::from_static("close"), date::rfc1123(now));
    answer.headers_mut().insert(CONNECTION, close);
    let date = HeaderValue::from_str(&date).expect("ASCII");
    answer.headers_mut().insert(DATE, date);
    on_the_wire(observers.follow(&store, facts, Arc::default(), answer))
}

fn failure(status: StatusCode) -> Failure {
    match status {
        StatusCode::URI_TOO_LONG => limits::target_too_long(),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Failure::new(
            431,
            "RequestHeaderFieldsTooLarge",
            format!(
                "The request has more than {HEADERS_MAX} headers besides metadata, its head is too long, or its length is too large."
            ),
        ),
        status => Failure::new(
            status.as_u16(),
            "InvalidInput",
            "The request is not HTTP/1.1: its first line, the name or value of a header, or the length of its body is malformed.",
        ),
    }
}

/// The bytes of a response whose body is in memory.
fn on_the_wire(answer: Response<Body>) -> Vec<u8> {
    let (mut parts, body) = answer.into_parts();
    let collected = pin!(body.collect()).poll(&mut Context::from_waker(Waker::noop()));
    let body = match collected {
        Poll::Ready(Ok(body)) => body.to_bytes(),
        // Cannot happen: the body is in memory.
        Poll::Ready(Err(_)) | Poll::Pending => Bytes::new(),
    };
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    let mut bytes = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}
