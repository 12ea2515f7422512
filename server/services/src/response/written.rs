//! A body that a thread writes while it is sent. It needs the memory of a few pieces, whatever its
//! length.

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of a piece, and number of pieces that wait for the client.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_WAITING: usize = 4;

/// The body that `write` writes, on a thread that may block. Writing waits while the client is
/// slow, and fails once it has left. If `write` fails, the connection breaks off, so that the
/// client does not take the body for whole.
pub fn written_by(
    write: impl FnOnce(&mut BufWriter<PieceWriter>) -> io::Result<()> + Send + 'static,
) -> Body {
    let (sender, pieces) = channel(PIECES_WAITING);
    tokio::task::spawn_blocking(move || {
        let mut target = BufWriter::with_capacity(PIECE_BYTES, PieceWriter(sender.clone()));
        if let Err(error) = write(&mut target).and_then(|()| target.flush()) {
            // If the client has left, there is no one to tell.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::new(Written(pieces))
}

struct Written(Receiver<io::Result<Bytes>>);

impl HttpBody for Written {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.0.poll_recv(task);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Sends each write as a piece. Blocks while too many wait.
pub struct PieceWriter(Sender<io::Result<Bytes>>);

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let sent = self.0.blocking_send(Ok(piece));
        sent.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
