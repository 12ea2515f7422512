//! Response bodies that are read from the store while they are sent.

use crate::memory::{self, MemoryGrant, PIECE_BYTES};
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use lazurite_base::locks::lock;
use lazurite_protocol::response::error::Result;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};

/// Approximate maximum size of the chunks that the store returns.
const CHUNK_BYTES: usize = 255 << 10;

/// Reads the next chunk of a response; `None` at its end. Blocks for the disk.
pub trait ChunkSource: Send + Unpin + 'static {
    /// Returns at most `bytes_max` bytes if the source can split its content.
    fn next_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>>;

    /// Whether the last chunk must be sent before the next is read, because that may take long.
    fn is_urgent(&self) -> bool {
        false
    }

    /// Whether a chunk may need many lookups, which are too slow for a connection thread.
    fn is_slow(&self) -> bool {
        false
    }

    /// The turns that reads of this kind share, so that they do not take all threads; `None`
    /// without such a limit. The first chunk is read without a turn.
    fn turns(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Frees memory that only makes the next chunk cheaper.
    fn release(&mut self) {}
}

/// The share of the memory budget for content that is read ahead.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    /// `None` if the budget is used up. Content is then copied, so that it does not keep a larger
    /// buffer in memory, and each part is read only after the previous part was sent.
    grant: Option<Arc<MemoryGrant>>,
}

impl Room {
    /// Takes a share of the budget. If the budget is used up, takes a minimum that is not counted.
    pub fn take() -> Room {
        match memory::grant() {
            Some((bytes, grant)) => Room {
                bytes,
                grant: Some(Arc::new(grant)),
            },
            None => Room {
                bytes: PIECE_BYTES,
                grant: None,
            },
        }
    }

    /// Number of bytes that may be read ahead.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn hold(&self, bytes: Bytes) -> Bytes {
        match self.grant {
            Some(_) => bytes,
            None => Bytes::copy_from_slice(&bytes),
        }
    }
}

/// A body of `length` bytes: `first`, which was read into `room`, then the bytes of `source`. Bytes
/// that fit into the room are read at once, on this thread, unless the source is slow: a hop to
/// another thread would cost as much. Later chunks are read while those before them are sent, so a
/// slow client holds a few chunks and no thread.
pub fn streamed<S: ChunkSource>(first: Bytes, room: Room, source: S, length: u64) -> Body {
    let read = if source.is_slow() {
        Read {
            chunks: VecDeque::from([room.hold(first)]),
            grant: room.grant,
            next: State::Idle(source),
        }
    } else {
        read_ahead(source, room, Some(first), Some(length))
    };
    body(read, Some(length))
}

/// Like [`streamed`], for a `source` of unknown length whose chunks may take long to produce.
pub fn streamed_to_end<S: ChunkSource>(first: Bytes, source: S) -> Body {
    let room = Room {
        bytes: 0,
        ..Room::take()
    };
    body(read_ahead(source, room, Some(first), None), None)
}

fn body<S: ChunkSource>(read: Read<S>, remaining: Option<u64>) -> Body {
    Body::new(Streamed {
        ready: read.chunks,
        grant: read.grant,
        state: read.next,
        remaining,
        unsent: Arc::default(),
    })
}

struct Streamed<S> {
    /// The chunks to send next, in order.
    ready: VecDeque<Bytes>,
    /// The share of the memory budget for these chunks.
    grant: Option<Arc<MemoryGrant>>,
    state: State<S>,
    /// Number of bytes still to send; `None` if unknown.
    remaining: Option<u64>,
    unsent: Arc<Unsent>,
}

enum State<S> {
    Idle(S),
    Reading(JoinHandle<Read<S>>),
    /// Nothing is left to read, because of the end or of an error.
    Ended(Result<()>),
}

struct Read<S> {
    chunks: VecDeque<Bytes>,
    grant: Option<Arc<MemoryGrant>>,
    next: State<S>,
}

/// Reads as much as there is room for, and the rest of the body if that is short. `first` was
/// already read into that room; `length` is the length of the remaining body, if known.
fn read_ahead<S: ChunkSource>(
    mut source: S,
    room: Room,
    first: Option<Bytes>,
    length: Option<u64>,
) -> Read<S> {
    let (mut chunks, mut bytes) = (VecDeque::new(), 0);
    let mut next = first;
    let next = loop {
        if let Some(chunk) = next {
            bytes += chunk.len();
            chunks.push_back(room.hold(chunk));
        }
        let left = room.bytes.saturating_sub(bytes);
        // Stops if no whole chunk fits: a part of a chunk would keep the whole chunk in memory. A
        // short rest is read nevertheless.
        let is_last = length.is_some_and(|length| length <= (bytes + PIECE_BYTES) as u64);
        let is_full = left < CHUNK_BYTES && !is_last && !chunks.is_empty();
        if is_full || source.is_urgent() && !chunks.is_empty() {
            if room.grant.is_none() {
                source.release();
            }
            break State::Idle(source);
        }
        next = match source.next_chunk(left.max(PIECE_BYTES)) {
            Ok(Some(chunk)) => Some(chunk),
            ended => break State::Ended(ended.map(|_| ())),
        };
    };
    Read {
        chunks,
        grant: room.grant,
        next,
    }
}

/// The chunks of one response that the connection has accepted but not sent.
#[derive(Debug, Default)]
struct Unsent(Mutex<UnsentChunks>);

#[derive(Debug, Default)]
struct UnsentChunks {
    count: usize,
    waker: Option<Waker>,
}

