//! What a change costs after many snapshots and copies: appends, page writes and reads, the last of them beside the first.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Findings, Outcome};

use super::blob_loads::{CONTAINER, noise};
use crate::client::{Client, Error};
use crate::report::median;
use crate::services::bench::Bench;
use crate::services::peers::{Peer, Running};

/// Snapshots, or copies to and fro, at scale 1.
const ROUNDS: f64 = 10_000.0;
/// The share of the rounds at either end whose medians are compared.
const ENDS: usize = 20;
const BLOCK_BYTES: usize = 1024;
/// Pages in a page blob of a mebibyte, written in turn.
const PAGE_BYTES: usize = 512;
const PAGES: usize = 2048;

/// What is done after each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// A snapshot.
    Snapshots,
    /// A copy to another blob and back.
    Copies,
}

/// Changes two blobs, one by appends and one by pages, and reads them.
pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let rounds = bench.scaled_small(ROUNDS, 20) as usize;
    for _ in 0..bench.runs {
        for (name, history) in [
            ("blob history of snapshots", History::Snapshots),
            ("blob history of copies", History::Copies),
        ] {
            for peer in bench.start(&[Peer::Lazurite])? {
                let findings = measure(&peer, history, rounds)?;
                bench.add(name, peer.peer(), findings);
            }
        }
    }
    Ok(())
}

fn measure(peer: &Running, history: History, rounds: usize) -> Outcome<Findings> {
    let client = peer.client();
    let (block, page) = (noise(BLOCK_BYTES), noise(PAGE_BYTES));
    client.create_container(CONTAINER)?;
    client.put_append_blob(CONTAINER, "appended")?;
    client.put_page_blob(CONTAINER, "paged", PAGES * PAGE_BYTES)?;
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut wrong = 0;
    for round in 0..rounds {
        let offset = round % PAGES * PAGE_BYTES;
        times[0].push(timed(|| client.append_block(CONTAINER, "appended", &block))?.1);
        times[1].push(timed(|| client.put_page(CONTAINER, "paged", offset, &page))?.1);
        for name in ["appended", "paged"] {
            keep(&client, history, name)?;
        }
        // Not what was written last: a read looks through all that came after the first write.
        let (read, took) = timed(|| client.get_blob_range(CONTAINER, "appended", 0, BLOCK_BYTES))?;
        times[2].push(took);
        wrong += usize::from(read != **block);
        if (round + 1).is_multiple_of(PAGES) {
            let read = client.get_blob_range(CONTAINER, "paged", offset, PAGE_BYTES)?;
            wrong += usize::from(read != **page);
        }
    }
    let mut findings = Findings::default();
    findings.mismatches = wrong;
    for (name, times) in ["append", "page", "read"].into_iter().zip(&times) {
        let end = (rounds / ENDS).max(1);
        let [first, last] =
            [&times[..end], &times[rounds - end..]].map(|some| micros(median(some)));
        findings.set(format!("{name}_first_us"), first);
        findings.set(format!("{name}_last_us"), last);
        findings.set(format!("{name}_last_by_first"), last / first.max(1.0));
    }
    Ok(findings)
}

fn keep(client: &Client, history: History, name: &str) -> Result<(), Error> {
    match history {
        History::Snapshots => client.snapshot_blob(CONTAINER, name),
        History::Copies => {
            let copy = format!("{name} copy");
            client.copy_blob(CONTAINER, name, &copy)?;
            client.copy_blob(CONTAINER, &copy, name)
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn timed<T>(request: impl FnOnce() -> Result<T, Error>) -> Result<(T, Duration), Error> {
    let began = Instant::now();
    let answer = request()?;
    Ok((answer, began.elapsed()))
}
