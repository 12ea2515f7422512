//! Well-behaved clients next to thousands of idle, slow and costly ones: their latency, and the
//! server's memory and sockets.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;
use lazurite_bench_common::bars::Expectation::{AtMost, TimesAtMost};
use lazurite_bench_common::bars::Reference::OwnCase;
use lazurite_bench_common::process::watching_memory;

use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::runner::bench::{Bench, Running};
use crate::runner::well_behaved::{self, CONNECTIONS, CONTAINER, SMALL, noise};
use crate::runner::{Workload, bar};

pub(super) const WORKLOAD: Workload = Workload {
    name: "many-clients",
    help: "Clients next to 10,000 idle connections, 3,000 slow and 300 costly ones: latencies, and the server's memory",
    run,
    bars: &[
        bar(
            "many-clients: idle and slow",
            "p99_us",
            TimesAtMost(2.0, OwnCase("many-clients: alone")),
        ),
        bar("many-clients: idle and slow", "peak_mib", AtMost(256.0)),
        bar(
            "many-clients: idle and slow",
            "slow_seconds",
            AtMost(SLOW_SECONDS_MAX),
        ),
        bar("many-clients: costly", "peak_mib", AtMost(256.0)),
    ],
};

const IDLE: usize = 10_000;
/// Of each kind.
const SLOW: usize = 1_000;
const COSTLY: usize = 100;
const SECONDS: f64 = 60.0;
/// By then the server must have closed every slow connection.
const SLOW_SECONDS_MAX: f64 = 60.0;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Between two actions of a connection.
const ACTION_INTERVAL: Duration = Duration::from_secs(1);
/// How many connections are opened before the server is given a moment.
const OPENED_AT_ONCE: usize = 100;
/// The blob that slow readers ask for.
const LARGE: &str = "large";
const LARGE_BYTES: usize = 64 << 20;

/// How a client behaves on its connection.
#[derive(Default)]
struct Behaviour {
    request: Vec<u8>,
    /// Bytes of the request in the first action; then one byte each.
    burst: usize,
    /// Whether it leaves the answer unread.
    is_deaf: bool,
    /// Whether the server has to close the connection, which is then not opened again. The others
    /// send their request in each action.
    is_slow: bool,
}

fn run(bench: &mut Bench) -> Outcome<()> {
    raise_file_limit();
    let server = bench.start(&[])?;
    let client = server.client();
    well_behaved::store(&client)?;
    client.put_blob(CONTAINER, LARGE, &noise(LARGE_BYTES))?;
    measure(bench, "alone", &server)?;
    let account = server.account();
    for (case, behaviours, count) in [
        ("idle and slow", slow(&account), SLOW),
        ("costly", costly(&account), COSTLY),
    ] {
        let count = bench.scaled(count);
        let mut members = vec![(Behaviour::default(), bench.scaled(IDLE))];
        members.extend(behaviours.into_iter().map(|behaviour| (behaviour, count)));
        beside(bench, case, &server, &members)?;
    }
    measure(bench, "afterwards", &server)?;
    // A failed open or write under pressure would have made the store refuse writes.
    client.put_blob(CONTAINER, "afterwards", b"")?;
    client.create_table("Afterwards")?;
    Ok(client.create_queue("afterwards")?)
}

/// Runs the well-behaved clients beside others.
fn beside(
    bench: &mut Bench,
    case: &str,
    server: &Running,
    members: &[(Behaviour, usize)],
) -> Outcome<()> {
    let before = server.process().sockets();
    let crowd = Crowd {
        address: server.account().address(Service::Blob).0.parse()?,
        is_over: AtomicBool::new(false),
        rounds: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
        others_open: AtomicUsize::new(0),
    };
    let seconds = thread::scope(|scope| -> Outcome<f64> {
        scope.spawn(|| crowd.run(members));
        crowd.wait_until_connected();
        let closing = scope.spawn(|| crowd.slow_seconds(server, before));
        let measured = measure(bench, case, server);
        let seconds = closing.join().expect("it only counts");
        crowd.is_over.store(true, Ordering::Relaxed);
        measured.map(|()| seconds)
    })?;
    let case = format!("many-clients: {case}");
    if members.iter().any(|(behaviour, _)| behaviour.is_slow) {
        bench.set(&case, "slow_seconds", seconds);
    }
    let failed = crowd.failed.load(Ordering::Relaxed);
    bench.set(&case, "failed_to_open", failed as f64);
    Ok(())
}

