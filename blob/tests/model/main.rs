//! Random operations on the service and on plain maps that obey the protocol, compared after each
//! operation.
//!
//! `blocks`: block blobs and listings. `history`: all types, and the history of a name. `terms`:
//! leases, tiers, expiry, keys.
//!
//! `LAZURITE_TEST_SEED` repeats one run, `LAZURITE_MODEL_STEPS` makes it longer. A failure prints
//! the seed and step.

mod blocks;
mod history;
mod store;
mod terms;

use lazurite_blob::{Error, Ticket};
use lazurite_engine::test_seeds;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ACCOUNT: &str = "account";

/// A random number generator (SplitMix64): its seed determines the whole run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Short words of few letters, so that names share beginnings and come again.
    fn word(&mut self, parts: &[&str], least: usize, most: usize) -> String {
        let count = least + self.below(most + 1 - least);
        (0..count).map(|_| *self.one(parts)).collect()
    }

    fn body(&mut self) -> Vec<u8> {
        let length = match self.below(10) {
            0 => 0,
            1 => 20_000 + self.below(50_000),
            _ => self.below(300),
        };
        let first = self.next() as u8;
        (0..length)
            .map(|i| first.wrapping_add((i / 3) as u8))
            .collect()
    }
}

/// The error is the protocol's code where the model says what to expect.
type Result<T, E = Error> = std::result::Result<T, E>;

/// The protocol's code of an error.
fn code(error: Error) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_string()
}

/// Compares the result of a write with the expected one, and waits until it is durable. `None` if
/// it was refused as expected.
fn agree<T>(expected: Result<(), &str>, actual: Result<(T, Ticket)>) -> Option<T> {
    match (expected, actual) {
        (Ok(()), Ok((outcome, ticket))) => {
            ticket.wait().unwrap();
            Some(outcome)
        }
        (Err(expected), Err(error)) => {
            assert_eq!(code(error), expected);
            None
        }
        (expected, actual) => panic!("expected {expected:?}, but {:?}", actual.err()),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Runs the steps with each of several seeds, and prints the seed and step of a failure.
fn with_seeds<R>(
    seeds: u64,
    steps: u64,
    start: impl Fn(u64) -> R,
    step: impl Fn(&mut R),
    end: impl Fn(R),
) {
    for seed in test_seeds(seeds) {
        let mut run = start(seed);
        for number in 0..steps {
            let done = catch_unwind(AssertUnwindSafe(|| step(&mut run)));
            assert!(done.is_ok(), "LAZURITE_TEST_SEED={seed}, step {number}");
        }
        end(run);
    }
}
