//! Fault: what fails in a session of threads, and how slow the syncs of its disk are.

use lazurite_engine::Choices;
use lazurite_engine::fs::{self, Failure, FaultFs, Operation};
use std::io::ErrorKind;
use std::time::Duration;

/// The fault of a session: a call that fails, and sometimes all such calls after it.
#[derive(Debug, Clone)]
pub struct Fault {
    fault: fs::Fault,
    /// Time that the session runs before calls are counted.
    delay: Duration,
    /// Time that is added to each sync, so that callers queue.
    sync: Duration,
}

const OPERATIONS: [Operation; 13] = [
    Operation::Sync,
    Operation::Sync,
    Operation::SyncDirectory,
    Operation::Write,
    Operation::Write,
    Operation::Create,
    Operation::Open,
    Operation::Rename,
    Operation::Link,
    Operation::Remove,
    Operation::Read,
    Operation::Length,
    Operation::SetLength,
];

const PATHS: [&str; 6] = ["", "", ".wal", ".vlog", ".sst", "MANIFEST"];

impl Fault {
    /// Chooses a random fault: half of the time in a sync of the value log, which many callers
    /// request at once; otherwise in a call of a random kind.
    pub fn random(choices: &mut Choices) -> Fault {
        let (operation, path) = if choices.one_in(2) {
            (Operation::Sync, ".vlog")
        } else {
            (choices.pick(&OPERATIONS), choices.pick(&PATHS))
        };
        let error = choices.pick(&[ErrorKind::Other, ErrorKind::Other, ErrorKind::StorageFull]);
        Fault {
            fault: fs::Fault {
                operation: Some(operation),
                path: path.to_owned(),
                nth: 1 + choices.below(40),
                failure: if choices.one_in(25) {
                    Failure::Panic
                } else {
                    Failure::Error(error)
                },
                sticky: choices.one_in(6),
            },
            delay: Duration::from_millis(choices.below(15)),
            sync: Duration::from_micros(choices.pick(&[0, 300, 1000, 3000])),
        }
    }

    /// Whether the call panics.
    pub fn panics(&self) -> bool {
        self.fault.failure == Failure::Panic
    }

    /// Makes the syncs slow, and the call fail once the delay is over.
    pub fn set(&self, disk: &FaultFs) {
        disk.slow(Some((Operation::Sync, self.sync)));
        std::thread::sleep(self.delay);
        disk.set(Some(self.fault.clone()));
    }
}
