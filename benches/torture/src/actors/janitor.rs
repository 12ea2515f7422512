//! Janitor: runs background work, one piece at a time, and the calls that ask for it: flush,
//! compact, sync; moves time.

use super::choose::{keyspace, number};
use crate::finding::Checked;
use crate::life::{KEEPS, Life, Store};
use crate::model::KEYSPACES;
use lazurite_engine::Choices;
use lazurite_engine::Job;
use lazurite_engine::fs::Keep;
use std::time::Duration;

/// What a crash after a piece of work keeps: half of the time everything.
const LOOKS: [Keep; 6] = [
    Keep::Everything,
    Keep::Everything,
    KEEPS[0],
    KEEPS[1],
    KEEPS[2],
    KEEPS[3],
];

/// A step of the janitor.
#[derive(Debug, Clone)]
pub enum Step {
    /// Runs up to `pieces` pieces of background work: flush, compaction, collection.
    Work {
        store: usize,
        pieces: usize,
        /// The seed that chooses the pieces after which a crash is tried on a copy of the disk.
        looks: u64,
    },
    /// Flushes a keyspace of the store.
    Flush { store: usize, keyspace: usize },
    /// Flushes all keyspaces.
    FlushAll { store: usize },
    /// Merges a keyspace into one run.
    Compact { store: usize, keyspace: usize },
    /// Makes everything written to the store durable.
    Sync { store: usize },
    /// Lets time pass on the clock of the stores.
    Wait { milliseconds: u64 },
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        match choices.below(40) {
            0..=26 => Step::Work {
                store,
                pieces: choices.pick(&[1, 1, 2, 20]),
                looks: choices.next(),
            },
            27..=30 => Step::Flush {
                store,
                keyspace: keyspace(choices),
            },
            31 => Step::FlushAll { store },
            32 | 33 => Step::Compact {
                store,
                keyspace: keyspace(choices),
            },
            34 | 35 => Step::Sync { store },
            _ => Step::Wait {
                milliseconds: choices.pick(&[1, 60, 300, 11_000]),
            },
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        if let Step::Work {
            store,
            pieces,
            looks,
        } = self
        {
            return work(life, *store, *pieces, &mut Choices::new(*looks));
        }
        let (Step::Work { store, .. }
        | Step::Flush { store, .. }
        | Step::FlushAll { store }
        | Step::Compact { store, .. }
        | Step::Sync { store }) = self
        else {
            if let Step::Wait { milliseconds } = self {
                life.clock.advance(Duration::from_millis(*milliseconds));
            }
            return Ok(());
        };
        match life.open_store(*store) {
            Some(store) => self.run_on(store),
            None => Ok(()),
        }
    }

    fn run_on(&self, store: &mut Store) -> Checked {
        match self {
            Step::Flush { keyspace, .. } => {
                let flushed = store.db.flush(&store.keyspaces[*keyspace]);
                if store.checked("flush", flushed)?.is_some() {
                    store.history.keyspace_is_flushed(*keyspace);
                }
            }
            Step::FlushAll { .. } => {
                let flushed = store.db.flush_all();
                if store.checked("flush all", flushed)?.is_some() {
                    (0..KEYSPACES.len()).for_each(|keyspace| {
                        store.history.keyspace_is_flushed(keyspace);
                    });
                    store.history.all_is_durable();
                }
            }
            Step::Compact { keyspace, .. } => {
                let compacted = store.db.compact(&store.keyspaces[*keyspace]);
                if store.checked("compact", compacted)?.is_some() {
                    store.history.keyspace_is_flushed(*keyspace);
                }
            }
            Step::Sync { .. } => {
                let synced = store.db.sync();
                if store.checked("sync", synced)?.is_some() {
                    store.history.all_is_proven();
                }
            }
            Step::Work { .. } | Step::Wait { .. } => {}
        }
        Ok(())
    }
}

/// Runs up to `pieces` pieces of background work. After some, checks what a crash would leave.
fn work(life: &mut Life, number: usize, pieces: usize, choices: &mut Choices) -> Checked {
    for _ in 0..pieces {
        let (Some(slot), Some(store)) = (life.open_slot(number), life.open_store(number)) else {
            break;
        };
        let stepped = store.db.step();
        let Some(Some(job)) = store.checked("background work", stepped)? else {
            break;
        };
        let looks = if job == Job::Collection { 2 } else { 8 };
        if choices.one_in(looks) {
            let keep = choices.pick(&LOOKS);
            life.look(keep, choices, None, |other| other == slot)?;
        }
    }
    Ok(())
}
