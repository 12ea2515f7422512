//! Closer: stores are closed, abandoned or dropped, and opened again with other settings.

use super::choose::number;
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{Leftover, Life, Slot, Store, is_brief};
use crate::model::History;
use crate::settings;
use lazurite_engine::Choices;

/// A step of the closer.
#[derive(Debug, Clone)]
pub enum Step {
    /// Ends the use of one store, whose snapshots and scans may live on.
    Close {
        store: usize,
        way: Way,
        are_leftovers_kept: bool,
    },
    /// Opens a store at rest.
    Reopen { store: usize, settings: u64 },
}

/// How the use of a store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Close,
    Abandon,
    Drop,
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        match choices.below(9) {
            0..=3 => Step::Close {
                store,
                way: choices.pick(&[Way::Close, Way::Abandon, Way::Drop]),
                are_leftovers_kept: !choices.one_in(3),
            },
            _ => Step::Reopen {
                store,
                settings: choices.next(),
            },
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        match self {
            Step::Close {
                store,
                way,
                are_leftovers_kept,
            } => {
                let Some(slot) = life.open_slot(*store) else {
                    return Ok(());
                };
                let Slot::Open(mut store) = std::mem::take(&mut life.slots[slot]) else {
                    return Ok(());
                };
                if *are_leftovers_kept {
                    life.leftovers.extend(leftovers(&mut store));
                }
                let is_brief = is_brief(&store);
                let history = close(*store, *way)?;
                if !is_brief {
                    life.slots[slot] = Slot::Closed(Box::new(history));
                }
                Ok(())
            }
            Step::Reopen { store, settings } => {
                let Some(slot) = life.closed_slot(*store) else {
                    return Ok(());
                };
                if life.must_restart() {
                    return life.restart();
                }
                let mut choices = Choices::new(*settings);
                let durability = settings::durability(&mut choices);
                let config = settings::config(&mut choices, durability);
                life.reopen(slot, &config)
            }
        }
    }
}

/// Takes the snapshots and scans that are held of the store.
fn leftovers(store: &mut Store) -> Vec<Leftover> {
    let keyspace = store.keyspaces[0].clone();
    let snapshots = store.snapshots.drain(..);
    let snapshots = snapshots.map(|(snapshot, _)| Leftover::Snapshot(snapshot, keyspace.clone()));
    let scans = store.scans.drain(..);
    let scans = scans.map(|held| Leftover::Scan(Box::new(held.scan)));
    snapshots.chain(scans).collect()
}

fn close(store: Store, way: Way) -> Checked<History> {
    match way {
        Way::Abandon => Ok(store.die()),
        Way::Close => close_seen(store),
        Way::Drop => Ok(close_unseen(store)),
    }
}

fn close_seen(mut store: Store) -> Checked<History> {
    let closed = store.db.close();
    let Some(()) = store.checked("close", closed)? else {
        return Ok(store.die());
    };
    Finding::unless(store.db.failure().is_none(), Symptom::NotRefused, || {
        "a store that has failed closes as if it had not".into()
    })?;
    store.history.all_is_proven();
    Ok(store.history)
}

/// Drops the last handle, which closes the store; how that ends is only logged.
fn close_unseen(mut store: Store) -> History {
    store.history.process_ended(store.db.durability());
    let was_hurt = store.is_hurt();
    let Store {
        db,
        faults,
        mut history,
        ..
    } = store;
    drop(db);
    if !was_hurt && !faults.seen().1 {
        history.all_is_proven();
    }
    history
}
