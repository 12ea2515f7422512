//! A queue of a million messages: push to the tail, pop from the head. A pop scans from the
//! beginning for the first message and deletes it; the position of the head is not kept.

use std::time::Instant;

use lazurite_bench_common::Outcome;

use crate::context::{Context, VALUE_BYTES};
use crate::data::{message_key, names_row};
use crate::engine::{Engine, Row, Setup};
use crate::usage::{Latencies, Usage};

const DEPTH: f64 = 1e6;
const SECONDS: f64 = 8.0;
const LOAD_BATCH_ROWS: usize = 1000;
/// Parts of the run whose mean pop times are compared, to see whether a pop takes longer with time.
const PARTS: usize = 10;

pub(super) fn run(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let depth = context.scaled(DEPTH, 500);
    load(context, &*engine, depth)?;
    let (mut pops, limit) = (Latencies::new(), context.limit(SECONDS));
    let mut parts: Vec<Latencies> = (0..PARTS).map(|_| Latencies::new()).collect();
    let (before, started, mut pairs) = (Usage::now(), Instant::now(), 0);
    while started.elapsed() < limit {
        let value = context.values.make(depth + pairs, 0, VALUE_BYTES);
        engine.put(&message_key(depth + pairs), &value)?;
        let since = Instant::now();
        pop(context, &*engine, pairs)?;
        let (latency, at) = (since.elapsed(), started.elapsed());
        pops.record(latency);
        let part = at.as_secs_f64() / limit.as_secs_f64() * PARTS as f64;
        parts[(part as usize).min(PARTS - 1)].record(latency);
        pairs += 1;
    }
    context.phase("", pairs, &before.since(), Some(&pops));
    let means: Vec<f64> = parts.iter().map(Latencies::mean_us).collect();
    for (part, mean) in means.iter().enumerate() {
        context.figure(format!("tenth_{part}"), *mean);
    }
    let slowest = means.iter().copied().fold(0.0, f64::max);
    let fastest = means.iter().copied().fold(f64::MAX, f64::min);
    context.figure("spread", slowest / fastest.max(0.001));
    context.measure_idle(&*engine, &before, VALUE_BYTES, [pairs, depth])?;
    engine.close()
}

fn load(context: &Context, engine: &dyn Engine, depth: u64) -> Outcome<()> {
    let make = |number| {
        let value = context.values.make(number, 0, VALUE_BYTES);
        (message_key(number).to_vec(), value)
    };
    let messages: Vec<u64> = (0..depth).collect();
    for numbers in messages.chunks(LOAD_BATCH_ROWS) {
        let batch: Vec<Row> = numbers.iter().map(|&number| make(number)).collect();
        engine.put_many(&batch)?;
    }
    Ok(())
}

/// Takes the first message, which must be the one of that number.
fn pop(context: &Context, engine: &dyn Engine, number: u64) -> Outcome<()> {
    let mut head = None;
    let mut see = |key: &[u8], value: &[u8]| {
        head = Some((key.to_vec(), names_row(number, value)));
        false
    };
    engine.scan(b"q", b"r", &mut see)?;
    let Some((key, is_right)) = head else {
        return Err(format!("the queue is empty before message {number}").into());
    };
    context.check(is_right && key == message_key(number), || {
        format!("message {number} is not the head of the queue")
    });
    engine.delete(&key)
}
