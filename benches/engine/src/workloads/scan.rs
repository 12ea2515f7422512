//! Reading rows in order: all, a hundred from a random row on, the fifty of a partition.

use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, Random};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{Key, PARTITION_ROWS, key, names_row, partition};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

const SECONDS: f64 = 3.0;
const WARM_SECONDS: f64 = 1.0;
const SHORT_ROWS: u64 = 100;
/// Every N-th value is compared whole.
const WHOLE_EVERY: u64 = 64;

pub(super) fn all(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let count = context.rows();
    // The first scan is not measured: it lets each engine fill its cache.
    let mut rows = scan(context, &*engine, [key(0), key(count)], 0..count)?;
    context.check(rows == count, || format!("{rows} rows, not {count}"));
    let (before, started) = (Usage::now(), Instant::now());
    rows = 0;
    while rows == 0 || started.elapsed() < context.limit(SECONDS) {
        rows += scan(context, &*engine, [key(0), key(count)], 0..count)?;
    }
    context.phase("", rows, &before.since(), None);
    engine.close()
}

pub(super) fn short(context: &Context) -> Outcome<()> {
    let starts = context.rows() - SHORT_ROWS;
    timed(context, |engine, random| {
        let first = random.below(starts);
        // The end is far away: the hundredth row ends the scan, as it does for a page of answers.
        let bounds = [key(first), key(context.rows())];
        let rows = scan(context, engine, bounds, first..first + SHORT_ROWS)?;
        context.check(rows == SHORT_ROWS, || {
            format!("{rows} rows from row {first} on")
        });
        Ok(())
    })
}

pub(super) fn prefixes(context: &Context) -> Outcome<()> {
    let partitions = context.rows() / PARTITION_ROWS;
    timed(context, |engine, random| {
        let first = random.below(partitions) * PARTITION_ROWS;
        let (start, end) = partition(first);
        // Expects one row more than the partition has, so that the bound ends the scan.
        let expected = first..first + PARTITION_ROWS + 1;
        let rows = scan(context, engine, [start, end], expected)?;
        context.check(rows == PARTITION_ROWS, || {
            format!("{rows} rows in the partition of row {first}")
        });
        Ok(())
    })
}

fn timed(context: &Context, work: impl Fn(&dyn Engine, &mut Random) -> Outcome<()>) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let (mut random, mut latencies) = (Random::new(7), Latencies::new());
    let mut repeat = |limit: Duration, latencies: &mut Latencies| {
        let (started, mut count) = (Instant::now(), 0);
        while started.elapsed() < limit {
            latencies.time(|| work(&*engine, &mut random))?;
            count += 1;
        }
        Outcome::Ok(count)
    };
    repeat(context.limit(WARM_SECONDS), &mut Latencies::new())?;
    let before = Usage::now();
    let scans = repeat(context.limit(SECONDS), &mut latencies)?;
    context.phase("", scans, &before.since(), Some(&latencies));
    engine.close()
}

/// Scans between the bounds until it has met all rows of `expected`, which must come in order.
fn scan(
    context: &Context,
    engine: &dyn Engine,
    [start, end]: [Key; 2],
    expected: std::ops::Range<u64>,
) -> Outcome<u64> {
    let mut next = expected.start;
    let mut wrong = None;
    let mut see = |found: &[u8], value: &[u8]| {
        let right = match next % WHOLE_EVERY {
            0 => found == key(next) && context.values.check(next, value, VALUE_BYTES).is_some(),
            _ => names_row(next, value),
        };
        if !right {
            wrong = Some(next);
            return false;
        }
        next += 1;
        next < expected.end
    };
    engine.scan(&start, &end, &mut see)?;
    context.check(wrong.is_none(), || {
        format!("row {wrong:?} is missing or wrong in a scan")
    });
    Ok(next - expected.start)
}
