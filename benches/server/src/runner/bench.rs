//! What the workloads of `run` share: servers on empty directories, work on several threads, and
//! the figures so far.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tempfile::TempDir;

use lazurite_bench_common::{Findings, OURS, Outcome, Results, median_time, number};

use crate::client::{Client, Error};
use crate::load::Observations;
use crate::runner::RunArgs;
use crate::server::Server;

/// As many as `lazurite import` sends requests at a time.
const THREADS: usize = 4;

/// The workloads while they run.
pub(super) struct Bench<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) results: Results,
}

impl Bench<'_> {
    pub(super) fn new(args: &RunArgs) -> Bench<'_> {
        Bench {
            args,
            results: Results::default(),
        }
    }

    /// `full` at this scale, at least one.
    pub(super) fn scaled(&self, full: usize) -> usize {
        ((full as f64 * self.args.scale).round() as usize).max(1)
    }

    /// `full` seconds at this scale.
    pub(super) fn time(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.args.scale.sqrt()).max(0.2))
    }

    /// A new directory.
    pub(super) fn scratch(&self) -> Outcome<TempDir> {
        Ok(match &self.args.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?)
    }

    /// Starts the server on an empty directory, with these flags.
    pub(super) fn start(&self, flags: &[&str]) -> Outcome<Running> {
        let scratch = self.scratch()?;
        let directory = scratch.path().join("data");
        Ok(Running {
            server: Server::start_with(&self.args.spawn, &directory, flags)?,
            directory,
            _scratch: scratch,
        })
    }

    pub(super) fn set(&mut self, case: &str, figure: &str, value: f64) {
        let mut findings = Findings::default();
        findings.set(figure, value);
        self.results.add(case, OURS, findings);
    }

    /// Counts a wrong answer unless `is_right`, and prints it.
    pub(super) fn check(&mut self, case: &str, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            eprintln!("  mismatch: {case}: {}", wrong());
            let findings = Findings {
                mismatches: 1,
                ..Findings::default()
            };
            self.results.add(case, OURS, findings);
        }
    }

    /// The median and the longest of some times.
    pub(super) fn set_times(&mut self, case: &str, times: &[Duration]) {
        let most = times.iter().max().copied().unwrap_or_default();
        self.set(case, "p50_ms", millis(median_time(times)));
        self.set(case, "max_ms", millis(most));
    }

    /// The quantiles of latencies in nanoseconds.
    pub(super) fn set_latencies(&mut self, case: &str, latencies: &Histogram<u64>) {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        self.set(case, "p50_us", micros(latencies.value_at_quantile(0.5)));
        self.set(case, "p99_us", micros(latencies.value_at_quantile(0.99)));
        self.set(case, "max_us", micros(latencies.max()));
    }

    /// The rate and the latencies of a load of one kind, and its wrong answers.
    pub(super) fn set_observed(&mut self, case: &str, observed: &Observations) {
        let seconds = observed.elapsed.as_secs_f64().max(1e-3);
        self.set(case, "per_s", observed.count(0) as f64 / seconds);
        self.set_latencies(case, &observed.latencies[0]);
        for wrong in &observed.wrong {
            self.check(case, false, || wrong.clone());
        }
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Bytes as megabytes.
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A server and its data, which are removed after it has ended: fields are dropped in their order.
pub(super) struct Running {
    server: Server,
    pub(super) directory: PathBuf,
    _scratch: TempDir,
}

impl Running {
    pub(super) fn client(&self) -> Client {
        Client::new(self.server.account())
    }
}

impl Deref for Running {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Does the work of each number below `count`, in their order, on several threads; begins nothing
/// after `deadline`. Returns how many were done.
pub(super) fn in_parallel(
    what: &'static str,
    count: usize,
    deadline: Option<Instant>,
    work: impl Fn(usize) -> Result<(), Error> + Sync,
) -> Result<usize, Error> {
    let (next, bar) = (AtomicUsize::new(0), ProgressBar::new(count as u64));
    let is_over = || deadline.is_some_and(|deadline| Instant::now() > deadline);
    let run = || {
        while !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            work(number)?;
            bar.inc(1);
        }
        Ok(())
    };
    let began = Instant::now();
    let outcome = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let mut ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no request panics"));
        ended.try_for_each(|ended| ended)
    });
    bar.finish_and_clear();
    let done = next.load(Ordering::Relaxed).min(count);
    let seconds = number(began.elapsed().as_secs_f64());
    eprintln!("  {done} {what} in {seconds} s");
    outcome.map(|()| done)
}

/// Prints a line for each case: its figures by name.
pub(super) fn print(results: &Results) {
    println!();
    for case in results.cases() {
        for peer in results.peers(case) {
            let figures = results.figure_names(case, peer).into_iter();
            let figures = figures.filter_map(|name| {
                let figure = results.figure(case, peer, name)?;
                Some(format!("{name} {}", number(figure)))
            });
            println!("{case:48} {}", figures.collect::<Vec<_>>().join("  "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_the_deadline_and_with_the_first_error() {
        let passed = Instant::now();
        thread::sleep(Duration::from_millis(1));
        assert_eq!(
            in_parallel("things", 9, Some(passed), |_| Ok(())).unwrap(),
            0
        );
        assert_eq!(in_parallel("things", 9, None, |_| Ok(())).unwrap(), 9);
        let fail = |number| match number {
            3 => Err(Error::Interrupted),
            _ => Ok(()),
        };
        assert!(in_parallel("things", 9, None, fail).is_err());
    }
}
