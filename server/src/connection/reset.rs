//! A socket that can be closed with a TCP reset instead of an orderly end, to simulate a broken network.

use socket2::SockRef;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Marks a response, as an extension, whose connection is to be reset instead.
#[derive(Debug, Clone, Copy)]
pub struct Aborted;

/// A stream on a TCP socket.
pub trait OnTcp {
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

/// Resets its connection when it is dropped after the flag was set: unsent bytes are lost, and the client gets a reset.
#[derive(Debug)]
pub struct ResetOnDrop<S: OnTcp> {
    socket: S,
    resets: Arc<AtomicBool>,
}

impl<S: OnTcp> ResetOnDrop<S> {
    pub fn new(socket: S, resets: Arc<AtomicBool>) -> ResetOnDrop<S> {
        ResetOnDrop { socket, resets }
    }
}

impl<S: OnTcp> Drop for ResetOnDrop<S> {
    fn drop(&mut self) {
        if self.resets.load(Ordering::Relaxed) {
            let socket = SockRef::from(self.socket.tcp());
            if let Err(error) = socket.set_linger(Some(Duration::ZERO)) {
                tracing::debug!(%error, "a connection cannot be reset");
            }
        }
    }
}

impl<S: OnTcp + AsyncRead + Unpin> AsyncRead for ResetOnDrop<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(task, buffer)
    }
}

impl<S: OnTcp + AsyncWrite + Unpin> AsyncWrite for ResetOnDrop<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
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
