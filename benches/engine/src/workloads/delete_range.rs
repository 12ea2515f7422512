//! Deletes half of the rows by range; then reads the first row, at once and again when the engine
//! is idle, and the rest.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, allocated_bytes};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{key, names_row};
use crate::engine::{Engine, Setup};
use crate::usage::Usage;

pub(super) fn run(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let (count, half) = (context.rows(), context.rows() / 2);
    let before = Usage::now();
    context.load(&*engine, 0..count, VALUE_BYTES)?;
    context.measure_idle(&*engine, &before, VALUE_BYTES, [count; 2])?;

    let started = Instant::now();
    engine.delete_range(&key(0), &key(half))?;
    context.figure("delete_ms", millis(started.elapsed()));
    let first = find_first(context, &*engine, half)?;
    context.figure("first_ms", millis(first));

    let before = Usage::now();
    context.measure_idle(&*engine, &before, VALUE_BYTES, [half; 2])?;
    let first = find_first(context, &*engine, half)?;
    context.figure("first_idle_ms", millis(first));
    // No engine has work left here. If a search is slower after a rest, the processor is the cause.
    let again = find_first(context, &*engine, half)?;
    context.figure("first_again_ms", millis(again));
    context.wait_until_idle();
    let rested = find_first(context, &*engine, half)?;
    context.figure("first_second_idle_ms", millis(rested));
    let started = Instant::now();
    scan_rest(context, &*engine, half..count)?;
    context.figure("rest_s", started.elapsed().as_secs_f64());
    let megabytes = allocated_bytes(&context.directory) as f64 / 1e6;
    context.figure("disk_mb", megabytes);
    engine.close()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The time to find the first row, which must be `expected`.
fn find_first(context: &Context, engine: &dyn Engine, expected: u64) -> Outcome<Duration> {
    let (started, mut is_right) = (Instant::now(), false);
    let mut see = |found: &[u8], value: &[u8]| {
        is_right = found == key(expected) && names_row(expected, value);
        false
    };
    engine.scan(&key(0), &key(context.rows()), &mut see)?;
    let took = started.elapsed();
    context.check(is_right, || format!("the first row is not row {expected}"));
    Ok(took)
}

fn scan_rest(
    context: &Context,
    engine: &dyn Engine,
    expected: std::ops::Range<u64>,
) -> Outcome<()> {
    let (mut next, mut wrong) = (expected.start, 0);
    let mut see = |_: &[u8], value: &[u8]| {
        wrong += u64::from(!names_row(next, value));
        next += 1;
        true
    };
    engine.scan(&key(0), &key(expected.end), &mut see)?;
    context.check(wrong == 0 && next == expected.end, || {
        format!("after the delete {wrong} rows are wrong, the last is {next}")
    });
    Ok(())
}
