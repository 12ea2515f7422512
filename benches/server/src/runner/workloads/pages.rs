//! Pages of the console over a large store: response time and length of each page.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, median_time};

use crate::client::Client;
use crate::runner::bench::{Bench, millis};
use crate::runner::workloads::filling::{self, Amounts};

const AMOUNTS: Amounts = Amounts {
    blobs: 1_000_000,
    blob_bytes: 1,
    ..Amounts::LARGE
};

/// Number of requests for each page. The time of the first is a separate figure.
const RUNS: usize = 11;

/// The paths of the pages below `/_lazurite/`.
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
    "advisor",
    "advisor/heat",
    "state",
    "clock",
    "faults",
    "engine",
    "api/names",
    "api/status",
    "api/engine",
];

/// Searches without a match.
const SEARCHES: &[&str] = &[
    "queues/devstoreaccount1/many?filter=absent",
    "tables/devstoreaccount1/Many?filter=absent%20eq%201",
];

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let server = bench.start(&[])?;
    let client = server.client();
    filling::fill(&client, AMOUNTS.scaled(bench.settings.scale))?;
    let mut longest = 0;
    for (kind, pages) in [("page", PAGES), ("search", SEARCHES)] {
        let mut slowest = Duration::ZERO;
        for page in pages {
            let (first, bytes) = measure(bench, &client, page)?;
            slowest = slowest.max(first);
            longest = longest.max(bytes);
        }
        bench.set(
            &format!("pages: slowest {kind}"),
            "first_ms",
            millis(slowest),
        );
    }
    bench.set("pages: longest", "kib", longest as f64 / 1024.0);
    Ok(())
}

/// Asks for a page several times. Returns the time of the first answer until its last byte, and the
/// greatest length.
fn measure(bench: &mut Bench, client: &Client, page: &str) -> Outcome<(Duration, usize)> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let began = Instant::now();
        let answer = client.page("GET", page, "")?;
        times.push(began.elapsed());
        bytes = bytes.max(answer.len());
    }
    let case = format!("pages: /{page}");
    bench.set(&case, "first_ms", millis(times[0]));
    bench.set(&case, "p50_ms", millis(median_time(&times)));
    bench.set(&case, "kib", bytes as f64 / 1024.0);
    Ok((times[0], bytes))
}
