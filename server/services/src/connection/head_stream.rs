//! The stream between the socket of a connection and the HTTP library. It follows the requests
//! ([`crate::connection::framing`]) and does four things for heads:
//!
//! - It keeps the case of `x-ms-meta-*` names, which users choose and expect back. The library
//!   turns them to lower case in both directions.
//! - It lets a request have more metadata headers than the library accepts
//!   ([`crate::connection::long_head`]).
//! - It replaces the library's own answers to heads that the library cannot read, because these
//!   answers have no request id. It recognises them by their form, and only if a head has arrived
//!   that did not become a request.
//! - It closes a connection with half a head after thirty seconds. How long a connection may be
//!   idle between requests is up to the listener.

use crate::connection::framing::{FramingReader, Marks, RawHead};
use crate::connection::long_head::LongHead;
use axum::http::StatusCode;
use lazurite_base::locks::lock;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Maximum time between the first and the last byte of a head.
const HEAD_SECONDS_MAX: u64 = 30;
const HEAD_END: &[u8] = b"\r\n\r\n";
/// An answer by the HTTP library itself is shorter: a status line and at most three headers.
const LIBRARY_ANSWER_BYTES_MAX: usize = 160;

/// State shared by the stream of a connection and the requests on it.
#[derive(Debug, Clone, Default)]
pub struct HeaderNames(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    notes: Mutex<Notes>,
    /// Whether names are set for the head of a response; few responses have any.
    has_response_names: AtomicBool,
    /// Whether the connection, and the work for its request, end when the client closes its end.
    follows_client: AtomicBool,
}

#[derive(Debug, Default)]
struct Notes {
    requests: FramingReader,
    response: Option<ResponseNames>,
    /// The first byte that the client sent.
    first_byte: Option<u8>,
}

/// The names to write into the head of one response, in their original case.
#[derive(Debug)]
struct ResponseNames {
    /// Identifies that head: no other bytes contain the id.
    request_id: String,
    names: Vec<String>,
}

impl HeaderNames {
    /// Takes the facts of the head whose request is being served.
    pub fn take_head(&self) -> RawHead {
        self.0.follows_client.store(false, Ordering::Relaxed);
        self.lock().requests.take_head()
    }

    /// Sets the names for the response being made, whose head will have `request_id`.
    pub fn set_response_names(&self, request_id: &str, names: Vec<String>) {
        let has_names = !names.is_empty();
        if !has_names && !self.has_response_names() {
            return;
        }
        let request_id = request_id.to_owned();
        self.lock().response = has_names.then_some(ResponseNames { request_id, names });
        let flag = &self.0.has_response_names;
        flag.store(has_names, Ordering::Relaxed);
    }

    fn has_response_names(&self) -> bool {
        self.0.has_response_names.load(Ordering::Relaxed)
    }

    /// Makes the connection end as soon as the client closes its sending direction, even if the
    /// client could still read the response. The next request resets this. Takes effect when the
    /// connection's task runs next.
    pub fn follow_client(&self) {
        self.0.follows_client.store(true, Ordering::Relaxed);
    }

    pub fn follows_client(&self) -> bool {
        self.0.follows_client.load(Ordering::Relaxed)
    }

    /// Whether bytes of a head arrived that did not become a request.
    fn has_head(&self) -> bool {
        self.lock().requests.has_head()
    }

    /// Whether the client has sent the beginning of a head but not its end.
    pub fn is_within_head(&self) -> bool {
        self.lock().requests.is_within_head()
    }

    /// The first byte that the client sent.
    pub fn first_byte(&self) -> Option<u8> {
        self.lock().first_byte
    }

    /// Reads received bytes. Returns their marks, and whether they end within a head.
    fn observe(&self, bytes: &[u8]) -> (Marks, bool) {
        let mut notes = self.lock();
        notes.first_byte = notes.first_byte.or(bytes.first().copied());
        let marks = notes.requests.read(bytes);
        (marks, notes.requests.is_within_head())
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        lock(&self.0.notes)
    }
}

