//! Explained: the rows found in a store that the last batches of a history account for.

use crate::model::rows::is_in_range;
use crate::model::{Change, Rows};
use lazurite_engine::KeyRange;
use std::collections::BTreeSet;

/// The rows that were found, and the keys whose last change is known. Batches are added from the
/// last one back.
pub struct Explained<'a> {
    found: &'a Rows,
    /// The keys that the batches change, by keyspace.
    keys: BTreeSet<(usize, &'a [u8])>,
    ranges: Vec<(usize, &'a KeyRange)>,
}

impl<'a> Explained<'a> {
    pub fn new(found: &'a Rows) -> Explained<'a> {
        Explained {
            found,
            keys: BTreeSet::new(),
            ranges: Vec::new(),
        }
    }

    /// Adds the changes of the batch before those added so far. Returns whether their result
    /// matches the rows that were found; if not, they are not added.
    pub fn take(&mut self, changes: &'a [Change]) -> bool {
        let ranges = self.ranges.len();
        let mut keys = Vec::new();
        for change in changes.iter().rev() {
            let keyspace = change.keyspace();
            let fits = match change {
                Change::Put { key, .. } | Change::Delete { key, .. } => {
                    let value = match change {
                        Change::Put { value, .. } => Some(value),
                        _ => None,
                    };
                    let is_open = !self.is_explained(keyspace, key);
                    if is_open {
                        self.keys.insert((keyspace, key));
                        keys.push((keyspace, &key[..]));
                    }
                    !is_open || self.found.maps[keyspace].get(key) == value
                }
                Change::DeleteRange { range, .. } => {
                    let mut left = self.found.maps[keyspace].keys();
                    let fits = left
                        .all(|key| !is_in_range(key, range) || self.is_explained(keyspace, key));
                    self.ranges.push((keyspace, range));
                    fits
                }
            };
            if !fits {
                keys.iter().for_each(|key| _ = self.keys.remove(key));
                self.ranges.truncate(ranges);
                return false;
            }
        }
        true
    }

    /// Whether every row that no batch accounts for is as in `before`, the state before the
    /// batches.
    pub fn rest_is(&self, before: &Rows) -> bool {
        let maps = self.found.maps.iter().zip(&before.maps).enumerate();
        maps.into_iter().all(|(keyspace, (found, before))| {
            let mut keys = found.keys().chain(before.keys());
            keys.all(|key| self.is_explained(keyspace, key) || found.get(key) == before.get(key))
        })
    }

    fn is_explained(&self, keyspace: usize, key: &[u8]) -> bool {
        let mut ranges = self.ranges.iter();
        self.keys.contains(&(keyspace, key))
            || ranges.any(|(of, range)| *of == keyspace && is_in_range(key, range))
    }
}
