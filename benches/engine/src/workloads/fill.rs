//! Writing rows, one a commit, not synced: in order, at random, and over existing rows.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{Shuffle, Zipf, key};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

/// After this time, an engine writes the rest of its rows in large commits instead of one by one.
const SECONDS_MAX: f64 = 15.0;
const OVERWRITE_SECONDS: f64 = 8.0;

pub(super) fn load(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let shuffle = Shuffle::new(context.rows());
    let rows = (0..context.rows()).map(|position| shuffle.at(position));
    let before = Usage::now();
    context.load(&*engine, rows, VALUE_BYTES)?;
    context.measure_idle(&*engine, &before, VALUE_BYTES, [context.rows(); 2])?;
    engine.close()
}

pub(super) fn sequential(context: &Context) -> Outcome<()> {
    fill(context, |position| position)
}

pub(super) fn random(context: &Context) -> Outcome<()> {
    let shuffle = Shuffle::new(context.rows());
    fill(context, |position| shuffle.at(position))
}

fn fill(context: &Context, row_at: impl Fn(u64) -> u64) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let count = context.rows();
    let before = Usage::now();
    let rows = (0..count).map(|position| (row_at(position), 0));
    let puts = put_each(context, &*engine, rows, context.limit(SECONDS_MAX))?;
    context.load(&*engine, (puts..count).map(&row_at), VALUE_BYTES)?;
    context.measure_idle(&*engine, &before, VALUE_BYTES, [count; 2])?;
    context.verify_sample(&*engine, count, VALUE_BYTES, |_| 0)?;
    engine.close()
}

/// Makes as many overwrites as there are rows, by Zipf's law, then compares a sample.
pub(super) fn overwrite(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let count = context.rows();
    let (zipf, mut random) = (Zipf::new(count), Random::new(2));
    let mut generations = vec![0u32; count as usize];
    let before = Usage::now();
    let rows = (0..count).map(|_| {
        let row = zipf.next(&mut random);
        generations[row as usize] += 1;
        (row, generations[row as usize])
    });
    let puts = put_each(context, &*engine, rows, context.limit(OVERWRITE_SECONDS))?;
    context.measure_idle(&*engine, &before, VALUE_BYTES, [puts, count])?;
    context.verify_sample(&*engine, count, VALUE_BYTES, |row| {
        generations[row as usize]
    })?;
    engine.close()
}

/// Puts rows with their generations, one per commit, until `limit`. Sets the figures and returns
/// how many were put.
fn put_each(
    context: &Context,
    engine: &dyn Engine,
    rows: impl Iterator<Item = (u64, u32)>,
    limit: Duration,
) -> Outcome<u64> {
    let (mut latencies, mut value) = (Latencies::new(), vec![0; VALUE_BYTES]);
    let (before, started, mut puts) = (Usage::now(), Instant::now(), 0);
    for (row, generation) in rows {
        context.values.fill(row, generation, &mut value);
        latencies.time(|| engine.put(&key(row), &value))?;
        puts += 1;
        if puts % 1024 == 0 && started.elapsed() > limit {
            break;
        }
    }
    context.phase("", puts, &before.since(), Some(&latencies));
    context.figure("puts", puts as f64);
    Ok(puts)
}
