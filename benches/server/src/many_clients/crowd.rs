//! The crowd: connections that are idle, slow or costly, all driven by one thread.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::many_clients::requests::Requests;

/// Between two actions of a connection.
const ACTION_INTERVAL: Duration = Duration::from_secs(1);
/// How many connections are opened before the server is given a moment.
const OPENED_AT_ONCE: usize = 100;

/// How a client behaves on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientBehaviour {
    /// Connects and sends nothing.
    Idle,
    /// Sends a head, one byte an interval.
    SlowHead,
    /// Sends the body of a Put Blob, one byte an interval.
    SlowBody,
    /// Asks for 64 MiB and never reads.
    SlowReader,
    /// Sends 60 KB of parameters without permission, each interval.
    LongTarget,
    /// Sends a signature that covers one header thousands of times, each interval.
    RepeatedHeader,
    /// Sends a batch of requests with long targets and false signatures, each interval.
    CostlyBatch,
}

use ClientBehaviour::{
    CostlyBatch, Idle, LongTarget, RepeatedHeader, SlowBody, SlowHead, SlowReader,
};

/// The server has to close these. They are not opened again.
pub(super) const SLOW: [ClientBehaviour; 3] = [SlowReader, SlowBody, SlowHead];
/// These are opened again when the server has closed them.
pub(super) const COSTLY: [ClientBehaviour; 3] = [LongTarget, RepeatedHeader, CostlyBatch];

impl ClientBehaviour {
    fn is_slow(self) -> bool {
        SLOW.contains(&self)
    }
}

pub(super) struct Crowd<'a> {
    address: SocketAddr,
    requests: &'a Requests,
    is_over: AtomicBool,
    /// How often all connections have acted.
    rounds: AtomicU64,
    opened: AtomicU64,
    failed: AtomicU64,
    others_open: AtomicU64,
}

impl Crowd<'_> {
    pub(super) fn new(address: SocketAddr, requests: &Requests) -> Crowd<'_> {
        Crowd {
            address,
            requests,
            is_over: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            others_open: AtomicU64::new(0),
        }
    }

    /// Opens the connections and lets each behave as it does, until [`Crowd::end`].
    pub(super) fn run(&self, idle: usize, others: &[(ClientBehaviour, usize)]) {
        let others = others.iter().flat_map(|&(kind, count)| vec![kind; count]);
        let idle = (0..idle).map(|_| Idle);
        let mut members: Vec<Member> = idle.chain(others).map(Member::new).collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            self.act(&mut members);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            thread::sleep(ACTION_INTERVAL.saturating_sub(began.elapsed()));
        }
    }

    fn act(&self, members: &mut [Member]) {
        let mut opened = 0;
        for member in members.iter_mut() {
            if member.is_closed() && member.may_open() {
                self.open(member, &mut opened);
            }
            member.act(self.requests);
        }
        let open = members.iter().filter(|member| member.stream.is_some());
        let others = open.filter(|member| !member.behaviour.is_slow());
        let others = others.count() as u64;
        self.others_open.store(others, Ordering::Relaxed);
    }

    fn open(&self, member: &mut Member, opened: &mut usize) {
        if member.open(self.address).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        *opened += 1;
        self.opened.fetch_add(1, Ordering::Relaxed);
        if opened.is_multiple_of(OPENED_AT_ONCE) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until every connection has been opened once.
    pub(super) fn wait_until_connected(&self) {
        while self.rounds.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends [`Crowd::run`].
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Connections that are open and not slow.
    pub(super) fn others_open(&self) -> usize {
        self.others_open.load(Ordering::Relaxed) as usize
    }

    pub(super) fn summary(&self) -> String {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        format!(
            "{:14} {} connections opened, {} failed to open; {} that are not slow are open at the end",
            "",
            load(&self.opened),
            load(&self.failed),
            load(&self.others_open)
        )
    }
}

/// One connection of the crowd, if it is open.
struct Member {
    behaviour: ClientBehaviour,
    stream: Option<TcpStream>,
    was_opened: bool,
    /// Bytes of the request sent so far.
    sent: usize,
}

impl Member {
    fn new(behaviour: ClientBehaviour) -> Member {
        Member {
            behaviour,
            stream: None,
            was_opened: false,
            sent: 0,
        }
    }

    fn may_open(&self) -> bool {
        !self.was_opened || !self.behaviour.is_slow()
    }

    fn open(&mut self, address: SocketAddr) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&address, ACTION_INTERVAL)?;
        stream.set_nonblocking(true)?;
        (self.stream, self.sent, self.was_opened) = (Some(stream), 0, true);
        Ok(())
    }

    /// Whether there is no connection, or the server has closed it. Answers are discarded, except those of slow readers, which stay
    /// unread.
    fn is_closed(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return true;
        };
        let mut bytes = [0; 16 << 10];
        let found = if self.behaviour == SlowReader {
            // The unread answer may hide the end of the stream. What counts is how many sockets the server has.
            stream.peek(&mut bytes[..1])
        } else {
            stream.read(&mut bytes)
        };
        let is_closed = match found {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if is_closed {
            self.stream = None;
        }
        is_closed
    }

    fn act(&mut self, requests: &Requests) {
        match self.behaviour {
            Idle => {}
            SlowHead => self.send(&requests.get, 1),
            SlowBody if self.sent < requests.put.len() => self.send(&requests.put, usize::MAX),
            SlowBody => self.send_byte(),
            SlowReader => self.send(&requests.get, usize::MAX),
            LongTarget => self.send_again(&requests.long_target),
            RepeatedHeader => self.send_again(&requests.repeated_header),
            CostlyBatch => self.send_again(&requests.batch),
        }
    }

    /// Sends the next bytes of `request`, `bytes_max` at most; nothing after its end.
    fn send(&mut self, request: &[u8], bytes_max: usize) {
        let rest = &request[self.sent.min(request.len())..];
        self.sent += self.write(&rest[..rest.len().min(bytes_max)]);
    }

    /// The same, and restarts after the end.
    fn send_again(&mut self, request: &[u8]) {
        if self.sent >= request.len() {
            self.sent = 0;
        }
        self.send(request, usize::MAX);
    }

    fn send_byte(&mut self) {
        self.sent += self.write(b"x");
    }

    /// Bytes written; 0 if the connection takes none now, or is closed, which the next round notices.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let stream = self.stream.as_mut().filter(|_| !bytes.is_empty());
        stream.map_or(0, |stream| stream.write(bytes).unwrap_or(0))
    }
}
