//! Reads of single rows: cached, not cached, missing, and during writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{KEY_BYTES, key, missing_key};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

const WARM_SECONDS: f64 = 1.5;
const SECONDS: f64 = 3.0;
const WRITES_PER_SECOND: f64 = 20_000.0;
/// Interval at which the writer checks how many writes are due.
const WRITER_TICK: Duration = Duration::from_millis(1);

pub(super) fn hot(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    warm(context, &*engine)?;
    for threads in [1, 2] {
        read_on(context, &*engine, threads, &format!("t{threads}_"))?;
    }
    engine.close()
}

/// Reads with a cache for a quarter of the rows; the operating system may hold the others.
pub(super) fn cold(context: &Context) -> Outcome<()> {
    let bytes = context.rows() as usize * (KEY_BYTES + VALUE_BYTES);
    let engine = context.open(&Setup {
        cache_bytes: bytes / 4,
        ..Setup::hot()
    })?;
    warm(context, &*engine)?;
    read_on(context, &*engine, 1, "")?;
    engine.close()
}

fn warm(context: &Context, engine: &dyn Engine) -> Outcome<u64> {
    let limit = context.limit(WARM_SECONDS);
    context.read_random(engine, context.rows(), 3, limit, &mut Latencies::new())
}

fn read_on(context: &Context, engine: &dyn Engine, threads: u64, prefix: &str) -> Outcome<()> {
    let limit = context.limit(SECONDS);
    let read = |seed| {
        let mut latencies = Latencies::new();
        let reads = context.read_random(engine, context.rows(), seed, limit, &mut latencies)?;
        Outcome::Ok((reads, latencies))
    };
    let before = Usage::now();
    let done: Vec<_> = thread::scope(|scope| {
        let start = |thread| scope.spawn(move || read(10 + thread));
        let readers: Vec<_> = (0..threads).map(start).collect();
        let end = |reader: thread::ScopedJoinHandle<'_, _>| reader.join();
        let ended = readers.into_iter().map(end);
        ended
            .map(|done| done.expect("a reader does not panic"))
            .collect()
    });
    let used = before.since();
    let (mut all, mut reads) = (Latencies::new(), 0);
    for reader in done {
        let (count, latencies) = reader?;
        reads += count;
        all.add(&latencies);
    }
    context.phase(prefix, reads, &used, Some(&all));
    Ok(())
}

pub(super) fn missing(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    look_in_vain(context, &*engine, context.limit(WARM_SECONDS), None)?;
    let mut latencies = Latencies::new();
    let before = Usage::now();
    let limit = context.limit(SECONDS);
    let reads = look_in_vain(context, &*engine, limit, Some(&mut latencies))?;
    context.phase("", reads, &before.since(), Some(&latencies));
    engine.close()
}

/// Looks up keys that do not exist. The latency of one in sixteen is recorded, because reading the
/// clock takes as long as a lookup.
fn look_in_vain(
    context: &Context,
    engine: &dyn Engine,
    limit: Duration,
    mut latencies: Option<&mut Latencies>,
) -> Outcome<u64> {
    let (mut random, started, mut reads) = (Random::new(4), Instant::now(), 0);
    while started.elapsed() < limit {
        for turn in 0..64 {
            let row = random.below(context.rows());
            let key = missing_key(row);
            let look = || engine.get(&key, &mut |_| ());
            let found = match &mut latencies {
                Some(latencies) if turn % 16 == 0 => latencies.time(look)?,
                _ => look()?,
            };
            context.check(!found, || format!("a row was found beside row {row}"));
        }
        reads += 64;
    }
    Ok(reads)
}

pub(super) fn beside_writes(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    warm(context, &*engine)?;
    let (over, mut latencies) = (AtomicBool::new(false), Latencies::new());
    let limit = context.limit(2.0 * SECONDS);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_evenly(context, &*engine, &over));
        let before = Usage::now();
        let reads = context.read_random(&*engine, context.rows(), 5, limit, &mut latencies);
        let used = before.since();
        over.store(true, Ordering::Relaxed);
        let writes = writer.join().expect("the writer does not panic")?;
        context.phase("", reads?, &used, Some(&latencies));
        context.figure("writes_per_s", writes as f64 / used.elapsed.as_secs_f64());
        Outcome::Ok(())
    })?;
    engine.close()
}

/// Overwrites rows at random, as many a second as are due, until `over` is set. Returns how many.
fn write_evenly(context: &Context, engine: &dyn Engine, over: &AtomicBool) -> Outcome<u64> {
    let (mut random, mut value) = (Random::new(6), vec![0; VALUE_BYTES]);
    let (started, mut writes) = (Instant::now(), 0);
    while !over.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * WRITES_PER_SECOND) as u64;
        while writes < due && !over.load(Ordering::Relaxed) {
            let row = random.below(context.rows());
            context.values.fill(row, writes as u32, &mut value);
            engine.put(&key(row), &value)?;
            writes += 1;
        }
        thread::sleep(WRITER_TICK);
    }
    Ok(writes)
}