/// Runs the well-behaved clients.
fn measure(bench: &mut Bench, case: &str, server: &Running) -> Outcome<()> {
    let (account, time) = (server.account(), bench.time(SECONDS));
    let get = || well_behaved::get(&account, time);
    let (observed, peak_kib) = watching_memory(server.process(), SAMPLE_INTERVAL, get);
    let case = format!("many-clients: {case}");
    bench.set_observed(&case, &observed?);
    bench.set(&case, "peak_mib", peak_kib as f64 / 1024.0);
    Ok(())
}

/// The connections, all driven by one thread.
struct Crowd {
    address: SocketAddr,
    is_over: AtomicBool,
    /// How often all connections have acted.
    rounds: AtomicUsize,
    /// Connections that failed to open, such as those beyond the system's limit of files.
    failed: AtomicUsize,
    /// Connections that are open and not slow.
    others_open: AtomicUsize,
}

/// One connection, if it is open.
struct Member<'a> {
    behaviour: &'a Behaviour,
    stream: Option<TcpStream>,
    was_opened: bool,
    /// Bytes of the request sent so far.
    sent: usize,
}

impl Crowd {
    /// Opens the connections and lets each behave as it does, until it is over.
    fn run(&self, members: &[(Behaviour, usize)]) {
        let members = members.iter().flat_map(|(behaviour, count)| {
            (0..*count).map(move |_| Member {
                behaviour,
                stream: None,
                was_opened: false,
                sent: 0,
            })
        });
        let mut members: Vec<Member> = members.collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            for (index, member) in members.iter_mut().enumerate() {
                match member.open(self.address) {
                    Ok(true) if index.is_multiple_of(OPENED_AT_ONCE) => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        self.failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                member.act();
            }
            let open = members.iter().filter(|member| member.stream.is_some());
            let others = open.filter(|member| !member.behaviour.is_slow).count();
            self.others_open.store(others, Ordering::Relaxed);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            thread::sleep(ACTION_INTERVAL.saturating_sub(began.elapsed()));
        }
    }

