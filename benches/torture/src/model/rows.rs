//! Rows: everything in a store at one moment.

use crate::model::{Change, KEYSPACES, Value};
use lazurite_engine::{Direction, KeyRange};
use std::collections::BTreeMap;

/// A key and its value.
pub type Row = (Vec<u8>, Value);

/// The rows of all keyspaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The rows of each keyspace.
    pub maps: [BTreeMap<Vec<u8>, Value>; KEYSPACES.len()],
}

impl Rows {
    /// Makes the changes of a batch, in their order.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let map = &mut self.maps[change.keyspace()];
            match change {
                Change::Put { key, value, .. } => {
                    map.insert(key.clone(), *value);
                }
                Change::Delete { key, .. } => {
                    map.remove(key);
                }
                Change::DeleteRange { range, .. } => {
                    map.retain(|key, _| !is_in_range(key, range));
                }
            }
        }
    }

    /// The rows of a range, in the order of a scan.
    pub fn scan(&self, keyspace: usize, range: &KeyRange, direction: Direction) -> Vec<Row> {
        let rows = self.maps[keyspace].iter();
        let rows = rows.filter(|(key, _)| is_in_range(key, range));
        let rows = rows.map(|(key, value)| (key.clone(), *value));
        match direction {
            Direction::Forward => rows.collect(),
            Direction::Backward => rows.rev().collect(),
        }
    }

    /// The number of rows that differ, and the first of them in words.
    pub fn difference(&self, found: &Rows) -> (usize, String) {
        const SHOWN: usize = 6;
        let mut shown = Vec::new();
        let mut count = 0;
        for (keyspace, name) in KEYSPACES.iter().enumerate() {
            let (expected, found) = (&self.maps[keyspace], &found.maps[keyspace]);
            let mut keys: Vec<_> = expected.keys().chain(found.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (expected, found) = (expected.get(key), found.get(key));
                if expected == found {
                    continue;
                }
                count += 1;
                if shown.len() < SHOWN {
                    let words = format!("{name} {key:?}: expected {expected:?}, found {found:?}");
                    shown.push(words);
                }
            }
        }
        (count, shown.join("; "))
    }
}

/// Whether the key lies in the range.
pub(super) fn is_in_range(key: &[u8], range: &KeyRange) -> bool {
    key >= &range.start[..] && range.end.as_ref().is_none_or(|end| key < &end[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Way;

    fn put(key: u8) -> Change {
        Change::Put {
            keyspace: 0,
            key: vec![key],
            value: Value::new(9, key.into()),
            way: Way::Batch,
        }
    }

    #[test]
    fn changes_of_one_batch_are_made_in_their_order() {
        let delete = Change::Delete {
            keyspace: 0,
            key: vec![1],
        };
        let mut rows = Rows::default();
        rows.apply(&[put(1), delete.clone()]);
        assert_eq!(rows, Rows::default());
        rows.apply(&[delete, put(1)]);
        assert_eq!(rows.maps[0].len(), 1);
    }

    #[test]
    fn scans_and_differences_name_the_rows() {
        let mut rows = Rows::default();
        rows.apply(&[put(1), put(2), put(3)]);
        let range = KeyRange {
            start: vec![2],
            end: None,
        };
        let keys = |direction| -> Vec<u8> {
            let rows = rows.scan(0, &range, direction);
            rows.into_iter().map(|(key, _)| key[0]).collect()
        };
        assert_eq!(keys(Direction::Forward), [2, 3]);
        assert_eq!(keys(Direction::Backward), [3, 2]);
        let mut other = rows.clone();
        other.maps[0].remove(&vec![2]);
        let (count, words) = rows.difference(&other);
        assert_eq!(count, 1);
        assert!(
            words.contains("a [2]") && words.contains("found None"),
            "{words}"
        );
    }
}
