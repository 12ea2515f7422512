//! Holder: keeps snapshots, scans and readers of values over many steps, some longer than their
//! store exists.

use super::choose::{direction, key, keyspace, number, range};
use crate::access::{known_value, read_row, read_whole, unexpected};
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{HeldScan, Leftover, Life, Store};
use crate::settings::VALUE_BYTES_SEPARATED_MIN;
use lazurite_engine::Choices;
use lazurite_engine::{Direction, Error, KeyRange};

/// Maximum number of snapshots that are held of a store; also of scans, and of readers.
const HELD_MAX: usize = 4;

/// A step of the holder.
#[derive(Debug, Clone)]
pub enum Step {
    TakeSnapshot {
        store: usize,
    },
    /// Compares the rows that a snapshot shows of a keyspace with those that it must show.
    ReadSnapshot {
        store: usize,
        snapshot: usize,
        keyspace: usize,
        key: Vec<u8>,
    },
    DropSnapshot {
        store: usize,
        snapshot: usize,
    },
    /// Begins a scan, and reads its first rows, if any: it opens files only when it reads.
    BeginScan {
        store: usize,
        keyspace: usize,
        range: KeyRange,
        direction: Direction,
        rows: usize,
    },
    AdvanceScan {
        store: usize,
        scan: usize,
        rows: usize,
    },
    DropScan {
        store: usize,
        scan: usize,
    },
    /// Opens a value, to be read later.
    OpenValue {
        store: usize,
        keyspace: usize,
        key: Vec<u8>,
    },
    ReadValue {
        store: usize,
        reader: usize,
    },
    /// Uses a snapshot or scan of a store that was closed, which must be refused.
    UseLeftover {
        leftover: usize,
    },
    DropLeftover {
        leftover: usize,
    },
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let store = number(choices);
        let nth = number(choices);
        match choices.below(36) {
            0..=3 => Step::TakeSnapshot { store },
            4..=7 => Step::ReadSnapshot {
                store,
                snapshot: nth,
                keyspace: keyspace(choices),
                key: key(choices),
            },
            8 | 9 => Step::DropSnapshot {
                store,
                snapshot: nth,
            },
            10..=13 => Step::BeginScan {
                store,
                keyspace: keyspace(choices),
                range: range(choices),
                direction: direction(choices),
                rows: choices.pick(&[0, 1, 1, 3]),
            },
            14..=18 => Step::AdvanceScan {
                store,
                scan: nth,
                rows: 1 + choices.index(20),
            },
            19 => Step::DropScan { store, scan: nth },
            20 => Step::UseLeftover { leftover: nth },
            27..=31 => Step::OpenValue {
                store,
                keyspace: keyspace(choices),
                key: key(choices),
            },
            32..=35 => Step::ReadValue { store, reader: nth },
            _ => Step::DropLeftover { leftover: nth },
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        match self {
            Step::UseLeftover { leftover } => return use_leftover(life, *leftover),
            Step::DropLeftover { leftover } => {
                if let Some(at) = leftover.checked_rem(life.leftovers.len()) {
                    life.leftovers.swap_remove(at);
                }
                return Ok(());
            }
            _ => {}
        }
        let (Step::TakeSnapshot { store }
        | Step::ReadSnapshot { store, .. }
        | Step::DropSnapshot { store, .. }
        | Step::BeginScan { store, .. }
        | Step::AdvanceScan { store, .. }
        | Step::DropScan { store, .. }
        | Step::OpenValue { store, .. }
        | Step::ReadValue { store, .. }
        | Step::UseLeftover { leftover: store }
        | Step::DropLeftover { leftover: store }) = self;
        match life.open_store(*store) {
            Some(store) => self.run_on(store),
            None => Ok(()),
        }
    }

    fn run_on(&self, store: &mut Store) -> Checked {
        match self {
            Step::TakeSnapshot { .. } => {
                if let Some(live) = store.history.live()
                    && store.snapshots.len() < HELD_MAX
                {
                    store.snapshots.push((store.db.snapshot(), live.clone()));
                }
            }
            Step::ReadSnapshot {
                snapshot,
                keyspace,
                key,
                ..
            } => return read_snapshot(store, *snapshot, *keyspace, key),
            Step::DropSnapshot { snapshot, .. } => {
                if let Some(at) = snapshot.checked_rem(store.snapshots.len()) {
                    store.snapshots.swap_remove(at);
                }
            }
            Step::BeginScan {
                keyspace,
                range,
                direction,
                rows,
                ..
            } => return begin_scan(store, (*keyspace, range, *direction), *rows),
            Step::AdvanceScan { scan, rows, .. } => return advance(store, *scan, *rows),
            Step::DropScan { scan, .. } => {
                if let Some(at) = scan.checked_rem(store.scans.len()) {
                    store.scans.swap_remove(at);
                }
            }
            Step::OpenValue { keyspace, key, .. } => return open_value(store, *keyspace, key),
            Step::ReadValue { reader, .. } => return read_value(store, *reader),
            Step::UseLeftover { .. } | Step::DropLeftover { .. } => {}
        }
        Ok(())
    }
}

