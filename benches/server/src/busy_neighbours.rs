//! One sequential client beside busy processes on the same processors, with the server's busy poll on and off in turn.
//!
//! Servers, client and busy processes are children of one session, so the scheduler puts them into one group and shares the processors
//! among them. The poll must not make the client slower, whatever the number of busy processes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::checked_clients::{self, rate};
use crate::client::Client;
use crate::report::Report;
use crate::server::Server;

/// The rate with the poll may be this part of the rate without it.
const RATE_MIN: f64 = 0.95;

#[derive(clap::Args)]
pub(crate) struct BusyNeighboursArgs {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(crate) spawn: PathBuf,
    /// Most busy processes beside the client
    #[arg(long, default_value_t = 4)]
    pub(crate) neighbours: usize,
    /// Spans with the poll, and as many without, for each number of busy processes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: u16,
    /// Length of a span in seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
}

/// Measures the client with each number of busy processes.
pub(crate) fn run(args: &BusyNeighboursArgs) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let start = |name: &str, poll: &str| {
        let server = Server::start_with(&args.spawn, &scratch.path().join(name), &[poll])?;
        checked_clients::store(&Client::new(server.account()))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(server)
    };
    let polling = start("polling", "--busy-poll=true")?;
    let sleeping = start("sleeping", "--busy-poll=false")?;
    let mut report = Report::default();
    report.remark(format!(
        "{:34} {:>12} {:>12} {:>8}",
        "one client gets a blob of 1 KiB", "poll, per s", "none, per s", "ratio"
    ));
    let mut is_slower = false;
    for neighbours in 0..=args.neighbours {
        let _busy = (0..neighbours).map(|_| Busy::start());
        let _busy = _busy.collect::<Outcome<Vec<_>>>()?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            with.push(measured(&polling, args.seconds)?);
            without.push(measured(&sleeping, args.seconds)?);
        }
        let (with, without) = (median(with), median(without));
        let ratio = with / without.max(1.0);
        is_slower |= ratio < RATE_MIN;
        report.remark(format!(
            "{:34} {with:>12.0} {without:>12.0} {ratio:>7.2}x",
            format!("beside {neighbours} busy processes")
        ));
    }
    if is_slower {
        report.print();
        return Err(format!(
            "the poll makes the client slower than {RATE_MIN} of the rate without it"
        )
        .into());
    }
    Ok(report)
}

/// Requests per second of one span. Error: a wrong answer.
fn measured(server: &Server, seconds: u64) -> Outcome<f64> {
    let observed = checked_clients::get_on(server, 1, Duration::from_secs(seconds))?;
    match observed.mismatches {
        0 => Ok(rate(&observed)),
        wrong => Err(format!("{wrong} wrong answers").into()),
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A process that computes without a pause. Ends when it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Outcome<Busy> {
        let program = std::env::current_exe()?;
        let child = Command::new(program)
            .arg("spin")
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Busy(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // An error means that the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The work of a busy process. Ends after a day, in case its parent was killed.
pub(crate) fn spin() {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(24 * 60 * 60) {
        std::hint::black_box((0..1_000_000_u64).fold(0, |sum, number| sum ^ number));
    }
}
