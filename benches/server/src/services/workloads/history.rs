//! What a change costs after many snapshots and copies: appends, page writes and reads, the last of them beside the first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Findings, Outcome};

use super::blob_loads::{CONTAINER, noise};
use crate::client::{Client, Error};
use crate::report::median;
use crate::services::bench::{Bench, IDLE_SECONDS};
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
                let idle_window = bench.time(IDLE_SECONDS);
                let findings = measure(&peer, history, rounds, idle_window)?;
                bench.add(name, peer.peer(), findings);
            }
        }
    }
    Ok(())
}

/// Times the first rounds, the last of a run without a pause, and further ones once the server has caught up with its background
/// work: on a few processors that work alone makes every request of a busy server slower, whatever the history.
fn measure(
    peer: &Running,
    history: History,
    rounds: usize,
    idle_window: Duration,
) -> Outcome<Findings> {
    let mut changes = Changes::begin(peer, history)?;
    changes.run(rounds)?;
    peer.wait_until_idle(idle_window);
    let end = (rounds / ENDS).max(1);
    changes.run(end)?;
    let mut findings = Findings {
        mismatches: changes.wrong,
        ..Findings::default()
    };
    let ends = [0..end, rounds - end..rounds, rounds..rounds + end];
    for (name, times) in ["append", "page", "read"].into_iter().zip(&changes.times) {
        let [first, busy, last] = ends.clone().map(|some| micros(median(&times[some])));
        findings.set(format!("{name}_first_us"), first);
        findings.set(format!("{name}_without_pause_us"), busy);
        findings.set(format!("{name}_last_us"), last);
        findings.set(format!("{name}_last_by_first"), last / first.max(1.0));
    }
    Ok(findings)
}

/// Two blobs that are changed in turn, with the time that each request took.
struct Changes {
    client: Client,
    history: History,
    block: Arc<Vec<u8>>,
    page: Arc<Vec<u8>>,
    done: usize,
    /// Of appends, page writes and reads, in the order of the rounds.
    times: [Vec<Duration>; 3],
    wrong: usize,
}

impl Changes {
    fn begin(peer: &Running, history: History) -> Outcome<Changes> {
        let client = peer.client();
        client.create_container(CONTAINER)?;
        client.put_append_blob(CONTAINER, "appended")?;
        client.put_page_blob(CONTAINER, "paged", PAGES * PAGE_BYTES)?;
        Ok(Changes {
            client,
            history,
            block: noise(BLOCK_BYTES),
            page: noise(PAGE_BYTES),
            done: 0,
            times: Default::default(),
            wrong: 0,
        })
    }

    fn run(&mut self, rounds: usize) -> Outcome<()> {
        for round in self.done..self.done + rounds {
            self.round(round)?;
        }
        self.done += rounds;
        Ok(())
    }

    fn round(&mut self, round: usize) -> Result<(), Error> {
        let client = &self.client;
        let offset = round % PAGES * PAGE_BYTES;
        self.times[0].push(timed(|| client.append_block(CONTAINER, "appended", &self.block))?.1);
        self.times[1].push(timed(|| client.put_page(CONTAINER, "paged", offset, &self.page))?.1);
        for name in ["appended", "paged"] {
            keep(client, self.history, name)?;
        }
        // The first bytes, not the last: a read has to look through everything that was written after them.
        let read = || client.get_blob_range(CONTAINER, "appended", 0, BLOCK_BYTES);
        let (read, took) = timed(read)?;
        self.times[2].push(took);
        self.wrong += usize::from(read != **self.block);
        if (round + 1).is_multiple_of(PAGES) {
            let read = client.get_blob_range(CONTAINER, "paged", offset, PAGE_BYTES)?;
            self.wrong += usize::from(read != **self.page);
        }
        Ok(())
    }
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
