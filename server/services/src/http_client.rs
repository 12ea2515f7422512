//! HTTP requests that the program itself sends: one request over one connection, by hyper.
//!
//! Callers open the connection, over TLS if need be, and sign the request (`signed_request.rs`).
//! `blob/fetcher.rs` reuses connections.

mod header_case;

use crate::signed_request::Headers;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use axum::http::{HeaderMap, Request, Response, StatusCode, response};
use bytes::Bytes;
use header_case::{GivenNames, HeaderCase};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Number of bytes of a request body that are read at a time.
const CHUNK_BYTES: u64 = 64 << 10;

/// A connection that a request can be sent over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Why the body of a request cannot be read; an error of [`send`] contains it. The service does not
/// execute such a request, because its body is incomplete. The text is a clause without a full
/// stop.
#[derive(Debug, Clone)]
pub struct UnreadableBody(String);

impl fmt::Display for UnreadableBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for UnreadableBody {}

impl UnreadableBody {
    /// The `UnreadableBody` inside an error, if the source of the request body caused the error.
    pub fn of(error: &io::Error) -> Option<&UnreadableBody> {
        error.get_ref()?.downcast_ref()
    }
}

/// The body of a request. It is read while the request is sent, on the same thread, which has
/// nothing else to do.
pub struct Upload {
    source: Box<dyn Read + Send>,
    /// Number of bytes that are still to be read from `source`.
    remaining: u64,
    /// Number of bytes read so far, shared with the timeout of the request.
    read: Arc<AtomicU64>,
}

impl Upload {
    /// The first `length` bytes of `source`. The request fails if there are fewer.
    pub fn new(source: impl Read + Send + 'static, length: u64) -> Upload {
        Upload {
            source: Box::new(source),
            remaining: length,
            read: Arc::default(),
        }
    }

    pub fn of(bytes: Vec<u8>) -> Upload {
        let length = bytes.len() as u64;
        Upload::new(io::Cursor::new(bytes), length)
    }

    pub fn empty() -> Upload {
        Upload::new(io::empty(), 0)
    }

