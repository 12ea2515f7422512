//! The context of a step: its engine, its data, its figures and the wrong answers.

use std::collections::BTreeMap;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Findings, Outcome, Random, allocated_bytes};

use crate::data::{KEY_BYTES, Shuffle, Values, key, names_row};
use crate::engine::{Engine, Row, Setup};
use crate::findings;
use crate::peers::Peer;
use crate::usage::{Latencies, Usage, Used, wait_until_idle};

/// Bytes of a small value.
pub(crate) const VALUE_BYTES: usize = 100;
/// Rows of the usual data at scale 1.
const ROWS: f64 = 2e6;
/// Rows of one commit in a load.
const LOAD_BATCH_ROWS: u64 = 1000;
/// Rows that are read and compared after something was written.
const SAMPLE_ROWS: u64 = 10_000;
/// Length of a window, in seconds. Background work counts as done after several idle windows in a
/// row.
const WINDOW_SECONDS: f64 = 0.1;
const MISMATCHES_MAX: usize = 5;

/// One step of a workload on one engine.
pub(crate) struct Context {
    pub(crate) peer: Peer,
    pub(crate) directory: PathBuf,
    pub(crate) scale: f64,
    pub(crate) values: Values,
    figures: Mutex<BTreeMap<String, f64>>,
    mismatches: Mutex<Vec<String>>,
}

impl Context {
    pub(crate) fn new(peer: Peer, directory: PathBuf, scale: f64) -> Context {
        Context {
            peer,
            directory,
            scale,
            values: Values::new(),
            figures: Mutex::default(),
            mismatches: Mutex::default(),
        }
    }

    pub(crate) fn open(&self, setup: &Setup) -> Outcome<Box<dyn Engine>> {
        self.peer.open(&self.directory, setup)
    }

    /// `full` at this scale, at least `least`.
    pub(crate) fn scaled(&self, full: f64, least: u64) -> u64 {
        ((full * self.scale) as u64).max(least)
    }

    /// Rows of the usual data.
    pub(crate) fn rows(&self) -> u64 {
        self.scaled(ROWS, 1000)
    }

