//! Closes connections whose client does not receive what is sent.
//!
//! An answer that waits for its client holds memory and, if it comes from the store, a snapshot
//! with its files. A client that is slow on purpose, or that vanished, could keep them for ever.

use crate::memory;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Interval at which the progress of a response is checked.
const TICK: Duration = Duration::from_secs(5);
/// Ticks within which a client must receive [`crate::memory::PACE_BYTES`], or all that is left.
/// While memory is short, one tick without a byte is too long.
const TICKS_MAX: u32 = 6;

/// A socket whose writes fail with `TimedOut` if the client receives too little within
/// [`TICKS_MAX`] ticks.
#[derive(Debug)]
pub struct SendDeadline<S> {
    socket: S,
    /// Present while the socket accepts no bytes.
    blocked: Option<Blocked>,
}

#[derive(Debug)]
struct Blocked {
    tick: Pin<Box<Sleep>>,
    ticks: u32,
    /// Number of bytes that the socket accepted since `ticks` was 0.
    taken: u64,
}

impl<S> SendDeadline<S> {
    pub fn new(socket: S) -> SendDeadline<S> {
        SendDeadline {
            socket,
            blocked: None,
        }
    }

    fn wrote(&mut self, bytes: usize) {
        if let Some(blocked) = &mut self.blocked {
            blocked.taken += bytes as u64;
            if blocked.taken >= crate::memory::PACE_BYTES {
                self.blocked = None;
            }
        }
    }

    /// Fails if the client has taken too long; otherwise registers `task` to wake for the next
    /// check.
    fn poll_blocked(&mut self, task: &mut Context<'_>) -> io::Result<()> {
        let blocked = self.blocked.get_or_insert_with(|| Blocked {
            tick: Box::pin(sleep(TICK)),
            ticks: 0,
            taken: 0,
        });
        while blocked.tick.as_mut().poll(task).is_ready() {
            blocked.ticks += 1;
            let in_need = blocked.taken == 0 && memory::is_short();
            if in_need || blocked.ticks == TICKS_MAX {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client did not take its answer",
                ));
            }
            blocked.tick.as_mut().reset(Instant::now() + TICK);
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SendDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(task, buffer)
    }
}

impl<S: AsyncWrite + Unpin> SendDeadline<S> {
    fn watch<T>(
        &mut self,
        task: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match &written {
            Poll::Ready(Ok(done)) => self.wrote(bytes(done)),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.poll_blocked(task)?,
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SendDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(task, bytes);
        self.watch(task, written, |&bytes| bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(task, slices);
        self.watch(task, written, |&bytes| bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(task);
        ready!(self.watch(task, flushed, |()| 0))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.socket).poll_shutdown(task);
        self.watch(task, ended, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_after_half_a_minute() {
        let (_client, server) = tokio::io::duplex(64);
        let mut server = SendDeadline::new(server);
        let began = Instant::now();
        let error = server.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up_too() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = SendDeadline::new(server);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                client.read_u8().await.unwrap();
            }
        });
        let began = Instant::now();
        server.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_of_some_kilobytes_a_second_may_take_as_long_as_it_needs() {
        let (mut client, server) = tokio::io::duplex(8192);
        let mut server = SendDeadline::new(server);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while client.read_exact(&mut buffer).await.is_ok() {
                sleep(Duration::from_secs(2)).await;
            }
        });
        server.write_all(&[0; 1 << 20]).await.unwrap();
    }
}
