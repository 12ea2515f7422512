//! The cost of appends, page writes and reads after many snapshots or copies. The last requests are
//! compared with the first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Findings, Outcome, median_time};

use crate::client::{Client, Error, Service};
use crate::runner::bench::{Bench, IDLE_SECONDS};
use crate::runner::peers::{Peer, Running};
use crate::runner::workloads::blob_loads::{CONTAINER, noise};

/// Number of snapshots, or of copies to another blob and back, at scale 1.
const ROUNDS: f64 = 10_000.0;
/// Divisor of the rounds: the medians of this share at either end are compared.
const ENDS: usize = 20;
const BLOCK_BYTES: usize = 1024;
/// Size and number of the pages of a page blob of 1 MiB, which are written in turn.
const PAGE_BYTES: usize = 512;
const PAGES: usize = 2048;
/// The names of the timed requests in figures.
const KINDS: [&str; 3] = ["append", "page", "read"];

/// The operation that follows each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// Takes a snapshot.
    Snapshots,
    /// Copies the blob to another one and back.
    Copies,
}

/// Changes two blobs, one by appending and one by writing pages, and reads them.
pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let rounds = bench.scaled_small(ROUNDS, 20) as usize;
    for _ in 0..bench.settings.runs {
        for (name, history) in [
            ("blob history of snapshots", History::Snapshots),
            ("blob history of copies", History::Copies),
        ] {
            for peer in bench.start_all(&[Peer::Lazurite], Service::Blob)? {
                let idle_window = bench.time(IDLE_SECONDS);
                let findings = measure(&peer, history, rounds, idle_window)?;
                bench.add(name, peer.peer(), findings);
            }
        }
    }
    Ok(())
}

/// Ages two blobs, and waits until the server has finished its background work. Then further rounds
/// on the aged blobs alternate with the first rounds on two fresh blobs, so that another program
/// slows both alike.
///
/// The figures `without_pause` are the medians of the last rounds before that wait. Background work
/// runs during these rounds, and on a few processors it makes every request slower, whatever the
/// history. The CPU time of the server is that of the first and of the last rounds on the aged
/// blobs before the alternation.
fn measure(
    peer: &Running,
    history: History,
    rounds: usize,
    idle_window: Duration,
) -> Outcome<Findings> {
    let end = (rounds / ENDS).max(1);
    let mut aged = Changes::begin(peer, history, "aged")?;
    let first_cpu = aged.run_for_cpu(peer, end)?;
    aged.run(rounds - end)?;
    let without_pause = aged.last_medians(end);
    peer.wait_until_idle(idle_window);
    let last_cpu = aged.run_for_cpu(peer, end)?;
    let mut fresh = Changes::begin(peer, history, "fresh")?;
    for _ in 0..end {
        fresh.run(1)?;
        aged.run(1)?;
    }
    let mut findings = Findings {
        mismatches: aged.wrong + fresh.wrong,
        ..Findings::default()
    };
    let ends = fresh
        .last_medians(end)
        .into_iter()
        .zip(aged.last_medians(end));
    for ((name, busy), (first, last)) in KINDS.into_iter().zip(without_pause).zip(ends) {
        findings.set(format!("{name}_first_us"), first);
        findings.set(format!("{name}_without_pause_us"), busy);
        findings.set(format!("{name}_last_us"), last);
        findings.set(format!("{name}_last_by_first"), last / first.max(1.0));
    }
    findings.set("round_cpu_first_us", first_cpu);
    findings.set("round_cpu_last_us", last_cpu);
    Ok(findings)
}

/// Two blobs that are changed in turn, and the times of the requests.
struct Changes {
    client: Client,
    history: History,
    appended: String,
    paged: String,
    block: Arc<Vec<u8>>,
    page: Arc<Vec<u8>>,
    done: usize,
    /// The times of each kind of request, in the order of the rounds.
    times: [Vec<Duration>; KINDS.len()],
    wrong: usize,
}

impl Changes {
    /// Creates two empty blobs whose names begin with `age`.
    fn begin(peer: &Running, history: History, age: &str) -> Outcome<Changes> {
        let client = peer.client();
        let (appended, paged) = (format!("{age}-appended"), format!("{age}-paged"));
        client.put_append_blob(CONTAINER, &appended)?;
        client.put_page_blob(CONTAINER, &paged, PAGES * PAGE_BYTES)?;
        Ok(Changes {
            client,
            history,
            appended,
            paged,
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

    /// Runs rounds. Returns the server's CPU time per round in microseconds.
    fn run_for_cpu(&mut self, peer: &Running, rounds: usize) -> Outcome<f64> {
        let before = peer.process().cpu();
        self.run(rounds)?;
        let took = peer.process().cpu().saturating_sub(before);
        Ok(micros(took) / rounds as f64)
    }

    /// The medians of the last `rounds` rounds, in microseconds.
    fn last_medians(&self, rounds: usize) -> [f64; KINDS.len()] {
        let last = |times: &Vec<Duration>| micros(median_time(&times[times.len() - rounds..]));
        [0, 1, 2].map(|kind| last(&self.times[kind]))
    }

    fn round(&mut self, round: usize) -> Result<(), Error> {
        let client = &self.client;
        let offset = round % PAGES * PAGE_BYTES;
        self.times[0]
            .push(timed(|| client.append_block(CONTAINER, &self.appended, &self.block))?.1);
        self.times[1]
            .push(timed(|| client.put_page(CONTAINER, &self.paged, offset, &self.page))?.1);
        for name in [&self.appended, &self.paged] {
            keep(client, self.history, name)?;
        }
        // The first bytes, not the last: a read of the first bytes must get past everything written
        // later.
        let read = || client.get_blob_range(CONTAINER, &self.appended, 0, BLOCK_BYTES);
        let (read, took) = timed(read)?;
        self.times[2].push(took);
        self.wrong += usize::from(read != **self.block);
        if (round + 1).is_multiple_of(PAGES) {
            let read = client.get_blob_range(CONTAINER, &self.paged, offset, PAGE_BYTES)?;
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
