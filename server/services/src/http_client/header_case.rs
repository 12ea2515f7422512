//! The case of header names in a request.
//!
//! hyper writes all names in lower case. Services keep the case of metadata names, so this stream
//! restores the names of the head as the caller gave them. Only case changes, so no byte moves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const LINE_END: &[u8] = b"\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The header names with upper-case letters, as an extension of a request.
#[derive(Debug, Clone, Default)]
pub struct GivenNames(Vec<String>);

impl GivenNames {
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> GivenNames {
        let has_upper_case = |name: &&str| name.bytes().any(|byte| byte.is_ascii_uppercase());
        GivenNames(names.filter(has_upper_case).map(str::to_owned).collect())
    }

    /// Restores the case of these names in the lines of a head.
    fn put_into(&self, head: &mut [u8]) {
        let starts: Vec<_> = memchr::memmem::find_iter(head, LINE_END).collect();
        for start in starts {
            let line = &mut head[start + LINE_END.len()..];
            let is_named = |name: &&String| {
                line.get(name.len()) == Some(&b':')
                    && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            };
            if let Some(name) = self.0.iter().find(is_named) {
                line[..name.len()].copy_from_slice(name.as_bytes());
            }
        }
    }
}

/// A stream to which one request is written at a time.
pub struct HeaderCase<S> {
    stream: S,
    names: GivenNames,
    /// The part of the head that was written, as hyper passed it; `None` after the head.
    head: Option<Vec<u8>>,
}

impl<S> HeaderCase<S> {
    pub fn new(stream: S, names: GivenNames) -> HeaderCase<S> {
        let head = (!names.0.is_empty()).then(Vec::new);
        HeaderCase {
            stream,
            names,
            head,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeaderCase<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(written) = &mut this.head else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };
        let mut head = [written, bytes].concat();
        let end = memchr::memmem::find(&head, HEAD_END).map(|at| at + HEAD_END.len());
        head.truncate(end.unwrap_or(head.len()));
        this.names.put_into(&mut head);
        let rest = &head[written.len()..];
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, rest))?;
        written.extend_from_slice(&bytes[..count]);
        if Some(written.len()) == end {
            this.head = None;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.head.is_none() {
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(context, first.map_or(&[], |slice| slice))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeaderCase<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn names_of_the_head_have_their_case_however_it_is_cut() {
        let sent = b"PUT /x-ms-meta-place: HTTP/1.1\r\nx-ms-meta-place: x-ms-meta-place\r\nx-ms-meta-place2: b\r\n\r\n\r\nx-ms-meta-place: c";
        let expected = b"PUT /x-ms-meta-place: HTTP/1.1\r\nx-ms-meta-Place: x-ms-meta-place\r\nx-ms-meta-place2: b\r\n\r\n\r\nx-ms-meta-place: c";
        // A pipe of this size accepts no more bytes at a time.
        for room in [1, 7, 40, 4096] {
            let (near, mut far) = tokio::io::duplex(room);
            let names = GivenNames::of(["x-ms-meta-Place", "host"].into_iter());
            let mut stream = HeaderCase::new(near, names);
            let writing = tokio::spawn(async move {
                stream.write_all(sent).await.unwrap();
                stream.shutdown().await.unwrap();
            });
            let mut came = Vec::new();
            far.read_to_end(&mut came).await.unwrap();
            writing.await.unwrap();
            assert_eq!(came, expected, "{room}");
        }
    }
}
