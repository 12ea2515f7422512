//! Bodies of requests: small documents collected up to a limit, large content as a stream of
//! chunks.

use crate::connection::on_blocking_pool;
use crate::memory::PACE_BYTES;
use crate::memory::{self, FREE_BYTES, MemoryGrant};
use crate::request::body_copy::BodyCopy;
use axum::http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use lazurite_blob::Checksums;
use lazurite_protocol::request::checksums::BodyCheck;
use lazurite_protocol::response::error::{Failure, Result, common};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Maximum number of bytes of a batch, or of one entity with its envelope. Source: Performing
/// Entity Group Transactions, "Requirements".
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of bytes of a document to which the protocol allows only few parts: policies,
/// properties, tags, a key's times.
pub const SMALL_DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// Number of bytes collected before other requests on the connection thread may run.
const PAUSE_BYTES: usize = 256 << 10;

const PACE_SECONDS: u64 = 30;
/// Maximum time for which a client may be silent while memory is short.
const SILENCE_IN_NEED_SECONDS: u64 = 5;
/// Bytes a second that a client must send while memory is short, to keep memory of the budget.
const RATE_IN_NEED: u64 = 128 << 10;

/// If at most this many bytes of a body are left unread, the connection stays usable.
const KEEP_OPEN_BYTES_MAX: u64 = 1 << 20;
/// How long an unread body is read and dropped so that the client gets its answer. Closing at once
/// would reset the connection, and the answer would be lost. Some clients send a gigabyte before
/// they read.
const LINGER_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time to wait for the next bytes of such a body.
const LINGER_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The body of a request. If it is dropped before its end, the rest is read and discarded in the
/// background.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    /// True if the client sends its body only after 100 Continue, which the first read triggers.
    waits_to_be_asked: bool,
    asked: bool,
    reception: Arc<Reception>,
    bounds: Option<Bounds>,
    pace: Pace,
    /// The share of the memory budget for the collected body; `None` if it is small or not held.
    grant: Option<MemoryGrant>,
    /// Receives a copy of the first bytes that are read.
    copy: Option<Arc<BodyCopy>>,
    /// Computes checksums as the body is read, and compares them at its end.
    check: Option<Box<BodyCheck>>,
}

/// Facts about the receipt of a body, for the response and for observers, which lack the body.
#[derive(Debug, Default)]
pub struct Reception {
    bytes: AtomicU64,
    must_close: AtomicBool,
}

impl Reception {
    /// Number of bytes received for the handler, without bytes discarded after the response.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the body was dropped too early for the connection to be reused.
    pub fn must_close(&self) -> bool {
        self.must_close.load(Ordering::Relaxed)
    }
}

/// Limits on a body from another server.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of bytes accepted.
    pub bytes_max: u64,
    /// Maximum time to wait for the next bytes.
    pub silence_max: Duration,
}

/// Number of bytes that arrived recently, and the time spent waiting for them.
#[derive(Debug, Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
    /// Since when the body holds memory of the budget, and how many bytes arrived since.
    held: Option<(Instant, u64)>,
}

impl RequestBody {
    /// The body of a request that has just arrived. `reception` records what is read.
    pub fn new(body: Incoming, headers: &HeaderMap, reception: Arc<Reception>) -> RequestBody {
        let waits_to_be_asked = headers.get(&EXPECT).is_some();
        RequestBody {
            body: Some(body),
            waits_to_be_asked,
            asked: false,
            reception,
            bounds: None,
            pace: Pace::default(),
            grant: None,
            copy: None,
            check: None,
        }
    }

    /// The body, compared with the claimed checksums once its end is read: the end fails if they
    /// differ. An empty body is compared at once.
    pub fn checked(mut self, claimed: Checksums) -> Result<RequestBody> {
        match BodyCheck::of(claimed) {
            Some(check) if self.is_ended() => check.finish()?,
            check => self.check = check.map(Box::new),
        }
        Ok(self)
    }

    /// Copies the first bytes to `copy` as they are read.
    pub fn copied_to(mut self, copy: Option<Arc<BodyCopy>>) -> RequestBody {
        self.copy = copy;
        self
    }

