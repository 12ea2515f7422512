//! Meddler: writes a batch while a flush, a merge or a piece of background work writes an SSTable,
//! as another thread would.

use super::choose::{keyspace, number};
use super::writer::{changes, note, note_waited};
use crate::access;
use crate::finding::Checked;
use crate::life::{Life, Store};
use crate::model::Change;
use lazurite_engine::{Batch, Choices, Durability, Result};
use std::sync::mpsc::{Receiver, channel};

/// The meddler leaves a store alone that has more bytes than this in its memtables, or more
/// SSTables in level 0: a write might first have to run background work, but the thread that writes
/// is running some already.
const MEMTABLE_BYTES_MAX: u64 = 8 << 10;
const LEVEL0_FILES_MAX: u64 = 4;

/// A step of the meddler.
#[derive(Debug, Clone)]
pub struct Step {
    store: usize,
    work: Work,
    /// The write or sync of an SSTable at which the batch is written.
    nth: u64,
    changes: Vec<Change>,
    /// Whether the ticket of the batch is awaited before the work goes on.
    is_awaited: bool,
}

/// The work during which the batch is written.
#[derive(Debug, Clone, Copy)]
enum Work {
    Flush { keyspace: usize },
    Compact { keyspace: usize },
    Piece,
}

/// The result of the write, and of the wait for its ticket, if the writer waited.
type Written = Result<Option<Result<()>>>;

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        let keyspace = keyspace(choices);
        Step {
            store,
            work: match choices.below(6) {
                0..=2 => Work::Flush { keyspace },
                3 => Work::Compact { keyspace },
                _ => Work::Piece,
            },
            nth: 1 + choices.below(3),
            changes: changes(choices),
            is_awaited: !choices.one_in(4),
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        let amid = life.amid.clone();
        let Some(store) = life.open_store(self.store).filter(|store| has_room(store)) else {
            return Ok(());
        };
        let before = store.history.count();
        let flushed = match self.work {
            Work::Flush { keyspace } | Work::Compact { keyspace } => {
                store.history.flushed_with(keyspace)
            }
            Work::Piece => 0,
        };
        let written = self.write_amid(store, |action| amid.plan(self.nth, action));
        let done = match self.work {
            Work::Flush { keyspace } => store.db.flush(&store.keyspaces[keyspace]),
            Work::Compact { keyspace } => store.db.compact(&store.keyspaces[keyspace]),
            Work::Piece => store.db.step().map(|_| ()),
        };
        amid.clear();
        let is_durable = self.note_written(store, written)?;
        if store.checked("work with a batch amid it", done)?.is_some() {
            // The edit of the flush, which comes after the batch, records how far the log is
            // durable.
            let is_recorded = is_durable && matches!(self.work, Work::Flush { .. });
            store
                .history
                .is_recorded(if is_recorded { before + 1 } else { flushed });
        }
        Ok(())
    }

    /// Copies of this step, each without one of its changes.
    pub fn parts(&self) -> Vec<Step> {
        let count = self.changes.len();
        let parts = (0..count).filter(|_| count > 1).map(|left_out| {
            let mut part = self.clone();
            part.changes.remove(left_out);
            part
        });
        parts.collect()
    }

    /// Plans the write of the batch. The receiver gets the result of the write.
    fn write_amid(
        &self,
        store: &Store,
        plan: impl FnOnce(Box<dyn FnOnce() + Send>),
    ) -> Receiver<Written> {
        let (sender, written) = channel();
        let (db, keyspaces) = (store.db.clone(), store.keyspaces.clone());
        let (changes, is_awaited) = (self.changes.clone(), self.is_awaited);
        plan(Box::new(move || {
            let mut batch = Batch::new();
            let added = access::add_to(&mut batch, &db, &keyspaces, &changes);
            let ticket = added.and_then(|()| db.write(batch));
            let _ = sender.send(ticket.map(|ticket| is_awaited.then(|| ticket.wait())));
        }));
        written
    }

    /// Notes the result of the batch in the history. Returns whether the batch is durable.
    fn note_written(&self, store: &mut Store, written: Receiver<Written>) -> Checked<bool> {
        let Ok(written) = written.try_recv() else {
            return Ok(false);
        };
        let Some(Some(waited)) = note(store, &self.changes, written)? else {
            return Ok(false);
        };
        let is_durable = waited.is_ok() && store.db.durability() == Durability::Disk;
        note_waited(store, waited)?;
        Ok(is_durable)
    }
}

fn has_room(store: &Store) -> bool {
    let stats = store.db.stats();
    let level0 = stats.sstables.first().copied().unwrap_or(0);
    stats.memtable_bytes <= MEMTABLE_BYTES_MAX && level0 <= LEVEL0_FILES_MAX
}
