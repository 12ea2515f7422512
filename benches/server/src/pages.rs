//! Pages of the console over a large store: the time of each page's answer, and its length.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;
use serde_json::json;

use crate::checked_clients::address;
use crate::client::Client;
use crate::report::{Phase, Report, median};
use crate::server::Server;

const BLOBS: usize = 1_000_000;
const ENTITIES: usize = 1_000_000;
const MESSAGES: usize = 100_000;
/// Entities of one transaction.
const TOGETHER: usize = 100;
const THREADS: usize = 8;

/// Each page is asked for this often; the first answer is a figure of its own.
const RUNS: usize = 11;
const TIME_GOAL: Duration = Duration::from_millis(50);
const BYTES_GOAL: usize = 150 << 10;

#[derive(clap::Args)]
pub(crate) struct PagesArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Part of a million blobs, a million entities and 100,000 messages
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
}

/// Fills one container, one table and one queue, and asks for every page of the console.
pub(crate) fn run(args: &PagesArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
    let client = Client::new(server.account());
    let mut report = Report::default();
    let scaled = |count: usize| ((count as f64 * args.scale) as usize).max(1);
    client.create_container("many")?;
    client.create_table("Many")?;
    client.create_queue("many")?;
    fill(
        &mut report,
        &client,
        "blobs",
        scaled(BLOBS),
        &|client, number| client.put_blob("many", &name(number), b"x"),
    )?;
    let transactions = scaled(ENTITIES).div_ceil(TOGETHER);
    fill(
        &mut report,
        &client,
        "transactions",
        transactions,
        &|client, number| {
            let entities: Vec<_> = (0..TOGETHER).map(|row| entity(number, row)).collect();
            client.insert_together("Many", &entities)
        },
    )?;
    fill(
        &mut report,
        &client,
        "messages",
        scaled(MESSAGES),
        &|client, number| {
            client
                .put_message("many", &format!("{{\"order\":{number}}}"))
                .map(|_| ())
        },
    )?;
    let address = address(&server.account())?;
    let mut missed = 0;
    for page in PAGES {
        missed += usize::from(!measure(&mut report, address, page)?);
    }
    report.remark(format!(
        "{} of {} pages meet both goals: 50 ms and 150 KiB",
        PAGES.len() - missed,
        PAGES.len()
    ));
    Ok(report)
}

/// Ten thousand directories of a hundred blobs.
fn name(number: usize) -> String {
    format!(
        "{:02}/{:02}/{number:08}.txt",
        number / 10_000 % 100,
        number / 100 % 100
    )
}

fn entity(partition: usize, row: usize) -> serde_json::Value {
    json!({
        "PartitionKey": format!("{partition:06}"), "RowKey": format!("{row:06}"), "Total": row as f64 * 3.5, "Quantity": row % 9,
        "Paid": row.is_multiple_of(2), "Note": "Leave it with the neighbour if nobody is at home.",
    })
}

/// Stores `count` items from several threads.
fn fill<E: std::error::Error + Send + Sync + 'static>(
    report: &mut Report,
    client: &Client,
    what: &'static str,
    count: usize,
    store: &(dyn Fn(&Client, usize) -> Result<(), E> + Sync),
) -> Outcome<()> {
    let phase = Phase::start(what, what, count);
    let outcome: Result<(), E> = thread::scope(|scope| {
        let stored = (0..THREADS).map(|first| {
            let phase = &phase;
            scope.spawn(move || {
                for number in (first..count).step_by(THREADS) {
                    phase.time(|| store(client, number))?;
                    phase.add(1);
                }
                Ok(())
            })
        });
        let stored: Vec<_> = stored.collect();
        stored
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a thread that stores does not panic"))
    });
    report.finish(phase);
    Ok(outcome?)
}

/// The pages, below `/_lazurite/`.
const PAGES: &[&str] = &[
    "",
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
    "tables/devstoreaccount1/Many/entity?pk=000000&rk=000000",
    "requests",
    "engine",
    "api/names",
];

/// Asks for a page several times. Returns whether it meets both goals.
fn measure(report: &mut Report, address: SocketAddr, page: &str) -> Outcome<bool> {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..RUNS {
        let (took, length) = ask(address, page)?;
        times.push(took);
        bytes = bytes.max(length);
    }
    let first = times[0];
    let meets = first <= TIME_GOAL && bytes <= BYTES_GOAL;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    report.remark(format!(
        "{:>6} {:8.1} ms first {:8.1} ms median {bytes:8} B  /_lazurite/{page}",
        if meets { "met" } else { "missed" },
        millis(first),
        millis(median(&times)),
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
