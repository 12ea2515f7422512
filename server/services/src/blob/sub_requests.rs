//! The interface by which a batch gets the responses to the requests inside it.

use axum::http::Response;
use bytes::Bytes;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::Result;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// Answers requests inside a batch.
pub trait SubRequests: Send + Sync {
    /// The name of the operation that a request inside a batch asks for; `None` if it asks for
    /// none.
    fn operation(&self, context: &Context) -> Option<&'static str>;

    /// Responds to one request of the batch `outer`. The request is authenticated, logged and
    /// counted like a single one.
    fn respond<'a>(
        self: Arc<Self>,
        outer: &'a Context,
        context: Result<Box<Context>>,
    ) -> PartFuture<'a>;
}

impl fmt::Debug for dyn SubRequests {
    /// Hides the implementation, which holds the whole server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubRequests")
    }
}

/// The response to a request inside a batch.
pub type PartFuture<'a> = Pin<Box<dyn Future<Output = Response<Bytes>> + Send + 'a>>;
