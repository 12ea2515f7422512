//! The six core workloads of YCSB, named by their letters; one thread runs each on the rows of the
//! shared store.
//!
//! Shares of operations and distributions of keys are those of YCSB; its rows have 1 KiB, ours
//! [`VALUE_BYTES`]. Source: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", table 2.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use lazurite_bench_common::{Outcome, Random};

use crate::context::{Context, VALUE_BYTES};
use crate::data::{Zipf, key, names_row};
use crate::engine::{Engine, Setup};
use crate::usage::{Latencies, Usage};

const SECONDS: f64 = 4.0;
const WARM_SECONDS: f64 = 1.0;
/// Longest scan; lengths are uniform.
const SCAN_ROWS_MAX: u64 = 100;
/// The generations of puts of these workloads begin after this; other workloads use lower ones.
const FIRST_GENERATION: u32 = 1_000_000;
/// Distance between the rows that two workloads insert, so that they do not meet.
const INSERT_DISTANCE: u64 = 1_000_000_000;
/// Every N-th updated row is compared at the end.
const VERIFIED_EVERY: usize = 17;

#[derive(Clone, Copy)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    /// A read, and an update of the same row.
    ReadModifyWrite,
}

use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};

impl Operation {
    /// The prefix of the operation's figures.
    fn prefix(self) -> &'static str {
        match self {
            Read => "read_",
            Update => "update_",
            Insert => "insert_",
            Scan => "scan_",
            ReadModifyWrite => "modify_",
        }
    }
}

/// The operations of a workload.
struct Mix {
    /// `share` percent of the operations are of the first kind, the others of the second.
    first: Operation,
    share: u64,
    second: Operation,
    /// Whether the rows inserted last are the favourites. Otherwise the favourites are scattered.
    prefers_latest: bool,
}

const fn mix(first: Operation, share: u64, second: Operation) -> Mix {
    Mix {
        first,
        share,
        second,
        prefers_latest: false,
    }
}

pub(super) fn a(context: &Context) -> Outcome<()> {
    run(context, &mix(Read, 50, Update))
}

pub(super) fn b(context: &Context) -> Outcome<()> {
    run(context, &mix(Read, 95, Update))
}

pub(super) fn c(context: &Context) -> Outcome<()> {
    run(context, &mix(Read, 100, Read))
}

pub(super) fn d(context: &Context) -> Outcome<()> {
    let latest = Mix {
        prefers_latest: true,
        ..mix(Read, 95, Insert)
    };
    run(context, &latest)
}

pub(super) fn e(context: &Context) -> Outcome<()> {
    run(context, &mix(Scan, 95, Insert))
}

pub(super) fn f(context: &Context) -> Outcome<()> {
    run(context, &mix(Read, 50, ReadModifyWrite))
}

fn run(context: &Context, mix: &Mix) -> Outcome<()> {
    let engine = context.open(&Setup::hot())?;
    let (rows, limit) = (context.rows(), context.limit(WARM_SECONDS));
    context.read_random(&*engine, rows, 3, limit, &mut Latencies::new())?;
    let mut user = User::new(context, &*engine, mix.prefers_latest);
    let mut latencies: BTreeMap<&str, Latencies> = BTreeMap::new();
    let (limit, started, mut operations) = (context.limit(SECONDS), Instant::now(), 0);
    let before = Usage::now();
    while started.elapsed() < limit {
        let is_first = user.random.below(100) < mix.share;
        let operation = if is_first { mix.first } else { mix.second };
        let kind = latencies.entry(operation.prefix());
        let kind = kind.or_insert_with(Latencies::new);
        kind.time(|| user.perform(operation))?;
        operations += 1;
    }
    context.phase("", operations, &before.since(), None);
    for (prefix, latencies) in &latencies {
        context.latencies(prefix, latencies);
    }
    user.verify()?;
    engine.close()
}

/// The thread that performs the operations.
struct User<'a> {
    context: &'a Context,
    engine: &'a dyn Engine,
    random: Random,
    zipf: Zipf,
    prefers_latest: bool,
    next_insert: u64,
    /// The generations of the rows that were updated or inserted here.
    generations: HashMap<u64, u32>,
    value: Vec<u8>,
}

impl<'a> User<'a> {
    fn new(context: &'a Context, engine: &'a dyn Engine, prefers_latest: bool) -> User<'a> {
        let rows = context.rows();
        // If the latest rows are the favourites, new rows continue the old ones.
        let first_insert = if prefers_latest {
            rows
        } else {
            rows + INSERT_DISTANCE
        };
        User {
            context,
            engine,
            random: Random::new(9),
            zipf: Zipf::new(rows),
            prefers_latest,
            next_insert: first_insert,
            generations: HashMap::new(),
            value: vec![0; VALUE_BYTES],
        }
    }

    fn row(&mut self) -> u64 {
        if self.prefers_latest {
            self.next_insert - 1 - self.zipf.rank(&mut self.random)
        } else {
            self.zipf.next(&mut self.random)
        }
    }

    fn perform(&mut self, operation: Operation) -> Outcome<()> {
        match operation {
            Read => {
                let row = self.row();
                self.read(row)
            }
            Update => {
                let row = self.row();
                self.put(row)
            }
            Insert => {
                self.next_insert += 1;
                self.put(self.next_insert - 1)
            }
            Scan => self.scan(),
            ReadModifyWrite => {
                let row = self.row();
                self.read(row)?;
                self.put(row)
            }
        }
    }

    fn read(&mut self, row: u64) -> Outcome<()> {
        let mut is_right = false;
        let mut see = |value: &[u8]| is_right = names_row(row, value);
        self.engine.get(&key(row), &mut see)?;
        self.context
            .check(is_right, || format!("row {row} is missing or wrong"));
        Ok(())
    }

    fn put(&mut self, row: u64) -> Outcome<()> {
        let generation = self.generations.entry(row).or_insert(FIRST_GENERATION);
        *generation += 1;
        let values = &self.context.values;
        values.fill(row, *generation, &mut self.value);
        self.engine.put(&key(row), &self.value)
    }

    fn scan(&mut self) -> Outcome<()> {
        let first = self.row();
        let length = 1 + self.random.below(SCAN_ROWS_MAX);
        let end = (first + length).min(self.context.rows());
        let mut next = first;
        let mut see = |found: &[u8], value: &[u8]| {
            let is_right = found == key(next) && names_row(next, value);
            next += u64::from(is_right);
            is_right && next < end
        };
        let bounds = [key(first), key(self.context.rows())];
        self.engine.scan(&bounds[0], &bounds[1], &mut see)?;
        self.context.check(next == end, || {
            format!("row {next} is missing or wrong in a scan")
        });
        Ok(())
    }

    /// Compares some of the rows that were written.
    fn verify(&self) -> Outcome<()> {
        for (row, generation) in self.generations.iter().step_by(VERIFIED_EVERY) {
            let mut found = None;
            let mut see =
                |value: &[u8]| found = self.context.values.check(*row, value, VALUE_BYTES);
            self.engine.get(&key(*row), &mut see)?;
            self.context.check(found == Some(*generation), || {
                format!("row {row} has generation {found:?}, not {generation}")
            });
        }
        Ok(())
    }
}
