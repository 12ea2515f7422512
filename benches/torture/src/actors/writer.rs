//! Writer: writes batches over several keyspaces, with small and large values, and with or without
//! locks on the keys. Also writes large values ahead: a later batch takes some of them, no batch
//! takes the others.

use super::choose::{key, keyspace, number, range};
use crate::access::unexpected;
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{Life, Store};
use crate::model::{Change, Value, Way};
use lazurite_engine::Choices;
use lazurite_engine::{Batch, Durability, Error, Keyspace, LargeValue, Result, Ticket};

/// Maximum number of values of a store that wait for their batch.
const UPLOADS_MAX: usize = 4;

/// A step of the writer.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes a batch.
    Batch {
        store: usize,
        changes: Vec<Change>,
        /// Whether the keys are locked by a transaction.
        is_locked: bool,
        /// Whether the writer waits for the ticket.
        is_awaited: bool,
    },
    /// Puts the same key again and again, each time in a batch of its own.
    Overwrites { store: usize, changes: Vec<Change> },
    /// Writes large values for later batches.
    Upload {
        store: usize,
        values: Vec<Value>,
        way: Upload,
    },
    /// Puts a value that an upload wrote before.
    Attach {
        store: usize,
        upload: usize,
        keyspace: usize,
        key: Vec<u8>,
    },
}

/// How large values are written.
#[derive(Debug, Clone, Copy)]
pub enum Upload {
    /// In one call, so that they lie side by side.
    Together,
    /// One after another, as streams.
    Streamed,
    /// As streams, of which none is finished.
    BrokenOff,
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        if choices.one_in(40) {
            let count = choices.pick(&[1, 1, 1, 3]);
            let value = |_| Value::new(1 + choices.below(1500) as u32, choices.next());
            return Step::Upload {
                store,
                values: (0..count).map(value).collect(),
                way: choices.pick(&[Upload::Together, Upload::Streamed, Upload::BrokenOff]),
            };
        }
        if choices.one_in(40) {
            return Step::Attach {
                store,
                upload: number(choices),
                keyspace: keyspace(choices),
                key: key(choices),
            };
        }
        if choices.one_in(12) {
            let (keyspace, key) = (keyspace(choices), key(choices));
            let count = 2 + choices.below(8);
            // Many of the values go to the value log, where each overwrite leaves garbage.
            let changes = (0..count).map(|_| {
                let length = length(choices, 2);
                put(choices, keyspace, key.clone(), length)
            });
            let changes = changes.collect();
            return Step::Overwrites { store, changes };
        }
        Step::Batch {
            store,
            changes: if choices.one_in(25) {
                stretch(choices)
            } else {
                changes(choices)
            },
            is_locked: choices.one_in(6),
            is_awaited: !choices.one_in(3),
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        let (Step::Batch { store, .. }
        | Step::Overwrites { store, .. }
        | Step::Upload { store, .. }
        | Step::Attach { store, .. }) = self;
        let Some(store) = life.open_store(*store) else {
            return Ok(());
        };
        match self {
            Step::Batch {
                changes,
                is_locked,
                is_awaited,
                ..
            } => match write_noted(store, changes, *is_locked)? {
                Some(ticket) if *is_awaited => wait(store, ticket),
                _ => Ok(()),
            },
            Step::Overwrites { changes, .. } => changes.iter().try_for_each(|change| {
                write_noted(store, std::slice::from_ref(change), false).map(drop)
            }),
            Step::Upload { values, way, .. } => {
                let uploaded = upload(store, values, *way);
                let uploaded = store.checked("upload", uploaded)?.unwrap_or_default();
                let room = UPLOADS_MAX.saturating_sub(store.uploads.len());
                let uploads = uploaded.into_iter().zip(values.iter().copied());
                store.uploads.extend(uploads.take(room));
                Ok(())
            }
            Step::Attach {
                upload,
                keyspace,
                key,
                ..
            } => attach(store, *upload, (*keyspace, key)),
        }
    }

    /// Copies of this step, each without one of its changes.
    pub fn parts(&self) -> Vec<Step> {
        let mut parts = Vec::new();
        for left_out in 0..self.clone().changes().map_or(0, |changes| changes.len()) {
            let mut part = self.clone();
            if let Some(changes) = part.changes().filter(|changes| changes.len() > 1) {
                changes.remove(left_out);
                parts.push(part);
            }
        }
        parts
    }

    fn changes(&mut self) -> Option<&mut Vec<Change>> {
        match self {
            Step::Batch { changes, .. } | Step::Overwrites { changes, .. } => Some(changes),
            Step::Upload { .. } | Step::Attach { .. } => None,
        }
    }
}

/// Random changes of a batch.
pub fn changes(choices: &mut Choices) -> Vec<Change> {
    let count = if choices.one_in(3) {
        1 + choices.below(10)
    } else {
        1
    };
    let mut changes: Vec<Change> = Vec::new();
    for _ in 0..count {
        changes.push(change(choices, &changes));
    }
    changes
}

/// Returns changes of consecutive keys, all puts or all deletions: scans remember where they walked
/// over many deletions.
fn stretch(choices: &mut Choices) -> Vec<Change> {
    let (keyspace, first) = (keyspace(choices), choices.below(7) as u8 * 40);
    let begin = choices.below(100) as u8;
    let keys = (begin..begin + 40 + choices.below(80) as u8).map(|second| vec![first, second]);
    if choices.one_in(3) {
        let put_one = |key| put(choices, keyspace, key, 3);
        return keys.map(put_one).collect();
    }
    let delete = |key| Change::Delete { keyspace, key };
    keys.map(delete).collect()
}

