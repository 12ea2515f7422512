//! Phases of a run with their counts, latencies and mismatches: progress bars while they run, a
//! table at the end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lazurite_bench_common::{Better, Measurement, number, thousands};

/// Mismatches of one phase that are printed in words; beyond that they are only counted.
const MISMATCHES_SHOWN_MAX: usize = 5;

/// One phase while it runs. Threads share it.
pub(super) struct Phase {
    name: &'static str,
    unit: &'static str,
    bar: ProgressBar,
    started: Instant,
    items: AtomicU64,
    bytes: AtomicU64,
    latencies_us: Mutex<Vec<u32>>,
    mismatches: Mutex<Vec<String>>,
}

impl Phase {
    /// Starts the clock of a phase of about `expected` items.
    pub(super) fn start(name: &'static str, unit: &'static str, expected: usize) -> Phase {
        let style =
            ProgressStyle::with_template("{prefix:22} {bar:32} {pos:>7}/{len} {per_sec} {eta}");
        let bar = ProgressBar::new(expected as u64).with_prefix(name);
        bar.set_style(style.expect("the template is valid"));
        Phase {
            name,
            unit,
            bar,
            started: Instant::now(),
            items: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            latencies_us: Mutex::default(),
            mismatches: Mutex::default(),
        }
    }

    /// Counts `count` items as done and returns how many are done now.
    pub(super) fn add(&self, count: usize) -> u64 {
        self.bar.inc(count as u64);
        self.items.fetch_add(count as u64, Ordering::Relaxed) + count as u64
    }

    /// Counts bytes of content moved; a phase that moves some shows MiB/s.
    pub(super) fn add_bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Runs one request and records its latency if it was answered with success.
    pub(super) fn time<T, E>(&self, request: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sent = Instant::now();
        let answer = request();
        if answer.is_ok() {
            let micros = u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX);
            self.latencies_us.lock().unwrap().push(micros);
        }
        answer
    }

    /// Records a wrong answer of the server.
    pub(super) fn mismatch(&self, what: impl Into<String>) {
        self.mismatches.lock().unwrap().push(what.into());
    }

    /// Records a mismatch unless `holds`.
    pub(super) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.mismatch(what());
        }
    }

    fn finish(self) -> Row {
        self.bar.finish_and_clear();
        let mut latencies_us = self.latencies_us.into_inner().unwrap();
        latencies_us.sort_unstable();
        Row {
            name: self.name,
            unit: self.unit,
            elapsed: self.started.elapsed(),
            items: self.items.into_inner(),
            bytes: self.bytes.into_inner(),
            latencies_us,
            mismatches: self.mismatches.into_inner().unwrap(),
        }
    }
}

struct Row {
    name: &'static str,
    unit: &'static str,
    elapsed: Duration,
    items: u64,
    bytes: u64,
    /// Sorted.
    latencies_us: Vec<u32>,
    mismatches: Vec<String>,
}

impl Row {
    /// The latency that `share` of the requests did not exceed, in milliseconds; `-` without
    /// requests.
    fn quantile(&self, share: f64) -> String {
        let last = self.latencies_us.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        let latency = self.latencies_us.get(index);
        latency.map_or("-".into(), |us| number(f64::from(*us) / 1000.0))
    }

    /// In the order of [`COLUMNS`].
    fn cells(&self) -> [String; 10] {
        let seconds = self.elapsed.as_secs_f64().max(1e-6);
        let mib = self.bytes as f64 / (1024.0 * 1024.0) / seconds;
        [
            self.name.to_owned(),
            thousands(self.items),
            self.unit.to_owned(),
            number(seconds),
            number(self.items as f64 / seconds),
            if self.bytes > 0 {
                number(mib)
            } else {
                "-".into()
            },
            thousands(self.latencies_us.len() as u64),
            self.quantile(0.5),
            self.quantile(0.99),
            self.mismatches.len().to_string(),
        ]
    }
}

