//! Crash: the process dies, or the power fails, for every store of a life; sometimes once more
//! during the recovery.

use crate::finding::Checked;
use crate::life::{Life, SLOTS, Slot, Store, is_brief};
use crate::model::History;
use crate::settings;
use lazurite_engine::Choices;
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
    /// Ends everything as it is now; `keep` says what is left. Then opens every store that is left,
    /// with other settings. `again` is the number of a call in each opening at which everything
    /// ends once more.
    pub fn crash(&mut self, keep: Keep, choices: &mut Choices, again: Option<u64>) -> Checked {
        let mut after = self.after_crash(keep, choices);
        self.abandon();
        after.recover(choices, again)?;
        *self = after;
        Ok(())
    }

    /// Checks, in a copy of the disk, what a crash now would leave of the stores in the slots that
    /// `is_seen` selects. The life continues as if there had been no crash.
    pub fn look(
        &mut self,
        keep: Keep,
        choices: &mut Choices,
        again: Option<u64>,
        is_seen: impl Fn(usize) -> bool,
    ) -> Checked {
        let mut after = self.after_crash(keep, choices);
        for slot in (0..SLOTS).filter(|&slot| !is_seen(slot)) {
            after.slots[slot] = Slot::Empty;
        }
        let recovered = after.recover(choices, again);
        after.abandon();
        recovered.map_err(|finding| finding.within(format!("a crash that leaves {keep:?}")))
    }

    /// The life after a crash, with every store at rest.
    fn after_crash(&mut self, keep: Keep, choices: &mut Choices) -> Life {
        // After a failed sync, the machine must be restarted, not only the process.
        let keep = if keep == Keep::Everything && self.must_restart() {
            choices.pick(&POWER_CUTS)
        } else {
            keep
        };
        let memory = self.memory.crash(choices.next(), keep);
        Life {
            clock: self.clock.clone(),
            slots: std::array::from_fn(|slot| self.slots[slot].after_crash(keep)),
            choices: self.choices.clone(),
            ..Life::on(memory)
        }
    }

    fn recover(&mut self, choices: &mut Choices, again: Option<u64>) -> Checked {
        if let Some(nth) = again {
            for slot in 0..SLOTS {
                self.crash_in_recovery(slot, nth, choices);
            }
        }
        self.reopen_all(choices)
    }

    fn abandon(&self) {
        for slot in &self.slots {
            if let Slot::Open(store) = slot {
                store.db.abandon();
            }
        }
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

impl Slot {
    fn after_crash(&self, keep: Keep) -> Slot {
        let mut history = match self {
            Slot::Open(store) if is_brief(store) => return Slot::Empty,
            Slot::Open(store) => store.history_of_death(),
            Slot::Closed(history) => (**history).clone(),
            Slot::Empty => return Slot::Empty,
        };
        if keep != Keep::Everything {
            history.power_failed();
        }
        Slot::Closed(Box::new(history))
    }
}

impl Store {
    /// Ends the store as the death of its process does. Only its history is left.
    pub fn die(self) -> History {
        self.db.abandon();
        self.history_of_death()
    }

    fn history_of_death(&self) -> History {
        let mut history = self.history.clone();
        history.process_ended(self.db.durability());
        history
    }
}
