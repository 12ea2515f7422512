//! Life: a disk in memory, the stores on it, and their steps. One thread, stepped background work,
//! and a clock that only steps move: the same steps always have the same outcome.
//!
//! Steps refer to a store by its number among the stores that the step applies to, and do nothing
//! if there is none. So any part of a list of steps is a valid list of steps.

mod amid;
mod crash;
mod store;

pub use amid::Amid;
pub use crash::{KEEPS, POWER_CUTS};
pub use store::{HeldScan, Store};

use crate::access::{does_not_open, unexpected};
use crate::finding::Checked;
use crate::model::{History, Rows};
use crate::settings;
use lazurite_engine::Choices;
use lazurite_engine::fs::{FaultFs, Fs, Keep, ManualClock, MemoryFs};
use lazurite_engine::{
    Background, Config, CountingIds, Durability, Environment, Keyspace, Scan, Snapshot,
    remove_store,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of stores at a time.
pub const SLOTS: usize = 5;

/// A place for a store. All stores that are in it, one after another, have the same path.
#[derive(Debug, Default)]
pub enum Slot {
    /// No store; files of an earlier one may be left.
    #[default]
    Empty,
    /// An open store.
    Open(Box<Store>),
    /// A store at rest: closed, or left by a process that died.
    Closed(Box<History>),
}

/// An object that was held of a store and outlives its close.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are those of the engine")]
pub enum Leftover {
    Snapshot(Snapshot, Keyspace),
    Scan(Box<Scan>),
}

/// A disk, the stores on it, and the objects that are held of these stores.
#[derive(Debug)]
pub struct Life {
    /// The disk whose power can be cut.
    pub memory: MemoryFs,
    /// The same disk, as the stores see it.
    pub faults: FaultFs,
    /// The action that is planned for a write of an SSTable.
    pub amid: Amid,
    /// The clock of all stores.
    pub clock: Arc<ManualClock>,
    /// The stores.
    pub slots: [Slot; SLOTS],
    /// The leftovers of closed stores.
    pub leftovers: Vec<Leftover>,
    /// Whether the fault that is set may make a sync fail.
    pub may_fail_syncs: bool,
    /// A sync may have failed since the machine was started: earlier writes are in the cache of the
    /// system but perhaps never on the disk, so a store must not continue from what it reads.
    pub has_lost_writes: bool,
    /// A crash that follows once the fault has fired, by what it keeps; `None` for no crash.
    pub cut_when_fired: Option<Keep>,
    /// The source of choices that no step has made.
    choices: Choices,
}

impl Life {
    /// A life with one empty, open store, whose settings follow from the seed.
    pub fn begin(seed: u64) -> Checked<Life> {
        let mut choices = Choices::child(seed, "settings");
        let mut life = Life {
            choices: Choices::child(seed, "life"),
            ..Life::on(MemoryFs::crashable())
        };
        let durability = settings::durability(&mut choices);
        let config = settings::config(&mut choices, durability);
        life.slots[0] = Slot::Closed(Box::new(History::of(Rows::default())));
        life.reopen(0, &config)?;
        Ok(life)
    }

    /// A life on this disk, without stores.
    fn on(memory: MemoryFs) -> Life {
        Life {
            faults: FaultFs::new(Arc::new(memory.clone())),
            memory,
            amid: Amid::default(),
            clock: Arc::default(),
            slots: Default::default(),
            leftovers: Vec::new(),
            may_fail_syncs: false,
            has_lost_writes: false,
            cut_when_fired: None,
            choices: Choices::new(0),
        }
    }

    /// The path of the stores of that slot.
    pub fn path(slot: usize) -> PathBuf {
        PathBuf::from(format!("/stores/{slot}"))
    }

    /// The environment of the stores.
    pub fn environment(&self, fs: Arc<dyn Fs>) -> Environment {
        // Sets only what differs from the environment of a program.
        let mut environment = Environment::system(Durability::Memory);
        environment.fs = fs;
        environment.clock = self.clock.clone();
        environment.ids = Arc::new(CountingIds::default());
        environment.background = Background::Stepped;
        environment
    }

    /// The disk as the stores see it.
    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.amid.over(self.faults.clone()))
    }

    /// The open store with this number, modulo their count.
    pub fn open_store(&mut self, number: usize) -> Option<&mut Store> {
        let slot = self.open_slot(number)?;
        match &mut self.slots[slot] {
            Slot::Open(store) => Some(store),
            _ => None,
        }
    }

    /// The slot of the open store with this number, modulo their count.
    pub fn open_slot(&self, number: usize) -> Option<usize> {
        self.nth_slot(number, |slot| matches!(slot, Slot::Open(_)))
    }

    /// The slot of the store at rest with this number, modulo their count.
    pub fn closed_slot(&self, number: usize) -> Option<usize> {
        self.nth_slot(number, |slot| matches!(slot, Slot::Closed(_)))
    }

    /// Among the stores that outlive their process, the slot of the one with this number, modulo
    /// their count.
    pub fn lasting_slot(&self, number: usize) -> Option<usize> {
        self.nth_slot(number, |slot| match slot {
            Slot::Open(store) => !is_brief(store),
            Slot::Closed(_) => true,
            Slot::Empty => false,
        })
    }

    /// Among the slots without a store, the one with this number, modulo their count.
    pub fn empty_slot(&self, number: usize) -> Option<usize> {
        self.nth_slot(number, |slot| matches!(slot, Slot::Empty))
    }

    fn nth_slot(&self, number: usize, fits: impl Fn(&Slot) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..SLOTS).filter(|&slot| fits(&self.slots[slot])).collect();
        let at = number.checked_rem(fitting.len())?;
        Some(fitting[at])
    }

    /// Removes the files left in a slot without a store. Returns whether none is left.
    pub fn clear(&self, slot: usize) -> Checked<bool> {
        let path = Life::path(slot);
        if self.memory.list(&path).is_err() {
            return Ok(true);
        }
        match remove_store(&self.fs(), &path) {
            Ok(()) => Ok(true),
            Err(_) if self.faults.seen().1 => Ok(false),
            Err(error) => Err(unexpected("remove a closed store", &error)),
        }
    }

    /// Opens the store at rest in `slot`, and checks its rows, and that it is whole.
    pub fn reopen(&mut self, slot: usize, config: &Config) -> Checked {
        let Slot::Closed(history) = std::mem::take(&mut self.slots[slot]) else {
            return Ok(());
        };
        let path = Life::path(slot);
        let environment = self.environment(self.fs());
        let opened = Store::open(&path, config, environment, &self.faults, (*history).clone());
        if opened.is_err() && self.faults.seen().1 {
            if config.durability == Durability::Memory {
                // A store in memory lives for one opening only.
                return Ok(());
            }
            // Does what an operator would: mends the disk, and starts the machine anew.
            self.slots[slot] = Slot::Closed(history);
            return self.restart();
        }
        let mut store = opened.map_err(|error| {
            let place = format!("{} at {:?}", path.display(), config.durability);
            does_not_open(&place, &error)
        })?;
        let mut found = store.dump()?;
        if found.as_ref().is_err_and(|error| store.tolerates(error)) {
            self.mend();
            store.was_hurt = true;
            found = store.dump()?;
        }
        let found = found.map_err(|error| unexpected("scan after a reopening", &error))?;
        store
            .history
            .reopened(found)
            .and_then(|()| store.check_whole())
            .map_err(|finding| finding.within(format!("{} reopened", path.display())))?;
        self.slots[slot] = Slot::Open(Box::new(store));
        Ok(())
    }

    /// Stops the failing of calls. Stores that have stopped writing stay read-only; in the others
    /// no call may fail from now on.
    pub fn mend(&mut self) {
        self.note_fired();
        self.faults.set(None);
        self.cut_when_fired = None;
        for slot in &mut self.slots {
            if let Slot::Open(store) = slot {
                store.was_hurt &= store.db.failure().is_some();
            }
        }
    }

    /// True if the machine must be restarted before a store is opened again: the advice after a
    /// failed sync.
    pub fn must_restart(&mut self) -> bool {
        self.note_fired();
        self.has_lost_writes
    }

    fn note_fired(&mut self) -> bool {
        let (_, has_fired) = self.faults.seen();
        if has_fired {
            self.has_lost_writes |= self.may_fail_syncs;
            for slot in &mut self.slots {
                if let Slot::Open(store) = slot {
                    store.was_hurt = true;
                }
            }
        }
        has_fired
    }

    /// Call this after each step: it carries out the crash that a call of the step has set off.
    pub fn after_step(&mut self) -> Checked {
        if !self.note_fired() {
            return Ok(());
        }
        match self.cut_when_fired.take() {
            Some(keep) => {
                let mut choices = Choices::new(self.choices.next());
                self.crash(keep, &mut choices, None)
            }
            None => Ok(()),
        }
    }

    /// Starts the machine anew, and opens and checks every store.
    pub fn restart(&mut self) -> Checked {
        let mut choices = Choices::new(self.choices.next());
        let keep = choices.pick(&POWER_CUTS);
        self.crash(keep, &mut choices, None)
    }

    /// Ends the life: every store at rest must open, and every store must hold what it must.
    pub fn end(&mut self) -> Checked {
        self.mend();
        if self.must_restart() {
            self.restart()?;
        }
        let mut choices = Choices::new(self.choices.next());
        self.reopen_all(&mut choices)?;
        for slot in &mut self.slots {
            if let Slot::Open(store) = slot {
                store.check_rows()?;
                store.check_whole()?;
            }
        }
        Ok(())
    }

    fn reopen_all(&mut self, choices: &mut Choices) -> Checked {
        for slot in 0..SLOTS {
            if matches!(self.slots[slot], Slot::Closed(_)) {
                let durability = settings::durability(choices);
                let config = settings::config(choices, durability);
                self.reopen(slot, &config)?;
            }
        }
        Ok(())
    }
}

/// Whether the store ends with its process.
pub fn is_brief(store: &Store) -> bool {
    store.db.durability() == Durability::Memory
}