    /// Number of bytes that are still to be read.
    pub fn bytes(&self) -> u64 {
        self.remaining
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Upload({} bytes)", self.remaining)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let mut chunk = vec![0; self.remaining.min(CHUNK_BYTES) as usize];
        let count = match self.source.read(&mut chunk) {
            Ok(0) => {
                return unreadable(format!(
                    "the content has become shorter while it was sent: its last {} bytes are missing",
                    self.remaining
                ));
            }
            Ok(count) => count,
            Err(error) => return unreadable(format!("the content cannot be read: {error}")),
        };
        chunk.truncate(count);
        self.remaining -= count as u64;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

fn unreadable<T>(sentence: String) -> Poll<Option<io::Result<T>>> {
    Poll::Ready(Some(Err(io::Error::other(UnreadableBody(sentence)))))
}

/// Makes a request after which the connection closes. Header names are sent in the given case.
/// Error: HTTP does not allow the method, the target or a header.
pub fn request(
    host: &str,
    (method, target): (&str, &str),
    headers: &Headers,
    body: Upload,
) -> io::Result<Request<Upload>> {
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, host)
        .header(CONNECTION, "close");
    for (name, value) in headers {
        // Values may have non-ASCII characters, which are sent as UTF-8.
        request = request.header(name, value.as_bytes());
    }
    // hyper adds no Content-Length for an empty body, and services refuse a PUT without one.
    if body.remaining > 0 || !matches!(method, "GET" | "HEAD" | "DELETE") {
        request = request.header(CONTENT_LENGTH, body.remaining);
    }
    let names = headers.iter().map(|(name, _)| name.as_str());
    request
        .extension(GivenNames::of(names))
        .body(body)
        .map_err(io::Error::other)
}

/// Connects to an address. Error: `TimedOut` after `patience`.
pub async fn connect(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let connected = timeout(patience, TcpStream::connect(address)).await;
    connected.map_err(|_| ErrorKind::TimedOut)?
}

/// Sends a request, and returns the response once its head has arrived. Error: `TimedOut` if for
/// `patience` no bytes of the body were sent and no response came; an [`UnreadableBody`].
pub async fn send(
    stream: Box<dyn Stream>,
    mut request: Request<Upload>,
    patience: Duration,
) -> io::Result<Response<Incoming>> {
    let read = request.body().read.clone();
    let names = request.extensions_mut().remove::<GivenNames>();
    let mut sender = handshake_with(stream, names.unwrap_or_default()).await?;
    let mut response = pin!(sender.send_request(request));
    loop {
        let read_before = read.load(Ordering::Relaxed);
        match timeout(patience, &mut response).await {
            Ok(response) => return response.map_err(failed),
            Err(_) if read.load(Ordering::Relaxed) == read_before => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(_) => {}
        }
    }
}

/// Prepares a connection for several requests, one after the other.
pub async fn handshake(stream: Box<dyn Stream>) -> io::Result<SendRequest<Upload>> {
    handshake_with(stream, GivenNames::default()).await
}

async fn handshake_with(
    stream: Box<dyn Stream>,
    names: GivenNames,
) -> io::Result<SendRequest<Upload>> {
    let stream = HeaderCase::new(stream, names);
    let made = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(failed)?;
    // Runs until the sender is dropped and the body of the response was read or dropped; its errors
    // reach the response or the body.
    tokio::spawn(connection);
    Ok(sender)
}

/// The I/O error of the connection or of the request body, if it caused the error of hyper;
/// otherwise the error of hyper.
pub fn failed(error: hyper::Error) -> io::Error {
    let inner = error.source();
    match inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
        Some(inner) => match UnreadableBody::of(inner) {
            Some(unreadable) => io::Error::other(unreadable.clone()),
            None => io::Error::new(inner.kind(), inner.to_string()),
        },
        None => io::Error::other(error),
    }
}

/// Whether the response is not HTTP, or the connection ended before the response was complete.
pub fn is_not_http(error: &io::Error) -> bool {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<hyper::Error>());
    inner.is_some_and(|error| error.is_parse() || error.is_incomplete_message())
}

/// A single-threaded runtime on which a thread that may block sends its requests.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// A response whose body is read by a thread that may block. Waits at most `patience` for each part
/// of the body.
pub struct Reply {
    runtime: Runtime,
    patience: Duration,
    head: response::Parts,
    body: Incoming,
    /// Bytes of the body that were received but not yet read by the caller.
    chunk: Bytes,
}

impl Reply {
    /// `runtime` must be the one that sent the request; `patience` limits the wait for each part.
    pub fn new(runtime: Runtime, response: Response<Incoming>, patience: Duration) -> Reply {
        let (head, body) = response.into_parts();
        Reply {
            runtime,
            patience,
            head,
            body,
            chunk: Bytes::new(),
        }
    }

    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }
}

