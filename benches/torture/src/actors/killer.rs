//! Killer: the process dies, or the power fails, with every store; perhaps once more while they are
//! opened again.

use crate::choices::Choices;
use crate::finding::Checked;
use crate::life::{KEEPS, Life};
use lazurite_engine::fs::Keep;

/// A step of the killer.
#[derive(Debug, Clone)]
pub struct Step {
    keep: Keep,
    seed: u64,
    /// At which call of each opening everything ends once more.
    again: Option<u64>,
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        Step {
            keep: if choices.one_in(3) {
                Keep::Everything
            } else {
                choices.pick(&KEEPS)
            },
            seed: choices.next(),
            again: choices.one_in(4).then(|| 1 + choices.below(60)),
        }
    }

    /// The death of the process.
    pub fn kill(choices: &mut Choices) -> Step {
        Step {
            keep: Keep::Everything,
            seed: choices.next(),
            again: None,
        }
    }

    /// Does the step, and checks what it answers.
    pub fn run(&self, life: &mut Life) -> Checked {
        life.crash(self.keep, &mut Choices::new(self.seed), self.again)
    }
}
