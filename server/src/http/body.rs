//! Bodies: small documents collected up to a limit, large content as a stream of chunks, both ways.

use super::error::{Failure, Result, known};
use axum::body::Body;
use axum::http::header::{EXPECT, HeaderMap};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Most that a batch, or one entity with its envelope, may come to. Source: Performing Entity Group Transactions,
/// "Requirements".
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes of an unread body that are read and dropped so that the client gets its answer: closing at once would
/// reset the connection, and the answer with it.
const LINGER_BYTES_MAX: u64 = 64 << 20;
/// A body that has no more than this left keeps its connection usable.
const KEEP_OPEN_BYTES_MAX: u64 = 1 << 20;
/// How long the rest of a body is waited for.
const LINGER_SECONDS_MAX: u64 = 10;

/// The body of a request. One that is dropped before its end is read on, and dropped, in the background.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    /// The client sends its body only once it is asked to, which reading does.
    waits_to_be_asked: bool,
    asked: bool,
    must_close: Arc<AtomicBool>,
    bounds: Option<Bounds>,
}

/// What the sender of a body is held to, if it is not a client but another server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most bytes that are taken.
    pub bytes_max: u64,
    /// How long the next bytes are waited for.
    pub silence_max: Duration,
}

impl RequestBody {
    /// `must_close` turns true if the body is dropped so early that the connection cannot be used again.
    pub fn new(body: Incoming, headers: &HeaderMap, must_close: Arc<AtomicBool>) -> RequestBody {
        let waits_to_be_asked = headers.contains_key(EXPECT);
        RequestBody {
            body: Some(body),
            waits_to_be_asked,
            asked: false,
            must_close,
            bounds: None,
        }
    }

    /// What another server answers. It has no connection that is worth reading on for.
    pub fn bounded(body: Incoming, bounds: Bounds) -> RequestBody {
        let mut bounded = RequestBody::empty();
        bounded.body = Some(body);
        bounded.bounds = Some(bounds);
        bounded
    }

    /// The body of a request that has none.
    pub fn empty() -> RequestBody {
        RequestBody {
            body: None,
            waits_to_be_asked: false,
            asked: false,
            must_close: Arc::default(),
            bounds: None,
        }
    }

    /// The bytes that are still to come, as far as the request declared them.
    pub fn length_at_least(&self) -> u64 {
        self.body
            .as_ref()
            .map_or(0, |body| body.size_hint().lower())
    }

    /// Whether nothing is to come.
    pub fn is_ended(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    /// The next bytes; `None` at the end. A client that goes away mid-body gets an error nobody reads.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>> {
        self.asked = true;
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        while let Some(frame) = next_frame(body, self.bounds.as_ref()).await? {
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                if let Some(bounds) = &mut self.bounds {
                    bounds.take(data.len() as u64)?;
                }
                return Ok(Some(data));
            }
        }
        self.body = None;
        Ok(None)
    }
}

async fn next_frame(body: &mut Incoming, bounds: Option<&Bounds>) -> Result<Option<Frame<Bytes>>> {
    let frame = match bounds {
        None => body.frame().await,
        Some(bounds) => {
            let frame = tokio::time::timeout(bounds.silence_max, body.frame()).await;
            frame.map_err(|_| Failure::new(408, "RequestTimeout", "The body stopped coming."))?
        }
    };
    let early = |_| Failure::new(400, "IncompleteBody", "The request's body ended early.");
    frame.transpose().map_err(early)
}

impl Bounds {
    fn take(&mut self, bytes: u64) -> Result<()> {
        let left = self.bytes_max.checked_sub(bytes);
        self.bytes_max = left.ok_or(known::REQUEST_BODY_TOO_LARGE)?;
        Ok(())
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else {
            return;
        };
        if self.bounds.is_some() {
            return;
        }
        let left = body.size_hint().upper();
        let idle = self.waits_to_be_asked && !self.asked;
        if idle || left.is_none_or(|left| left > KEEP_OPEN_BYTES_MAX) {
            self.must_close.store(true, Ordering::Relaxed);
        }
        if idle || left.is_some_and(|left| left > LINGER_BYTES_MAX) {
            return;
        }
        tokio::spawn(tokio::time::timeout(
            Duration::from_secs(LINGER_SECONDS_MAX),
            async move {
                let mut dropped = 0;
                while let Some(Ok(frame)) = body.frame().await {
                    dropped += frame.data_ref().map_or(0, Bytes::len) as u64;
                    if dropped > LINGER_BYTES_MAX {
                        break;
                    }
                }
            },
        ));
    }
}

