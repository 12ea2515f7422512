//! Known tables: the ids of existing tables, so that most operations on entities do not read the
//! catalog.
//!
//! An operation that creates or deletes a table locks the key of the table's record, and removes
//! the id from here before it unlocks the key. Readers take the id without locking that key.

use crate::keys::TableId;
use lazurite_base::locks::lock;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

/// The ids of tables that exist. The invariant is at the top of the file.
#[derive(Debug)]
pub(crate) struct KnownTables(Box<[Stripe]>);

#[derive(Debug, Default)]
pub(crate) struct Stripe(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    /// The ids by the key of the table's record.
    ids: HashMap<Box<[u8]>, TableId>,
    /// The number of creations and deletions so far. A record that was read before one of them may
    /// be outdated.
    changes: u64,
}

/// Maximum number of tables whose ids one of the 256 stripes holds: some megabytes in total.
const KNOWN_TABLES_MAX: usize = 64;

/// Drop guard: forgets the id of a table, whether or not the table changed.
pub(crate) struct Changing<'a> {
    stripe: &'a Stripe,
    key: Vec<u8>,
}

impl Drop for Changing<'_> {
    /// Runs after the write and before the key is unlocked, so that no reader remembers the old id.
    fn drop(&mut self) {
        let mut known = self.stripe.lock();
        known.ids.remove(&*self.key);
        known.changes += 1;
    }
}

impl Default for KnownTables {
    fn default() -> KnownTables {
        KnownTables((0..256).map(|_| Stripe::default()).collect())
    }
}

impl KnownTables {
    /// Call this with the table's record locked, and drop the result before the lock.
    pub(crate) fn changing(&self, key: Vec<u8>) -> Changing<'_> {
        let stripe = self.stripe(&key);
        Changing { stripe, key }
    }

    pub(crate) fn stripe(&self, key: &[u8]) -> &Stripe {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.0[hasher.finish() as usize % self.0.len()]
    }
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, Ids> {
        lock(&self.0)
    }

    /// Returns the id of a table. `Err` if it is not known: the number of changes so far, for
    /// [`Stripe::remember`].
    pub(crate) fn find(&self, key: &[u8]) -> Result<TableId, u64> {
        let known = self.lock();
        known.ids.get(key).copied().ok_or(known.changes)
    }

    /// Remembers the id of a table, unless a table was created or deleted since `changes` was read.
    pub(crate) fn remember(&self, key: &[u8], id: TableId, changes: u64) {
        let mut known = self.lock();
        if known.changes != changes {
            return;
        }
        if known.ids.len() == KNOWN_TABLES_MAX {
            known.ids.clear();
        }
        known.ids.insert(key.into(), id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_remembers_a_bounded_number_of_tables() {
        let stripe = Stripe::default();
        let key = |table: usize| table.to_le_bytes();
        for table in 0..KNOWN_TABLES_MAX {
            stripe.remember(&key(table), table as TableId, 0);
        }
        for table in 0..KNOWN_TABLES_MAX {
            assert_eq!(stripe.find(&key(table)), Ok(table as TableId));
        }
        stripe.remember(&key(KNOWN_TABLES_MAX), 7, 0);
        assert_eq!(stripe.find(&key(KNOWN_TABLES_MAX)), Ok(7));
        assert!(stripe.lock().ids.len() <= KNOWN_TABLES_MAX);
    }

    #[test]
    fn an_id_that_was_read_before_a_change_is_not_remembered() {
        let tables = KnownTables::default();
        let stripe = tables.stripe(b"t");
        let before = stripe.find(b"t").unwrap_err();
        stripe.remember(b"t", 1, before);
        drop(tables.changing(b"t".to_vec()));
        let after = stripe.find(b"t").unwrap_err();
        stripe.remember(b"t", 1, before);
        assert_eq!(stripe.find(b"t"), Err(after));
        stripe.remember(b"t", 2, after);
        assert_eq!(stripe.find(b"t"), Ok(2));
    }
}
