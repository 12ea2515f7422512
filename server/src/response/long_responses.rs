//! The memory that answers of many parts may hold: listings, messages, entities, batches.
//!
//! Such an answer is made whole and then waits for a client to take it. So it has room in the [`memory`] from before it is made until
//! it is sent.

use crate::memory::{self, FREE_BYTES, MemoryGrant};
use crate::response::error::Result;
use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use std::sync::Arc;

/// What is reserved before the length of a document is known: that of a whole page.
const EXPECTED_BYTES: usize = 1 << 20;

/// Waits until there is room for the response, if it may be long. Error: `ServerBusy` after half a minute.
pub async fn reserve(is_long: bool) -> Result<Option<MemoryGrant>> {
    if is_long {
        return Ok(Some(memory::reserve(EXPECTED_BYTES).await?));
    }
    Ok(None)
}

/// Room for the answer to a batch: that of its body, if that has any. A request that waited for more while it holds some could wait for
/// others that do the same. Error: as of [`reserve`].
pub async fn beside_body(grant: Option<MemoryGrant>) -> Result<MemoryGrant> {
    match grant {
        Some(grant) => Ok(grant),
        None => Ok(memory::reserve(EXPECTED_BYTES).await?),
    }
}

/// Keeps of `grant` what the answer needs, until it is sent.
pub fn hold(grant: MemoryGrant, response: Response<Body>) -> Response<Body> {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > FREE_BYTES as u64 => {
            let grant = Arc::new(grant.resized(bytes as usize));
            response.map(|body| {
                let held = move |bytes: Bytes| {
                    let grant = grant.clone();
                    Bytes::from_owner(Held {
                        bytes,
                        _grant: grant,
                    })
                };
                Body::new(body.map_frame(move |frame| frame.map_data(&held)))
            })
        }
        _ => response,
    }
}

/// Part of a document on its way out.
struct Held {
    bytes: Bytes,
    _grant: Arc<MemoryGrant>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
