//! Saboteur: calls on the disk fail, once or from then on; or the power fails at a call.

use crate::finding::Checked;
use crate::life::{KEEPS, Life};
use lazurite_engine::Choices;
use lazurite_engine::fs::{Failure, Fault, Keep, Operation};
use std::io::ErrorKind;

/// A step of the saboteur.
#[derive(Debug, Clone)]
pub enum Step {
    /// From now on the `nth` call of this kind fails.
    Fail {
        operation: Option<Operation>,
        path: &'static str,
        nth: u64,
        error: ErrorKind,
        is_sticky: bool,
    },
    /// The process dies, or the power fails, at the `nth` call from now.
    EndAt { nth: u64, keep: Keep },
    /// No call fails any more.
    Mend,
}

const OPERATIONS: [Option<Operation>; 15] = [
    None,
    Some(Operation::Sync),
    Some(Operation::Sync),
    Some(Operation::Sync),
    Some(Operation::SyncDirectory),
    Some(Operation::Write),
    Some(Operation::Write),
    Some(Operation::Create),
    Some(Operation::Open),
    Some(Operation::Rename),
    Some(Operation::Link),
    Some(Operation::Remove),
    Some(Operation::Read),
    Some(Operation::Length),
    Some(Operation::SetLength),
];

const PATHS: [&str; 8] = ["", "", "", ".wal", ".vlog", ".sst", "MANIFEST", "CURRENT"];

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        match choices.below(10) {
            0..=3 => Step::Fail {
                operation: choices.pick(&OPERATIONS),
                path: choices.pick(&PATHS),
                nth: 1 + choices.below(20),
                error: choices.pick(&[ErrorKind::Other, ErrorKind::Other, ErrorKind::StorageFull]),
                is_sticky: choices.one_in(3),
            },
            4..=6 => Step::EndAt {
                nth: 1 + choices.below(100),
                keep: choices.pick(&KEEPS),
            },
            _ => Step::Mend,
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        life.mend();
        let fault = match self {
            Step::Mend => return Ok(()),
            Step::Fail {
                operation,
                path,
                nth,
                error,
                is_sticky,
            } => Fault {
                operation: *operation,
                path: (*path).to_owned(),
                nth: *nth,
                failure: Failure::Error(*error),
                sticky: *is_sticky,
            },
            Step::EndAt { nth, keep } => {
                life.cut_when_fired = Some(*keep);
                Fault {
                    operation: None,
                    path: String::new(),
                    nth: *nth,
                    failure: Failure::Error(ErrorKind::Other),
                    sticky: true,
                }
            }
        };
        life.may_fail_syncs = matches!(fault.operation, None | Some(Operation::Sync));
        life.faults.set(Some(fault));
        Ok(())
    }
}
