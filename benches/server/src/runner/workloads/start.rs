//! Start: the time until a server on an empty directory listens, and its memory when idle.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;
use crate::runner::measure::megabytes;

const STARTS: usize = 21;
/// Time after which the work that follows the start of a server is over.
const SETTLING: Duration = Duration::from_secs(1);

pub(super) fn run(bench: &mut Bench) -> Outcome<()> {
    let (mut ready, mut nothing) = (Vec::new(), Vec::new());
    for start in 0..bench.share(STARTS) {
        // The lower bound: a process that does nothing, until it has ended.
        let began = Instant::now();
        Command::new("true").status()?;
        nothing.push(began.elapsed());
        let mut server = bench.start(&[])?;
        ready.push(server.server()?.ready_after());
        // Ready means that it answers.
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
