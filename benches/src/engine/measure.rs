//! What a child process measures of itself: latencies, CPU time, bytes written, memory, and what others did to the machine.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::process::machine_busy;
use crate::report::Outcome;

/// Background work is over once the process has been calm that often in a row.
const CALM_WINDOWS: usize = 10;
/// CPU time and bytes that a calm window may have: those of our own look at it, and of idle timers.
const CALM_CPU: Duration = Duration::from_millis(3);
const CALM_BYTES: u64 = 64 << 10;
/// Longer than this nobody waits for background work.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

/// What the process has used since it began.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    at: Instant,
    /// Of all threads, in both modes.
    cpu: Duration,
    /// Bytes handed to `write` and its kin, on whatever file.
    handed: u64,
    /// Bytes of file pages that became dirty, through `write` or through a mapping.
    dirtied: u64,
    /// Of the whole machine, all processors together.
    machine: Duration,
}

/// What was used between two moments.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
    /// Bytes written: the larger of the two counts, because `write` does not see mappings, and pages do not show how often
    /// a page was written before it went to the disk.
    pub(super) written: u64,
    /// Processors that were busy with something else than this process, on average.
    pub(super) other_cores: f64,
}

impl Usage {
    pub(super) fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Usage {
            at: Instant::now(),
            cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32),
            handed: proc_number("/proc/self/io", "wchar:"),
            dirtied: proc_number("/proc/self/io", "write_bytes:"),
            machine: machine_busy(),
        }
    }

    /// What was used since this was taken.
    pub(super) fn since(&self) -> Used {
        let now = Usage::now();
        let elapsed = now.at - self.at;
        let cpu = now.cpu.saturating_sub(self.cpu);
        let others = (now.machine.saturating_sub(self.machine)).saturating_sub(cpu);
        Used {
            elapsed,
            cpu,
            written: (now.handed - self.handed).max(now.dirtied - self.dirtied),
            other_cores: others.as_secs_f64() / elapsed.as_secs_f64().max(1e-3),
        }
    }
}

/// The number after `name` in a file of lines `name number`; zero if there is none.
fn proc_number(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Waits until the process neither computes nor writes, as seen through windows of that length; the engine has been told to
/// flush before.
pub(super) fn wait_until_calm(window: Duration) {
    let started = Instant::now();
    let mut calm = 0;
    while calm < CALM_WINDOWS && started.elapsed() < SETTLE_MAX {
        let before = Usage::now();
        thread::sleep(window);
        let used = before.since();
        let is_calm = used.cpu < CALM_CPU && used.written < CALM_BYTES;
        calm = if is_calm { calm + 1 } else { 0 };
    }
}

/// Latencies of one kind of operation.
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        let histogram = Histogram::new(3);
        Latencies(histogram.expect("three digits are a valid precision"))
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.0.record(nanos);
        recorded.expect("the histogram grows as it must");
    }

    /// Runs `work` and records how long it took.
    pub(super) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.record(started.elapsed());
        done
    }

    pub(super) fn add(&mut self, other: &Latencies) {
        let added = self.0.add(&other.0);
        added.expect("both histograms grow as they must");
    }

    /// The latency that `share` of the operations did not exceed, in microseconds.
    pub(super) fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    pub(super) fn worst_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    pub(super) fn mean_us(&self) -> f64 {
        self.0.mean() / 1e3
    }
}

/// Bytes that the files under `directory` take on the disk.
pub(super) fn disk_bytes(directory: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // A file may go between the listing and the look at it.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += match metadata.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Highest memory of the process, in MiB.
pub(super) struct Memory {
    pub(super) resident: f64,
    /// Without the pages of mapped files.
    pub(super) anonymous: f64,
}

/// Runs `work` with a look at the memory every few milliseconds.
pub(super) fn watching_memory<T>(work: impl FnOnce() -> T) -> (T, Memory) {
    let (over, anonymous) = (AtomicBool::new(false), AtomicU64::new(0));
    let look = || proc_number("/proc/self/status", "RssAnon:");
    let done = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                anonymous.fetch_max(look(), Ordering::Relaxed);
                thread::park_timeout(MEMORY_INTERVAL);
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        done
    });
    let memory = Memory {
        resident: proc_number("/proc/self/status", "VmHWM:") as f64 / 1024.0,
        anonymous: anonymous.into_inner() as f64 / 1024.0,
    };
    (done, memory)
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
    fn work_and_writes_of_the_process_are_seen() {
        let before = Usage::now();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
        let used = before.since();
        assert!(used.written >= 100_000 && used.cpu > Duration::ZERO);
        let (_, memory) = watching_memory(|| ());
        assert!(memory.resident > 0.0);
        assert!(disk_bytes(directory.path()).unwrap() < 1 << 20);
    }
}
