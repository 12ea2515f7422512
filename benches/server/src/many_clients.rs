//! Clients that ask for nothing, or for what hurts, beside honest ones: what they take from those, and what state the server is in afterwards.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::checked_clients::{self, CONTAINER, SMALL, address, noise, rate};
use crate::client::{Account, Client, Outgoing, Request, Service, Template};
use crate::load::Observations;
use crate::report::Report;
use crate::server::Server;

const LARGE: &str = "large";
const LARGE_BYTES: usize = 64 << 20;
/// How often every connection of the crowd does what it does.
const BEAT: Duration = Duration::from_secs(1);
/// A request that takes much to refuse: its length in bytes.
const COSTLY_BYTES: usize = 60 << 10;
/// How many connections are opened before the server is given a moment.
const OPENED_AT_ONCE: usize = 100;

/// What a connection of the crowd does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// Connects, and says nothing.
    Idle,
    /// Sends a head one byte a beat.
    SlowHead,
    /// Sends the body of a Put Blob one byte a beat.
    SlowBody,
    /// Asks for 64 MiB and never reads.
    SlowReader,
    /// Sends 60 KB of parameters without a right, each beat.
    Costly,
}

const HOSTILE: [Conduct; 4] = [
    Conduct::SlowHead,
    Conduct::SlowBody,
    Conduct::SlowReader,
    Conduct::Costly,
];

#[derive(clap::Args)]
pub(crate) struct ManyClientsArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Connections that say nothing
    #[arg(long, default_value_t = 2_000)]
    pub(crate) idle: usize,
    /// Connections that are slow or costly
    #[arg(long, default_value_t = 2_000)]
    pub(crate) hostile: usize,
    /// How long the honest ones are measured alone, and beside the others
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
}

/// Runs the honest clients alone, beside the crowd, and alone again.
pub(crate) fn run(args: &ManyClientsArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
    let client = Client::new(server.account());
    checked_clients::store(&client)?;
    client.put_blob(CONTAINER, LARGE, &noise(LARGE_BYTES))?;

    let mut report = Report::default();
    report.remark(format!(
        "{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "", "per s", "p50 us", "p99 us", "max us", "wrong", "MiB now", "MiB most"
    ));
    let watch = Watch::default();
    let alone = thread::scope(|scope| {
        watch.during(scope, &server, || {
            checked_clients::get(&server, args.time())
        })
    })?;
    report.remark(line("alone", &alone, &server, &watch));

    let crowd = Crowd {
        address: address(&server.account())?,
        requests: Requests::new(&server.account()),
        is_over: AtomicBool::new(false),
        beats: AtomicU64::new(0),
        open: AtomicU64::new(0),
        opened: AtomicU64::new(0),
    };
    let beside = thread::scope(|scope| {
        scope.spawn(|| crowd.act(args.idle, args.hostile));
        crowd.wait_for_beat();
        let beside = watch.during(scope, &server, || {
            checked_clients::get(&server, args.time())
        });
        crowd.is_over.store(true, Ordering::Relaxed);
        beside
    })?;
    report.remark(line("crowded", &beside, &server, &watch));
    let opened = crowd.opened.load(Ordering::Relaxed);
    report.remark(format!(
        "{:10} {opened} connections opened, {} of them at the end",
        "",
        crowd.open.load(Ordering::Relaxed)
    ));

    let after = checked_clients::get(&server, args.time().min(Duration::from_secs(10)))?;
    report.remark(line("afterwards", &after, &server, &watch));
    // What could not be opened or written would have made the store refuse writes.
    client.put_blob(CONTAINER, "afterwards", b"")?;
    client.create_table("Afterwards")?;
    client.create_queue("afterwards")?;
    let rate = rate(&beside) / rate(&alone);
    report.remark(format!(
        "rate beside the crowd: {:.0} % of that alone",
        rate * 100.0
    ));
    match alone.mismatches + beside.mismatches + after.mismatches {
        0 => Ok(report),
        wrong => {
            report.print();
            Err(format!("{wrong} wrong answers").into())
        }
    }
}

