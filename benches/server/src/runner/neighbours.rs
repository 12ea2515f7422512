//! One client that sends the largest documents and the most expensive queries: its effect on the
//! latency of well-behaved ones.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::prelude::*;

use lazurite_bench_common::{Outcome, median_time};

use crate::client::{Account, Client, Error, Request, Service};
use crate::runner::Workload;
use crate::runner::bench::{Bench, millis};
use crate::runner::well_behaved::{self, CONTAINER, SMALL};

pub(super) const WORKLOAD: Workload = Workload {
    name: "neighbours",
    help: "Clients during each of fifteen expensive requests in turn, sent a tenth of a second apart: their latencies",
    run,
    bars: &[],
};

const SECONDS: f64 = 10.0;
const TABLE: &str = "Neighbours";
const QUEUE: &str = "neighbours";
/// Messages of 64 KiB: enough for every Get Messages in the second for which one hides them.
const LARGE_MESSAGES: &str = "large-messages";
const MESSAGES: usize = 12 * 32;
/// A blob of one line, for a pattern that matches at every place but the last.
const LINE: &str = "line";
/// A blob whose block list has all of these ids.
const COMMITTED: &str = "committed";
const BLOCK_IDS: usize = 50_000;
const LISTED: usize = 5_000;
/// Between two heavy requests, so that they do not simply occupy the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// An expensive request, and the status of its answer.
struct Heavy {
    name: &'static str,
    request: Request<'static>,
    body: String,
    status: u16,
}

fn run(bench: &mut Bench) -> Outcome<()> {
    let server = bench.start(&[])?;
    let (client, account) = (server.client(), server.account());
    store(&client, bench.scaled(LISTED))?;
    let time = bench.time(SECONDS);
    let alone = well_behaved::get(&account, time)?;
    bench.set_observed("neighbours: alone", &alone);
    let alone_p99 = alone.latencies[0].value_at_quantile(0.99).max(1) as f64;
    for heavy in heavy(&account) {
        let is_over = AtomicBool::new(false);
        let (beside, took) = thread::scope(|scope| {
            let sending = scope.spawn(|| heavy.send_until(&client, &is_over));
            let beside = well_behaved::get(&account, time);
            is_over.store(true, Ordering::Relaxed);
            (beside, sending.join().expect("it does not panic"))
        });
        let (beside, case) = (beside?, format!("neighbours: {}", heavy.name));
        let p99 = beside.latencies[0].value_at_quantile(0.99) as f64;
        bench.set_observed(&case, &beside);
        bench.set(&case, "p99_ratio", p99 / alone_p99);
        bench.set(&case, "heavy_ms", millis(took?));
    }
    Ok(())
}

