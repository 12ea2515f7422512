//! One kept-alive connection with at most one request at a time.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};

use lazurite_bench_common::Outcome;

use crate::client::{Answer, Outgoing, Reader};
use crate::load::expected::Expected;

const BUFFER_BYTES: usize = 256 << 10;

/// Whether the response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Answered,
}

/// A connection and its current request.
pub(super) struct Connection {
    stream: mio::net::TcpStream,
    /// The request under way, or else the last one.
    pub(super) out: Outgoing,
    sent: usize,
    buffer: Vec<u8>,
    /// The range of the buffer that was received but not passed to the reader.
    unread: std::ops::Range<usize>,
    reader: Reader,
    is_busy: bool,
    began: Instant,
    pub(super) expected: Expected,
}

impl Connection {
    /// Connects, and waits until the connection is established.
    pub(super) fn open(
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = mio::net::TcpStream::from_std(stream);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Connection {
            stream,
            out: Outgoing::default(),
            sent: 0,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            reader: Reader::default(),
            is_busy: false,
            began: Instant::now(),
            expected: Expected::default(),
        })
    }

    /// Starts to send `out`. The response is kept if the load inspects it.
    pub(super) fn begin(&mut self, expected: Expected) -> Outcome<()> {
        self.expected = expected;
        self.reader.begin(expected.is_seen);
        self.unread = 0..0;
        self.sent = 0;
        self.is_busy = true;
        self.began = Instant::now();
        self.send()?;
        Ok(())
    }

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The time since the request was started.
    pub(super) fn latency(&self) -> Duration {
        self.began.elapsed()
    }

    /// The last response.
    pub(super) fn answer(&self) -> &Answer {
        &self.reader.answer
    }

    /// The request line.
    pub(super) fn request_line(&self) -> String {
        let line = self.out.text.split(|byte| *byte == b'\r').next();
        String::from_utf8_lossy(line.unwrap_or_default()).into_owned()
    }

    /// Sends and receives as much as is possible without waiting. Error: the connection broke, or a
    /// response came before its whole request was sent.
    pub(super) fn advance(&mut self) -> Outcome<Progress> {
        let is_sent = self.send()?;
        while self.receive()? {
            let taken = self.reader.take(&self.buffer[self.unread.clone()])?;
            self.unread.start += taken;
            if self.reader.is_over() {
                self.is_busy = false;
                return if is_sent {
                    Ok(Progress::Answered)
                } else {
                    Err(self.too_early().into())
                };
            }
        }
        Ok(Progress::Waits)
    }

    /// Sends what the socket accepts. Returns whether everything was sent.
    fn send(&mut self) -> io::Result<bool> {
        loop {
            let (text, content) = self.out.after(self.sent);
            if text.is_empty() && content.is_empty() {
                return Ok(true);
            }
            let written = if content.is_empty() {
                self.stream.write(text)
            } else {
                self.stream
                    .write_vectored(&[IoSlice::new(text), IoSlice::new(content)])
            };
            match written {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives what has arrived. Returns whether anything has.
    fn receive(&mut self) -> Outcome<bool> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.unread.end == self.buffer.len() {
            self.make_room();
        }
        loop {
            match self.stream.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => return Err(format!("{}: the server hung up", self.request_line()).into()),
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves the unread bytes to the front. Doubles the buffer if they are there already, as a long
    /// head may be.
    fn make_room(&mut self) {
        if self.unread.start == 0 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
    }

    fn too_early(&self) -> String {
        let answer = self.answer();
        let line = self.request_line();
        let body = String::from_utf8_lossy(&answer.body);
        format!(
            "{line}: answered with {} before all was sent: {body}",
            answer.status
        )
    }
}