fn read_snapshot(store: &Store, snapshot: usize, keyspace: usize, key: &[u8]) -> Checked {
    let Some(at) = snapshot.checked_rem(store.snapshots.len()) else {
        return Ok(());
    };
    let (snapshot, rows) = &store.snapshots[at];
    let got = snapshot.get(&store.keyspaces[keyspace], key);
    let Some(found) = store.checked("get by a snapshot", got)? else {
        return Ok(());
    };
    let found = found.map(|bytes| known_value(key, &bytes)).transpose()?;
    let expected = rows.maps[keyspace].get(key).copied();
    Finding::unless(found == expected, Symptom::WrongRead, || {
        format!("{key:?} of an old snapshot should be {expected:?} and is {found:?}")
    })?;
    let all = rows.scan(keyspace, &KeyRange::all(), Direction::Forward);
    let keyspace = &store.keyspaces[keyspace];
    let mut held = HeldScan {
        scan: snapshot.scan(keyspace, KeyRange::all(), Direction::Forward),
        rest: all.into(),
    };
    check_rest(store, &mut held, usize::MAX).map(|_| ())
}

fn begin_scan(store: &mut Store, which: (usize, &KeyRange, Direction), rows: usize) -> Checked {
    let (keyspace, range, direction) = which;
    let Some(live) = store.history.live() else {
        return Ok(());
    };
    if store.scans.len() == HELD_MAX {
        return Ok(());
    }
    let rest = live.scan(keyspace, range, direction).into();
    let keyspace = &store.keyspaces[keyspace];
    let scan = store.db.snapshot().scan(keyspace, range.clone(), direction);
    store.scans.push(HeldScan { scan, rest });
    advance(store, store.scans.len() - 1, rows)
}

fn advance(store: &mut Store, scan: usize, rows: usize) -> Checked {
    let Some(at) = scan.checked_rem(store.scans.len()) else {
        return Ok(());
    };
    let mut held = store.scans.swap_remove(at);
    if check_rest(store, &mut held, rows)? {
        store.scans.push(held);
    }
    Ok(())
}

/// Compares the next rows. Returns `false` once the scan has ended or failed.
fn check_rest(store: &Store, held: &mut HeldScan, rows_max: usize) -> Checked<bool> {
    for _ in 0..rows_max.min(held.rest.len() + 1) {
        let Some(found) = store.checked("advance a scan", read_row(&mut held.scan)?)? else {
            return Ok(false);
        };
        let expected = held.rest.pop_front();
        Finding::unless(found == expected, Symptom::WrongRead, || {
            format!("the next row of an old scan should be {expected:?} and is {found:?}")
        })?;
        if expected.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens the first value from `key` on that may be in the value log.
fn open_value(store: &mut Store, keyspace: usize, key: &[u8]) -> Checked {
    let Some(live) = store.history.live() else {
        return Ok(());
    };
    let mut rows = live.maps[keyspace].range(key.to_vec()..);
    let large = rows.find(|(_, value)| value.length() >= VALUE_BYTES_SEPARATED_MIN);
    let Some((key, &value)) = large else {
        return Ok(());
    };
    let keyspace = &store.keyspaces[keyspace];
    let opened = store.db.snapshot().open_value(keyspace, key);
    if let Some(Some(reader)) = store.checked("open a value", opened)?
        && store.readers.len() < HELD_MAX
    {
        store.readers.push((reader, value));
    }
    Ok(())
}

/// Reads a value that may have been overwritten since, and closes its reader.
fn read_value(store: &mut Store, reader: usize) -> Checked {
    let Some(at) = reader.checked_rem(store.readers.len()) else {
        return Ok(());
    };
    let (reader, value) = store.readers.swap_remove(at);
    let Some(found) = store.checked("read an old value", read_whole(&reader))? else {
        return Ok(());
    };
    Finding::unless(found == value.bytes(), Symptom::WrongRead, || {
        format!(
            "a value that was opened should be {value:?} and has {} bytes",
            found.len()
        )
    })
}

fn use_leftover(life: &mut Life, leftover: usize) -> Checked {
    let Some(at) = leftover.checked_rem(life.leftovers.len()) else {
        return Ok(());
    };
    let answer = match &mut life.leftovers[at] {
        Leftover::Snapshot(snapshot, keyspace) => snapshot.get(keyspace, &[0]).map(|_| ()),
        Leftover::Scan(scan) => scan.advance().map(|_| ()),
    };
    match answer {
        Err(Error::Closed) => Ok(()),
        Err(error) => Err(unexpected("read a closed store", &error)),
        Ok(()) => {
            let text = "a closed store answers a read";
            Err(Finding::new(Symptom::NotRefused, text))
        }
    }
}