    /// How long a timed phase of `full` seconds may take at this scale.
    pub(crate) fn limit(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.scale.sqrt()).max(0.03))
    }

    /// Sets a figure of this step.
    pub(crate) fn figure(&self, name: impl Into<String>, value: f64) {
        self.figures.lock().unwrap().insert(name.into(), value);
    }

    /// Sets the figures of `operations` operations that took `used` in total and `latencies` each;
    /// the figures' names begin with `prefix`.
    pub(crate) fn phase(
        &self,
        prefix: &str,
        operations: u64,
        used: &Used,
        latencies: Option<&Latencies>,
    ) {
        let count = operations.max(1) as f64;
        let seconds = used.elapsed.as_secs_f64();
        self.figure(format!("{prefix}per_s"), count / seconds);
        self.figure(
            format!("{prefix}cpu_us"),
            used.cpu.as_secs_f64() * 1e6 / count,
        );
        if let Some(latencies) = latencies {
            self.latencies(prefix, latencies);
        }
    }

    /// Sets the figures of latencies, whose names begin with `prefix`.
    pub(crate) fn latencies(&self, prefix: &str, latencies: &Latencies) {
        for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            self.figure(format!("{prefix}{name}"), latencies.quantile_us(share));
        }
        self.figure(format!("{prefix}worst_us"), latencies.worst_us());
    }

    /// Records a wrong answer unless `holds`.
    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.mismatches.lock().unwrap().push(what());
        }
    }

    /// Prints the findings and waits for SIGKILL, in a step whose process is killed. Exits if the
    /// parent process ends first.
    pub(crate) fn wait_to_be_killed(&self) -> ! {
        println!("{}", findings::to_json(&self.findings()));
        // An error, or the end of the input, means that the parent is gone.
        let _ = stdin().read(&mut [0]);
        std::process::exit(1)
    }

    /// The figures and the wrong answers so far.
    pub(crate) fn findings(&self) -> Findings {
        let mismatches = self.mismatches.lock().unwrap();
        Findings {
            figures: self.figures.lock().unwrap().clone(),
            mismatches: mismatches.len(),
            wrong: mismatches.iter().take(MISMATCHES_MAX).cloned().collect(),
        }
    }

    /// Writes `rows`, a thousand in each commit, all in generation zero.
    pub(crate) fn load(
        &self,
        engine: &dyn Engine,
        rows: impl Iterator<Item = u64>,
        value_bytes: usize,
    ) -> Outcome<()> {
        let mut batch: Vec<Row> = Vec::new();
        for row in rows {
            batch.push((key(row).to_vec(), self.values.make(row, 0, value_bytes)));
            if batch.len() as u64 == LOAD_BATCH_ROWS {
                engine.put_many(&batch)?;
                batch.clear();
            }
        }
        engine.put_many(&batch)
    }

    /// Flushes, waits for background work, and sets write and space amplification and CPU time.
    /// `rows`: how many rows were written since `before`, and how many the store then holds.
    pub(crate) fn measure_idle(
        &self,
        engine: &dyn Engine,
        before: &Usage,
        value_bytes: usize,
        rows: [u64; 2],
    ) -> Outcome<()> {
        self.measure_idle_as("", engine, before, value_bytes, rows)
    }

    /// Waits until the process is idle.
    pub(crate) fn wait_until_idle(&self) {
        wait_until_idle(self.limit(WINDOW_SECONDS));
    }

    /// Like `measure_idle`, with names of figures that begin with `prefix`.
    pub(crate) fn measure_idle_as(
        &self,
        prefix: &str,
        engine: &dyn Engine,
        before: &Usage,
        value_bytes: usize,
        [written, live]: [u64; 2],
    ) -> Outcome<()> {
        let since = Instant::now();
        engine.flush()?;
        self.wait_until_idle();
        let used = before.since();
        let row_bytes = (KEY_BYTES + value_bytes) as f64;
        let amplified = |bytes: u64, rows: u64| bytes as f64 / (rows as f64 * row_bytes);
        let space = amplified(allocated_bytes(&self.directory), live);
        let cpu_us = used.cpu.as_secs_f64() * 1e6 / written as f64;
        for (name, figure) in [
            ("idle_s", since.elapsed().as_secs_f64()),
            ("write_amplification", amplified(used.written, written)),
            ("cpu_us", cpu_us),
            ("space", space),
        ] {
            self.figure(format!("{prefix}{name}"), figure);
        }
        Ok(())
    }

    /// Reads some rows below `count` in random order and checks them; `expected` returns the
    /// expected generation of a row.
    pub(crate) fn verify_sample(
        &self,
        engine: &dyn Engine,
        count: u64,
        value_bytes: usize,
        expected: impl Fn(u64) -> u32,
    ) -> Outcome<()> {
        let shuffle = Shuffle::new(count);
        for position in 0..count.min(SAMPLE_ROWS) {
            let row = shuffle.at(position);
            let mut generation = None;
            let mut see = |value: &[u8]| generation = self.values.check(row, value, value_bytes);
            let found = engine.get(&key(row), &mut see)?;
            self.check(generation == Some(expected(row)), || {
                format!("row {row}: found {found}, generation {generation:?}")
            });
        }
        Ok(())
    }

    /// Reads rows below `count` at random until `limit` has passed. Compares every 64th whole and
    /// records the latency of every fourth. Returns how many were read.
    pub(crate) fn read_random(
        &self,
        engine: &dyn Engine,
        count: u64,
        seed: u64,
        limit: Duration,
        latencies: &mut Latencies,
    ) -> Outcome<u64> {
        let (mut random, started, mut reads) = (Random::new(seed), Instant::now(), 0);
        while started.elapsed() < limit {
            for turn in 0..64 {
                let row = random.below(count);
                let mut right = false;
                let mut see = |value: &[u8]| {
                    right = match turn {
                        0 => self.values.check(row, value, VALUE_BYTES).is_some(),
                        _ => names_row(row, value),
                    }
                };
                match turn % 4 {
                    1 => latencies.time(|| engine.get(&key(row), &mut see))?,
                    _ => engine.get(&key(row), &mut see)?,
                };
                self.check(right, || format!("row {row} is missing or wrong"));
            }
            reads += 64;
        }
        Ok(reads)
    }
}
