//! Pages of the console over a large store: the time of each page's answer, and its length.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, bars, number, share, size};

use crate::checked_clients::address;
use crate::client::Client;
use crate::filling::{self, Amounts};
use crate::report::{Report, median};
use crate::server::Server;

const AMOUNTS: Amounts = Amounts {
    entities: 1_000_000,
    blobs: 1_000_000,
    blob_bytes: 1,
    messages: 100_000,
};

/// Each page is asked for this often; the first answer is a figure of its own.
const RUNS: usize = 11;
const TIME_GOAL: Duration = Duration::from_millis(50);
/// A search examines everything; that of a queue stops here, and says how far it came.
const SEARCH_TIME_GOAL: Duration = Duration::from_secs(1);
const BYTES_GOAL: usize = 150 << 10;

#[derive(clap::Args)]
pub(crate) struct PagesArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Part of a million blobs, a million entities and 100,000 messages
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(crate) scale: f64,
}

/// Fills one container, one table and one queue, and asks for every page of the console.
pub(crate) fn run(args: &PagesArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
    let client = Client::new(server.account());
    let mut report = Report::default();
    filling::fill(&mut report, &client, AMOUNTS.scaled(args.scale))?;
    let address = address(&server.account())?;
    let mut missed = 0;
    let searches = SEARCHES.iter().map(|page| (page, SEARCH_TIME_GOAL));
    let pages = PAGES.iter().map(|page| (page, TIME_GOAL)).chain(searches);
    for (page, time_goal) in pages {
        missed += usize::from(!measure(&mut report, address, page, time_goal)?);
    }
    let count = PAGES.len() + SEARCHES.len();
    report.remark(format!(
        "{} of {count} pages meet both goals: 50 ms, a second for searches that find nothing, and 150 KiB",
        count - missed
    ));
    Ok(report)
}

/// The pages, below `/_lazurite/`.
const PAGES: &[&str] = &[
    "",
    "connect/devstoreaccount1",
    "sas/devstoreaccount1?service=blob&name=many",
    "blobs",
    "blobs/devstoreaccount1/many",
    "blobs/devstoreaccount1/many?view=flat",
    "blobs/devstoreaccount1/many?prefix=50%2F",
    "blobs/devstoreaccount1/many?view=flat&deleted=yes",
    "blobs/devstoreaccount1/many/delete",
    "blobs/devstoreaccount1/many/blob?name=00%2F00%2F00000000.txt",
    "queues",
    "queues/devstoreaccount1/many",
    "queues/devstoreaccount1/many?show=hidden",
    "tables",
    "tables/devstoreaccount1/Many",
    "tables/devstoreaccount1/Many?filter=PartitionKey%20eq%20%27000050%27",
    "tables/devstoreaccount1/Many/plan.json?filter=absent%20eq%201",
    "tables/devstoreaccount1/Many/entity?pk=000000&rk=000000",
    "tables/devstoreaccount1/Many/new",
    "requests",
    "requests/open",
    "advisor",
    "advisor/heat",
    "state",
    "clock",
    "faults",
    "engine",
    "openapi.json",
    "api/names",
    "api/status",
    "api/engine",
];

/// Searches that find nothing.
const SEARCHES: &[&str] = &[
    "queues/devstoreaccount1/many?filter=absent",
    "tables/devstoreaccount1/Many?filter=absent%20eq%201",
];

/// Asks for a page several times. Returns whether it meets both goals.
fn measure(
    report: &mut Report,
    address: SocketAddr,
    page: &str,
    time_goal: Duration,
) -> Outcome<bool> {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..RUNS {
        let (took, length) = ask(address, page)?;
        times.push(took);
        bytes = bytes.max(length);
    }
    let first = times[0];
    let meets = first <= time_goal && bytes <= BYTES_GOAL;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    report.remark(format!(
        "{:>6} {:>6} ms first {:>6} ms median {:>8}  /_lazurite/{page}",
        bars::verdict(meets),
        number(millis(first)),
        number(millis(median(&times))),
        size(bytes as u64),
    ));
    Ok(meets)
}

/// One request: the time until the last byte, and the length of the answer.
fn ask(address: SocketAddr, page: &str) -> Outcome<(Duration, usize)> {
    let mut stream = TcpStream::connect(address)?;
    let began = Instant::now();
    let head = format!(
        "GET /_lazurite/{page} HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let took = began.elapsed();
    if !answer.starts_with(b"HTTP/1.1 200") {
        let line = answer
            .split(|&byte| byte == b'\r')
            .next()
            .unwrap_or_default();
        return Err(format!("/_lazurite/{page}: {}", String::from_utf8_lossy(line)).into());
    }
    Ok((took, answer.len()))
}
