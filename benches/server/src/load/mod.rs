//! A load: many connections that each send one request after the other, driven by one thread that computes as little as it can, so
//! that what is measured is the server. Answers are read whole, their status is checked, and what a load wants to see of them it sees.

mod answer;
mod connection;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};

use crate::client::Outgoing;
use crate::report::Outcome;

pub(crate) use answer::Answer;
use connection::{Connection, Progress};

/// A server that says nothing for so long is not waited for.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Wrong answers that are kept in words.
const WRONG_MAX: usize = 5;

/// What the connections send.
pub(crate) trait Load {
    /// Makes `out` the next request of `connection`; `None` if there is nothing more to send on it.
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected>;

    /// Whether `connection` may stop now, and leaves nothing half done.
    fn may_end(&self, _connection: usize) -> bool {
        true
    }

    /// Looks at the answer to the request that `connection` sent last. Errors say in words what is wrong with it.
    fn answered(&mut self, _connection: usize, _answer: &Answer) -> Result<(), String> {
        Ok(())
    }
}

/// What is known of an answer before it is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Answers of one kind have their latencies together; counted from zero.
    pub(crate) kind: usize,
    pub(crate) status: u16,
    /// Whether it only restores what a measured request took away. Such requests and the measured ones are never under way together,
    /// so that the time of the ones is not spent on the others.
    pub(crate) is_upkeep: bool,
    /// Whether the load looks at head and body; otherwise only their lengths are known.
    pub(crate) is_seen: bool,
}

impl Expected {
    /// An answer of kind 0 whose body nobody looks at.
    pub(crate) fn status(status: u16) -> Expected {
        Expected {
            status,
            ..Expected::default()
        }
    }

    /// The same as another kind.
    pub(crate) fn kind(self, kind: usize) -> Expected {
        Expected { kind, ..self }
    }

    /// The same, and not measured.
    pub(crate) fn upkeep(self) -> Expected {
        Expected {
            is_upkeep: true,
            ..self
        }
    }

    /// The same, and the load looks at head and body.
    pub(crate) fn seen(self) -> Expected {
        Expected {
            is_seen: true,
            ..self
        }
    }
}

/// When a load ends, whichever is first. Requests that are under way are waited for, and what is half done is finished.
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

    /// The same, and at most so many requests.
    pub(crate) fn or_requests(self, requests: u64) -> Limit {
        Limit { requests, ..self }
    }

    /// As long as the load has requests.
    pub(crate) const NONE: Limit = Limit {
        time: Duration::MAX,
        requests: u64::MAX,
    };
}

/// What a load met.
pub(crate) struct Met {
    pub(crate) elapsed: Duration,
    /// The part of it in which there was no upkeep.
    pub(crate) measured: Duration,
    /// By kind, in nanoseconds.
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// By kind, the first answer.
    pub(crate) samples: Vec<Option<Sample>>,
    /// Wrong answers.
    pub(crate) mismatches: usize,
    /// The first few of them in words.
    pub(crate) wrong: Vec<String>,
}

/// An answer, and what it answered.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) method: String,
    pub(crate) answer: Answer,
}

impl Met {
    fn new() -> Met {
        Met {
            elapsed: Duration::ZERO,
            measured: Duration::ZERO,
            latencies: Vec::new(),
            samples: Vec::new(),
            mismatches: 0,
            wrong: Vec::new(),
        }
    }

    /// Answers of that kind.
    pub(crate) fn count(&self, kind: usize) -> u64 {
        self.latencies.get(kind).map_or(0, Histogram::len)
    }

    fn record(&mut self, kind: usize, latency: Duration) {
        while self.latencies.len() <= kind {
            let latencies = Histogram::new(3);
            self.latencies
                .push(latencies.expect("three digits are a valid precision"));
        }
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies[kind]
            .record(nanos)
            .expect("the histogram grows as it must");
    }

    fn sample(&mut self, kind: usize) -> &mut Option<Sample> {
        while self.samples.len() <= kind {
            self.samples.push(None);
        }
        &mut self.samples[kind]
    }

    fn mismatch(&mut self, what: String) {
        self.mismatches += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }
}

/// The connections, kept open from one load to the next.
pub(crate) struct Driver {
    poll: Poll,
    connections: Vec<Connection>,
}

impl Driver {
    /// Opens so many connections to `address`, which is `host:port`.
    pub(crate) fn connect(address: &str, connections: usize) -> Outcome<Driver> {
        let address = address.to_socket_addrs()?.next();
        let address: SocketAddr = address.ok_or("the server has no address")?;
        let poll = Poll::new()?;
        let open = |index| Connection::open(address, poll.registry(), Token(index));
        let connections = (0..connections).map(open).collect::<io::Result<_>>()?;
        Ok(Driver { poll, connections })
    }

