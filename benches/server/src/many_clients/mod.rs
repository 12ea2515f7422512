//! Idle and abusive clients next to well-behaved ones: their effect on latency and memory, and the server's state afterwards.

mod crowd;
mod requests;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::bars::{self, Bar, Expectation, Expectation::*, Reference};
use lazurite_bench_common::process::watching_memory;
use lazurite_bench_common::{Findings, OURS, Outcome, Results};

use crate::checked_clients::{self, CONNECTIONS, CONTAINER, address, noise, rate};
use crate::client::Client;
use crate::load::Observations;
use crate::report::Report;
use crate::server::Server;

use crowd::{COSTLY, Crowd, SLOW};
use requests::{LARGE, LARGE_BYTES, Requests};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// By then the server must have closed every slow connection.
const SLOW_SECONDS_MAX: f64 = 60.0;

const fn bar(case: &'static str, figure: &'static str, expectation: Expectation) -> Bar {
    Bar {
        case,
        figure,
        label: case,
        expectation,
    }
}

#[rustfmt::skip]
const BARS: &[Bar] = &[
    bar("idle and slow", "p99_us", TimesAtMost(2.0, Reference::OwnCase("alone"))),
    bar("idle and slow", "peak_mib", AtMost(256.0)),
    bar("idle and slow", "slow_seconds", AtMost(SLOW_SECONDS_MAX)),
    bar("costly", "peak_mib", AtMost(256.0)),
];

#[derive(clap::Args)]
pub(crate) struct ManyClientsArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Connections that send nothing
    #[arg(long, default_value_t = 10_000)]
    pub(crate) idle: usize,
    /// Slow connections of each kind: readers of 64 MiB, senders of a body, senders of a head
    #[arg(long, default_value_t = 1_000)]
    pub(crate) slow: usize,
    /// Connections that send a costly request without permission each second, of each kind
    #[arg(long, default_value_t = 100)]
    pub(crate) costly: usize,
    /// How long the well-behaved clients are measured alone, and with each of the others
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
}

/// Runs the well-behaved clients alone, with idle and slow ones, with costly ones, and alone again.
pub(crate) fn run(args: &ManyClientsArgs) -> Outcome<Report> {
    raise_file_limit();
    let scratch = tempfile::tempdir()?;
    let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
    let client = Client::new(server.account());
    checked_clients::store(&client)?;
    client.put_blob(CONTAINER, LARGE, &noise(LARGE_BYTES))?;

    let time = Duration::from_secs(args.seconds);
    let mut bench = Bench::new(&server);
    bench.measure("alone", time)?;

    let requests = Requests::new(&server.account());
    let (members, mut slow) = (SLOW.map(|behaviour| (behaviour, args.slow)), 0.0);
    let sockets = server.process().sockets();
    let crowd = Crowd::new(address(&server.account())?, &requests);
    thread::scope(|scope| {
        scope.spawn(|| crowd.run(args.idle, &members));
        crowd.wait_until_connected();
        let closing = scope.spawn(|| slow_seconds(&server, sockets, &crowd));
        let measured = bench.measure("idle and slow", time);
        slow = closing.join().expect("it only counts");
        crowd.end();
        measured
    })?;
    bench.set("idle and slow", "slow_seconds", slow);
    bench.report.remark(crowd.summary());

    let costly = COSTLY.map(|behaviour| (behaviour, args.costly));
    let crowd = Crowd::new(address(&server.account())?, &requests);
    thread::scope(|scope| {
        scope.spawn(|| crowd.run(args.idle, &costly));
        crowd.wait_until_connected();
        let measured = bench.measure("costly", time);
        crowd.end();
        measured
    })?;
    bench.report.remark(crowd.summary());

    bench.measure("afterwards", time.min(Duration::from_secs(10)))?;
    // A failed open or write under pressure would have made the store refuse writes.
    client.put_blob(CONTAINER, "afterwards", b"")?;
    client.create_table("Afterwards")?;
    client.create_queue("afterwards")?;
    bench.finish()
}

/// How long the server takes to close the slow connections of `crowd`, which are all open; infinite if some still are a little after
/// they must be closed. `sockets` is how many it had open before.
fn slow_seconds(server: &Server, sockets: usize, crowd: &Crowd) -> f64 {
    let opened = Instant::now();
    while opened.elapsed().as_secs_f64() < SLOW_SECONDS_MAX + 5.0 {
        let others = sockets + crowd.others_open() + CONNECTIONS;
        if server.process().sockets() <= others {
            return opened.elapsed().as_secs_f64();
        }
        thread::sleep(Duration::from_millis(500));
    }
    f64::INFINITY
}

/// The well-behaved clients, and the figures of each case.
struct Bench<'a> {
    server: &'a Server,
    report: Report,
    results: Results,
}

impl Bench<'_> {
    fn new(server: &Server) -> Bench<'_> {
        let mut report = Report::default();
        report.remark(format!(
            "{:14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
            "", "per s", "p50 us", "p99 us", "max us", "wrong", "MiB now", "MiB peak"
        ));
        Bench {
            server,
            report,
            results: Results::default(),
        }
    }

    /// Runs the well-behaved clients for `time`.
    fn measure(&mut self, case: &'static str, time: Duration) -> Outcome<()> {
        let get = || checked_clients::get(self.server, time);
        let (observed, peak_kib) = watching_memory(self.server.process(), SAMPLE_INTERVAL, get);
        let observed = observed?;
        let now_kib = self.server.memory().anonymous_kib;
        self.report
            .remark(line(case, &observed, now_kib >> 10, peak_kib >> 10));
        let p99_us = observed.latencies[0].value_at_quantile(0.99) as f64 / 1e3;
        let mut findings = Findings {
            mismatches: observed.mismatches,
            ..Findings::default()
        };
        findings.set("per_s", rate(&observed));
        findings.set("p99_us", p99_us);
        findings.set("peak_mib", peak_kib as f64 / 1024.0);
        self.results.add(case, OURS, findings);
        Ok(())
    }

    fn set(&mut self, case: &str, figure: &str, value: f64) {
        let mut findings = Findings::default();
        findings.set(figure, value);
        self.results.add(case, OURS, findings);
    }

    /// Prints the table and the bars. Errors if an answer was wrong.
    fn finish(self) -> Outcome<Report> {
        self.report.print();
        bars::print(&self.results, BARS);
        match self.results.mismatches() {
            0 => Ok(Report::default()),
            wrong => Err(format!("{wrong} wrong answers").into()),
        }
    }
}

fn line(case: &str, observed: &Observations, now_mib: u64, peak_mib: u64) -> String {
    let latencies = &observed.latencies[0];
    let micros = |nanos: u64| nanos / 1000;
    format!(
        "{case:14} {:>9.0} {:>9} {:>9} {:>9} {:>9} {now_mib:>10} {peak_mib:>10}",
        rate(observed),
        micros(latencies.value_at_quantile(0.5)),
        micros(latencies.value_at_quantile(0.99)),
        micros(latencies.max()),
        observed.mismatches,
    )
}

/// Raises the limit of open files as far as the system allows. Connections beyond it fail to open, which the summary shows.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}
