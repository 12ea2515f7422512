//! Opens a store: after a clean stop with a gigabyte, and after the process was killed with 450,000
//! rows in the log.

use std::time::Instant;

use lazurite_bench_common::Outcome;

use crate::context::{Context, VALUE_BYTES};
use crate::data::key;
use crate::engine::{Engine, Setup};
use crate::usage::Usage;

const ROWS: f64 = 1e6;
const ROW_BYTES: usize = 1000;
const LOGGED_ROWS: f64 = 450_000.0;

/// Memtables large enough for all logged rows, so that every engine has to recover all of them.
fn setup() -> Setup {
    Setup {
        memtable_bytes: 256 << 20,
        ..Setup::hot()
    }
}

fn rows(context: &Context) -> u64 {
    context.scaled(ROWS, 1000)
}

fn logged(context: &Context) -> std::ops::Range<u64> {
    let first = rows(context);
    first..first + context.scaled(LOGGED_ROWS, 500)
}

pub(super) fn load(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let (before, count) = (Usage::now(), rows(context));
    context.load(&*engine, 0..count, ROW_BYTES)?;
    context.figure("load_s", before.since().elapsed.as_secs_f64());
    context.measure_idle(&*engine, &before, ROW_BYTES, [count; 2])?;
    engine.close()
}

pub(super) fn clean(context: &Context) -> Outcome<()> {
    let engine = timed_open(context, "clean_ms", 0)?;
    context.verify_sample(&*engine, rows(context), ROW_BYTES, |_| 0)?;
    engine.close()
}

/// Writes the rows that will be in the log, one a commit, and is killed.
pub(super) fn fill_log(context: &Context) -> Outcome<()> {
    let engine = context.open(&setup())?;
    for row in logged(context) {
        let value = context.values.make(row, 0, VALUE_BYTES);
        engine.put(&key(row), &value)?;
    }
    context.wait_to_be_killed()
}

pub(super) fn killed(context: &Context) -> Outcome<()> {
    let engine = timed_open(context, "killed_ms", logged(context).start)?;
    let (mut survived, count) = (0, logged(context).count());
    for row in logged(context) {
        let mut is_right = false;
        let mut see = |value: &[u8]| {
            is_right = context.values.check(row, value, VALUE_BYTES) == Some(0);
        };
        let found = engine.get(&key(row), &mut see)?;
        context.check(is_right || !found, || format!("logged row {row} is wrong"));
        survived += usize::from(found);
    }
    let is_promised = engine.keeps_unsynced();
    context.check(survived == count || !is_promised, || {
        format!("{} rows did not survive", count - survived)
    });
    context.figure("survived", survived as f64 / count as f64);
    context.verify_sample(&*engine, rows(context), ROW_BYTES, |_| 0)?;
    engine.close()
}

/// Opens the store and reads one row, so that parts which open lazily are open too.
fn timed_open(context: &Context, name: &str, row: u64) -> Outcome<Box<dyn Engine>> {
    let started = Instant::now();
    let engine = context.open(&setup())?;
    engine.get(&key(row), &mut |_| ())?;
    context.figure(name, started.elapsed().as_secs_f64() * 1e3);
    Ok(engine)
}
