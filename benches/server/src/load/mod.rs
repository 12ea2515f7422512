//! A load: many connections that each send one request after the other, driven by one thread with
//! as little computation as possible, so that the figures are those of the server. Answers are read
//! whole and their status is checked; a load may inspect them.

mod connection;
mod expected;
mod observations;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use lazurite_bench_common::Outcome;

use crate::client::{Answer, Outgoing};

use connection::{Connection, Progress};
pub(crate) use expected::Expected;
pub(crate) use observations::Observations;

/// Maximum time without progress on any connection.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Generates the requests of all connections and checks the responses.
pub(crate) trait Load {
    /// Writes the next request of `connection` to `out`; `None` ends the connection's requests.
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected>;

    /// Whether `connection` may stop now without leaving anything half done.
    fn may_end(&self, _connection: usize) -> bool {
        true
    }

    /// Inspects the answer to the request that `connection` sent last. Errors describe what is
    /// wrong with it.
    fn answered(&mut self, _connection: usize, _answer: &Answer) -> Result<(), String> {
        Ok(())
    }
}

/// A load with one kind of request: see [`repeated`].
pub(crate) struct Repeated<N, C> {
    next: N,
    check: C,
}

/// Sends the requests that `next` writes, on all connections, and checks every response.
pub(crate) fn repeated<N, C>(next: N, check: C) -> Repeated<N, C>
where
    N: FnMut(&mut Outgoing) -> Option<Expected>,
    C: FnMut(&Answer) -> Result<(), String>,
{
    Repeated { next, check }
}

impl<N, C> Load for Repeated<N, C>
where
    N: FnMut(&mut Outgoing) -> Option<Expected>,
    C: FnMut(&Answer) -> Result<(), String>,
{
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        (self.next)(out)
    }

    fn answered(&mut self, _connection: usize, answer: &Answer) -> Result<(), String> {
        (self.check)(answer)
    }
}

/// A check that accepts every response with the expected status.
pub(crate) fn any(_answer: &Answer) -> Result<(), String> {
    Ok(())
}

/// The end of a load: after this time or this number of requests, whichever is first. The load then
/// waits for requests under way, and completes sequences of requests ([`Load::may_end`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) requests: u64,
}

impl Limit {
    pub(crate) fn time(time: Duration) -> Limit {
        Limit {
            time,
            requests: u64::MAX,
        }
    }

    pub(crate) fn requests(requests: u64) -> Limit {
        Limit {
            time: Duration::MAX,
            requests,
        }
    }

    /// No limit: the load runs until it has no more requests.
    pub(crate) const NONE: Limit = Limit {
        time: Duration::MAX,
        requests: u64::MAX,
    };
}

/// The connections of loads, which stay open from one load to the next.
pub(crate) struct Driver {
    poll: Poll,
    connections: Vec<Connection>,
}

impl Driver {
    /// Opens `connections` connections to `address`, given as `host:port`.
    pub(crate) fn connect(address: &str, connections: usize) -> Outcome<Driver> {
        let address = address.to_socket_addrs()?.next();
        let address: SocketAddr = address.ok_or("the server has no address")?;
        let poll = Poll::new()?;
        let open = |index| Connection::open(address, poll.registry(), Token(index));
        let connections = (0..connections).map(open).collect::<io::Result<_>>()?;
        Ok(Driver { poll, connections })
    }

    /// Runs `load` until `limit`, or until it has nothing more to send. Error: a connection broke,
    /// or the server went silent.
    pub(crate) fn run(&mut self, load: &mut dyn Load, limit: Limit) -> Outcome<Observations> {
        let mut run = Run {
            load,
            limit,
            started: Instant::now(),
            sent: 0,
            under_way: 0,
            observed: Observations::new(),
        };
        for index in 0..self.connections.len() {
            run.send(index, &mut self.connections[index])?;
        }
        let mut events = Events::with_capacity(256);
        while run.under_way > 0 {
            match self.poll.poll(&mut events, Some(SILENCE_MAX)) {
                // A signal interrupted the wait, for example because the process was stopped.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            if events.is_empty() {
                return Err("the server does not answer".into());
            }
            for event in &events {
                let index = event.token().0;
                run.advance(index, &mut self.connections[index])?;
            }
        }
        run.observed.elapsed = run.started.elapsed();
        Ok(run.observed)
    }
}

/// The state of a running load.
struct Run<'a> {
    load: &'a mut dyn Load,
    limit: Limit,
    started: Instant,
    sent: u64,
    under_way: usize,
    observed: Observations,
}

impl Run<'_> {
    /// Sends the next request of an idle connection, unless the load is over.
    fn send(&mut self, index: usize, connection: &mut Connection) -> Outcome<()> {
        let elapsed = self.started.elapsed();
        let is_over = self.sent >= self.limit.requests || elapsed >= self.limit.time;
        if is_over && self.load.may_end(index) {
            return Ok(());
        }
        let Some(expected) = self.load.next(index, &mut connection.out) else {
            return Ok(());
        };
        self.sent += 1;
        self.under_way += 1;
        connection.begin(expected)
    }

    /// Sends and receives without waiting. Once an answer is complete, records it and sends the
    /// next request.
    fn advance(&mut self, index: usize, connection: &mut Connection) -> Outcome<()> {
        if !connection.is_busy() || connection.advance()? == Progress::Waits {
            return Ok(());
        }
        self.under_way -= 1;
        self.record(index, connection);
        self.send(index, connection)
    }

    fn record(&mut self, index: usize, connection: &mut Connection) {
        let expected = connection.expected;
        self.observed.record(expected.kind, connection.latency());
        let answer = connection.answer();
        if answer.status != expected.status {
            let found = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]);
            self.observed.mismatch(format!(
                "{} was answered with {}, not {}: {found}",
                connection.request_line(),
                answer.status,
                expected.status
            ));
        }
        if let Err(what) = self.load.answered(index, connection.answer()) {
            self.observed.mismatch(what);
        }
    }
}
