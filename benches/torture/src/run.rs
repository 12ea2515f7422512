//! Run: one life, from its seed to its outcome.

use crate::actors::{Step, plan};
use crate::finding::{Checked, Finding, Symptom};
use crate::kind::Kind;
use crate::life::Life;
use crate::threads;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a life ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The index of the last step that ran.
    pub step: usize,
    /// The finding, if there is one.
    pub finding: Option<Finding>,
}

impl Outcome {
    /// The kind of the finding.
    pub fn symptom(&self) -> Option<Symptom> {
        self.finding.as_ref().map(|finding| finding.symptom)
    }
}

/// Runs the life of that seed.
pub fn run(seed: u64, kind: Kind) -> Outcome {
    match kind {
        Kind::Steps | Kind::Forks | Kind::Faults | Kind::Damage => {
            run_steps(seed, &plan(seed, kind))
        }
        Kind::Threads => run_threads(|| threads::in_memory(seed)),
        Kind::Directory => run_threads(|| threads::in_directory(seed)),
    }
}

fn run_threads(run: impl FnOnce() -> Checked) -> Outcome {
    Outcome {
        step: 0,
        finding: unpanicked(run).err(),
    }
}

/// Does these steps in a life of that seed.
pub fn run_steps(seed: u64, steps: &[Step]) -> Outcome {
    let mut step = 0;
    let lived = unpanicked(|| {
        let mut life = Life::begin(seed)?;
        for (index, next) in steps.iter().enumerate() {
            step = index;
            next.run(&mut life)?;
            life.after_step()?;
        }
        life.end()
    });
    Outcome {
        step,
        finding: lived.err(),
    }
}

/// Turns a panic into a finding.
fn unpanicked(run: impl FnOnce() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(Finding::of_panic(&*panic)))
}