    /// Runs `load` until `limit`, or until it has nothing more to send. Errors if a connection breaks, or if the server goes silent.
    pub(crate) fn run(&mut self, load: &mut dyn Load, limit: Limit) -> Outcome<Met> {
        let mut run = Run {
            load,
            limit,
            started: Instant::now(),
            sent: 0,
            under_way: 0,
            in_upkeep: false,
            phase_began: Instant::now(),
            held: Vec::new(),
            met: Met::new(),
        };
        for index in 0..self.connections.len() {
            run.send(index, &mut self.connections[index])?;
        }
        run.change_phase(&mut self.connections)?;
        let mut events = Events::with_capacity(256);
        while run.under_way > 0 {
            match self.poll.poll(&mut events, Some(SILENCE_MAX)) {
                // Someone stopped the whole run for a while, and let it go on.
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
            run.change_phase(&mut self.connections)?;
        }
        run.met.elapsed = run.started.elapsed();
        Ok(run.met)
    }
}

/// A load while it runs.
struct Run<'a> {
    load: &'a mut dyn Load,
    limit: Limit,
    started: Instant,
    sent: u64,
    under_way: usize,
    /// Whether what is under way is upkeep, and since when it is, or is not.
    in_upkeep: bool,
    phase_began: Instant,
    /// The connections whose next request belongs to the other phase.
    held: Vec<(usize, Expected)>,
    met: Met,
}

impl Run<'_> {
    /// Sends the next request of a connection that has none under way, unless the load is over.
    fn send(&mut self, index: usize, connection: &mut Connection) -> Outcome<()> {
        let elapsed = self.started.elapsed();
        let is_over = self.sent >= self.limit.requests || elapsed >= self.limit.time;
        if is_over && self.load.may_end(index) {
            return Ok(());
        }
        let Some(expected) = self.load.next(index, &mut connection.out) else {
            return Ok(());
        };
        if expected.is_upkeep != self.in_upkeep {
            self.held.push((index, expected));
            return Ok(());
        }
        self.begin(connection, expected)
    }

    fn begin(&mut self, connection: &mut Connection, expected: Expected) -> Outcome<()> {
        let is_first = self.met.sample(expected.kind).is_none();
        self.sent += 1;
        self.under_way += 1;
        connection.begin(expected, is_first)
    }

    /// Once nothing is under way, sends what was held until then.
    fn change_phase(&mut self, connections: &mut [Connection]) -> Outcome<()> {
        if self.under_way > 0 {
            return Ok(());
        }
        if !self.in_upkeep {
            self.met.measured += self.phase_began.elapsed();
        }
        self.phase_began = Instant::now();
        self.in_upkeep = !self.in_upkeep;
        for (index, expected) in std::mem::take(&mut self.held) {
            self.begin(&mut connections[index], expected)?;
        }
        Ok(())
    }

    /// Moves the bytes that can be moved; an answer that is whole is recorded, and the next request sent.
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
        self.met.record(expected.kind, connection.latency());
        let answer = connection.answer();
        if answer.status != expected.status {
            let found = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]);
            self.met.mismatch(format!(
                "{} was answered with {}, not {}: {found}",
                connection.request_line(),
                answer.status,
                expected.status
            ));
        }
        let sample = self.met.sample(expected.kind);
        if sample.is_none() {
            let line = connection.request_line();
            let method = line.split(' ').next().unwrap_or_default().to_owned();
            let answer = connection.answer().clone();
            *sample = Some(Sample { method, answer });
        }
        if let Err(what) = self.load.answered(index, connection.answer()) {
            self.met.mismatch(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const CONNECTIONS: usize = 4;
    const ROUNDS: usize = 3;

    /// Each connection takes two, and restores them, round after round; some have one round more.
    struct TakeAndRestore(Vec<usize>);

    impl Load for TakeAndRestore {
        fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
            let sent = self.0[connection];
            let expected = Expected::status(200).kind(sent / 2 % 2);
            let (line, expected) = match expected.kind {
                0 => ("GET /take", expected),
                _ => ("PUT /restore", expected.upkeep()),
            };
            self.0[connection] += 1;
            out.text = format!("{line} HTTP/1.1\r\n\r\n").into_bytes();
            (sent < 4 * (ROUNDS + connection % 2)).then_some(expected)
        }
    }

    /// Answers requests until the client goes; `under_way` counts those of each kind. Answers how often both were.
    fn answer(stream: TcpStream, under_way: &[AtomicUsize; 2]) -> usize {
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let mut both = 0;
        while let Some(line) = lines.next() {
            let kind = usize::from(line.starts_with("PUT"));
            let _ = lines.next();
            under_way[kind].fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            both += usize::from(under_way[1 - kind].load(Ordering::SeqCst) > 0);
            under_way[kind].fetch_sub(1, Ordering::SeqCst);
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
        both
    }

    #[test]
    fn upkeep_is_never_under_way_beside_what_is_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let under_way: Arc<[AtomicUsize; 2]> = Arc::default();
        let mut driver = Driver::connect(&address, CONNECTIONS).unwrap();
        let serve = |_| {
            let (stream, _) = listener.accept().unwrap();
            let under_way = under_way.clone();
            std::thread::spawn(move || answer(stream, &under_way))
        };
        let servers: Vec<_> = (0..CONNECTIONS).map(serve).collect();
        let mut load = TakeAndRestore(vec![0; CONNECTIONS]);
        let met = driver.run(&mut load, Limit::NONE).unwrap();
        drop(driver);
        let both = servers.into_iter().map(|server| server.join().unwrap());
        assert_eq!(both.sum::<usize>(), 0);
        let of_each = 2 * (2 * ROUNDS + 2 * (ROUNDS + 1)) as u64;
        assert_eq!([met.count(0), met.count(1)], [of_each; 2]);
        assert!(met.measured < met.elapsed);
    }
}
