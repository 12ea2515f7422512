//! Records that newer records have displaced from the ring. Keeps the last few records of each
//! container, queue and table, so that a busy resource does not displace the records of all others.

use crate::requests::record::Record;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeBounds;
use std::sync::Arc;

/// Maximum number of records kept of one resource, including those in the ring.
pub const OF_RESOURCE_MAX: usize = 20;

/// The displaced records, by position. All are older than the records in the ring.
#[derive(Debug, Default)]
pub struct Aside {
    records: BTreeMap<u64, Arc<Record>>,
    /// The positions of the records of each resource, oldest first.
    positions: HashMap<u64, VecDeque<u64>>,
}

impl Aside {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records with these positions, oldest first.
    pub fn range(
        &self,
        positions: impl RangeBounds<u64>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.records.range(positions).map(|(_, record)| record)
    }

    /// Keeps a record that leaves the ring. `newer` is the number of records in the ring of the
    /// same resource. Returns the record that is dropped instead: this one, the oldest of its
    /// resource, or the oldest of all if there are more than `count_max`.
    pub fn put(
        &mut self,
        record: Arc<Record>,
        newer: usize,
        count_max: usize,
    ) -> Option<Arc<Record>> {
        let resource = record.resource;
        if resource == 0 || newer >= OF_RESOURCE_MAX || count_max == 0 {
            return Some(record);
        }
        let positions = self.positions.entry(resource).or_default();
        positions.push_back(record.number);
        self.records.insert(record.number, record);
        let dropped = self.trim(resource, newer);
        if dropped.is_none() && self.len() > count_max {
            return self.pop_oldest();
        }
        dropped
    }

    /// Drops the oldest record of a resource if there are too many of the resource, counting those
    /// in the ring.
    pub fn trim(&mut self, resource: u64, in_ring: usize) -> Option<Arc<Record>> {
        let positions = self.positions.get(&resource)?;
        let is_over = positions.len() + in_ring > OF_RESOURCE_MAX;
        let oldest = positions.front().copied().filter(|_| is_over)?;
        self.remove(oldest)
    }

    pub fn pop_oldest(&mut self) -> Option<Arc<Record>> {
        let (oldest, _) = self.records.first_key_value()?;
        self.remove(*oldest)
    }

    /// Removes the record at `position`, which is the oldest of its resource.
    fn remove(&mut self, position: u64) -> Option<Arc<Record>> {
        let record = self.records.remove(&position)?;
        if let Some(positions) = self.positions.get_mut(&record.resource) {
            positions.pop_front();
            if positions.is_empty() {
                self.positions.remove(&record.resource);
            }
        }
        Some(record)
    }
}
