//! A socket that can be closed with a TCP reset, to simulate a broken network, and that notices
//! when its client has left.

use crate::connection::head_stream::HeaderNames;
use socket2::SockRef;
use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// An extension of a response: its connection is reset and the response is not sent.
#[derive(Debug, Clone, Copy)]
pub struct Aborted;

/// A stream on a TCP socket. As a trait object it gives all connections one type: each further type
/// would repeat the HTTP library's code in the program.
pub trait OnTcp: AsyncRead + AsyncWrite + fmt::Debug + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl OnTcp for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl OnTcp for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A socket that resets its connection when it is dropped, if the flag is set: unsent bytes are
/// lost, and the client gets a reset. Fails once the client has closed its end, if the connection
/// [follows the client](HeaderNames::follow_client).
#[derive(Debug)]
pub struct ResetOnDrop {
    socket: Box<dyn OnTcp>,
    resets: Arc<AtomicBool>,
    notes: HeaderNames,
}

impl ResetOnDrop {
    pub fn new(socket: Box<dyn OnTcp>, resets: Arc<AtomicBool>, notes: HeaderNames) -> ResetOnDrop {
        ResetOnDrop {
            socket,
            resets,
            notes,
        }
    }

    /// Fails if the client has closed its end and the connection follows the client. Otherwise
    /// wakes the task when the client sends something or closes its end.
    fn check_client(&self, task: &mut Context<'_>) -> io::Result<()> {
        if !self.notes.follows_client() {
            return Ok(());
        }
        let _ = self.socket.tcp().poll_read_ready(task)?;
        if is_closed_by_client(self.socket.tcp()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

/// Whether the client has closed at least its sending direction. Reads nothing.
fn is_closed_by_client(socket: &TcpStream) -> bool {
    let ready = pin!(socket.ready(Interest::READABLE));
    let mut task = Context::from_waker(Waker::noop());
    matches!(ready.poll(&mut task), Poll::Ready(Ok(ready)) if ready.is_read_closed())
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if self.resets.load(Ordering::Relaxed) {
            let socket = SockRef::from(self.socket.tcp());
            if let Err(error) = socket.set_linger(Some(Duration::ZERO)) {
                tracing::debug!(%error, "a connection cannot be reset");
            }
        }
    }
}

impl AsyncRead for ResetOnDrop {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(task, buffer)
    }
}

impl AsyncWrite for ResetOnDrop {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(task, bytes)
    }

    /// Also checks the client: the HTTP library flushes whenever the connection's task runs.
    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_client(task)?;
        Pin::new(&mut self.socket).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
