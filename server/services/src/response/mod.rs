//! Responses whose bodies are streamed or long.

pub mod long_responses;
pub mod streamed;
pub mod written;

use axum::body::Body;
use axum::http::Response;
use lazurite_protocol::response::error::Result;
use std::future::{Future, ready};
use std::pin::Pin;

/// The response of a handler. Boxed: unboxed, every connection would reserve the size of the
/// largest handler.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send>>;

/// The future of a response that is already complete.
pub fn ready_response(response: Response<Body>) -> ResponseFuture {
    Box::pin(ready(Ok(response)))
}