/// Reads a document whole. What is too long is refused by its declared length, or as soon as it has grown past `limit`.
pub async fn collect(mut body: RequestBody, limit: usize) -> Result<Bytes> {
    let too_large = || known::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string());
    if body.length_at_least() > limit as u64 {
        return Err(too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(chunk) = body.next_chunk().await? {
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

/// Reads the next chunk of a response; `None` at its end. Blocks for the disk.
pub trait ChunkSource: Send + Unpin + 'static {
    fn next_chunk(&mut self) -> Result<Option<Bytes>>;
}

/// A body of `length` bytes: `first`, then what `source` has. Chunks are read while those before them are sent, so a slow
/// client holds a few chunks and no thread.
pub fn streamed<S: ChunkSource>(first: Bytes, source: S, length: u64) -> Body {
    Body::new(Streamed {
        ready: VecDeque::from([first]),
        state: State::Idle(source),
        remaining: Some(length),
    })
}

/// As [`streamed`], of as many bytes as `source` turns out to have.
pub fn streamed_to_end<S: ChunkSource>(first: Bytes, source: S) -> Body {
    Body::new(Streamed {
        ready: VecDeque::from([first]),
        state: State::Idle(source),
        remaining: None,
    })
}

/// Chunks that are read at once: to go to another thread and back takes about as long as to read one.
const CHUNKS_AT_ONCE: usize = 2;

struct Streamed<S> {
    /// Chunks to go out, in order.
    ready: VecDeque<Bytes>,
    state: State<S>,
    /// `None` if nobody knows.
    remaining: Option<u64>,
}

enum State<S> {
    Idle(S),
    Reading(JoinHandle<Read<S>>),
    /// There is no more to read, because of an error or not.
    Ended(Result<()>),
}

struct Read<S> {
    chunks: VecDeque<Bytes>,
    next: State<S>,
}

fn read_some<S: ChunkSource>(mut source: S) -> Read<S> {
    let mut chunks = VecDeque::with_capacity(CHUNKS_AT_ONCE);
    while chunks.len() < CHUNKS_AT_ONCE {
        let next = match source.next_chunk() {
            Ok(Some(chunk)) => {
                chunks.push_back(chunk);
                continue;
            }
            ended => State::Ended(ended.map(|_| ())),
        };
        return Read { chunks, next };
    }
    Read {
        chunks,
        next: State::Idle(source),
    }
}

impl<S: ChunkSource> Streamed<S> {
    /// Begins to read if there is more to come than what is ready.
    fn read_ahead(&mut self) {
        let ready = self.ready.iter().map(|chunk| chunk.len() as u64).sum();
        if self.remaining.is_some_and(|remaining| remaining <= ready) {
            return;
        }
        self.state = match std::mem::replace(&mut self.state, State::Ended(Ok(()))) {
            State::Idle(source) => {
                State::Reading(tokio::task::spawn_blocking(move || read_some(source)))
            }
            state => state,
        };
    }
}

impl<S: ChunkSource> HttpBody for Streamed<S> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, std::io::Error>>> {
        if self.remaining == Some(0) {
            return Poll::Ready(None);
        }
        self.read_ahead();
        if self.ready.is_empty()
            && let State::Reading(reading) = &mut self.state
        {
            let Poll::Ready(read) = Pin::new(reading).poll(task) else {
                return Poll::Pending;
            };
            match read {
                Ok(read) => (self.ready, self.state) = (read.chunks, read.next),
                Err(panic) => {
                    self.state = State::Ended(Ok(()));
                    return Poll::Ready(Some(Err(broken_off(panic.to_string()))));
                }
            }
            self.read_ahead();
        }
        let Some(chunk) = self.ready.pop_front() else {
            let ended = std::mem::replace(&mut self.state, State::Ended(Ok(())));
            let reason = match ended {
                State::Ended(Err(failure)) => failure.message.into_owned(),
                _ if self.remaining.is_none() => return Poll::Ready(None),
                _ => "the content ended before its length".to_owned(),
            };
            // The status has been sent: all that is left is to end the connection before the promised length.
            return Poll::Ready(Some(Err(broken_off(reason))));
        };
        let length = chunk.len() as u64;
        self.remaining = self.remaining.map(|left| left.saturating_sub(length));
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self.remaining {
            Some(remaining) => hyper::body::SizeHint::with_exact(remaining),
            None => hyper::body::SizeHint::default(),
        }
    }
}

fn broken_off(reason: String) -> std::io::Error {
    tracing::error!(reason, "a download broke off");
    std::io::Error::other(reason)
}
