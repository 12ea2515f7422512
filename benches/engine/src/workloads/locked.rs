//! Commits of one row: plain, and in transactions that lock one key or three. The three kinds take
//! turns, so that other load on the machine affects all alike, and the difference is the cost of
//! the locks.

use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::context::{Context, VALUE_BYTES};
use crate::data::{KEY_BYTES, key};
use crate::engine::{Engine, Setup};

const SECONDS: f64 = 6.0;
/// Number of puts in a turn: few enough that most turns are not interrupted.
const TURN_PUTS: u64 = 200;
/// The quantile of the turns that is reported: this share of them is faster. Other load may have
/// interrupted the slower turns.
const SHARE: f64 = 0.1;
/// Numbers of keys that a put locks; one for each kind of turn.
const KEYS: [usize; 3] = [0, 1, 3];

pub(super) fn run(context: &Context) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let (limit, started) = (context.limit(SECONDS), Instant::now());
    let mut turns: [Vec<f64>; 3] = Default::default();
    let mut row = 0;
    while started.elapsed() < limit {
        for (keys, turns) in KEYS.iter().zip(&mut turns) {
            let Some(took) = put(context, &*engine, row..row + TURN_PUTS, *keys)? else {
                continue;
            };
            row += TURN_PUTS;
            turns.push(took.as_secs_f64() * 1e9 / TURN_PUTS as f64);
        }
    }
    for (name, turns) in ["plain_ns", "locked_ns", "locked3_ns"]
        .iter()
        .zip(&mut turns)
    {
        if !turns.is_empty() {
            context.figure(*name, quantile(turns));
        }
    }
    context.verify_sample(&*engine, row, VALUE_BYTES, |_| 0)?;
    engine.close()
}

/// Puts rows, each with `keys` locked keys. Returns the time that the engine took; `None` if the
/// engine has no locks.
fn put(
    context: &Context,
    engine: &dyn Engine,
    rows: std::ops::Range<u64>,
    keys: usize,
) -> Outcome<Option<Duration>> {
    let mut value = vec![0; VALUE_BYTES];
    let mut pairs: Vec<([u8; KEY_BYTES], Vec<u8>)> = Vec::new();
    for row in rows {
        context.values.fill(row, 0, &mut value);
        pairs.push((key(row), value.clone()));
    }
    let since = Instant::now();
    for (key, value) in &pairs {
        let locked: [&[u8]; 3] = [key, b"first other key", b"second other key"];
        match keys {
            0 => engine.put(key, value)?,
            _ => match engine.put_locked(&locked[..keys], value) {
                Some(done) => done?,
                None => return Ok(None),
            },
        }
    }
    Ok(Some(since.elapsed()))
}

fn quantile(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[(figures.len() as f64 * SHARE) as usize]
}
