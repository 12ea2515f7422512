//! Large values: written, read, and all overwritten once in random order.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random};

use crate::context::Context;
use crate::data::{Shuffle, key, names_row};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

/// Bytes of all values at scale 1.
const BYTES: f64 = 536_870_912.0;
const READ_SECONDS: f64 = 3.0;
/// Every N-th value is compared whole.
const WHOLE_EVERY: u64 = 8;
const CACHE_BYTES: usize = 128 << 20;

pub(super) fn of_64_kib(context: &Context) -> Outcome<()> {
    run(context, 64 << 10)
}

pub(super) fn of_1_mib(context: &Context) -> Outcome<()> {
    run(context, 1 << 20)
}

fn run(context: &Context, value_bytes: usize) -> Outcome<()> {
    let engine = context.open(&Setup {
        cache_bytes: CACHE_BYTES,
        has_large_values: true,
        ..Setup::hot()
    })?;
    let count = context.scaled(BYTES / value_bytes as f64, 8);
    let before = Usage::now();
    let took = write(context, &*engine, 0..count, 0, value_bytes)?;
    context.figure("write_mb_s", rate(count, value_bytes, took));
    context.measure_idle(&*engine, &before, value_bytes, [count; 2])?;
    read(context, &*engine, count, value_bytes)?;

    let before = Usage::now();
    let shuffle = Shuffle::new(count);
    let rows = (0..count).map(|position| shuffle.at(position));
    let took = write(context, &*engine, rows, 1, value_bytes)?;
    context.figure("overwrite_mb_s", rate(count, value_bytes, took));
    context.measure_idle_as("overwrite_", &*engine, &before, value_bytes, [count; 2])?;
    context.verify_sample(&*engine, count, value_bytes, |_| 1)?;
    engine.close()
}

fn rate(count: u64, value_bytes: usize, took: Duration) -> f64 {
    count as f64 * value_bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Puts the rows one by one and answers how long the engine took; making the values is left out.
fn write(
    context: &Context,
    engine: &dyn Engine,
    rows: impl IntoIterator<Item = u64>,
    generation: u32,
    value_bytes: usize,
) -> Outcome<Duration> {
    let (mut value, mut took, mut latencies) =
        (vec![0; value_bytes], Duration::ZERO, Latencies::new());
    for row in rows {
        context.values.fill(row, generation, &mut value);
        let since = Instant::now();
        engine.put(&key(row), &value)?;
        let latency = since.elapsed();
        took += latency;
        latencies.record(latency);
    }
    let prefix = ["write", "overwrite"][generation as usize];
    context.latencies(&format!("{prefix}_"), &latencies);
    Ok(took)
}

/// Reads values at random and touches a word of every cache line, as sending the value would.
fn read(context: &Context, engine: &dyn Engine, count: u64, value_bytes: usize) -> Outcome<()> {
    let (mut random, mut reads, mut sum) = (Random::new(8), 0, 0u64);
    let (mut took, mut latencies) = (Duration::ZERO, Latencies::new());
    while took < context.limit(READ_SECONDS) {
        let row = random.below(count);
        let mut is_right = false;
        let mut see = |value: &[u8]| {
            is_right = value.len() == value_bytes && names_row(row, value);
            sum = sum.wrapping_add(touch(value));
        };
        let since = Instant::now();
        engine.get(&key(row), &mut see)?;
        let latency = since.elapsed();
        context.check(is_right, || format!("row {row} is missing or wrong"));
        took += latency;
        latencies.record(latency);
        reads += 1;
        if reads % WHOLE_EVERY == 0 {
            compare(context, engine, row, value_bytes)?;
        }
    }
    std::hint::black_box(sum);
    context.figure("read_mb_s", rate(reads, value_bytes, took));
    context.latencies("read_", &latencies);
    Ok(())
}

fn touch(value: &[u8]) -> u64 {
    let lines = value.chunks(64);
    lines.map(|line| u64::from(line[0])).sum()
}

fn compare(context: &Context, engine: &dyn Engine, row: u64, value_bytes: usize) -> Outcome<()> {
    let mut is_right = false;
    let mut see =
        |value: &[u8]| is_right = context.values.check(row, value, value_bytes) == Some(0);
    engine.get(&key(row), &mut see)?;
    context.check(is_right, || format!("row {row} is wrong"));
    Ok(())
}
