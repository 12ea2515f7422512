//! Killer: kills the process, or cuts the power, for every store; sometimes once more while the
//! stores are opened again. Half of the steps do this only to a copy of the disk.

use crate::finding::Checked;
use crate::life::{KEEPS, Life};
use lazurite_engine::Choices;
use lazurite_engine::fs::Keep;

/// A step of the killer.
#[derive(Debug, Clone)]
pub struct Step {
    keep: Keep,
    seed: u64,
    /// The call of each opening at which a second crash comes; `None` for no second crash.
    again: Option<u64>,
    /// Whether the crash happens only to a copy of the disk.
    is_look: bool,
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
            is_look: choices.one_in(2),
        }
    }

    /// The death of the process, which keeps all writes.
    pub fn kill(choices: &mut Choices) -> Step {
        Step {
            keep: Keep::Everything,
            seed: choices.next(),
            again: None,
            is_look: false,
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        let mut choices = Choices::new(self.seed);
        if self.is_look {
            life.look(self.keep, &mut choices, self.again, |_| true)
        } else {
            life.crash(self.keep, &mut choices, self.again)
        }
    }
}