impl Unsent {
    /// Ready once no chunk is unsent.
    fn poll_none(&self, task: &Context<'_>) -> Poll<()> {
        let mut chunks = lock(&self.0);
        if chunks.count == 0 {
            return Poll::Ready(());
        }
        chunks.waker = Some(task.waker().clone());
        Poll::Pending
    }

    fn add(&self) {
        lock(&self.0).count += 1;
    }

    fn remove(&self) {
        let mut chunks = lock(&self.0);
        chunks.count -= 1;
        if chunks.count == 0
            && let Some(waker) = chunks.waker.take()
        {
            waker.wake();
        }
    }
}

/// A chunk that the connection is sending.
struct Outgoing {
    bytes: Bytes,
    _grant: Option<Arc<MemoryGrant>>,
    unsent: Arc<Unsent>,
}

impl AsRef<[u8]> for Outgoing {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.unsent.remove();
    }
}

impl<S: ChunkSource> Streamed<S> {
    /// Starts a read if more chunks follow the ready ones, and there is room.
    fn begin_to_read(&mut self, task: &Context<'_>) {
        let ready: u64 = self.ready.iter().map(|chunk| chunk.len() as u64).sum();
        let is_all = self.remaining.is_some_and(|remaining| remaining <= ready);
        if is_all || !matches!(self.state, State::Idle(_)) {
            return;
        }
        let room = Room::take();
        let waits = room.grant.is_none()
            && (!self.ready.is_empty() || self.unsent.poll_none(task).is_pending());
        if waits {
            return;
        }
        let left = self.remaining.map(|remaining| remaining - ready);
        self.state = match std::mem::replace(&mut self.state, State::Ended(Ok(()))) {
            State::Idle(source) => State::Reading(start_reading(source, room, left)),
            state => state,
        };
    }

    fn send(&mut self, chunk: Bytes) -> Frame<Bytes> {
        let length = chunk.len() as u64;
        self.remaining = self.remaining.map(|left| left.saturating_sub(length));
        self.unsent.add();
        Frame::data(Bytes::from_owner(Outgoing {
            bytes: chunk,
            _grant: self.grant.clone(),
            unsent: self.unsent.clone(),
        }))
    }
}

/// Reads ahead on the blocking pool, after waiting for a turn if the source needs one. The wait
/// takes no thread.
fn start_reading<S: ChunkSource>(source: S, room: Room, left: Option<u64>) -> JoinHandle<Read<S>> {
    let turns = source.turns();
    let read = move || read_ahead(source, room, None, left);
    let Some(turns) = turns else {
        return tokio::task::spawn_blocking(read);
    };
    tokio::spawn(async move {
        let _turn = turns.acquire_owned().await;
        match tokio::task::spawn_blocking(read)
            .await
            .map_err(JoinError::try_into_panic)
        {
            Ok(read) => read,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime has shut down, and no task waits for the result.
            Err(Err(_)) => std::future::pending().await,
        }
    })
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
        self.begin_to_read(task);
        if self.ready.is_empty() {
            // The next read takes its own grant.
            self.grant = None;
            if let State::Reading(reading) = &mut self.state {
                let Poll::Ready(read) = Pin::new(reading).poll(task) else {
                    return Poll::Pending;
                };
                match read {
                    Ok(read) => {
                        (self.ready, self.grant, self.state) = (read.chunks, read.grant, read.next);
                    }
                    Err(panic) => {
                        self.state = State::Ended(Ok(()));
                        return Poll::Ready(Some(Err(broken_off(panic.to_string()))));
                    }
                }
                self.begin_to_read(task);
            }
        }
        if let Some(chunk) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(self.send(chunk))));
        }
        let ended = match &mut self.state {
            // There was no room to read. The task is woken when unsent chunks are sent.
            State::Idle(_) => return Poll::Pending,
            State::Reading(_) => State::Ended(Ok(())),
            ended => std::mem::replace(ended, State::Ended(Ok(()))),
        };
        let reason = match ended {
            State::Ended(Err(failure)) => failure.message.to_string(),
            _ if self.remaining.is_none() => return Poll::Ready(None),
            _ => "the content ended before its length".to_owned(),
        };
        // The status has been sent: the only way to report the error is to end the connection
        // before the promised length.
        Poll::Ready(Some(Err(broken_off(reason))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::time::Duration;

    /// A source of three chunks, each of which is sent before the next one is made.
    struct InTurns {
        left: usize,
        turns: Arc<Semaphore>,
    }

    impl ChunkSource for InTurns {
        fn next_chunk(&mut self, _: usize) -> Result<Option<Bytes>> {
            let Some(left) = self.left.checked_sub(1) else {
                return Ok(None);
            };
            self.left = left;
            Ok(Some(Bytes::from_static(b"chunk")))
        }

        fn is_urgent(&self) -> bool {
            true
        }

        fn turns(&self) -> Option<Arc<Semaphore>> {
            Some(self.turns.clone())
        }
    }

    #[tokio::test]
    async fn chunks_after_the_first_wait_for_their_turn() {
        let turns = Arc::new(Semaphore::new(1));
        let source = InTurns {
            left: 2,
            turns: turns.clone(),
        };
        let taken = turns.clone().acquire_owned().await.unwrap();
        let mut body = streamed_to_end(Bytes::from_static(b"first"), source);
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.data_ref().unwrap(), "first");
        let early = Duration::from_millis(50);
        assert!(tokio::time::timeout(early, body.frame()).await.is_err());
        drop((first, taken));
        let rest = body.collect().await.unwrap().to_bytes();
        assert_eq!(rest, "chunkchunk");
        assert_eq!(turns.available_permits(), 1);
    }
}
