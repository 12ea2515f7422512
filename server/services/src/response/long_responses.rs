//! Memory of long responses: listings, messages, entities, batches.
//!
//! Such a response is built completely, then sent. Its memory is reserved in the [`memory`] budget
//! before it is built, and released once it is sent.

use crate::memory::{self, FREE_BYTES, MemoryGrant};
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use lazurite_protocol::response::error::Result;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Number of bytes reserved for a document before its length is known.
const EXPECTED_BYTES: usize = 1 << 20;

/// Waits until there is room for the response, if it may be long. Error: `ServerBusy` after half a
/// minute.
pub async fn reserve(is_long: bool) -> Result<Option<MemoryGrant>> {
    if is_long {
        return Ok(Some(memory::reserve(EXPECTED_BYTES).await?));
    }
    Ok(None)
}

/// Memory for the response to a batch: the grant of its body, if there is one. A request that holds
/// memory must not wait for more, or several could wait for each other. Errors: those of
/// [`reserve`].
pub async fn beside_body(grant: Option<MemoryGrant>) -> Result<MemoryGrant> {
    match grant {
        Some(grant) => Ok(grant),
        None => Ok(memory::reserve(EXPECTED_BYTES).await?),
    }
}

/// Holds the part of `grant` that the response needs until it is sent.
pub fn hold(grant: MemoryGrant, response: Response<Body>) -> Response<Body> {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > FREE_BYTES as u64 => {
            let grant = Arc::new(grant.resized(bytes as usize));
            response.map(|body| Body::new(HeldBody { body, grant }))
        }
        _ => response,
    }
}

/// A document in memory with its grant. The length stays exact, for the Content-Length.
struct HeldBody {
    body: Body,
    grant: Arc<MemoryGrant>,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
        let held = |bytes| {
            let _grant = self.grant.clone();
            Bytes::from_owner(Held { bytes, _grant })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of a document that is being sent, with its share in the grant.
struct Held {
    bytes: Bytes,
    _grant: Arc<MemoryGrant>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_length_of_a_held_response_stays_known() {
        let grant = memory::reserve(EXPECTED_BYTES).await.unwrap();
        let response = Response::new(Body::from(vec![7; FREE_BYTES + 1]));
        let held = hold(grant, response);
        let length = held.body().size_hint().exact();
        assert_eq!(length, Some(FREE_BYTES as u64 + 1));
        let bytes = axum::body::to_bytes(held.into_body(), usize::MAX).await;
        assert_eq!(bytes.unwrap().len(), FREE_BYTES + 1);
    }
}
