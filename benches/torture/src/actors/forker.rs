//! Forker: makes checkpoints that are opened and become separate stores, copies of closed stores,
//! and removals.

use super::choose::number;
use crate::access::unexpected;
use crate::finding::Checked;
use crate::life::{Life, SLOTS, Slot, is_brief};
use crate::model::History;
use crate::settings;
use lazurite_engine::Choices;
use lazurite_engine::{Durability, copy_store};

/// A step of the forker.
#[derive(Debug, Clone)]
pub enum Step {
    /// Makes a checkpoint of a store and, unless it is for later, opens it.
    Fork {
        store: usize,
        target: usize,
        durability: Durability,
        is_opened: bool,
        settings: u64,
    },
    /// Copies a closed store.
    Copy {
        store: usize,
        target: usize,
        durability: Durability,
    },
    /// Removes a closed store, but never the last one of all.
    Remove { store: usize },
    /// Removes a closed store, and makes a fork of another one in its place.
    Replace {
        removed: usize,
        store: usize,
        settings: u64,
    },
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        // Mostly the first free slot is used, so that a path soon has another store.
        let target = if choices.one_in(4) {
            number(choices)
        } else {
            0
        };
        match choices.below(12) {
            0..=5 => Step::Fork {
                store,
                target,
                durability: if choices.one_in(6) {
                    Durability::Memory
                } else {
                    settings::durability(choices)
                },
                is_opened: !choices.one_in(4),
                settings: choices.next(),
            },
            6 => Step::Copy {
                store,
                target,
                durability: settings::durability(choices),
            },
            7 | 8 => Step::Remove { store },
            _ => Step::Replace {
                removed: number(choices),
                store,
                settings: choices.next(),
            },
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        match self {
            Step::Fork {
                store,
                target,
                durability,
                is_opened,
                settings,
            } => {
                let is_opened = *is_opened || *durability == Durability::Memory;
                let target = fork(life, *store, *target, *durability)?;
                match target.filter(|_| is_opened) {
                    Some(target) => open(life, target, *durability, *settings),
                    None => Ok(()),
                }
            }
            Step::Copy {
                store,
                target,
                durability,
            } => copy(life, *store, *target, *durability),
            Step::Remove { store } => remove(life, *store).map(|_| ()),
            Step::Replace {
                removed,
                store,
                settings,
            } => {
                let Some(slot) = remove(life, *removed)? else {
                    return Ok(());
                };
                let is_before = |other: &usize| matches!(life.slots[*other], Slot::Empty);
                let rank = (0..slot).filter(is_before).count();
                let durability = settings::durability(&mut Choices::new(*settings));
                match fork(life, *store, rank, durability)? {
                    Some(target) => open(life, target, durability, *settings),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Forks a store. Returns the slot of the copy.
fn fork(
    life: &mut Life,
    store: usize,
    target: usize,
    durability: Durability,
) -> Checked<Option<usize>> {
    let Some(target) = life.empty_slot(target) else {
        return Ok(None);
    };
    if !life.clear(target)? {
        return Ok(None);
    }
    let Some(store) = life.open_store(store) else {
        return Ok(None);
    };
    let is_brief = is_brief(store);
    if is_brief && durability != Durability::Memory {
        return Ok(None);
    }
    let made = store.db.checkpoint_for(&Life::path(target), durability);
    if store.checked("checkpoint", made)?.is_none() {
        return Ok(None);
    }
    if !is_brief {
        store.history.all_is_durable();
    }
    let Some(live) = store.history.live().cloned() else {
        return Ok(None);
    };
    life.slots[target] = Slot::Closed(Box::new(History::of(live)));
    Ok(Some(target))
}

fn copy(life: &mut Life, store: usize, target: usize, durability: Durability) -> Checked {
    let (Some(source), Some(target)) = (life.closed_slot(store), life.empty_slot(target)) else {
        return Ok(());
    };
    if !life.clear(target)? {
        return Ok(());
    }
    let (from, to) = (Life::path(source), Life::path(target));
    match copy_store(&life.fs(), &from, &to, durability) {
        Ok(()) => {
            if let Slot::Closed(history) = &life.slots[source] {
                life.slots[target] = Slot::Closed(history.clone());
            }
            Ok(())
        }
        Err(_) if life.faults.seen().1 => Ok(()),
        Err(error) => Err(unexpected("copy a closed store", &error)),
    }
}

fn open(life: &mut Life, slot: usize, durability: Durability, settings: u64) -> Checked {
    let config = settings::config(&mut Choices::new(settings), durability);
    life.reopen(slot, &config)
}

/// Removes a store. Returns its slot.
fn remove(life: &mut Life, store: usize) -> Checked<Option<usize>> {
    let empty = life.slots.iter();
    let stores = SLOTS - empty.filter(|slot| matches!(slot, Slot::Empty)).count();
    let Some(slot) = life.closed_slot(store).filter(|_| stores > 1) else {
        return Ok(None);
    };
    life.slots[slot] = Slot::Empty;
    life.clear(slot)?;
    Ok(Some(slot))
}
