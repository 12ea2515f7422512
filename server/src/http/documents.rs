//! The memory that answers of many parts may hold: listings, messages, entities, batches.
//!
//! Such an answer is made whole and then waits for a client to take it. So it has room in the [`budget`] from before it is made until
//! it is sent.

use super::budget::{self, FREE_BYTES, Share};
use super::context::{Context, ServiceKind};
use super::error::Result;
use axum::body::Body;
use axum::http::{Method, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use std::sync::Arc;

/// What is reserved before the length of a document is known: that of a whole page.
const EXPECTED_BYTES: usize = 1 << 20;

/// Waits until there is room for the answer to a read, if that may be a long document. Error: `ServerBusy` after half a minute.
pub async fn reserve(context: &Context) -> Result<Option<Share>> {
    match may_be_long(context) {
        true => Ok(Some(budget::reserve(EXPECTED_BYTES).await?)),
        false => Ok(None),
    }
}

/// Room for the answer to a batch: that of its body, if that has any. A request that waited for more while it holds some could wait for
/// others that do the same. Error: as of [`reserve`].
pub async fn beside_body(share: Option<Share>) -> Result<Share> {
    match share {
        Some(share) => Ok(share),
        None => budget::reserve(EXPECTED_BYTES).await,
    }
}

/// Keeps of `share` what the answer needs, until it is sent.
pub fn hold(share: Share, response: Response<Body>) -> Response<Body> {
    match response.body().size_hint().exact() {
        Some(bytes) if bytes > FREE_BYTES as u64 => {
            let share = Arc::new(share.resized(bytes as usize));
            response.map(|body| {
                let held = move |bytes: Bytes| {
                    let share = share.clone();
                    Bytes::from_owner(Held {
                        bytes,
                        _share: share,
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
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub fn may_be_long(context: &Context) -> bool {
    if context.method != Method::GET {
        return false;
    }
    let comp = context.query.get("comp").unwrap_or_default();
    let comp = |names: &[&str]| names.iter().any(|name| comp.eq_ignore_ascii_case(name));
    match context.service {
        ServiceKind::Blob => comp(&["list", "blobs", "blocklist", "pagelist"]),
        // One message alone is short.
        ServiceKind::Queue => comp(&["list"]) || context.query.get("numofmessages").is_some(),
        ServiceKind::Table => !context.resource.contains("PartitionKey="),
    }
}