    /// The body of a response from another server. If it is dropped before its end, the rest is not
    /// read, and its connection is not reused.
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
            reception: Arc::default(),
            bounds: None,
            pace: Pace::default(),
            grant: None,
            copy: None,
            check: None,
        }
    }

    /// Waits until there is memory for `bytes` of a body that is read in chunks and not kept whole.
    /// Does not wait for [`FREE_BYTES`] or less.
    pub async fn reserve_chunks(&mut self, bytes: usize) -> Result<()> {
        self.reserve(bytes).await
    }

    async fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes > FREE_BYTES && self.grant.is_none() {
            self.grant = Some(memory::reserve(bytes).await?);
            self.pace.held = Some((Instant::now(), 0));
        }
        Ok(())
    }

    /// Number of bytes still to arrive; 0 if the request does not declare a length.
    pub fn length_at_least(&self) -> u64 {
        self.body
            .as_ref()
            .map_or(0, |body| body.size_hint().lower())
    }

    /// Maximum number of bytes still to arrive; `None` if the request does not declare it.
    pub fn length_at_most(&self) -> Option<u64> {
        match &self.body {
            Some(body) => body.size_hint().upper(),
            None => Some(0),
        }
    }

    /// Refuses a request with neither a declared length nor a chunked body. Called for operations
    /// that need a body. Source: Common REST API error codes, `MissingContentLengthHeader`.
    pub fn check_length_is_declared(&self, headers: &HeaderMap) -> Result<()> {
        let declares = |name| headers.contains_key(name);
        if declares(CONTENT_LENGTH) || declares(TRANSFER_ENCODING) || !self.is_ended() {
            return Ok(());
        }
        Err(common::MISSING_CONTENT_LENGTH.into())
    }

    /// Refuses a body with content, whether its length is declared or not, and keeps none of it.
    /// `surplus` makes the refusal, from the number of bytes that the body is known to have.
    pub async fn refuse_content(mut self, surplus: fn(u64) -> Failure) -> Result<()> {
        let length = match self.length_at_least() {
            0 => {
                let chunk = self.next_chunk().await?;
                chunk.map_or(0, |chunk| chunk.len() as u64)
            }
            length => length,
        };
        match length {
            0 => Ok(()),
            length => Err(surplus(length)),
        }
    }

    /// True if the client waits to be asked for the body (`100 Continue`). An operation that makes
    /// its checks before it reads can then refuse the request before the body is sent. Source: RFC
    /// 9110, section 10.1.1.
    pub fn is_awaited(&self) -> bool {
        self.waits_to_be_asked && !self.asked && !self.is_ended()
    }

    /// Whether the end of the body was reached.
    pub fn is_ended(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    /// The next bytes; `None` at the end. Also fails if the client leaves within the body; the
    /// client never receives that error.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>> {
        self.asked = true;
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        while let Some(frame) = next_frame(body, &mut self.pace, self.bounds.as_ref()).await? {
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                let bytes = data.len() as u64;
                self.pace.came(bytes);
                self.reception.bytes.fetch_add(bytes, Ordering::Relaxed);
                if let Some(bounds) = &mut self.bounds {
                    bounds.take(bytes)?;
                }
                if let Some(copy) = &self.copy {
                    copy.take(&data);
                }
                if let Some(check) = &mut self.check {
                    check.update(&data);
                }
                if body.is_end_stream() {
                    self.finish_check()?;
                }
                return Ok(Some(data));
            }
        }
        self.body = None;
        self.finish_check()?;
        Ok(None)
    }

    fn finish_check(&mut self) -> Result<()> {
        match self.check.take() {
            Some(check) => check.finish(),
            None => Ok(()),
        }
    }
}

async fn next_frame(
    body: &mut Incoming,
    pace: &mut Pace,
    bounds: Option<&Bounds>,
) -> Result<Option<Frame<Bytes>>> {
    let early = |_| Failure::new(400, "IncompleteBody", "The request's body ended early.");
    // Bytes that have already arrived need no timer.
    let arrived = poll_fn(|task| Poll::Ready(Pin::new(&mut *body).poll_frame(task))).await;
    if let Poll::Ready(frame) = arrived {
        return frame.transpose().map_err(early);
    }
    let patience = match bounds {
        Some(bounds) => bounds.silence_max,
        None => pace.patience(),
    };
    let began = Instant::now();
    let frame = tokio::time::timeout(patience, body.frame()).await;
    pace.waited += began.elapsed();
    let late = |_| {
        let close = HeaderValue::from_static("close");
        Failure::new(408, "RequestTimeout", "The body stopped coming.")
            .with_header(CONNECTION, close)
    };
    frame.map_err(late)?.transpose().map_err(early)
}

