//! Large values: written, read, all overwritten once in random order, written and read alternately,
//! and streamed in.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random};

use crate::context::Context;
use crate::data::{Shuffle, key, names_row};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

/// Bytes of all values at scale 1.
const BYTES: f64 = 536_870_912.0;
const READ_SECONDS: f64 = 3.0;
/// Number of values that are written before they are read.
const FRESH_ROWS: u64 = 8;
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
    let took = write(context, &*engine, put_whole, 0..count, 0, value_bytes)?;
    context.figure("write_mb_s", rate(count, value_bytes, took));
    context.measure_idle(&*engine, &before, value_bytes, [count; 2])?;
    read(context, &*engine, count, value_bytes)?;

    let before = Usage::now();
    let shuffle = Shuffle::new(count);
    let rows = (0..count).map(|position| shuffle.at(position));
    let took = write(context, &*engine, put_whole, rows, 1, value_bytes)?;
    context.figure("overwrite_mb_s", rate(count, value_bytes, took));
    context.measure_idle_as("overwrite_", &*engine, &before, value_bytes, [count; 2])?;

    let (written, took) = write_and_read(context, &*engine, put_whole, count, value_bytes)?;
    context.figure("fresh_mb_s", rate(written, value_bytes, took));
    let newest = |row| if row < written { 2 } else { 1 };
    context.verify_sample(&*engine, count, value_bytes, newest)?;
    engine.close()
}

/// Measures values that arrive in pieces, as those of a server do.
pub(super) fn streamed(context: &Context) -> Outcome<()> {
    let value_bytes = 1 << 20;
    let engine = context.open(&Setup {
        cache_bytes: CACHE_BYTES,
        has_large_values: true,
        ..Setup::hot()
    })?;
    let count = context.scaled(BYTES / value_bytes as f64, 8);
    let before = Usage::now();
    let took = write(context, &*engine, put_streamed, 0..count, 0, value_bytes)?;
    context.figure("write_mb_s", rate(count, value_bytes, took));
    context.measure_idle(&*engine, &before, value_bytes, [count; 2])?;
    let (written, took) = write_and_read(context, &*engine, put_streamed, count, value_bytes)?;
    context.figure("fresh_mb_s", rate(written, value_bytes, took));
    let newest = |row| if row < written { 2 } else { 0 };
    context.verify_sample(&*engine, count, value_bytes, newest)?;
    engine.close()
}

/// A way to put a value.
type Put = fn(&dyn Engine, &[u8], &[u8]) -> Outcome<()>;

fn put_whole(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Outcome<()> {
    engine.put(key, value)
}

fn put_streamed(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Outcome<()> {
    engine.put_streamed(key, value)
}

fn rate(count: u64, value_bytes: usize, took: Duration) -> f64 {
    count as f64 * value_bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Puts the rows one by one. Returns the time of the engine, without that of making the values.
fn write(
    context: &Context,
    engine: &dyn Engine,
    put: Put,
    rows: impl IntoIterator<Item = u64>,
    generation: u32,
    value_bytes: usize,
) -> Outcome<Duration> {
    let (mut value, mut took, mut latencies) =
        (vec![0; value_bytes], Duration::ZERO, Latencies::new());
    for row in rows {
        context.values.fill(row, generation, &mut value);
        let since = Instant::now();
        put(engine, &key(row), &value)?;
        let latency = since.elapsed();
        took += latency;
        latencies.record(latency);
    }
    let prefix = ["write", "overwrite"][generation as usize];
    context.latencies(&format!("{prefix}_"), &latencies);
    Ok(took)
}

/// Puts a few values and gets each of them, repeatedly: values that bypassed the page cache have to
/// come from the disk. Returns how many were written, and how long the puts and gets took together.
fn write_and_read(
    context: &Context,
    engine: &dyn Engine,
    put: Put,
    count: u64,
    value_bytes: usize,
) -> Outcome<(u64, Duration)> {
    let (mut value, mut took, mut written) = (vec![0; value_bytes], Duration::ZERO, 0);
    while written < count && took < context.limit(READ_SECONDS) {
        let rows = written..count.min(written + FRESH_ROWS);
        for row in rows.clone() {
            context.values.fill(row, 2, &mut value);
            let since = Instant::now();
            put(engine, &key(row), &value)?;
            took += since.elapsed();
        }
        for row in rows.clone() {
            took += read_one(context, engine, row, value_bytes)?;
        }
        written = rows.end;
    }
    Ok((written, took))
}

/// Gets a value and touches a word of every cache line, as sending the value would. Returns how
/// long that took.
fn read_one(
    context: &Context,
    engine: &dyn Engine,
    row: u64,
    value_bytes: usize,
) -> Outcome<Duration> {
    let (mut is_right, mut sum) = (false, 0);
    let mut see = |value: &[u8]| {
        is_right = value.len() == value_bytes && names_row(row, value);
        sum = touch(value);
    };
    let since = Instant::now();
    engine.get(&key(row), &mut see)?;
    let took = since.elapsed();
    std::hint::black_box(sum);
    context.check(is_right, || format!("row {row} is missing or wrong"));
    Ok(took)
}

/// Reads values at random.
fn read(context: &Context, engine: &dyn Engine, count: u64, value_bytes: usize) -> Outcome<()> {
    let (mut random, mut reads) = (Random::new(8), 0);
    let (mut took, mut latencies) = (Duration::ZERO, Latencies::new());
    while took < context.limit(READ_SECONDS) {
        let row = random.below(count);
        let latency = read_one(context, engine, row, value_bytes)?;
        took += latency;
        latencies.record(latency);
        reads += 1;
        if reads % WHOLE_EVERY == 0 {
            compare(context, engine, row, value_bytes)?;
        }
    }
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