const COLUMNS: [&str; 10] = [
    "phase",
    "count",
    "of",
    "seconds",
    "per s",
    "MiB/s",
    "requests",
    "p50 ms",
    "p99 ms",
    "mismatches",
];

fn print_cells([name, count, unit, rest @ ..]: [String; 10]) {
    let [seconds, rate, mib, requests, p50, p99, mismatches] = rest;
    println!(
        "{name:22} {count:>9} {unit:12} {seconds:>8} {rate:>9} {mib:>8} {requests:>9} {p50:>8} {p99:>8} {mismatches:>10}"
    );
}

/// The finished phases, and remarks to print after them.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    remarks: Vec<String>,
}

impl Report {
    /// Ends `phase`, prints a line on standard error, and keeps its figures.
    pub(super) fn finish(&mut self, phase: Phase) {
        let row = phase.finish();
        let (items, seconds) = (thousands(row.items), row.elapsed.as_secs_f64());
        let seconds = number(seconds);
        eprintln!("{:22} {items} {} in {seconds} s", row.name, row.unit);
        for mismatch in row.mismatches.iter().take(MISMATCHES_SHOWN_MAX) {
            eprintln!("  mismatch: {mismatch}");
        }
        self.rows.push(row);
    }

    /// A line to be printed under the table.
    pub(super) fn remark(&mut self, line: impl Into<String>) {
        self.remarks.push(line.into());
    }

    /// Mismatches of all phases.
    pub(super) fn mismatches(&self) -> usize {
        self.rows.iter().map(|row| row.mismatches.len()).sum()
    }

    /// The rate and the median latency of each phase, one value for each of several runs.
    pub(super) fn measurements(reports: &[Report]) -> Vec<Measurement> {
        let mut all: Vec<Measurement> = Vec::new();
        for row in reports.iter().flat_map(|report| &report.rows) {
            let rate = row.items as f64 / row.elapsed.as_secs_f64().max(1e-6);
            let middle = row.latencies_us.get(row.latencies_us.len() / 2);
            let middle = middle.map(|us| f64::from(*us) / 1e3);
            for (figure, unit, better, value) in [
                ("rate", "per s", Better::More, Some(rate)),
                ("p50", "ms", Better::Less, middle),
            ] {
                let Some(value) = value else { continue };
                let name = format!("{}: {figure}", row.name);
                match all.iter_mut().find(|known| known.name == name) {
                    Some(known) => known.values.push(value),
                    None => all.push(Measurement {
                        name,
                        unit: unit.to_owned(),
                        better,
                        is_exact: false,
                        values: vec![value],
                    }),
                }
            }
        }
        all
    }

    /// Prints the table and the remarks on standard output.
    pub(super) fn print(&self) {
        if !self.rows.is_empty() {
            self.print_rows();
        }
        for remark in &self.remarks {
            println!("{remark}");
        }
    }

    fn print_rows(&self) {
        println!();
        print_cells(COLUMNS.map(str::to_owned));
        for row in &self.rows {
            print_cells(row.cells());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mismatches_of_all_phases_are_counted() {
        let mut report = Report::default();
        let phase = Phase::start("a", "things", 2);
        phase.check(true, || unreachable!());
        phase.check(false, || "b".into());
        assert_eq!(phase.add(2), 2);
        report.finish(phase);
        assert_eq!(report.mismatches(), 1);
    }

    #[test]
    fn phases_of_several_runs_are_measured_once_each() {
        let run = || {
            let mut report = Report::default();
            let phase = Phase::start("a", "things", 1);
            let answered: Result<(), ()> = phase.time(|| Ok(()));
            answered.unwrap();
            phase.add(1);
            report.finish(phase);
            report
        };
        let reports = [run(), run()];
        let measured = Report::measurements(&reports);
        let names: Vec<_> = measured.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["a: rate", "a: p50"]);
        assert!(measured.iter().all(|one| one.values.len() == 2));
    }
}
