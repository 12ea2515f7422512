//! Reader: gets, scans with seeks, parts of values, everything at once, and `verify`.

use super::choose::{direction, key, keyspace, number, range};
use crate::access::{known_value, read_row};
use crate::finding::{Checked, Finding, Symptom};
use crate::life::{Life, Store};
use crate::model::{Row, Rows, Value};
use lazurite_engine::Choices;
use lazurite_engine::{Direction, KeyRange};

/// A step of the reader.
#[derive(Debug, Clone)]
pub enum Step {
    /// Gets a key and compares the value with the model's.
    Get {
        store: usize,
        keyspace: usize,
        key: Vec<u8>,
    },
    /// Scans a range, compares its rows with the model's, then seeks and goes on from there.
    Scan {
        store: usize,
        keyspace: usize,
        range: KeyRange,
        direction: Direction,
        rows_max: usize,
        seeks: Vec<Vec<u8>>,
    },
    /// Reads a part of a value and compares it with the model's.
    Part {
        store: usize,
        keyspace: usize,
        key: Vec<u8>,
        offset: u64,
    },
    /// Compares all rows with the model's.
    Everything { store: usize },
    /// Runs `verify`, which must report no damage.
    Verify { store: usize },
}

impl Step {
    /// Chooses a step.
    pub fn next(choices: &mut Choices) -> Step {
        let (store, keyspace) = (number(choices), keyspace(choices));
        match choices.below(20) {
            0..=8 => Step::Get {
                store,
                keyspace,
                key: key(choices),
            },
            9..=14 => Step::Scan {
                store,
                keyspace,
                range: range(choices),
                direction: direction(choices),
                rows_max: choices.pick(&[1, 5, 20, usize::MAX]),
                seeks: (0..choices.below(4)).map(|_| key(choices)).collect(),
            },
            15 | 16 => Step::Part {
                store,
                keyspace,
                key: key(choices),
                offset: choices.below(2000),
            },
            17 | 18 => Step::Everything { store },
            _ => Step::Verify { store },
        }
    }

    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        let (Step::Get { store, .. }
        | Step::Scan { store, .. }
        | Step::Part { store, .. }
        | Step::Everything { store }
        | Step::Verify { store }) = self;
        let Some(store) = life.open_store(*store) else {
            return Ok(());
        };
        let live = store.history.live();
        match (self, live) {
            (Step::Everything { .. }, _) => store.check_rows(),
            (Step::Verify { .. }, _) => store.check_whole(),
            (_, None) => Ok(()),
            (Step::Get { keyspace, key, .. }, Some(live)) => get(store, live, *keyspace, key),
            (
                Step::Scan {
                    keyspace,
                    range,
                    direction,
                    rows_max,
                    seeks,
                    ..
                },
                Some(live),
            ) => scan(
                store,
                &live.scan(*keyspace, range, *direction),
                (*keyspace, range, *direction),
                (*rows_max, seeks),
            ),
            (
                Step::Part {
                    keyspace,
                    key,
                    offset,
                    ..
                },
                Some(live),
            ) => part(store, live, (*keyspace, key), *offset),
        }
    }
}

fn get(store: &Store, live: &Rows, keyspace: usize, key: &[u8]) -> Checked {
    let got = store.db.get(&store.keyspaces[keyspace], key);
    let Some(found) = store.checked("get", got)? else {
        return Ok(());
    };
    let found = found.map(|bytes| known_value(key, &bytes)).transpose()?;
    let expected = live.maps[keyspace].get(key).copied();
    expect_value(key, expected, found)
}

fn expect_value(key: &[u8], expected: Option<Value>, found: Option<Value>) -> Checked {
    Finding::unless(expected == found, Symptom::WrongRead, || {
        format!("{key:?} should be {expected:?} and is {found:?}")
    })
}

type Which<'a> = (usize, &'a KeyRange, Direction);

fn scan(
    store: &Store,
    rows: &[Row],
    which: Which<'_>,
    (rows_max, seeks): (usize, &[Vec<u8>]),
) -> Checked {
    let (keyspace, range, direction) = which;
    let keyspace = &store.keyspaces[keyspace];
    let mut scan = store.db.snapshot().scan(keyspace, range.clone(), direction);
    let mut at = 0;
    for seek in std::iter::once(None).chain(seeks.iter().map(Some)) {
        if let Some(target) = seek {
            scan.seek(target);
            let is_reached = |(key, _): &Row| match direction {
                Direction::Forward => key >= target,
                Direction::Backward => key <= target,
            };
            at = rows.iter().position(is_reached).unwrap_or(rows.len());
        }
        let end = rows
            .len()
            .saturating_add(1)
            .min(at.saturating_add(rows_max));
        while at < end {
            let Some(found) = store.checked("scan", read_row(&mut scan)?)? else {
                return Ok(());
            };
            let expected = rows.get(at);
            Finding::unless(found.as_ref() == expected, Symptom::WrongRead, || {
                format!("row {at} of {which:?} should be {expected:?} and is {found:?}")
            })?;
            at += 1;
        }
        at = at.min(rows.len());
    }
    Ok(())
}

fn part(store: &Store, live: &Rows, (keyspace, key): (usize, &[u8]), offset: u64) -> Checked {
    const LENGTH_MAX: usize = 60;
    let snapshot = store.db.snapshot();
    let opened = snapshot.open_value(&store.keyspaces[keyspace], key);
    drop(snapshot);
    let Some(reader) = store.checked("open a value", opened)? else {
        return Ok(());
    };
    let expected = live.maps[keyspace].get(key).map(|value| value.bytes());
    let is_there = reader.is_some() == expected.is_some();
    Finding::unless(is_there, Symptom::WrongRead, || {
        format!("{key:?} is there: {}", reader.is_some())
    })?;
    let (Some(reader), Some(expected)) = (reader, expected) else {
        return Ok(());
    };
    let offset = offset % (expected.len() as u64 + 1);
    let read = reader.read_at(offset, LENGTH_MAX);
    let Some(found) = store.checked("read a part", read)? else {
        return Ok(());
    };
    let rest = &expected[offset as usize..];
    let is_right = rest.starts_with(&found) && found.is_empty() == rest.is_empty();
    Finding::unless(is_right, Symptom::WrongRead, || {
        format!("{} bytes of {key:?} at {offset} are others", found.len())
    })
}
