//! State: snapshot, fork, restore and reset of a filled store beside an empty one, and the cost of a fork among many.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, allocated_bytes, bars, counted, number, size};

use crate::administration;
use crate::client::Client;
use crate::filling::{self, Amounts};
use crate::report::{Phase, Report, median};
use crate::server::Server;

/// Of each blob of the larger store.
const BLOB_BYTES: usize = 20_000;
/// Of each operation, also on the filled store.
const TIME_GOAL: Duration = Duration::from_millis(50);
const BYTES_GOAL: u64 = 20_000_000;
/// How many are measured on each store.
const OPERATIONS: usize = 5;
/// What the server does behind its answers is over by then.
const SETTLING: Duration = Duration::from_secs(8);

#[derive(clap::Args)]
pub(crate) struct StateArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Entities of the larger store
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) entities: usize,
    /// Blobs of the larger store, of 20 kB each
    #[arg(long, default_value_t = 100_000)]
    pub(crate) blobs: usize,
    /// Messages of the larger store
    #[arg(long, default_value_t = 100_000)]
    pub(crate) messages: usize,
    /// How often each operation is measured
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// Forks at the same time
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) forks: u32,
}

impl StateArgs {
    fn amounts(&self) -> Amounts {
        Amounts {
            entities: self.entities,
            blobs: self.blobs,
            blob_bytes: BLOB_BYTES,
            messages: self.messages,
        }
    }
}

/// Measures an empty store, then a filled one.
pub(crate) fn run(args: &StateArgs) -> Outcome<Report> {
    let mut report = Report::default();
    let mut missed = 0;
    for amounts in [Amounts::NONE, args.amounts()] {
        let scratch = tempfile::tempdir()?;
        let directory = scratch.path().join("data");
        let most = format!("--forks-max={}", args.forks + 2 * u32::from(args.runs));
        let server = Server::start_with(&args.spawn, &directory, &[&most])?;
        let is_filled = amounts != Amounts::NONE;
        if is_filled {
            filling::fill(&mut report, &Client::new(server.account()), amounts)?;
        }
        thread::sleep(SETTLING);
        let store = Store { server, directory };
        report.remark(format!("{}:", amounts.text()));
        missed += store.measure_operations(args.runs, &mut report)?;
        store.measure_forks(args.forks, &mut report)?;
    }
    report.remark(format!(
        "{missed} of {} operations miss a goal: {} ms to the caller and {} of disk, each time",
        2 * OPERATIONS,
        TIME_GOAL.as_millis(),
        size(BYTES_GOAL)
    ));
    Ok(report)
}

struct Store {
    server: Server,
    directory: PathBuf,
}

impl Store {
    /// Returns the number of operations that miss a goal.
    fn measure_operations(&self, runs: u16, report: &mut Report) -> Outcome<usize> {
        let mut snapshots = Vec::new();
        let (mut now, mut seed, mut restores, mut resets) = (vec![], vec![], vec![], vec![]);
        for run in 0..runs {
            snapshots.push(self.ask("PUT", &format!("snapshots/s{run}"), "")?);
            now.push(self.ask("POST", "forks", "{}")?);
            seed.push(self.ask("POST", "forks", &format!("{{\"from\":\"s{run}\"}}"))?);
        }
        for _ in 0..runs {
            restores.push(self.ask("POST", "snapshots/s0/restore", "")?);
            resets.push(self.ask("POST", "reset", "")?);
        }
        let mut missed = 0;
        for (name, taken) in [
            ("snapshot", snapshots),
            ("fork of now", now),
            ("fork of a snapshot", seed),
            ("restore", restores),
            ("reset", resets),
        ] {
            let (remark, is_met) = taken_remark(name, &taken);
            report.remark(remark);
            missed += usize::from(!is_met);
        }
        Ok(missed)
    }

    /// Of the snapshot `s0`. The first and the last of them are shown beside all: a fork may not cost more where there are many.
    fn measure_forks(&self, forks: u32, report: &mut Report) -> Outcome<()> {
        let before = self.usage();
        let phase = Phase::start("forks", "forks", forks as usize);
        let mut times = Vec::new();
        for _ in 0..forks {
            times.push(phase.time(|| self.time("POST", "forks", "{\"from\":\"s0\"}"))?);
            phase.add(1);
        }
        let took = phase.elapsed();
        report.finish(phase);
        thread::sleep(SETTLING);
        let after = self.usage();
        let each = |after: u64, before: u64| after.saturating_sub(before) as f64 / f64::from(forks);
        let tenth = times.len().div_ceil(10);
        let millis = |times: &[Duration]| number(median(times).as_secs_f64() * 1e3);
        report.remark(format!(
            "  {} in {} s, {} ms each (median; {} of the first tenth, {} of the last); each {} KiB of memory, {} handles, {} threads, {} KiB \
             of disk",
            counted(forks as usize, "fork"),
            number(took.as_secs_f64()),
            millis(&times),
            millis(&times[..tenth]),
            millis(&times[times.len() - tenth..]),
            number(each(after.memory_kib, before.memory_kib)),
            number(each(after.handles, before.handles)),
            number(each(after.threads, before.threads)),
            number(each(after.disk_bytes, before.disk_bytes) / 1024.0),
        ));
        Ok(())
    }

    /// Sends an operation on the state: how long it took, and the bytes of disk that it added.
    fn ask(&self, method: &str, page: &str, body: &str) -> Outcome<(Duration, u64)> {
        let before = allocated_bytes(&self.directory);
        let took = self.time(method, page, body)?;
        let after = allocated_bytes(&self.directory);
        Ok((took, after.saturating_sub(before)))
    }

    /// As [`Store::ask`], without a walk of the data directory, which takes longer the more forks there are.
    fn time(&self, method: &str, page: &str, body: &str) -> Outcome<Duration> {
        let account = self.server.account();
        let began = Instant::now();
        administration::ask(&account, method, &format!("state/{page}"), body)?;
        Ok(began.elapsed())
    }

    fn usage(&self) -> Usage {
        let process = self.server.process();
        let count = |name: &str| {
            let entries = fs::read_dir(format!("/proc/{}/{name}", process.0));
            entries.map_or(0, |entries| entries.count() as u64)
        };
        Usage {
            memory_kib: process.memory().resident_kib,
            handles: count("fd"),
            threads: count("task"),
            disk_bytes: allocated_bytes(&self.directory),
        }
    }
}

/// What a server takes from the system.
struct Usage {
    memory_kib: u64,
    handles: u64,
    threads: u64,
    disk_bytes: u64,
}

/// A line, and whether each run met both goals.
fn taken_remark(name: &str, taken: &[(Duration, u64)]) -> (String, bool) {
    let times: Vec<_> = taken.iter().map(|(time, _)| *time).collect();
    let millis = |time: Duration| number(time.as_secs_f64() * 1e3);
    let most = times.iter().max().copied().unwrap_or_default();
    let bytes = taken.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let is_met = most <= TIME_GOAL && bytes <= BYTES_GOAL;
    let remark = format!(
        "  {name}: {} ms (median of {}), {} ms at most; {} of disk at most: {}",
        millis(median(&times)),
        times.len(),
        millis(most),
        size(bytes),
        bars::verdict(is_met)
    );
    (remark, is_met)
}