impl Read for Reply {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let frame = async { timeout(self.patience, self.body.frame()).await };
            match self.runtime.block_on(frame) {
                Err(_) => return Err(ErrorKind::TimedOut.into()),
                Ok(None) => return Ok(0),
                // Trailers are skipped: they are not content.
                Ok(Some(frame)) => {
                    self.chunk = frame.map_err(failed)?.into_data().unwrap_or_default()
                }
            }
        }
        let count = room.len().min(self.chunk.len());
        room[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Sends a request to a server that gives this answer and closes the connection. Returns the
    /// request as received, and the reply.
    fn exchange(
        request: Request<Upload>,
        request_bytes: usize,
        answer: &'static [u8],
    ) -> (String, io::Result<Reply>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut bytes = vec![0; request_bytes];
            socket.read_exact(&mut bytes).unwrap();
            let mut byte = [0];
            let has_head = |bytes: &[u8]| bytes.windows(4).any(|four| four == b"\r\n\r\n");
            while !has_head(&bytes) && socket.read_exact(&mut byte).is_ok() {
                bytes.extend_from_slice(&byte);
            }
            socket.write_all(answer).unwrap();
            String::from_utf8(bytes).unwrap()
        });
        let runtime = runtime().unwrap();
        let response = runtime.block_on(async {
            let stream = connect(address, PATIENCE).await?;
            send(Box::new(stream), request, PATIENCE).await
        });
        let reply = response.map(|response| Reply::new(runtime, response, PATIENCE));
        (server.join().unwrap(), reply)
    }

    fn get() -> Request<Upload> {
        request("h", ("GET", "/a?b=c"), &Vec::new(), Upload::empty()).unwrap()
    }

    #[test]
    fn bodies_end_where_their_heads_say() {
        let body = |answer| {
            let (_, reply) = exchange(get(), 0, answer);
            io::read_to_string(reply.unwrap())
        };
        assert_eq!(
            body(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd").unwrap(),
            "abc"
        );
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(chunked).unwrap(), "abc");
        for cut in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab".as_slice(),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
        ] {
            assert!(body(cut).is_err(), "{}", String::from_utf8_lossy(cut));
        }
    }

    #[test]
    fn answers_that_are_not_http_are_told_from_broken_connections() {
        for answer in [
            b"\x15\x03\x01\x00\x02\x02\x46".as_slice(),
            b"",
            b"SSH-2.0-x\r\n",
        ] {
            let (_, reply) = exchange(get(), 0, answer);
            assert!(is_not_http(&reply.map(drop).unwrap_err()), "{answer:?}");
        }
        assert!(!is_not_http(&ErrorKind::ConnectionRefused.into()));
    }

    #[test]
    fn a_body_of_unknown_speed_is_sent_whole_and_with_its_length() {
        let headers = vec![("x-ms-meta-a".to_owned(), "b".to_owned())];
        let sent = request("h:1", ("PUT", "/a"), &headers, Upload::of(b"abc".to_vec())).unwrap();
        let ok = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nx-ms-request-id: 7\r\n\r\n";
        let length = "PUT /a HTTP/1.1\r\nhost: h:1\r\nconnection: close\r\nx-ms-meta-a: b\r\ncontent-length: 3\r\n\r\nabc".len();
        let (came, reply) = exchange(sent, length, ok);
        assert!(
            came.contains("content-length: 3\r\n") && came.ends_with("\r\n\r\nabc"),
            "{came}"
        );
        let reply = reply.unwrap();
        assert_eq!(reply.status(), StatusCode::CREATED);
        assert_eq!(reply.headers()["x-ms-request-id"], "7");
        let empty = request("h", ("PUT", "/a"), &Vec::new(), Upload::empty()).unwrap();
        let (came, _) = exchange(empty, 0, ok);
        assert!(came.contains("content-length: 0\r\n"), "{came}");
    }

    #[test]
    fn a_source_that_ends_early_fails_the_request() {
        let body = Upload::new(io::Cursor::new(b"ab".to_vec()), 3);
        let sent = request("h", ("PUT", "/a"), &Vec::new(), body).unwrap();
        let (_, reply) = exchange(sent, 0, b"");
        let error = reply.map(drop).unwrap_err();
        let sentence = UnreadableBody::of(&error).unwrap().to_string();
        assert!(
            sentence.ends_with("its last 1 bytes are missing"),
            "{sentence}"
        );
    }

    #[test]
    fn targets_and_headers_that_http_does_not_allow_are_refused() {
        for (target, name, value) in [
            ("/a b", "a", "b"),
            ("/a", "a b", "c"),
            ("/a", "a", "b\r\nc: d"),
        ] {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let made = request("h", ("GET", target), &headers, Upload::empty());
            assert!(made.is_err(), "{target} {name} {value:?}");
        }
    }
}
