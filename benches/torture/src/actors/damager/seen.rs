//! Seen: the results of reads of a damaged store, and whether they fit a state that the damage may
//! have left. An error fits any state; a wrong or missing row does not.

use crate::access::{known_value, read_row, unexpected};
use crate::finding::{Checked, Finding, Symptom};
use crate::life::Store;
use crate::model::{History, KEYSPACES, Row, Rows, Value};
use lazurite_engine::{Direction, Error, KeyRange};
use std::collections::BTreeMap;

/// The results of reads of a damaged store.
pub struct Seen {
    /// By keyspace: the rows of a scan, up to its error if there is one; and whether there is none.
    scanned: Vec<(Vec<Row>, bool)>,
    /// By keyspace: the results of the gets that did not fail.
    got: Vec<BTreeMap<Vec<u8>, Option<Value>>>,
    /// Whether a read returned an error.
    pub has_errors: bool,
}

impl Seen {
    /// Scans everything, and gets every key that may be left.
    pub fn of(store: &Store, history: &History) -> Checked<Seen> {
        let mut seen = Seen {
            scanned: Vec::new(),
            got: Vec::new(),
            has_errors: false,
        };
        for keyspace in 0..KEYSPACES.len() {
            seen.scan(store, keyspace)?;
            seen.get(store, keyspace, history)?;
        }
        Ok(seen)
    }

    fn scan(&mut self, store: &Store, keyspace: usize) -> Checked {
        let keyspace = &store.keyspaces[keyspace];
        let snapshot = store.db.snapshot();
        let mut scan = snapshot.scan(keyspace, KeyRange::all(), Direction::Forward);
        let mut rows = Vec::new();
        let is_whole = loop {
            match read_row(&mut scan)? {
                Ok(Some(row)) => rows.push(row),
                Ok(None) => break true,
                Err(error) => {
                    self.note(&error)?;
                    break false;
                }
            }
        };
        self.scanned.push((rows, is_whole));
        Ok(())
    }

    fn get(&mut self, store: &Store, keyspace: usize, history: &History) -> Checked {
        let mut keys = Vec::new();
        // The keys are those of every state that may be left, not only of the last one.
        history.may_be_left_by_damage(|state| {
            keys.extend(state.maps[keyspace].keys().cloned());
            false
        });
        keys.sort();
        keys.dedup();
        let mut got = BTreeMap::new();
        for key in keys {
            match store.db.get(&store.keyspaces[keyspace], &key) {
                Ok(found) => {
                    let found = found.map(|bytes| known_value(&key, &bytes)).transpose()?;
                    got.insert(key, found);
                }
                Err(error) => self.note(&error)?,
            }
        }
        self.got.push(got);
        Ok(())
    }

    fn note(&mut self, error: &Error) -> Checked {
        self.has_errors = true;
        match error {
            // A file that is not there cannot be opened.
            Error::Corrupt { .. } | Error::Io { .. } => Ok(()),
            error => Err(unexpected("read a damaged store", error)),
        }
    }

    /// Checks that the results fit a state that damage may leave.
    pub fn check(&self, history: &History) -> Checked {
        let mut nearest: Option<Vec<String>> = None;
        let is_right = history.may_be_left_by_damage(|state| {
            let wrong = self.contradictions(state);
            let is_right = wrong.is_empty();
            if nearest
                .as_ref()
                .is_none_or(|nearest| wrong.len() < nearest.len())
            {
                nearest = Some(wrong);
            }
            is_right
        });
        Finding::unless(is_right, Symptom::LostOrTorn, || {
            let wrong = nearest.unwrap_or_default();
            let shown = wrong.iter().take(6).cloned().collect::<Vec<_>>().join("; ");
            format!(
                "{} answers do not fit the nearest state: {shown}",
                wrong.len()
            )
        })
    }

    /// The results that contradict this state, in words.
    fn contradictions(&self, state: &Rows) -> Vec<String> {
        let keyspaces = 0..KEYSPACES.len();
        keyspaces
            .flat_map(|keyspace| self.contradictions_in(keyspace, &state.maps[keyspace]))
            .collect()
    }

    fn contradictions_in(&self, keyspace: usize, map: &BTreeMap<Vec<u8>, Value>) -> Vec<String> {
        let name = KEYSPACES[keyspace];
        let (rows, is_whole) = &self.scanned[keyspace];
        let expected = map.iter().map(|(key, value)| (key.clone(), *value));
        let mut expected: Vec<_> = expected.collect();
        if !is_whole {
            expected.truncate(rows.len());
        }
        let mut wrong = Vec::new();
        for at in 0..rows.len().max(expected.len()) {
            let (row, expected) = (rows.get(at), expected.get(at));
            if row != expected {
                wrong.push(format!(
                    "row {at} of {name} is {row:?}, expected {expected:?}"
                ));
            }
        }
        for (key, value) in &self.got[keyspace] {
            let expected = map.get(key).copied();
            if *value != expected {
                wrong.push(format!(
                    "get {name} {key:?}: {value:?}, expected {expected:?}"
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[u8]) -> Rows {
        let mut rows = Rows::default();
        for &key in keys {
            rows.maps[0].insert(vec![key], Value::new(9, key.into()));
        }
        rows
    }

    fn seen(keys: &[u8], is_whole: bool) -> Seen {
        let row = |&key: &u8| (vec![key], Value::new(9, key.into()));
        let mut scanned = vec![(Vec::new(), true); KEYSPACES.len()];
        scanned[0] = (keys.iter().map(row).collect(), is_whole);
        Seen {
            scanned,
            got: vec![BTreeMap::new(); KEYSPACES.len()],
            has_errors: !is_whole,
        }
    }

    fn fits(seen: &Seen, keys: &[u8]) -> bool {
        seen.contradictions(&rows(keys)).is_empty()
    }

    #[test]
    fn a_scan_may_end_with_an_error_but_not_without_its_rows() {
        assert!(fits(&seen(&[1, 2, 3], true), &[1, 2, 3]));
        assert!(fits(&seen(&[1, 2], false), &[1, 2, 3]));
        assert!(!fits(&seen(&[1, 2], true), &[1, 2, 3]), "a row is gone");
        assert!(!fits(&seen(&[1, 3], false), &[1, 2, 3]), "one is skipped");
    }

    #[test]
    fn a_get_that_answers_nothing_or_an_older_value_is_found() {
        for wrong in [None, Some(Value::new(9, 8))] {
            let mut seen = seen(&[], false);
            seen.got[0].insert(vec![1], wrong);
            assert!(!fits(&seen, &[1]));
        }
    }
}