impl ManyClientsArgs {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// The most memory that the server had, looked at every 50 ms. Pages of mapped files do not count: the system takes them back when it
/// needs them.
#[derive(Default)]
struct Watch {
    most_kib: AtomicU64,
    is_over: AtomicBool,
}

impl Watch {
    fn during<'scope, T>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        server: &'scope Server,
        work: impl FnOnce() -> T,
    ) -> T {
        self.is_over.store(false, Ordering::Relaxed);
        let watching = scope.spawn(|| {
            while !self.is_over.load(Ordering::Relaxed) {
                let now = server.memory().anonymous_kib;
                self.most_kib.fetch_max(now, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let done = work();
        self.is_over.store(true, Ordering::Relaxed);
        watching.join().expect("it only reads files");
        done
    }
}

fn line(name: &str, observed: &Observations, server: &Server, watch: &Watch) -> String {
    let latencies = &observed.latencies[0];
    let micros = |nanos: u64| nanos / 1000;
    format!(
        "{name:10} {:>9.0} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        rate(observed),
        micros(latencies.value_at_quantile(0.5)),
        micros(latencies.value_at_quantile(0.99)),
        micros(latencies.max()),
        observed.mismatches,
        server.memory().anonymous_kib >> 10,
        watch.most_kib.load(Ordering::Relaxed) >> 10
    )
}

/// What the crowd sends.
struct Requests {
    put: Vec<u8>,
    get: Vec<u8>,
    costly: Vec<u8>,
}

impl Requests {
    fn new(account: &Account) -> Requests {
        let text = |request: Request<'static>| {
            let mut out = Outgoing::default();
            Template::new(account, request).write(&mut out, &[], b"");
            out.text
        };
        let put = Request::new(Service::Blob, "PUT", format!("/{CONTAINER}/slow"));
        let put = put
            .header("x-ms-blob-type", "BlockBlob")
            .header("content-length", LARGE_BYTES);
        let get = Request::new(Service::Blob, "GET", format!("/{CONTAINER}/{LARGE}"));
        let parameters = (0..)
            .map(|number| format!("&p{number}=%C3%A4"))
            .scan(0, |bytes, text| {
                *bytes += text.len();
                (*bytes < COSTLY_BYTES).then_some(text)
            });
        let costly = format!(
            "GET /{}/{CONTAINER}/{SMALL}?sv=2021-08-06&sr=b&sp=r&sig=AAAA{} HTTP/1.1\r\nhost: x\r\n\r\n",
            account.name,
            parameters.collect::<String>()
        );
        Requests {
            put: text(put),
            get: text(get),
            costly: costly.into_bytes(),
        }
    }
}

struct Crowd {
    address: SocketAddr,
    requests: Requests,
    is_over: AtomicBool,
    /// How often all have acted.
    beats: AtomicU64,
    open: AtomicU64,
    opened: AtomicU64,
}

/// One connection of the crowd, if it is open.
struct Member {
    conduct: Conduct,
    stream: Option<TcpStream>,
    /// Bytes sent since it was opened.
    sent: usize,
}

impl Crowd {
    /// Opens the connections, and again when the server has closed them, until it is over.
    fn act(&self, idle: usize, hostile: usize) {
        let idle = (0..idle).map(|_| Conduct::Idle);
        let hostile = (0..hostile).map(|index| HOSTILE[index % HOSTILE.len()]);
        let mut members: Vec<Member> = idle
            .chain(hostile)
            .map(|conduct| Member {
                conduct,
                stream: None,
                sent: 0,
            })
            .collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let mut opened = 0;
            for member in &mut members {
                if member.is_gone() && member.open(self.address).is_ok() {
                    opened += 1;
                    if opened % OPENED_AT_ONCE == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                member.act(&self.requests);
            }
            let open = members.iter().filter(|member| member.stream.is_some());
            self.open.store(open.count() as u64, Ordering::Relaxed);
            self.opened.fetch_add(opened as u64, Ordering::Relaxed);
            self.beats.fetch_add(1, Ordering::Relaxed);
            thread::sleep(BEAT.saturating_sub(began.elapsed()));
        }
    }

    /// Waits until every connection has been opened.
    fn wait_for_beat(&self) {
        while self.beats.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Member {
    fn open(&mut self, address: SocketAddr) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&address, BEAT)?;
        stream.set_nonblocking(true)?;
        (self.stream, self.sent) = (Some(stream), 0);
        Ok(())
    }

    /// Whether there is no connection, or the server has closed it. Answers are thrown away, but by those who never read.
    fn is_gone(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return true;
        };
        let mut bytes = [0; 4 << 10];
        let found = if self.conduct == Conduct::SlowReader {
            stream.peek(&mut bytes[..1])
        } else {
            stream.read(&mut bytes)
        };
        let closed = match found {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if closed {
            self.stream = None;
        }
        closed
    }

    fn act(&mut self, requests: &Requests) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let (request, per_beat): (&[u8], usize) = match self.conduct {
            Conduct::Idle => return,
            Conduct::SlowHead => (&requests.get, 1),
            Conduct::SlowBody if self.sent < requests.put.len() => (&requests.put, usize::MAX),
            Conduct::SlowBody => (b"x", 1),
            Conduct::SlowReader => (&requests.get, usize::MAX),
            Conduct::Costly => {
                self.sent = 0;
                (&requests.costly, usize::MAX)
            }
        };
        let from = self.sent.min(request.len() - 1);
        let rest = match self.conduct {
            // The request is over: what follows is the body, or nothing.
            Conduct::SlowReader if self.sent > 0 => return,
            Conduct::SlowBody if self.sent >= requests.put.len() => request,
            _ => &request[from..],
        };
        let piece = &rest[..rest.len().min(per_beat)];
        // A connection that takes nothing, or is closed, is looked at in the next beat.
        if let Ok(count) = stream.write(piece) {
            self.sent += count;
        }
    }
}