    fn wait_until_connected(&self) {
        while self.rounds.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// How long the server takes to close the slow connections; a little more than it may if some
    /// are open then. `before` is how many sockets it had before.
    fn slow_seconds(&self, server: &Running, before: usize) -> f64 {
        let opened = Instant::now();
        while opened.elapsed().as_secs_f64() < SLOW_SECONDS_MAX + 5.0 {
            let others = before + self.others_open.load(Ordering::Relaxed) + CONNECTIONS;
            if server.process().sockets() <= others {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
        opened.elapsed().as_secs_f64()
    }
}

impl Member<'_> {
    /// Opens the connection if it never was, or if the server has closed it and may not. Returns
    /// whether it did.
    fn open(&mut self, address: SocketAddr) -> std::io::Result<bool> {
        if self.is_open() || (self.was_opened && self.behaviour.is_slow) {
            return Ok(false);
        }
        let stream = TcpStream::connect_timeout(&address, ACTION_INTERVAL)?;
        stream.set_nonblocking(true)?;
        (self.stream, self.sent, self.was_opened) = (Some(stream), 0, true);
        Ok(true)
    }

    /// Discards answers, but for those that stay unread, which may hide the end: what counts is how
    /// many sockets the server has.
    fn is_open(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return false;
        };
        let found = if self.behaviour.is_deaf {
            stream.peek(&mut [0])
        } else {
            stream.read(&mut [0; 16 << 10])
        };
        let is_open = match found {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        if !is_open {
            self.stream = None;
        }
        is_open
    }

    /// Sends the next bytes. A connection that takes none now, or is closed, is noticed in the next
    /// round.
    fn act(&mut self) {
        let Behaviour {
            request, is_slow, ..
        } = self.behaviour;
        if !is_slow && self.sent == request.len() {
            self.sent = 0;
        }
        let end = request.len().min(self.behaviour.burst.max(self.sent + 1));
        let rest = &request[self.sent..end];
        if let Some(stream) = self.stream.as_mut().filter(|_| !rest.is_empty()) {
            self.sent += stream.write(rest).unwrap_or(0);
        }
    }
}

/// Readers of 64 MiB, senders of a body byte by byte, and senders of a head byte by byte.
fn slow(account: &Account) -> Vec<Behaviour> {
    let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{LARGE}"));
    let get = signed(account, get, "");
    let put = Request::new(Service::Blob, "PUT", format!("/{CONTAINER}/slow"))
        .header("x-ms-blob-type", "BlockBlob");
    let body = "x".repeat(LARGE_BYTES);
    let mut put = signed(account, put, &body);
    // The head alone, and then more bytes of the body than there are actions.
    let head = put.len() - LARGE_BYTES;
    put.truncate(head + 1000);
    let behaviour = |request: &[u8], burst, is_deaf| Behaviour {
        request: request.to_vec(),
        burst,
        is_deaf,
        is_slow: true,
    };
    vec![
        behaviour(&get, get.len(), true),
        behaviour(&put, head, false),
        behaviour(&get, 1, false),
    ]
}

/// Requests without permission that cost much to refuse: 60 KB of parameters; a signature that
/// covers one header of 8 KiB 2,000 times; a batch of 64 requests with long targets.
fn costly(account: &Account) -> Vec<Behaviour> {
    let (name, false_signature) = (&account.name, "sv=2021-08-06&sr=b&sp=r&sig=AAAA");
    let long = format!(
        "GET /{name}/{CONTAINER}/{SMALL}?{false_signature}{} HTTP/1.1\r\nhost: x\r\n\r\n",
        parameters(60 << 10)
    );
    let id = "00000000-0000-0000-0000-000000000000";
    let (start, end) = ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z");
    let repeated = format!(
        "GET /{name}/{CONTAINER}/{SMALL}?sv=2026-04-06&sr=b&sp=r&st={start}&se={end}&skoid={id}&sktid={id}&skt={start}&ske={end}&sks=b\
         &skv=2026-04-06&srh={}&sig=AAAA HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
        vec!["a"; 2_000].join(","),
        "x".repeat(8 << 10)
    );
    let (mut body, parameters) = (String::new(), parameters(8 << 10));
    for number in 0..64 {
        let _ = write!(
            body,
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n\
             DELETE /{name}/{CONTAINER}/none{number}?{false_signature}{parameters} HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
        );
    }
    body.push_str("--b--\r\n");
    let batch = Request::new(Service::Blob, "POST", "/".into())
        .query("comp", "batch")
        .header("content-type", "multipart/mixed; boundary=b");
    let requests = [long.into(), repeated.into(), signed(account, batch, &body)];
    let behaviours = requests.map(|request: Vec<u8>| Behaviour {
        burst: request.len(),
        request,
        ..Behaviour::default()
    });
    behaviours.into()
}

fn signed(account: &Account, request: Request<'static>, body: &str) -> Vec<u8> {
    let mut out = Outgoing::default();
    Template::new(account, request).write(&mut out, &[], body.as_bytes());
    out.text
}

/// Parameters `&p0=%C3%A4&p1=…` of about `bytes` bytes.
fn parameters(bytes: usize) -> String {
    let parameters = (0..bytes / 12).map(|number| format!("&p{number}=%C3%A4"));
    parameters.collect()
}

/// Raises the limit of open files as far as the system allows.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}
