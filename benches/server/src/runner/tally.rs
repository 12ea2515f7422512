//! Work on several threads, and the observations of all of them: items done, latencies, and wrong
//! answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use lazurite_bench_common::number;

use crate::client::Error;

const THREADS: usize = 4;
/// Maximum number of wrong answers that are described.
const WRONG_MAX: usize = 5;

/// The observations of several threads, which share this value.
pub(super) struct Tally {
    began: Instant,
    done: AtomicU64,
    /// The latencies of successful requests, in nanoseconds.
    latencies: Mutex<Histogram<u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        let latencies = Histogram::new(3).expect("three digits are a valid precision");
        Tally {
            began: Instant::now(),
            done: AtomicU64::new(0),
            latencies: Mutex::new(latencies),
            wrong: Mutex::default(),
        }
    }

    /// Runs one request and records its latency.
    pub(super) fn time<T, E>(&self, request: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sent = Instant::now();
        let answer = request()?;
        let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut latencies = self.latencies.lock().expect("no request panics");
        latencies.record(nanos).expect("the histogram grows");
        Ok(answer)
    }

    /// Adds to the number of items done.
    pub(super) fn add(&self, items: usize) {
        self.done.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Unless `holds`, records a wrong answer.
    pub(super) fn check(&self, holds: bool, wrong: impl FnOnce() -> String) {
        let mut all = self.wrong.lock().expect("no request panics");
        if !holds && all.len() < WRONG_MAX {
            all.push(wrong());
        }
    }

    /// The items per second, the latencies, and the first wrong answers.
    pub(super) fn into_parts(self) -> (f64, Histogram<u64>, Vec<String>) {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-6);
        let per_s = self.done.into_inner() as f64 / seconds;
        let latencies = self.latencies.into_inner().expect("no request panics");
        let wrong = self.wrong.into_inner().expect("no request panics");
        (per_s, latencies, wrong)
    }
}

/// Calls `work` for each number below `count`, in order, on several threads. Ends at the first
/// error.
pub(super) fn in_parallel(
    what: &'static str,
    count: usize,
    work: impl Fn(usize) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let (next, bar) = (AtomicUsize::new(0), ProgressBar::new(count as u64));
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            if let Err(error) = work(number) {
                next.store(count, Ordering::Relaxed);
                return Err(error);
            }
            bar.inc(1);
        }
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
    let seconds = number(began.elapsed().as_secs_f64());
    eprintln!("  {count} {what} in {seconds} s");
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_each_and_ends_with_the_first_error() {
        let tally = Tally::new();
        let work = |number| {
            tally.add(1);
            tally.check(number != 3, || format!("{number} is wrong"));
            tally.time(|| Ok(()))
        };
        in_parallel("things", 9, work).unwrap();
        let (_, latencies, wrong) = tally.into_parts();
        assert_eq!((latencies.len(), wrong), (9, vec!["3 is wrong".to_owned()]));
        let fail = |number| match number {
            3 => Err(Error::Interrupted),
            _ => Ok(()),
        };
        assert!(in_parallel("things", 9, fail).is_err());
    }
}
