//! One client that sends the largest documents and the most expensive queries: its effect on the latency of well-behaved ones.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::prelude::*;

use lazurite_bench_common::Outcome;

use crate::checked_clients::{self, CONTAINER, SMALL, rate};
use crate::client::{Account, Client, Error, Request, Service};
use crate::load::Observations;
use crate::report::Report;
use crate::server::Server;

const TABLE: &str = "Neighbours";
const QUEUE: &str = "neighbours";
/// A blob of one line, for a pattern that matches at every place but the last.
const LINE: &str = "line";
const LISTED: usize = 5_000;
const BLOCK_IDS: usize = 50_000;
/// A blob whose block list has all of these ids.
const COMMITTED: &str = "committed";
const METADATA_BYTES: usize = 7 << 10;
const LARGE_MESSAGES: &str = "large-messages";
/// Messages of 64 KiB: enough for every Get Messages in the second for which one hides them.
const MESSAGES: usize = 12 * 32;
/// Characters that the answer has to escape.
const ESCAPED: &str = "<&";
/// Between two heavy requests, so that they do not simply occupy the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// An expensive request.
struct Heavy {
    name: &'static str,
    request: Request<'static>,
    body: Vec<u8>,
    /// The status of its answer, or 0 for the end of the connection.
    status: u16,
}

#[derive(clap::Args)]
pub(crate) struct NeighboursArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// How long the well-behaved clients are measured with each
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
}

/// Measures the well-behaved clients alone, and during each of the heavy requests in turn.
pub(crate) fn run(args: &NeighboursArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
    let client = Client::new(server.account());
    store(&client)?;
    let heavy = heavy(&server.account())?;

    let time = Duration::from_secs(args.seconds);
    let mut report = Report::default();
    report.remark(format!(
        "{:38} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}",
        "16 clients get a blob of 1 KiB during",
        "ms each",
        "per s",
        "p50 us",
        "p99 us",
        "max us",
        "p99"
    ));
    let alone = checked_clients::get(&server, time)?;
    report.remark(line("nothing", None, &alone, &alone));
    let mut mismatches = alone.mismatches;
    for heavy in &heavy {
        let is_over = AtomicBool::new(false);
        let (beside, took) = thread::scope(|scope| {
            let sending = scope.spawn(|| heavy.send_until(&client, &is_over));
            let beside = checked_clients::get(&server, time);
            is_over.store(true, Ordering::Relaxed);
            (beside, sending.join().expect("it does not panic"))
        });
        let beside = beside?;
        mismatches += beside.mismatches;
        report.remark(line(heavy.name, Some(took?), &beside, &alone));
    }
    match mismatches {
        0 => Ok(report),
        wrong => {
            report.print();
            Err(format!("{wrong} wrong answers").into())
        }
    }
}

fn line(
    name: &str,
    took: Option<Duration>,
    observed: &Observations,
    alone: &Observations,
) -> String {
    let micros = |observed: &Observations, quantile| {
        observed.latencies[0].value_at_quantile(quantile) / 1000
    };
    format!(
        "{name:38} {:>8} {:>9.0} {:>8} {:>8} {:>8} {:>7.2}x",
        took.map_or(String::new(), |took| format!(
            "{:.1}",
            took.as_secs_f64() * 1e3
        )),
        rate(observed),
        micros(observed, 0.5),
        micros(observed, 0.99),
        observed.latencies[0].max() / 1000,
        micros(observed, 0.99) as f64 / micros(alone, 0.99).max(1) as f64
    )
}

impl Heavy {
    /// Sends it again and again until it is over. The median of what it took.
    fn send_until(&self, client: &Client, is_over: &AtomicBool) -> Outcome<Duration> {
        let mut times = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let status = match client.send(self.request.clone().body(&self.body)) {
                Ok(_) => 200,
                Err(Error::Refused { status, .. }) => status,
                // The server refuses a body by its length, and does not read it.
                Err(Error::InDoubt(_)) if self.status >= 400 => self.status,
                Err(error) => return Err(format!("{}: {error}", self.name).into()),
            };
            if status != self.status {
                return Err(format!("{}: {status} instead of {}", self.name, self.status).into());
            }
            times.push(sent.elapsed());
            thread::sleep(PAUSE);
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    }
}

fn store(client: &Client) -> Result<(), Error> {
    checked_clients::store(client)?;
    client.create_queue(QUEUE)?;
    client.create_table(TABLE)?;
    client.put_blob(CONTAINER, LINE, &vec![b'a'; 1 << 20])?;
    client.put_block(CONTAINER, "blocks", 0, b"block")?;
    client.put_block(CONTAINER, COMMITTED, 0, b"block")?;
    let commit = Request::new(Service::Blob, "PUT", format!("/{CONTAINER}/{COMMITTED}"));
    let list = block_list();
    client.send(commit.query("comp", "blocklist").body(list.as_bytes()))?;
    client.create_queue(LARGE_MESSAGES)?;
    for _ in 0..MESSAGES {
        client.put_message(LARGE_MESSAGES, &ESCAPED.repeat((64 << 10) / ESCAPED.len()))?;
    }
    for number in 0..LISTED {
        client.put_blob(CONTAINER, &format!("listed/{number:05}"), b"")?;
    }
    for hundred in 0..100 {
        let entities: Vec<_> = (0..100)
            .map(|row| {
                let row = format!("{:05}", hundred * 100 + row);
                serde_json::json!({"PartitionKey": "p", "RowKey": row, "Text": "x".repeat(100)})
            })
            .collect();
        client.insert_together(TABLE, &entities)?;
    }
    Ok(())
}