/// A socket whose heads are read and rewritten. `R` makes the answer to a head that the library
/// refuses with a status.
#[derive(Debug)]
pub struct HeadStream<S, R> {
    socket: S,
    notes: HeaderNames,
    refuse: R,
    /// Bytes of a rewritten head or answer that the socket has not accepted yet.
    pending: Vec<u8>,
    long_head: LongHead,
    /// The time by which the current head must have ended.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S, R: Fn(StatusCode) -> Vec<u8>> HeadStream<S, R> {
    pub fn new(socket: S, notes: HeaderNames, refuse: R) -> HeadStream<S, R> {
        HeadStream {
            socket,
            notes,
            refuse,
            pending: Vec::new(),
            long_head: LongHead::default(),
            deadline: None,
        }
    }

    /// Fails if the head has taken too long; otherwise registers `task` to wake at the deadline.
    fn check_deadline(&mut self, task: &mut Context<'_>) -> io::Result<()> {
        let deadline = self.deadline.as_mut();
        let passed = deadline.is_some_and(|deadline| deadline.as_mut().poll(task).is_ready());
        if passed {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "a request head was begun and not ended",
            ))
        } else {
            Ok(())
        }
    }
}

impl<S: AsyncWrite + Unpin, R: Fn(StatusCode) -> Vec<u8> + Unpin> HeadStream<S, R> {
    fn poll_pending(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(task, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Puts the replacement of these bytes into `pending`, and returns how many bytes it replaces;
    /// `None` if they are sent unchanged.
    fn rewrite(&mut self, bytes: &[u8]) -> Option<usize> {
        if let Some(status) = refused_by_library(bytes)
            && self.notes.has_head()
        {
            self.pending = (self.refuse)(status);
            return Some(bytes.len());
        }
        if !self.notes.has_response_names() {
            return None;
        }
        let mut notes = self.notes.lock();
        let wanted = notes.response.as_ref()?;
        if !bytes.starts_with(b"HTTP/1.") {
            return None;
        }
        let length = find(bytes, HEAD_END)? + HEAD_END.len();
        find(&bytes[..length], wanted.request_id.as_bytes())?;
        let names = notes.response.take()?.names;
        drop(notes);
        self.pending = restore_case(&bytes[..length], &names);
        Some(length)
    }
}

/// The status, if these bytes are the library's own answer to a head that it cannot read. All
/// answers of the server are longer.
fn refused_by_library(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 ")?;
    let is_it = rest.starts_with(b"4")
        && bytes.len() < LIBRARY_ANSWER_BYTES_MAX
        && find(bytes, b"\r\ncontent-length: 0\r\n").is_some()
        && find(bytes, HEAD_END) == Some(bytes.len() - HEAD_END.len());
    let status = StatusCode::from_bytes(rest.get(..3)?).ok();
    status.filter(|_| is_it)
}

fn restore_case(head: &[u8], names: &[String]) -> Vec<u8> {
    let names = names.iter();
    let names: HashMap<_, _> = names
        .map(|name| (name.to_ascii_lowercase().into_bytes(), name.as_bytes()))
        .collect();
    let mut restored = Vec::with_capacity(head.len());
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        let name_bytes = memchr::memchr(b':', line).unwrap_or_default();
        let (name, rest) = line.split_at(name_bytes);
        restored.extend_from_slice(names.get(name).copied().unwrap_or(name));
        restored.extend_from_slice(rest);
    }
    restored
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

impl<S: AsyncRead + Unpin, R: Fn(StatusCode) -> Vec<u8> + Unpin> AsyncRead for HeadStream<S, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let before = buffer.filled().len();
            if self.long_head.read(buffer) {
                return Poll::Ready(Ok(()));
            }
            let read = Pin::new(&mut self.socket).poll_read(task, buffer)?;
            let is_end = buffer.filled().len() == before;
            if read.is_ready() {
                let (marks, is_within_head) = self.notes.observe(&buffer.filled()[before..]);
                self.deadline = if is_within_head {
                    self.deadline.take().or_else(|| {
                        let time = Duration::from_secs(HEAD_SECONDS_MAX);
                        Some(Box::pin(tokio::time::sleep(time)))
                    })
                } else {
                    None
                };
                if let Some((head, metadata)) = self.long_head.hold(buffer, before, marks) {
                    self.notes.lock().requests.add_metadata(head, metadata);
                }
            }
            self.check_deadline(task)?;
            // Otherwise poll again: a return without bytes would mean the end of the connection.
            if read.is_pending() || is_end || buffer.filled().len() > before {
                return read.map(Ok);
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, R: Fn(StatusCode) -> Vec<u8> + Unpin> AsyncWrite for HeadStream<S, R> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(task))?;
        if let Some(taken) = self.rewrite(bytes) {
            // Bytes that the socket does not accept now are sent before anything else, at the
            // latest when the library flushes.
            let _ = self.poll_pending(task)?;
            return Poll::Ready(Ok(taken));
        }
        Pin::new(&mut self.socket).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(task))?;
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(taken) = first.and_then(|first| self.rewrite(first)) {
            let _ = self.poll_pending(task)?;
            return Poll::Ready(Ok(taken));
        }
        Pin::new(&mut self.socket).poll_write_vectored(task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(task))?;
        Pin::new(&mut self.socket).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(task))?;
        Pin::new(&mut self.socket).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn names_come_back_in_the_case_they_were_given_one_request_after_another() {
        let (mut client, server) = tokio::io::duplex(16);
        let notes = HeaderNames::default();
        let mut tap = HeadStream::new(server, notes.clone(), |_| Vec::new());
        let client = tokio::spawn(async move {
            let mut answers = Vec::new();
            for name in ["x-ms-meta-One", "x-ms-meta-TWO"] {
                client
                    .write_all(format!("GET / HTTP/1.1\r\n{name}: 1\r\n\r\n").as_bytes())
                    .await
                    .unwrap();
                let mut answer =
                    vec![0; format!("HTTP/1.1 200 OK\r\nid: 7\r\n{name}: 1\r\n\r\nbody").len()];
                client.read_exact(&mut answer).await.unwrap();
                answers.push(String::from_utf8(answer).unwrap());
            }
            answers
        });
        for _ in 0..2 {
            let mut request = Vec::new();
            while find(&request, HEAD_END).is_none() {
                tap.read_buf(&mut request).await.unwrap();
            }
            let names = notes.take_head().metadata_names;
            notes.set_response_names("id: 7", names.clone());
            let answer = format!(
                "HTTP/1.1 200 OK\r\nid: 7\r\n{}: 1\r\n\r\nbody",
                names[0].to_lowercase()
            );
            tap.write_all(answer.as_bytes()).await.unwrap();
            tap.flush().await.unwrap();
        }
        let answers = client.await.unwrap();
        assert!(
            answers[0].contains("x-ms-meta-One") && answers[1].contains("x-ms-meta-TWO"),
            "{answers:?}"
        );
    }

    #[tokio::test]
    async fn metadata_of_a_long_head_goes_beside_the_library_to_its_own_request() {
        let long = |name: &str, length: &str| {
            let lines = (0..150).map(|number| format!("x-ms-meta-{name}{number}: {number}\r\n"));
            let lines: String = lines.collect();
            format!("PUT / HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: {length}\r\n\r\n")
        };
        let sent = format!("GET / HTTP/1.1\r\nHost: h\r\n\r\n{}body", long("a", "4"));
        let refused = format!("GET / HTTP/1.1\r\nHost: h\r\n\r\n{}", long("b", "+4"));
        for piece in [1, 100, 1 << 20] {
            for (sent, more) in [(&sent, 87), (&refused, 0)] {
                let (mut client, server) = tokio::io::duplex(1 << 20);
                let notes = HeaderNames::default();
                let mut tap = HeadStream::new(server, notes.clone(), |_| Vec::new());
                let bytes = sent.clone().into_bytes();
                tokio::spawn(async move {
                    for piece in bytes.chunks(piece) {
                        client.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                });
                let mut read = Vec::new();
                tap.read_to_end(&mut read).await.unwrap();
                let read = String::from_utf8(read).unwrap();
                assert!(notes.take_head().more_metadata.is_empty());
                let beside = notes.take_head().more_metadata;
                assert_eq!(beside.len(), more, "{piece}");
                if more > 0 {
                    assert!(beside.iter().all(|(name, value)| {
                        name.as_str().strip_prefix("x-ms-meta-a") == value.to_str().ok()
                    }));
                    assert!(read.ends_with("Content-Length: 4\r\n\r\nbody"), "{read}");
                    assert_eq!(read.matches("x-ms-meta-").count(), 150 - more);
                } else {
                    assert!(read.ends_with("Content-Length: +4\r\n\r\n"), "{read}");
                }
            }
        }
    }

    #[tokio::test]
    async fn an_answer_of_the_library_is_replaced_and_content_that_looks_like_one_is_not() {
        let library = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        for (sent, expected) in [
            (&b"GET / HTTP/1.1\r\nbad name: 1\r\n"[..], &b"431"[..]),
            (b"GET / HTTP/1.1\r\n\r\n", library),
        ] {
            let (mut client, server) = tokio::io::duplex(1024);
            let notes = HeaderNames::default();
            let refuse = |status: StatusCode| status.as_str().into();
            let mut tap = HeadStream::new(server, notes.clone(), refuse);
            client.write_all(sent).await.unwrap();
            tap.read_buf(&mut Vec::new()).await.unwrap();
            // The head was taken, so these bytes are the body of a response and are left alone.
            if expected == library {
                notes.take_head();
            }
            tap.write_all(library).await.unwrap();
            tap.shutdown().await.unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            assert_eq!(received, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_waited_for_thirty_seconds_and_an_idle_connection_longer() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut tap = HeadStream::new(server, HeaderNames::default(), |_| Vec::new());
        let mut request = Vec::new();
        let idle = tokio::time::timeout(Duration::from_secs(45), tap.read_buf(&mut request)).await;
        assert!(idle.is_err(), "nothing was sent, so nothing is late");
        client.write_all(b"GET / HT").await.unwrap();
        tap.read_buf(&mut request).await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        client.write_all(b"TP/1.1\r\n").await.unwrap();
        tap.read_buf(&mut request).await.unwrap();
        let began = tokio::time::Instant::now();
        let late = tap.read_buf(&mut request).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_after_a_whole_head_may_take_its_time() {
        let (mut client, server) = tokio::io::duplex(256);
        let notes = HeaderNames::default();
        let mut tap = HeadStream::new(server, notes.clone(), |_| Vec::new());
        let mut request = Vec::new();
        let head = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
        client.write_all(head).await.unwrap();
        tap.read_buf(&mut request).await.unwrap();
        notes.take_head();
        tap.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        client.write_all(b"some").await.unwrap();
        tap.read_buf(&mut request).await.unwrap();
        let more = tokio::time::timeout(Duration::from_secs(600), tap.read_buf(&mut request)).await;
        assert!(more.is_err());
    }

    #[test]
    fn only_the_librarys_own_refusal_of_a_head_is_recognised() {
        let status = |answer: &str| refused_by_library(answer.as_bytes()).map(|code| code.as_u16());
        let short = "\r\ncontent-length: 0\r\ndate: Fri, 01 Mar 2024 12:34:56 GMT\r\n\r\n";
        for code in [400, 414, 431] {
            assert_eq!(
                status(&format!("HTTP/1.1 {code} Reason{short}")),
                Some(code)
            );
        }
        let long = "x".repeat(LIBRARY_ANSWER_BYTES_MAX);
        for other in [
            format!("HTTP/1.1 200 OK{short}"),
            format!("HTTP/1.1 500 Reason{short}"),
            format!("HTTP/1.0 400 Reason{short}"),
            format!("HTTP/1.1 400 Reason{short}body"),
            format!("HTTP/1.1 400 {long}{short}"),
            format!("HTTP/1.1 400 Reason{}", short.replace(": 0", ": 5")),
            "HTTP/1.1 4".to_owned(),
        ] {
            assert_eq!(status(&other), None, "{other}");
        }
    }
}
