//! The direction in which the keys of inserts go.

use crate::request::Keys;
use crate::rules::ORDERED_PERCENT;
use crate::watch::is_share;
use std::cmp::Ordering;

#[derive(Debug, Default)]
pub(crate) struct KeyOrder {
    last: Option<Keys>,
    ascending: u64,
    descending: u64,
}

impl KeyOrder {
    pub(crate) fn insert(&mut self, keys: &Keys, weight: u64) {
        if let Some(last) = &self.last {
            match (&keys.partition, &keys.row).cmp(&(&last.partition, &last.row)) {
                Ordering::Greater => self.ascending += weight,
                Ordering::Less => self.descending += weight,
                Ordering::Equal => {}
            }
        }
        self.last = Some(keys.clone());
    }

    /// The direction that nearly all keys go; `None` if there is none.
    pub(crate) fn direction(&self) -> Option<&'static str> {
        let all = self.ascending + self.descending;
        if all > 0 && is_share(self.ascending, all, ORDERED_PERCENT) {
            Some("ascending")
        } else if all > 0 && is_share(self.descending, all, ORDERED_PERCENT) {
            Some("descending")
        } else {
            None
        }
    }
}