/// A block list that names one block 50,000 times.
fn block_list() -> String {
    let id = BASE64_STANDARD.encode("00000000");
    let ids = format!("<Latest>{id}</Latest>").repeat(BLOCK_IDS);
    format!("<BlockList>{ids}</BlockList>")
}

fn heavy(account: &Account) -> Outcome<Vec<Heavy>> {
    let blob =
        |method, name: &str| Request::new(Service::Blob, method, format!("/{CONTAINER}/{name}"));
    let container = || Request::new(Service::Blob, "GET", format!("/{CONTAINER}"));
    let table = |method, path: String| {
        Request::new(Service::Table, method, path)
            .header("accept", "application/json;odata=nometadata")
    };
    let messages = || Request::new(Service::Queue, "POST", format!("/{QUEUE}/messages"));
    let list = || blob("PUT", "blocks").query("comp", "blocklist");
    let ids = block_list();
    let container_metadata = || {
        let metadata = "m".repeat(METADATA_BYTES);
        Request::new(Service::Blob, "PUT", format!("/{CONTAINER}"))
            .query("restype", "container")
            .query("comp", "metadata")
            .header("x-ms-meta-text", metadata)
    };
    let message = |bytes| {
        format!(
            "<QueueMessage><MessageText>{}</MessageText></QueueMessage>",
            "x".repeat(bytes)
        )
    };
    let heavy = |name, request, body: String, status| Heavy {
        name,
        request,
        body: body.into_bytes(),
        status,
    };
    Ok(vec![
        heavy("Put Block List of 50,000 ids", list(), ids, 200),
        heavy(
            "Put Block List of 2,000,000 elements",
            list(),
            format!("<BlockList>{}</BlockList>", "<a/>".repeat(2_000_000)),
            400,
        ),
        heavy("Put Message of 4 MiB", messages(), message(4 << 20), 413),
        heavy("Put Message of 64 KiB", messages(), message(64 << 10), 200),
        heavy(
            "a transaction of 100 upserts, 3.9 MB",
            table("POST", "/$batch".into()).header("content-type", "multipart/mixed; boundary=b"),
            upserts(account.endpoint(Service::Table)),
            200,
        ),
        heavy(
            "a Blob Batch of 256 deletions",
            Request::new(Service::Blob, "POST", "/".into())
                .query("comp", "batch")
                .header("content-type", "multipart/mixed; boundary=b"),
            deletions(&account.name),
            200,
        ),
        heavy(
            "a multipart of 1,000,000 header lines",
            Request::new(Service::Blob, "POST", "/".into())
                .query("comp", "batch")
                .header("content-type", "multipart/mixed; boundary=b"),
            format!("--b\r\n{}\r\n--b--\r\n", "a:\r\n".repeat(1_000_000)),
            400,
        ),
        heavy(
            "Query Blob Contents: LIKE over 1 MiB",
            blob("POST", LINE).query("comp", "query"),
            format!(
                "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM BlobStorage WHERE _1 LIKE '%{}b%'</Expression></QueryRequest>",
                "a".repeat(4000)
            ),
            200,
        ),
        heavy(
            "List Blobs: 5,000 with all they have",
            container()
                .query("restype", "container")
                .query("comp", "list")
                .query("include", "metadata,tags,snapshots"),
            String::new(),
            200,
        ),
        heavy(
            "Get Block List of 50,000",
            blob("GET", COMMITTED).query("comp", "blocklist"),
            String::new(),
            200,
        ),
        heavy(
            "Get Messages: 32 of 64 KiB",
            Request::new(Service::Queue, "GET", format!("/{LARGE_MESSAGES}/messages"))
                .query("numofmessages", "32")
                .query("visibilitytimeout", "1"),
            String::new(),
            200,
        ),
        heavy(
            "Set Container Metadata",
            container_metadata(),
            String::new(),
            200,
        ),
        heavy(
            "a filter over 10,000 entities",
            table("GET", format!("/{TABLE}()"))
                .query("$filter", "PartitionKey eq 'p' and Text eq 'y'"),
            String::new(),
            200,
        ),
        heavy(
            "a page of 1,000 entities",
            table("GET", format!("/{TABLE}()")).query("$filter", "PartitionKey eq 'p'"),
            String::new(),
            200,
        ),
        heavy(
            "a target of 60 KB",
            blob("GET", SMALL).query("x", "ä".repeat(10_000)),
            String::new(),
            200,
        ),
    ])
}

/// An entity group transaction of 100 upserts of 39 KB each.
fn upserts(endpoint: &str) -> String {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    // A string takes at most 64 KiB: 32 K characters.
    let text = "x".repeat(19_500);
    for row in 0..100 {
        body.push_str(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
        body.push_str(&format!(
            "PUT {endpoint}/{TABLE}(PartitionKey='t',RowKey='{row}') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n"
        ));
        body.push_str(&format!("{{\"A\":\"{text}\",\"B\":\"{text}\"}}\r\n"));
    }
    body.push_str("--c--\r\n--b--\r\n");
    body
}

/// A Blob Batch that deletes 256 blobs, none of which exists. Its parts carry no signature: each is answered 403 or 404.
fn deletions(account: &str) -> String {
    let mut body = String::new();
    for number in 0..256 {
        body.push_str(
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n",
        );
        body.push_str(&format!(
            "Content-ID: {number}\r\n\r\nDELETE /{account}/{CONTAINER}/none{number} HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
        ));
    }
    body.push_str("--b--\r\n");
    body
}