/// One change. If the batch has changed keys before, one change in three is to one of them.
fn change(choices: &mut Choices, before: &[Change]) -> Change {
    let again = before.iter().filter_map(|change| {
        let key = change.key()?;
        Some((change.keyspace(), key))
    });
    let again: Vec<(usize, &[u8])> = again.collect();
    let (keyspace, key) = if !again.is_empty() && choices.one_in(3) {
        let (keyspace, key) = again[choices.index(again.len())];
        (keyspace, key.to_vec())
    } else {
        (keyspace(choices), key(choices))
    };
    match choices.below(24) {
        0..=15 => {
            let length = length(choices, 4);
            put(choices, keyspace, key, length)
        }
        16..=22 => Change::Delete { keyspace, key },
        _ => {
            let range = range(choices);
            Change::DeleteRange { keyspace, range }
        }
    }
}

/// A random length of a value; about one in `n` is large.
fn length(choices: &mut Choices, n: u64) -> u64 {
    match choices.below(12) {
        0 => 0,
        _ if choices.one_in(n) => 40 + choices.below(2000),
        _ => choices.below(60),
    }
}

fn put(choices: &mut Choices, keyspace: usize, key: Vec<u8>, length: u64) -> Change {
    let way = match choices.below(8) {
        _ if length == 0 => Way::Batch,
        0 => Way::Whole,
        1 => Way::Together,
        2 => Way::Streamed,
        _ => Way::Batch,
    };
    let value = Value::new(length as u32, choices.next());
    Change::Put {
        keyspace,
        key,
        value,
        way,
    }
}

/// Writes a batch, and notes in the history how that ended.
fn write_noted(store: &mut Store, changes: &[Change], is_locked: bool) -> Checked<Option<Ticket>> {
    let was_failed = store.db.failure().is_some();
    let written = if is_locked {
        write_locked(store, changes)
    } else {
        write(store, changes)
    };
    Finding::unless(!was_failed || written.is_err(), Symptom::NotRefused, || {
        "a store that has failed takes a write".into()
    })?;
    note(store, changes, written)
}

fn write(store: &Store, changes: &[Change]) -> Result<Ticket> {
    store.db.write(store.batch(changes)?)
}

fn write_locked(store: &Store, changes: &[Change]) -> Result<Ticket> {
    let keys = changes.iter().filter_map(|change| {
        let keyspace: &Keyspace = &store.keyspaces[change.keyspace()];
        change.key().map(|key| (keyspace, key))
    });
    let keys: Vec<(&Keyspace, &[u8])> = keys.collect();
    let mut transaction = store.db.transaction(&keys)?;
    store.add_to(transaction.batch(), changes)?;
    transaction.commit()
}

fn wait(store: &mut Store, ticket: Ticket) -> Checked {
    let waited = ticket.wait();
    note_waited(store, waited)
}

/// Notes in the history how the wait for the last batch ended.
pub fn note_waited(store: &mut Store, waited: Result<()>) -> Checked {
    match waited {
        Ok(()) if store.db.durability() == Durability::Disk => {
            store.history.all_is_durable();
            Ok(())
        }
        Ok(()) => Ok(()),
        Err(error) if store.tolerates(&error) => {
            Finding::unless(store.db.failure().is_some(), Symptom::NotRefused, || {
                format!("the store takes writes although a sync failed: {error}")
            })
        }
        Err(error) => Err(unexpected("wait for a ticket", &error)),
    }
}

/// Notes in the history how a write ended.
pub fn note<T>(store: &mut Store, changes: &[Change], written: Result<T>) -> Checked<Option<T>> {
    match written {
        Ok(answer) => {
            store.history.wrote(changes);
            Ok(Some(answer))
        }
        // These errors promise that the batch is not there.
        Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) if store.is_hurt() => Ok(None),
        Err(error) if store.tolerates(&error) => {
            let found = store.dump()?.ok();
            if let Some(found) = &found {
                let is_right = store.history.may_show(changes, found);
                Finding::unless(is_right, Symptom::WrongRead, || {
                    format!("after a write that failed ({error}) the rows are those of neither")
                })?;
            }
            store.history.failed(changes, found);
            Ok(None)
        }
        Err(error) => Err(unexpected("write", &error)),
    }
}

fn upload(store: &Store, values: &[Value], way: Upload) -> Result<Vec<LargeValue>> {
    let values: Vec<Vec<u8>> = values.iter().map(|value| value.bytes()).collect();
    if matches!(way, Upload::Together) {
        let values: Vec<&[u8]> = values.iter().map(|bytes| &bytes[..]).collect();
        return store.db.write_values(&values);
    }
    let mut uploaded = Vec::new();
    for bytes in values {
        let mut writer = store.db.value_writer()?;
        writer.write(&bytes)?;
        if matches!(way, Upload::Streamed) {
            uploaded.push(writer.finish()?);
        }
    }
    Ok(uploaded)
}

fn attach(store: &mut Store, upload: usize, (keyspace, key): (usize, &[u8])) -> Checked {
    let Some(at) = upload.checked_rem(store.uploads.len()) else {
        return Ok(());
    };
    let (large, value) = store.uploads.swap_remove(at);
    let mut batch = Batch::new();
    batch.put_large(&store.keyspaces[keyspace], key, large);
    let put = Change::Put {
        keyspace,
        key: key.to_vec(),
        value,
        way: Way::Streamed,
    };
    let written = store.db.write(batch);
    note(store, &[put], written).map(|_| ())
}
