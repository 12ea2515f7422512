//! Start: the time until a server on an empty directory listens, and its idle memory.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;
use crate::runner::measure::megabytes;

const STARTS: usize = 21;
/// Time after which a server has completed the work that follows its start.
const SETTLING: Duration = Duration::from_secs(1);

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let (mut ready, mut nothing) = (Vec::new(), Vec::new());
    for start in 0..bench.share(STARTS) {
        // A lower bound: the duration of a process that does nothing.
        let began = Instant::now();
        Command::new("true").status()?;
        nothing.push(began.elapsed());
        let mut server = bench.start(&[])?;
        ready.push(server.server()?.ready_after());
        // A server that is ready must answer.
        server.client().create_queue("ready")?;
        if start == 0 {
            thread::sleep(SETTLING);
            let resident = server.memory().resident_kib << 10;
            bench.set("start: idle", "rss_mb", megabytes(resident));
        }
    }
    bench.set_times("start: ready", &ready);
    bench.set_times("start: end of `true`", &nothing);
    Ok(())
}
