//! Start: the time until a server on an empty directory answers, and its memory when idle.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::Client;
use crate::report::{Report, median};
use crate::server::Server;

const READY_GOAL_MS: f64 = 100.0;
const IDLE_GOAL_MB: f64 = 40.0;
/// Time after which the work that follows the start of a server is over.
const SETTLING: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct StartArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// How often it is started
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,
}

/// Starts the server `runs` times, each time on a new empty directory.
pub(crate) fn run(args: &StartArgs) -> Outcome<Report> {
    let mut ready = Vec::new();
    let mut idle_kib = Vec::new();
    let mut spawned = Vec::new();
    for run in 0..args.runs {
        spawned.push(time_of_true()?);
        let scratch = tempfile::tempdir()?;
        let server = Server::start(&args.spawn, &scratch.path().join("data"))?;
        ready.push(server.ready_after());
        // Ready means that it answers.
        Client::new(server.account()).create_queue("ready")?;
        if run < 3 {
            thread::sleep(SETTLING);
            idle_kib.push(server.memory().resident_kib);
        }
    }
    Ok(report(&ready, &spawned, &idle_kib))
}

/// The lower bound: starting a process that does nothing, until it has ended.
fn time_of_true() -> Outcome<Duration> {
    let started = Instant::now();
    let status = Command::new("true").status()?;
    status
        .success()
        .then(|| started.elapsed())
        .ok_or_else(|| "`true` failed".into())
}

fn report(ready: &[Duration], spawned: &[Duration], idle_kib: &[u64]) -> Report {
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let longest = ready.iter().max().copied().unwrap_or_default();
    let idle_mb = idle_kib.iter().max().copied().unwrap_or(0) as f64 * 1024.0 / 1e6;
    let verdict = |met: bool| if met { "met" } else { "missed" };
    let mut report = Report::default();
    report.remark(format!(
        "start to ready: {:.1} ms (median of {}), {:.1} ms at most (goal: {READY_GOAL_MS} ms, {})",
        millis(median(ready)),
        ready.len(),
        millis(longest),
        verdict(millis(median(ready)) <= READY_GOAL_MS)
    ));
    report.remark(format!(
        "start of `true` until its end: {:.1} ms (median)",
        millis(median(spawned))
    ));
    report.remark(format!(
        "memory when idle: {idle_mb:.1} MB (goal: {IDLE_GOAL_MB} MB, {})",
        verdict(idle_mb <= IDLE_GOAL_MB)
    ));
    report
}
