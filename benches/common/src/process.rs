//! Reads `/proc`: CPU time, memory and written bytes of a process, and the load of the machine. All
//! are zero where there is no `/proc`.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

/// Resident memory in KiB, from `/proc/PID/status`.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// Resident memory now.
    pub resident_kib: u64,
    /// Resident memory now, without the pages of mapped files.
    pub anonymous_kib: u64,
    /// The highest `resident_kib` of the process's life.
    pub peak_kib: u64,
}

/// Bytes written so far, from `/proc/PID/io`.
#[derive(Clone, Copy, Default)]
pub struct Written {
    /// Bytes passed to `write` and similar calls, on any file.
    pub passed: u64,
    /// Bytes of file pages that became dirty, through `write` or through a mapping.
    pub dirtied: u64,
}

impl Process {
    /// The calling process.
    pub fn own() -> Process {
        Process(std::process::id())
    }

    /// Resident memory now, and the highest it has been.
    pub fn memory(self) -> Memory {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let kib = |field| number_after(&status, field).unwrap_or(0);
        Memory {
            resident_kib: kib("VmRSS:"),
            anonymous_kib: kib("RssAnon:"),
            peak_kib: kib("VmHWM:"),
        }
    }

    /// Bytes written since the process began.
    pub fn written(self) -> Written {
        let io = fs::read_to_string(format!("/proc/{}/io", self.0)).unwrap_or_default();
        let bytes = |field| number_after(&io, field).unwrap_or(0);
        Written {
            passed: bytes("wchar:"),
            dirtied: bytes("write_bytes:"),
        }
    }

    /// CPU time of all threads of the process, in both modes, to a hundredth of a second.
    pub fn cpu(self) -> Duration {
        ticks(stat_ticks(&self.stat(), CPU).unwrap_or(0))
    }

    /// CPU time of the children that ended and were waited for, over their whole lives.
    pub fn cpu_of_ended_children(self) -> Duration {
        ticks(stat_ticks(&self.stat(), CPU_OF_ENDED_CHILDREN).unwrap_or(0))
    }

    fn stat(self) -> String {
        fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default()
    }
}

/// CPU time of all processors since the machine started, including time stolen by the host.
pub fn machine_busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks(busy_ticks(&stat))
}

/// CPU time that the host gave to other machines since this one started, of all processors.
pub fn machine_stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks(cpu_ticks(&stat).get(STEAL).copied().unwrap_or_default())
}

/// Calls `is_idle` until it returns `true` `windows` times in a row, or `limit` has passed. Each
/// call observes one window of time.
pub fn wait_until_idle(windows: usize, limit: Duration, mut is_idle: impl FnMut() -> bool) {
    let (started, mut idle) = (Instant::now(), 0);
    while idle < windows && started.elapsed() < limit {
        idle = if is_idle() { idle + 1 } else { 0 };
    }
}

/// Runs `work` and returns its result with the highest anonymous memory of `process` meanwhile, in
/// KiB, sampled at `interval`. Pages of mapped files do not count, because the system can reclaim
/// them at any time.
pub fn watching_memory<T>(
    process: Process,
    interval: Duration,
    work: impl FnOnce() -> T,
) -> (T, u64) {
    let (is_over, highest_kib) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                highest_kib.fetch_max(process.memory().anonymous_kib, Ordering::Relaxed);
                thread::park_timeout(interval);
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        done
    });
    (done, highest_kib.into_inner())
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The number after `field` in the text of `/proc/PID/status` or `/proc/PID/io`.
fn number_after(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Positions of `utime` and `stime`, and of `cutime` and `cstime`, in the text of `/proc/PID/stat`,
/// counted in fields after the name.
const CPU: usize = 11;
const CPU_OF_ENDED_CHILDREN: usize = 13;

/// Returns the sum of the times at `field` and the one after it in the text of `/proc/PID/stat`.
/// The process name before the fields may contain spaces and parentheses.
fn stat_ticks(stat: &str, field: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(field);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

/// Returns the sum of the busy times in the first line of `/proc/stat`: user, nice, system, irq,
/// softirq and steal; not idle and iowait.
fn busy_ticks(stat: &str) -> u64 {
    let ticks = cpu_ticks(stat);
    let busy = [0, 1, 2, 5, 6, STEAL].iter();
    busy.filter_map(|&index| ticks.get(index)).sum()
}

/// Index of the stolen time among the times of [`cpu_ticks`].
const STEAL: usize = 7;

/// All times of the first line of `/proc/stat`.
fn cpu_ticks(stat: &str) -> Vec<u64> {
    let line = stat.lines().next().unwrap_or_default();
    let fields = line.split_whitespace().skip(1);
    fields.map_while(|field| field.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_file() {
        let status = "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(number_after(status, "VmHWM:"), Some(20480));
        assert_eq!(number_after(status, "VmSwap:"), None);
    }

    #[test]
    fn cpu_time_is_read_from_the_stat_file_of_a_process_with_any_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 30 4 20 0 3 0 99 1 2";
        assert_eq!(stat_ticks(stat, CPU), Some(300));
        assert_eq!(stat_ticks(stat, CPU_OF_ENDED_CHILDREN), Some(34));
        assert_eq!(stat_ticks("7", CPU), None);
        assert_eq!(busy_ticks("cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0 1 1\n"), 25);
    }

    #[test]
    fn own_process_has_memory_and_writes() {
        assert!(Process::own().memory().peak_kib > 0);
        let before = Process::own().written().passed;
        fs::write("/dev/null", [0; 100]).unwrap();
        assert!(Process::own().written().passed >= before + 100);
        let ((), highest_kib) = watching_memory(Process::own(), Duration::from_millis(1), || {
            thread::sleep(Duration::from_millis(20))
        });
        assert!(highest_kib > 0);
    }

    #[test]
    fn wait_ends_after_idle_windows_in_a_row() {
        let mut windows = [true, false, true, true, true].into_iter();
        wait_until_idle(2, Duration::MAX, || windows.next().unwrap());
        assert_eq!(windows.len(), 1);
    }
}
