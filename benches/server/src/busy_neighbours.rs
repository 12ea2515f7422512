//! One sequential client beside busy processes on the same processors, with the server's busy poll on and off in turn.
//!
//! Servers, client and busy processes are children of one session, so the scheduler puts them into one group and shares the processors
//! among them. The poll must not make the client slower, whatever the number of busy processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lazurite_bench_common::{Outcome, number};

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
    let servers = Servers::start(args, scratch.path())?;
    let mut report = Report::default();
    report.remark(format!(
        "{:34} {:>12} {:>12} {:>8}",
        "one client gets a blob of 1 KiB", "poll, per s", "none, per s", "ratio"
    ));
    let mut least = f64::INFINITY;
    for neighbours in 0..=args.neighbours {
        let [with, without] = servers.measure_beside(neighbours, args)?;
        let ratio = with / without.max(1.0);
        least = least.min(ratio);
        report.remark(format!(
            "{:34} {:>12} {:>12} {ratio:>7.2}x",
            beside(neighbours),
            number(with),
            number(without)
        ));
    }
    servers.bar.finish_and_clear();
    let reached = format!("with the poll the client has {least:.2}x of its rate without it");
    if least < RATE_MIN {
        report.print();
        return Err(format!("busy-neighbours failed: {reached}, less than {RATE_MIN}x").into());
    }
    report.remark(format!(
        "busy-neighbours passed: {reached} or more (bar: {RATE_MIN}x)"
    ));
    Ok(report)
}

/// Two servers, with the poll and without, and how many spans were measured.
struct Servers {
    polling: Server,
    sleeping: Server,
    bar: ProgressBar,
}

impl Servers {
    fn start(args: &BusyNeighboursArgs, directory: &Path) -> Outcome<Servers> {
        let start = |name: &str, poll: &str| -> Outcome<Server> {
            let server = Server::start_with(&args.spawn, &directory.join(name), &[poll])?;
            checked_clients::store(&Client::new(server.account()))?;
            Ok(server)
        };
        let spans = 2 * u64::from(args.rounds) * (args.neighbours as u64 + 1);
        let bar = ProgressBar::new(spans).with_prefix("spans");
        let style = ProgressStyle::with_template("{prefix:22} {bar:32} {pos:>7}/{len} {eta}");
        bar.set_style(style.expect("the template is valid"));
        Ok(Servers {
            polling: start("polling", "--busy-poll=true")?,
            sleeping: start("sleeping", "--busy-poll=false")?,
            bar,
        })
    }

    /// The median rates with the poll and without, beside this number of busy processes.
    fn measure_beside(&self, neighbours: usize, args: &BusyNeighboursArgs) -> Outcome<[f64; 2]> {
        let _busy = (0..neighbours).map(|_| Busy::start());
        let _busy = _busy.collect::<Outcome<Vec<_>>>()?;
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..args.rounds {
            for (server, rates) in [&self.polling, &self.sleeping].into_iter().zip(&mut rates) {
                rates.push(measured(server, args.seconds)?);
                self.bar.inc(1);
            }
        }
        Ok(rates.map(median))
    }
}

/// Requests per second of one span. Error: a wrong answer.
fn measured(server: &Server, seconds: u64) -> Outcome<f64> {
    let observed = checked_clients::get_on(server, 1, Duration::from_secs(seconds))?;
    match observed.mismatches {
        0 => Ok(rate(&observed)),
        wrong => Err(format!("{wrong} wrong answers").into()),
    }
}

fn beside(neighbours: usize) -> String {
    let plural = if neighbours == 1 { "" } else { "es" };
    format!("beside {neighbours} busy process{plural}")
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
