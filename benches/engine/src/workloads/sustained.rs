//! Writes without pause: how even the rate is from second to second, and how much space overwritten
//! values take meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lazurite_bench_common::{Outcome, Random, allocated_bytes};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{KEY_BYTES, key};
use crate::engine::{Engine, Setup};
use crate::usage::Latencies;

const SECONDS: usize = 40;
const WRITERS: u64 = 2;
/// Number of rows that are read and compared at the end.
const SAMPLE_ROWS: u64 = 1000;

/// Rows that are put at random, over and over.
struct Load {
    rows: u64,
    value_bytes: usize,
}

pub(super) fn small(context: &Context) -> Outcome<()> {
    let load = Load {
        rows: context.scaled(40e6, 1000),
        value_bytes: VALUE_BYTES,
    };
    run(context, &load)
}

pub(super) fn large(context: &Context) -> Outcome<()> {
    let load = Load {
        rows: context.scaled(3000.0, 10),
        value_bytes: 48 << 10,
    };
    run(context, &load)
}

fn run(context: &Context, load: &Load) -> Outcome<()> {
    let engine = context.open(&Setup {
        cache_bytes: 64 << 20,
        memtable_bytes: 16 << 20,
        has_large_values: load.value_bytes > VALUE_BYTES,
        ..Setup::hot()
    })?;
    let (puts, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (seconds, latencies) = thread::scope(|scope| {
        let write = |seed| write_until(context, &*engine, load, seed, &puts, &is_over);
        let writers: Vec<_> = (1..=WRITERS)
            .map(|seed| scope.spawn(move || write(seed)))
            .collect();
        let seconds = watch(context, load, &puts);
        is_over.store(true, Ordering::Relaxed);
        let mut all = Latencies::new();
        for writer in writers {
            all.add(&writer.join().expect("a writer does not panic")?);
        }
        Outcome::Ok((seconds, all))
    })?;
    note_evenness(context, &seconds);
    context.latencies("", &latencies);
    check_rows(context, &*engine, load)?;
    engine.close()
}

fn write_until(
    context: &Context,
    engine: &dyn Engine,
    load: &Load,
    seed: u64,
    puts: &AtomicU64,
    is_over: &AtomicBool,
) -> Outcome<Latencies> {
    let (mut random, mut value) = (Random::new(seed), vec![0; load.value_bytes]);
    let (mut latencies, mut generation) = (Latencies::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let row = random.below(load.rows);
        generation += 1;
        context.values.fill(row, generation, &mut value);
        latencies.time(|| engine.put(&key(row), &value))?;
        puts.fetch_add(1, Ordering::Relaxed);
    }
    Ok(latencies)
}

/// Returns the puts of each second. Sets the figure of the most space taken at the end of a second.
fn watch(context: &Context, load: &Load, puts: &AtomicU64) -> Vec<u64> {
    let mut space: u64 = 0;
    let mut seconds = Vec::new();
    let mut before = 0;
    for _ in 0..SECONDS {
        thread::sleep(second(context));
        let now = puts.load(Ordering::Relaxed);
        seconds.push(now - before);
        before = now;
        space = space.max(allocated_bytes(&context.directory));
    }
    let live = load.rows * (KEY_BYTES + load.value_bytes) as u64;
    context.figure("space_most", space as f64 / live as f64);
    seconds
}

/// The length of a second of the run, which is shorter at a smaller scale.
fn second(context: &Context) -> Duration {
    context.limit(1.0)
}

fn note_evenness(context: &Context, seconds: &[u64]) {
    let mean = seconds.iter().sum::<u64>() as f64 / seconds.len() as f64;
    let slowest = seconds.iter().min().copied().unwrap_or(0) as f64;
    context.figure("per_s", mean / second(context).as_secs_f64());
    context.figure("slowest_second", slowest / mean.max(1.0));
}

fn check_rows(context: &Context, engine: &dyn Engine, load: &Load) -> Outcome<()> {
    let mut random = Random::new(0);
    for _ in 0..SAMPLE_ROWS.min(load.rows) {
        let row = random.below(load.rows);
        let mut is_right = true;
        let mut see = |value: &[u8]| {
            let generation = context.values.check(row, value, load.value_bytes);
            is_right = generation.is_some();
        };
        engine.get(&key(row), &mut see)?;
        context.check(is_right, || format!("row {row} is wrong"));
    }
    Ok(())
}