impl Pace {
    /// Maximum time to wait for the next bytes.
    fn patience(&self) -> Duration {
        let left = Duration::from_secs(PACE_SECONDS).saturating_sub(self.waited);
        if !memory::is_short() {
            return left;
        }
        let silence = Duration::from_secs(SILENCE_IN_NEED_SECONDS);
        let in_need = self.held.map_or(silence, |(since, bytes)| {
            let time = silence + Duration::from_millis(bytes * 1000 / RATE_IN_NEED);
            time.saturating_sub(since.elapsed()).min(silence)
        });
        left.min(in_need)
    }

    fn came(&mut self, bytes: u64) {
        if let Some((_, held)) = &mut self.held {
            *held += bytes;
        }
        self.bytes += bytes;
        if self.bytes >= PACE_BYTES {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }
}

impl Bounds {
    fn take(&mut self, bytes: u64) -> Result<()> {
        let left = self.bytes_max.checked_sub(bytes);
        self.bytes_max = left.ok_or(common::REQUEST_BODY_TOO_LARGE)?;
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
            self.reception.must_close.store(true, Ordering::Relaxed);
        }
        if idle {
            return;
        }
        tokio::spawn(tokio::time::timeout(LINGER_TIME_MAX, async move {
            let silence = LINGER_SILENCE_MAX;
            while let Ok(Some(Ok(_))) = tokio::time::timeout(silence, body.frame()).await {}
        }));
    }
}

/// Reads a document whole. Refuses a document that is too long: by its declared length, or as soon
/// as it exceeds `limit`.
pub async fn collect(body: RequestBody, limit: usize) -> Result<Bytes> {
    Ok(collect_held(body, limit).await?.0)
}

/// Like [`collect`], but also returns the memory grant of the document; `None` if it is small.
pub async fn collect_held(
    mut body: RequestBody,
    limit: usize,
) -> Result<(Bytes, Option<MemoryGrant>)> {
    let too_large = || common::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string());
    if body.length_at_least() > limit as u64 {
        return Err(too_large());
    }
    let length = body.length_at_most().map(|length| length as usize);
    let Some(first) = body.next_chunk().await? else {
        return Ok((Bytes::new(), None));
    };
    if length == Some(first.len()) && first.len() <= FREE_BYTES {
        return Ok((first, None));
    }
    let mut document = BytesMut::new();
    let mut since_pause = 0;
    let mut next = Some(first);
    while let Some(chunk) = next {
        let came = document.len() + chunk.len();
        if came > limit {
            return Err(too_large());
        }
        if came > FREE_BYTES && body.grant.is_none() {
            // A declared length costs nothing until the bytes arrive. Room for all of them is
            // reserved at once: a buffer is copied each time it grows, which occupies the thread.
            body.reserve(length.unwrap_or(limit)).await?;
            document.reserve(length.map_or(0, |length| length.saturating_sub(document.len())));
        }
        document.extend_from_slice(&chunk);
        since_pause += chunk.len();
        if since_pause >= PAUSE_BYTES {
            since_pause = 0;
            tokio::task::yield_now().await;
        }
        next = body.next_chunk().await?;
    }
    Ok((document.freeze(), body.grant.take()))
}

/// Collects a document and parses it, on the blocking pool if it is long.
pub async fn collect_parsed<T: Send + 'static>(
    body: RequestBody,
    limit: usize,
    parse: impl FnOnce(&[u8]) -> Result<T> + Send + 'static,
) -> Result<T> {
    parsed(collect(body, limit).await?, parse).await
}

/// Parses a collected document, on the blocking pool if it is long.
pub async fn parsed<T: Send + 'static>(
    document: Bytes,
    parse: impl FnOnce(&[u8]) -> Result<T> + Send + 'static,
) -> Result<T> {
    if document.len() > SMALL_DOCUMENT_BYTES_MAX {
        on_blocking_pool(move || parse(&document)).await
    } else {
        parse(&document)
    }
}
