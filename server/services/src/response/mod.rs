//! Responses: headers, bodies that are streamed or long, errors.

pub mod common_headers;
pub mod error;
pub mod headers;
pub mod listed_urls;
pub mod long_responses;
pub mod streamed;

use crate::response::error::Result;
use axum::body::Body;
use axum::http::Response;
use std::future::{Future, ready};
use std::pin::Pin;

/// The response of a handler. Boxed: unboxed, every connection would reserve the size of the
/// largest handler.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send>>;

/// The future of a response that is already complete.
pub fn ready_response(response: Response<Body>) -> ResponseFuture {
    Box::pin(ready(Ok(response)))
}
