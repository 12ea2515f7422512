//! A map with a fixed number of entries: a new key replaces the one that was used longest ago.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct BoundedMap<K, V> {
    entries: HashMap<K, (u64, V)>,
    entries_max: usize,
    /// The number of the last use.
    clock: u64,
}

impl<K: Hash + Eq + Clone, V: Default> BoundedMap<K, V> {
    pub(crate) fn new(entries_max: usize) -> BoundedMap<K, V> {
        BoundedMap {
            entries: HashMap::new(),
            entries_max,
            clock: 0,
        }
    }

    /// The value of `key`, new if there was none.
    pub(crate) fn entry(&mut self, key: K) -> &mut V {
        self.clock += 1;
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        let (used, value) = self.entries.entry(key).or_default();
        *used = self.clock;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_that_was_used_longest_ago_makes_room() {
        let mut map: BoundedMap<u32, u32> = BoundedMap::new(2);
        *map.entry(1) = 10;
        *map.entry(2) = 20;
        assert_eq!(*map.entry(1), 10);
        *map.entry(3) = 30;
        assert_eq!((*map.entry(1), *map.entry(2)), (10, 0));
    }
}
