//! The measurements of a child process: latencies, CPU time, bytes written, and the load of other
//! processes on the machine.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use lazurite_bench_common::process::{self, Process, Written, machine_busy};

/// Background work is over after this many idle windows in a row.
const IDLE_WINDOWS: usize = 10;
/// CPU time and bytes of an idle window: those of the measurement itself, and of timers.
const IDLE_CPU: Duration = Duration::from_millis(3);
const IDLE_BYTES: u64 = 64 << 10;
/// The longest wait for background work.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(60);

/// The resources that the process has used since its start.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    at: Instant,
    /// CPU time of all threads, in user and in kernel mode.
    cpu: Duration,
    written: Written,
    /// CPU time that the whole machine spent, on all processors together.
    machine: Duration,
}

/// The resources that were used between two moments.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    /// Bytes written: the larger of two counts. Bytes passed to `write` miss mappings; dirtied
    /// pages miss repeated writes to a page before it goes to the disk.
    pub(crate) written: u64,
    /// Processors that other processes kept busy, on average.
    pub(crate) other_cores: f64,
}

impl Usage {
    pub(crate) fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Usage {
            at: Instant::now(),
            cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
            written: Process::own().written(),
            machine: machine_busy(),
        }
    }

    /// The resources that were used since this was taken.
    pub(crate) fn since(&self) -> Used {
        let now = Usage::now();
        let elapsed = now.at - self.at;
        let cpu = now.cpu.saturating_sub(self.cpu);
        let others = (now.machine.saturating_sub(self.machine)).saturating_sub(cpu);
        let passed = now.written.passed - self.written.passed;
        let dirtied = now.written.dirtied - self.written.dirtied;
        Used {
            elapsed,
            cpu,
            written: passed.max(dirtied),
            other_cores: others.as_secs_f64() / elapsed.as_secs_f64().max(1e-3),
        }
    }
}

/// Waits until the process neither computes nor writes, measured in windows of length `window`. The
/// engine must have been told to flush before.
pub(crate) fn wait_until_idle(window: Duration) {
    process::wait_until_idle(IDLE_WINDOWS, IDLE_WAIT_MAX, || {
        let before = Usage::now();
        thread::sleep(window);
        let used = before.since();
        used.cpu < IDLE_CPU && used.written < IDLE_BYTES
    });
}

/// Latencies of one kind of operation.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = Histogram::new(3);
        Latencies(histogram.expect("three digits are a valid precision"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.0.record(nanos);
        recorded.expect("the histogram grows as it must");
    }

    /// Runs `work` and records how long it took.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.record(started.elapsed());
        done
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        let added = self.0.add(&other.0);
        added.expect("both histograms grow as they must");
    }

    /// The latency that `share` of the operations did not exceed, in microseconds.
    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    pub(crate) fn worst_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    pub(crate) fn mean_us(&self) -> f64 {
        self.0.mean() / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        assert!((latencies.quantile_us(0.5) - 500.0).abs() < 2.0);
        assert!((latencies.worst_us() - 1000.0).abs() < 2.0);
    }

    #[test]
    fn usage_counts_cpu_time_and_written_bytes() {
        let before = Usage::now();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
        let used = before.since();
        assert!(used.written >= 100_000 && used.cpu > Duration::ZERO);
    }
}
