//! The direction in which the keys of inserts go.

use crate::bounded::BoundedMap;
use crate::request::Keys;
use crate::rules::{LOG_PARTITIONS, ORDERED_PERCENT};
use crate::watch::is_share;
use std::cmp::Ordering;

/// Inserts beyond the highest key so far and below the lowest one.
#[derive(Debug, Default)]
struct Directions {
    all: u64,
    ascending: u64,
    descending: u64,
}

impl Directions {
    fn add(&mut self, place: Option<Ordering>, weight: u64) {
        self.all += weight;
        match place {
            Some(Ordering::Greater) => self.ascending += weight,
            Some(Ordering::Less) => self.descending += weight,
            Some(Ordering::Equal) | None => {}
        }
    }

    /// The direction that nearly all keys go; `None` if there is none.
    fn direction(&self) -> Option<&'static str> {
        if self.all == 0 {
            None
        } else if is_share(self.ascending, self.all, ORDERED_PERCENT) {
            Some("ascending")
        } else if is_share(self.descending, self.all, ORDERED_PERCENT) {
            Some("descending")
        } else {
            None
        }
    }
}

/// The lowest and the highest key so far. A key between them has no direction. So repeated rounds
/// over the same devices have none, although most of their keys are greater than the one before.
#[derive(Debug)]
struct Ends<K>(Option<(K, K)>);

impl<K> Default for Ends<K> {
    fn default() -> Ends<K> {
        Ends(None)
    }
}

impl<K: Ord + Clone> Ends<K> {
    /// Compares a key with all before: above all, below all, or between; `None` for the first.
    fn add(&mut self, key: &K) -> Option<Ordering> {
        let Some((lowest, highest)) = &mut self.0 else {
            self.0 = Some((key.clone(), key.clone()));
            return None;
        };
        if key > highest {
            highest.clone_from(key);
            Some(Ordering::Greater)
        } else if key < lowest {
            lowest.clone_from(key);
            Some(Ordering::Less)
        } else {
            Some(Ordering::Equal)
        }
    }
}

/// The direction of PartitionKey and RowKey.
#[derive(Debug, Default)]
pub(crate) struct KeyOrder {
    ends: Ends<(String, String)>,
    last: Option<Keys>,
    directions: Directions,
}

impl KeyOrder {
    /// Counts an insert. False, and nothing is counted, if it is an upsert of the same entity again,
    /// which has no direction.
    pub(crate) fn insert(&mut self, keys: &Keys, weight: u64) -> bool {
        if self.last.as_ref() == Some(keys) {
            return false;
        }
        self.last = Some(keys.clone());
        let place = self.ends.add(&(keys.partition.clone(), keys.row.clone()));
        if place.is_some() {
            self.directions.add(place, weight);
        }
        true
    }

    /// The direction that nearly all keys go; `None` if there is none.
    pub(crate) fn direction(&self) -> Option<&'static str> {
        self.directions.direction()
    }
}

/// The direction of RowKeys within their partitions: a log may have one for each host.
#[derive(Debug)]
pub(crate) struct RowOrder {
    partitions: BoundedMap<String, Ends<String>>,
    directions: Directions,
}

impl Default for RowOrder {
    fn default() -> RowOrder {
        RowOrder {
            partitions: BoundedMap::new(LOG_PARTITIONS),
            directions: Directions::default(),
        }
    }
}

impl RowOrder {
    pub(crate) fn insert(&mut self, keys: &Keys, weight: u64) {
        let ends = self.partitions.entry(keys.partition.clone());
        let place = ends.add(&keys.row);
        self.directions.add(place, weight);
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.directions.direction().is_some()
    }
}
