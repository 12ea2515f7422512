//! Keeps the case of `x-ms-meta-*` names, which users choose and expect back, and which the HTTP
//! library folds to lower case in both directions.
//!
//! A [`HeaderCaseStream`] sits between the socket and the library: it follows the requests
//! ([`crate::connection::framing`]), and rewrites the names in the head of a response, where they
//! have the same length and only their case differs.
//!
//! Because it knows where a head begins and ends, it also enforces a time limit: a connection with
//! half a head is closed after thirty seconds, while one that is idle between requests stays open
//! as long as the listener says.

use crate::connection::framing::{FramingReader, RawHead};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a head may take from its first byte to its last.
const HEAD_SECONDS_MAX: u64 = 30;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// State that the stream of a connection and its requests share.
#[derive(Debug, Clone, Default)]
pub struct HeaderNames(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    notes: Mutex<Notes>,
    /// Whether there are names for the head of a response: few have any.
    has_response_names: AtomicBool,
    /// The connection ends with its client, and the work for its request with it.
    follows_client: AtomicBool,
}

#[derive(Debug, Default)]
struct Notes {
    requests: FramingReader,
    response: Option<ResponseNames>,
    /// Of all that the client sends.
    first_byte: Option<u8>,
}

/// Names for the head of a response, in the case they should have.
#[derive(Debug)]
struct ResponseNames {
    /// Stands in that head, and in no other bytes.
    request_id: String,
    names: Vec<String>,
}

impl HeaderNames {
    /// The head of the request now being served.
    pub fn take_head(&self) -> RawHead {
        self.0.follows_client.store(false, Ordering::Relaxed);
        self.lock().requests.take_head()
    }

    /// Names for the head of the response now being made, which is the one that holds `request_id`.
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

    /// Until the next request, ends the connection when the client has closed its end, although the
    /// client could still read. Noticed when the task of the connection runs.
    pub fn follow_client(&self) {
        self.0.follows_client.store(true, Ordering::Relaxed);
    }

    pub fn follows_client(&self) -> bool {
        self.0.follows_client.load(Ordering::Relaxed)
    }

    /// Whether the client has begun a head and not ended it.
    pub fn is_within_head(&self) -> bool {
        self.lock().requests.is_within_head()
    }

    /// The first byte that the client sent.
    pub fn first_byte(&self) -> Option<u8> {
        self.lock().first_byte
    }

    /// Reads what came: whether it ends within a head.
    fn observe(&self, bytes: &[u8]) -> bool {
        let mut notes = self.lock();
        notes.first_byte = notes.first_byte.or(bytes.first().copied());
        notes.requests.read(bytes);
        notes.requests.is_within_head()
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        let notes = self.0.notes.lock();
        notes.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that notes request heads and restores the case of names in response heads.
#[derive(Debug)]
pub struct HeaderCaseStream<S> {
    socket: S,
    notes: HeaderNames,
    /// A rewritten head that the socket has not taken yet.
    pending: Vec<u8>,
    /// When the head that is being read must have ended.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> HeaderCaseStream<S> {
    pub fn new(socket: S, notes: HeaderNames) -> HeaderCaseStream<S> {
        HeaderCaseStream {
            socket,
            notes,
            pending: Vec::new(),
            deadline: None,
        }
    }

    /// The error of a head that has taken too long; otherwise arranges that the task is woken at
    /// the deadline.
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

impl<S: AsyncWrite + Unpin> HeaderCaseStream<S> {
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

    /// Moves the head of a response into `pending`, with the case of its names restored if they
    /// need it. Returns its length, or `None` if they do not.
    fn rewrite(&mut self, bytes: &[u8]) -> Option<usize> {
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

fn restore_case(head: &[u8], names: &[String]) -> Vec<u8> {
    let mut head = head.to_vec();
    for name in names {
        let wanted = format!("\r\n{}:", name.to_ascii_lowercase());
        if let Some(at) = find(&head, wanted.as_bytes()) {
            head[at + 2..at + 2 + name.len()].copy_from_slice(name.as_bytes());
        }
    }
    head
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

impl<S: AsyncRead + Unpin> AsyncRead for HeaderCaseStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(task, buffer)?;
        if read.is_ready() {
            self.deadline = if self.notes.observe(&buffer.filled()[before..]) {
                self.deadline.take().or_else(|| {
                    let time = Duration::from_secs(HEAD_SECONDS_MAX);
                    Some(Box::pin(tokio::time::sleep(time)))
                })
            } else {
                None
            };
        }
        self.check_deadline(task)?;
        read.map(Ok)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeaderCaseStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(task))?;
        if let Some(taken) = self.rewrite(bytes) {
            // Bytes that the socket does not accept now are sent before anything else; the library
            // flushes in any case.
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
        let mut tap = HeaderCaseStream::new(server, notes.clone());
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

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_waited_for_thirty_seconds_and_an_idle_connection_longer() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut tap = HeaderCaseStream::new(server, HeaderNames::default());
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
        let mut tap = HeaderCaseStream::new(server, notes.clone());
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
}
