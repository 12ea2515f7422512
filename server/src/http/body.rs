//! Bodies: small documents collected up to a limit, large content as a stream of chunks, both ways.

use super::error::{Failure, Result, known};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Most that a batch, or one entity with its envelope, may come to. Source: Performing Entity Group Transactions,
/// "Requirements".
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Reads a document whole. What is too long is refused by its declared length, or as soon as it has grown past `limit`.
pub async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes> {
    let too_large = || known::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string());
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut body).await? {
        match &first {
            None => first = Some(chunk),
            Some(_) => rest.extend_from_slice(&chunk),
        }
        if first.as_ref().map_or(0, Bytes::len) + rest.len() > limit {
            return Err(too_large());
        }
    }
    match first {
        Some(first) if !rest.is_empty() => Ok([&first[..], &rest[..]].concat().into()),
        first => Ok(first.unwrap_or_default()),
    }
}

/// The next bytes of a request's body; `None` at its end. A client that goes away mid-body gets an error nobody reads.
pub async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|_| Failure::new(400, "IncompleteBody", "The request's body ended early."))?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The sending half of a streamed response: a thread reads chunks, the connection takes them as fast as the client does.
#[derive(Debug)]
pub struct ChunkSender(mpsc::Sender<std::io::Result<Bytes>>);

impl ChunkSender {
    /// Blocks until the connection has room. `false` once the client has gone.
    pub fn send(&self, chunk: std::io::Result<Bytes>) -> bool {
        self.0.blocking_send(chunk).is_ok()
    }
}

/// A body of `length` bytes that comes in chunks. Two chunks wait at most: memory per download is bounded by them.
pub fn streamed(length: u64) -> (ChunkSender, Body) {
    let (sender, receiver) = mpsc::channel(2);
    (
        ChunkSender(sender),
        Body::new(Streamed {
            receiver,
            remaining: length,
        }),
    )
}

struct Streamed {
    receiver: mpsc::Receiver<std::io::Result<Bytes>>,
    remaining: u64,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, std::io::Error>>> {
        self.receiver.poll_recv(task).map(|chunk| {
            let chunk = chunk?;
            Some(chunk.map(|bytes| {
                self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
                Frame::data(bytes)
            }))
        })
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.remaining)
    }
}