impl Heavy {
    /// Sends it again and again until it is over. The median of what it took.
    fn send_until(&self, client: &Client, is_over: &AtomicBool) -> Outcome<Duration> {
        let mut times = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let status = match client.send(self.request.clone().body(self.body.as_bytes())) {
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
        Ok(median_time(&times))
    }
}

fn store(client: &Client, listed: usize) -> Result<(), Error> {
    well_behaved::store(client)?;
    client.create_queue(QUEUE)?;
    client.create_table(TABLE)?;
    client.put_blob(CONTAINER, LINE, &vec![b'a'; 1 << 20])?;
    client.put_block(CONTAINER, "blocks", 0, b"block")?;
    client.put_block(CONTAINER, COMMITTED, 0, b"block")?;
    let commit = blob("PUT", COMMITTED).query("comp", "blocklist");
    client.send(commit.body(block_list().as_bytes()))?;
    client.create_queue(LARGE_MESSAGES)?;
    for _ in 0..MESSAGES {
        // Characters that the answer has to escape.
        client.put_message(LARGE_MESSAGES, &"<&".repeat(32 << 10))?;
    }
    for number in 0..listed {
        client.put_blob(CONTAINER, &format!("listed/{number:05}"), b"")?;
    }
    for hundred in 0..100 {
        let entity = |row| {
            let row = format!("{:05}", hundred * 100 + row);
            serde_json::json!({"PartitionKey": "p", "RowKey": row, "Text": "x".repeat(100)})
        };
        client.insert_together(TABLE, &(0..100).map(entity).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn blob(method: &'static str, name: &str) -> Request<'static> {
    Request::new(Service::Blob, method, format!("/{CONTAINER}/{name}"))
}

fn batch(service: Service) -> Request<'static> {
    let path = if service == Service::Table {
        "/$batch"
    } else {
        "/"
    };
    let batch = Request::new(service, "POST", path.into())
        .header("content-type", "multipart/mixed; boundary=b");
    if service == Service::Table {
        batch
    } else {
        batch.query("comp", "batch")
    }
}

/// A block list that names one block 50,000 times.
fn block_list() -> String {
    let id = BASE64_STANDARD.encode("00000000");
    let ids = format!("<Latest>{id}</Latest>").repeat(BLOCK_IDS);
    format!("<BlockList>{ids}</BlockList>")
}

#[rustfmt::skip]
fn heavy(account: &Account) -> Vec<Heavy> {
    let heavy = |name, status, request, body: String| Heavy { name, request, body, status };
    let container = || Request::new(Service::Blob, "GET", format!("/{CONTAINER}")).query("restype", "container");
    let metadata = Request::new(Service::Blob, "PUT", format!("/{CONTAINER}")).query("restype", "container").query("comp", "metadata");
    let query = |filter| {
        Request::new(Service::Table, "GET", format!("/{TABLE}()"))
            .header("accept", "application/json;odata=nometadata").query("$filter", filter)
    };
    let messages = || Request::new(Service::Queue, "POST", format!("/{QUEUE}/messages"));
    let message = |bytes| format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", "x".repeat(bytes));
    let get_messages = Request::new(Service::Queue, "GET", format!("/{LARGE_MESSAGES}/messages"));
    let blocks = || blob("PUT", "blocks").query("comp", "blocklist");
    let listing = container().query("comp", "list").query("include", "metadata,tags,snapshots");
    let like = format!("SELECT * FROM BlobStorage WHERE _1 LIKE '%{}b%'", "a".repeat(4000));
    let sql = format!("<QueryRequest><QueryType>SQL</QueryType><Expression>{like}</Expression></QueryRequest>");
    let none = String::new;
    vec![
        heavy("Put Block List of 50,000 ids", 200, blocks(), block_list()),
        heavy("Put Block List of 2,000,000 elements", 400, blocks(), format!("<BlockList>{}</BlockList>", "<a/>".repeat(2_000_000))),
        heavy("Put Message of 4 MiB", 413, messages(), message(4 << 20)),
        heavy("Put Message of 64 KiB", 200, messages(), message(64 << 10)),
        heavy("a transaction of 100 upserts, 3.9 MB", 200, batch(Service::Table), upserts(account.endpoint(Service::Table))),
        heavy("a Blob Batch of 256 deletions", 200, batch(Service::Blob), deletions(&account.name)),
        heavy("a multipart of 1,000,000 header lines", 400, batch(Service::Blob), format!("--b\r\n{}\r\n--b--\r\n", "a:\r\n".repeat(1_000_000))),
        heavy("Query Blob Contents: LIKE over 1 MiB", 200, blob("POST", LINE).query("comp", "query"), sql),
        heavy("List Blobs: 5,000 with all they have", 200, listing, none()),
        heavy("Get Block List of 50,000", 200, blob("GET", COMMITTED).query("comp", "blocklist"), none()),
        heavy("Get Messages: 32 of 64 KiB", 200, get_messages.query("numofmessages", "32").query("visibilitytimeout", "1"), none()),
        heavy("Set Container Metadata", 200, metadata.header("x-ms-meta-text", "m".repeat(7 << 10)), none()),
        heavy("a filter over 10,000 entities", 200, query("PartitionKey eq 'p' and Text eq 'y'"), none()),
        heavy("a page of 1,000 entities", 200, query("PartitionKey eq 'p'"), none()),
        heavy("a target of 60 KB", 200, blob("GET", SMALL).query("x", "ä".repeat(10_000)), none()),
    ]
}

/// An entity group transaction of 100 upserts of 39 KB each.
fn upserts(endpoint: &str) -> String {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    // A string takes at most 64 KiB: 32 K characters.
    let text = "x".repeat(19_500);
    for row in 0..100 {
        let _ = write!(
            body,
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PUT {endpoint}/{TABLE}(PartitionKey='t',RowKey='{row}') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
             {{\"A\":\"{text}\",\"B\":\"{text}\"}}\r\n"
        );
    }
    body.push_str("--c--\r\n--b--\r\n");
    body
}

/// A Blob Batch that deletes 256 blobs, none of which exists. Its parts carry no signature: each is
/// answered 403 or 404.
fn deletions(account: &str) -> String {
    let mut body = String::new();
    for number in 0..256 {
        let _ = write!(
            body,
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n\
             DELETE /{account}/{CONTAINER}/none{number} HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
        );
    }
    body.push_str("--b--\r\n");
    body
}
