//! State: snapshot, fork, restore and reset of a filled store beside an empty one, and the cost of
//! a fork among many.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, allocated_bytes, median_time};

use crate::runner::bench::{Bench, millis};
use crate::runner::measure::megabytes;
use crate::runner::peers::Running;
use crate::runner::workloads::filling::{self, Amounts};

/// Number of times each operation is measured on each store.
const RUNS: usize = 9;
const FORKS: usize = 1000;
/// Time after which the server has completed the work that follows its responses.
const SETTLING: Duration = Duration::from_secs(8);

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let large = Amounts::LARGE.scaled(bench.settings.scale);
    let mut worst = (0.0, 0.0);
    for (store, amounts) in [("empty", Amounts::default()), ("filled", large)] {
        let forks = bench.share(FORKS);
        let server = bench.start(&[&format!("--forks-max={}", forks + 2 * RUNS)])?;
        filling::fill(&server.client(), amounts)?;
        thread::sleep(bench.time(SETTLING.as_secs_f64()));
        let (most_ms, most_mb) = measure_operations(bench, store, &server)?;
        worst = (most_ms.max(worst.0), most_mb.max(worst.1));
        measure_forks(bench, store, &server, forks)?;
    }
    bench.set("state: any operation", "max_ms", worst.0);
    bench.set("state: any operation", "disk_mb", worst.1);
    Ok(())
}

/// Records time to the response, and disk space then. Returns the maximum of each.
fn measure_operations(bench: &mut Bench, store: &str, server: &Running) -> Outcome<(f64, f64)> {
    let mut taken: BTreeMap<&str, Vec<(Duration, u64)>> = BTreeMap::new();
    let mut ask = |name, method, page: &str, body: &str| -> Outcome<()> {
        let before = allocated_bytes(&server.directory());
        let took = time(server, method, page, body)?;
        let bytes = allocated_bytes(&server.directory()).saturating_sub(before);
        taken.entry(name).or_default().push((took, bytes));
        Ok(())
    };
    for run in 0..RUNS {
        ask("snapshot", "PUT", &format!("snapshots/s{run}"), "")?;
        ask("fork of now", "POST", "forks", "{}")?;
        let from = format!("{{\"from\":\"s{run}\"}}");
        ask("fork of a snapshot", "POST", "forks", &from)?;
    }
    for _ in 0..RUNS {
        ask("restore", "POST", "snapshots/s0/restore", "")?;
        ask("reset", "POST", "reset", "")?;
    }
    let (mut most_ms, mut most_mb) = (0.0_f64, 0.0_f64);
    for (name, taken) in taken {
        let case = format!("state: {name}, {store} store");
        let (times, bytes): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let disk_mb = megabytes(bytes.into_iter().max().unwrap_or(0));
        bench.set_times(&case, &times);
        bench.set(&case, "disk_mb", disk_mb);
        most_ms = times.into_iter().map(millis).fold(most_ms, f64::max);
        most_mb = most_mb.max(disk_mb);
    }
    Ok((most_ms, most_mb))
}

/// Measures forks of the snapshot `s0`. Also records the first and the last tenth of them, because
/// a fork must not cost more when there are many.
fn measure_forks(bench: &mut Bench, store: &str, server: &Running, forks: usize) -> Outcome<()> {
    let before = usage(server);
    let times = (0..forks).map(|_| time(server, "POST", "forks", "{\"from\":\"s0\"}"));
    let times = times.collect::<Outcome<Vec<_>>>()?;
    thread::sleep(bench.time(SETTLING.as_secs_f64()));
    let case = format!("state: {forks} forks, {store} store");
    let tenth = forks.div_ceil(10);
    bench.set_times(&case, &times);
    let (first, last) = (&times[..tenth], &times[forks - tenth..]);
    bench.set(&case, "first_tenth_ms", millis(median_time(first)));
    bench.set(&case, "last_tenth_ms", millis(median_time(last)));
    for ((name, before), (_, after)) in before.into_iter().zip(usage(server)) {
        bench.set(
            &case,
            name,
            after.saturating_sub(before) as f64 / forks as f64,
        );
    }
    Ok(())
}

/// The server's use of system resources, which is later divided by the number of forks.
fn usage(server: &Running) -> [(&'static str, u64); 4] {
    let process = server.process();
    let count = |name: &str| {
        let entries = fs::read_dir(format!("/proc/{}/{name}", process.0));
        entries.map_or(0, |entries| entries.count() as u64)
    };
    [
        ("memory_kib_each", process.memory().resident_kib),
        ("handles_each", count("fd")),
        ("threads_each", count("task")),
        ("disk_kib_each", allocated_bytes(&server.directory()) >> 10),
    ]
}

fn time(server: &Running, method: &str, page: &str, body: &str) -> Outcome<Duration> {
    let client = server.client();
    let began = Instant::now();
    client.page(method, &format!("state/{page}"), body)?;
    Ok(began.elapsed())
}
