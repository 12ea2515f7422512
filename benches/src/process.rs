//! What the system says of a process, ours or another: CPU time, resident memory; and of the machine. Zero where there is no `/proc`.

use std::fs;
use std::time::Duration;

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

/// Resident memory in KiB, from `/proc/PID/status`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident_kib: u64,
    /// What of it is no part of a file.
    pub(crate) anonymous_kib: u64,
    pub(crate) peak_kib: u64,
}

impl Process {
    /// This one.
    pub(crate) fn own() -> Process {
        Process(std::process::id())
    }

    /// Resident memory now, and the highest it has been.
    pub(crate) fn memory(self) -> Memory {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let kib = |field| status_kib(&status, field).unwrap_or(0);
        Memory {
            resident_kib: kib("VmRSS:"),
            anonymous_kib: kib("RssAnon:"),
            peak_kib: kib("VmHWM:"),
        }
    }

    /// CPU time of all its threads in both modes, to a hundredth of a second.
    pub(crate) fn cpu(self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        ticks(stat_ticks(&stat).unwrap_or(0))
    }
}

/// Time that the processors were busy, since the machine started; time stolen by others on the host counts.
pub(crate) fn machine_busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks(busy_ticks(&stat))
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The number after `field` in the text of `/proc/PID/status`.
fn status_kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The sum of `utime` and `stime` in the text of `/proc/PID/stat`. The name before them may hold spaces and parentheses.
fn stat_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

/// The busy times of the first line of `/proc/stat`: user, nice, system, (idle, iowait,) irq, softirq, steal.
fn busy_ticks(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let fields = line.split_whitespace().skip(1);
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter();
    busy.filter_map(|&index| ticks.get(index)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_file() {
        let status = "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        assert_eq!(status_kib(status, "VmHWM:"), Some(20480));
        assert_eq!(status_kib(status, "VmSwap:"), None);
    }

    #[test]
    fn cpu_time_is_read_from_the_stat_file_whatever_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 99 1 2";
        assert_eq!(stat_ticks(stat), Some(300));
        assert_eq!(stat_ticks("7"), None);
        assert_eq!(busy_ticks("cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0 1 1\n"), 25);
    }

    #[test]
    fn our_own_process_has_memory() {
        assert!(Process::own().memory().peak_kib > 0);
    }
}
