//! A client that speaks HTTP to an HTTPS port gets a response that says so. A client that speaks
//! HTTPS to an HTTP port could not read such a response, so the server logs a line.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum number of bytes of a request that are read before the answer is sent.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The body of the answer. Source: Common REST API error codes, `AccountRequiresHttps`.
const ANSWER: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AccountRequiresHttps</Code><Message>This port serves HTTPS, and the \
                      request came over HTTP. Write https:// in the endpoint, or start Lazurite with --https, which serves both.</Message></Error>";

/// True if the client begins with a request without TLS: a method begins with a letter, and a TLS
/// handshake does not.
pub async fn is_plain(socket: &TcpStream) -> bool {
    let mut first = [0];
    matches!(socket.peek(&mut first).await, Ok(1) if first[0].is_ascii_alphabetic())
}

/// Answers an HTTP request on a port that only serves HTTPS. Returns when the client has closed the
/// connection.
pub async fn refuse_plain(mut socket: TcpStream) {
    let mut head = Vec::new();
    while head.len() < HEAD_BYTES_MAX && memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
        match socket.read_buf(&mut head).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let answer = format!(
        "HTTP/1.1 400 The account being accessed does not support http.\r\nServer: Lazurite/{}\r\nx-ms-error-code: AccountRequiresHttps\r\n\
         Content-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{ANSWER}",
        env!("CARGO_PKG_VERSION"),
        ANSWER.len()
    );
    let sent = socket.write_all(answer.as_bytes()).await.is_ok();
    if sent && socket.shutdown().await.is_ok() {
        // Bytes that are left unread would reset the connection before the client has read the
        // answer.
        let mut dropped = tokio::io::sink();
        let _ = tokio::io::copy(&mut socket, &mut dropped).await;
    }
}

/// Warns of the first client that speaks TLS to an HTTP port. Only once: later cases most likely
/// have the same cause.
pub fn note_tls(service: &str, peer: SocketAddr) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            service,
            %peer,
            "a client speaks HTTPS to this port, which serves HTTP: write http:// in its endpoint, or start Lazurite with --https, which serves both"
        );
    }
}
