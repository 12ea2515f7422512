//! Crash: the process dies, or the power fails, with every store of a life; perhaps once more
//! during the recovery.

use crate::choices::Choices;
use crate::finding::Checked;
use crate::life::{Life, Slot, Store, is_brief};
use crate::settings;
use lazurite_engine::fs::{Failure, Fault, FaultFs, Keep};
use std::io::ErrorKind;
use std::sync::Arc;

/// The kinds of power cut.
pub const POWER_CUTS: [Keep; 3] = [Keep::Nothing, Keep::Prefix, Keep::Sectors];

/// The death of the process, which keeps everything, and the kinds of power cut.
pub const KEEPS: [Keep; 4] = [
    Keep::Everything,
    POWER_CUTS[0],
    POWER_CUTS[1],
    POWER_CUTS[2],
];

impl Life {
    /// Everything ends as it is now; what `keep` says is left. Those stores that were open are
    /// opened again, with other settings. `again`: at which call of each opening everything ends
    /// once more.
    pub fn crash(&mut self, keep: Keep, choices: &mut Choices, again: Option<u64>) -> Checked {
        // After a failed sync the death of the process is followed by a restart of the machine.
        let keep = if keep == Keep::Everything && self.must_restart() {
            choices.pick(&POWER_CUTS)
        } else {
            keep
        };
        self.cut_power(keep, choices);
        if let Some(nth) = again {
            let was_open = self
                .slots
                .iter()
                .map(|slot| matches!(slot, Slot::Closed(_)));
            let was_open: Vec<bool> = was_open.collect();
            for (slot, _) in was_open.iter().enumerate().filter(|(_, open)| **open) {
                self.crash_in_recovery(slot, nth, choices);
            }
        }
        self.reopen_all(choices)
    }

    fn cut_power(&mut self, keep: Keep, choices: &mut Choices) {
        let left = self.memory.crash(choices.next(), keep);
        for slot in &mut self.slots {
            *slot = match std::mem::take(slot) {
                Slot::Open(store) if is_brief(&store) => Slot::Empty,
                Slot::Open(store) => Slot::Closed(Box::new(store.die())),
                other => other,
            };
            if let Slot::Closed(history) = slot
                && keep != Keep::Everything
            {
                history.power_failed();
            }
        }
        self.leftovers.clear();
        self.memory = left;
        self.faults = FaultFs::new(Arc::new(self.memory.clone()));
        self.cut_when_fired = None;
        self.has_lost_writes = false;
    }

    /// Opens the store at rest while every call fails from the `nth` on, and ends everything again.
    fn crash_in_recovery(&mut self, slot: usize, nth: u64, choices: &mut Choices) {
        let Slot::Closed(history) = &self.slots[slot] else {
            return;
        };
        self.faults.set(Some(Fault {
            operation: None,
            path: String::new(),
            nth,
            failure: Failure::Error(ErrorKind::Other),
            sticky: true,
        }));
        let durability = settings::durability(choices);
        let config = settings::config(choices, durability);
        let environment = self.environment(self.fs());
        let opened = Store::open(
            &Life::path(slot),
            &config,
            environment,
            &self.faults,
            (**history).clone(),
        );
        let keep = choices.pick(&KEEPS);
        let left = self.memory.crash(choices.next(), keep);
        if let Ok(store) = opened {
            store.db.abandon();
        }
        self.memory = left;
        self.faults = FaultFs::new(Arc::new(self.memory.clone()));
    }
}

impl Store {
    /// Its process is gone: what is left of it is its history.
    pub fn die(mut self) -> crate::model::History {
        self.history.process_ended(self.db.durability());
        self.db.abandon();
        self.history
    }
}
