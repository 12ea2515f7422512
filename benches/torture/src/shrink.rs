//! Shrink: leaves out steps of a life as long as the remaining steps show the same symptom.

use crate::actors::Step;
use crate::finding::Symptom;
use crate::run::{Outcome, run_steps};
use std::time::{Duration, Instant};

/// A list of steps that fails, and its outcome.
#[derive(Debug)]
pub struct Shrunk {
    /// The steps.
    pub steps: Vec<Step>,
    /// The outcome of a life of these steps.
    pub outcome: Outcome,
}

/// The shortest list that was found within `limit`. `steps` fail with `outcome`.
pub fn shrink(seed: u64, mut steps: Vec<Step>, outcome: Outcome, limit: Duration) -> Shrunk {
    let end = Instant::now() + limit;
    let Some(symptom) = outcome.symptom() else {
        return Shrunk { steps, outcome };
    };
    steps.truncate(outcome.step + 1);
    let mut shrunk = Shrunk { steps, outcome };
    let mut chunk = shrunk.steps.len().div_ceil(2);
    while chunk > 0 && Instant::now() < end {
        let has_shrunk = leave_out(&mut shrunk, seed, symptom, chunk, end);
        if !has_shrunk || chunk > 1 {
            chunk /= 2;
        }
    }
    simplify(&mut shrunk, seed, symptom, end);
    shrunk
}

/// Leaves out each stretch of `chunk` steps without which the life still fails. Returns whether
/// there was one.
fn leave_out(shrunk: &mut Shrunk, seed: u64, symptom: Symptom, chunk: usize, end: Instant) -> bool {
    let mut has_shrunk = false;
    // Go backwards, because most steps at the end do not matter.
    let mut at = shrunk.steps.len();
    while at > 0 && Instant::now() < end {
        let start = at.saturating_sub(chunk);
        let mut fewer = shrunk.steps.clone();
        fewer.drain(start..at);
        if accept(shrunk, seed, symptom, fewer) {
            has_shrunk = true;
        }
        at = start.min(shrunk.steps.len());
    }
    has_shrunk
}

/// Replaces steps by parts of them.
fn simplify(shrunk: &mut Shrunk, seed: u64, symptom: Symptom, end: Instant) {
    let mut at = 0;
    while at < shrunk.steps.len() && Instant::now() < end {
        let parts = shrunk.steps[at].parts().into_iter();
        let is_simpler = parts.into_iter().any(|part| {
            let mut simpler = shrunk.steps.clone();
            simpler[at] = part;
            accept(shrunk, seed, symptom, simpler)
        });
        if !is_simpler {
            at += 1;
        }
    }
}

/// Takes the steps if they fail in the same way.
fn accept(shrunk: &mut Shrunk, seed: u64, symptom: Symptom, mut steps: Vec<Step>) -> bool {
    let outcome = run_steps(seed, &steps);
    if outcome.symptom() != Some(symptom) {
        return false;
    }
    steps.truncate(outcome.step + 1);
    *shrunk = Shrunk { steps, outcome };
    true
}
