//! Table names: a lock for each, and the ids of existing tables, so that most operations on entities do not read the catalog.
//!
//! Writers hold the lock of their table's name shared, operations that create or delete the table hold it exclusively. So no row
//! is ever written under the id of a deleted table, where no later operation would find or delete it. Readers take the id
//! without this lock.

use crate::keys::TableId;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct TableNames(Box<[Stripe]>);

#[derive(Debug, Default)]
pub(crate) struct Stripe {
    order: RwLock<()>,
    /// Locked only to look up or change it.
    known: Mutex<KnownTables>,
}

#[derive(Debug, Default)]
pub(crate) struct KnownTables {
    /// By the key of the table's record.
    pub(crate) ids: HashMap<Box<[u8]>, TableId>,
    /// The number of creations and deletions so far. A record that was read before one of them may be outdated.
    pub(crate) changes: u64,
}

/// Most tables whose ids one of the 256 stripes holds: some megabytes in total.
const KNOWN_TABLES_MAX: usize = 64;

/// Holds the lock of a table name exclusively, and forgets the table's id at the end, whether or not the table changed.
pub(crate) struct NameGuard<'a> {
    stripe: &'a Stripe,
    key: Vec<u8>,
    _order: RwLockWriteGuard<'a, ()>,
}

impl Drop for NameGuard<'_> {
    /// Runs after the write and before the lock is released, so that no reader can remember the old id.
    fn drop(&mut self) {
        let mut known = self.stripe.known();
        known.ids.remove(&*self.key);
        known.changes += 1;
    }
}

impl Default for TableNames {
    fn default() -> TableNames {
        TableNames((0..256).map(|_| Stripe::default()).collect())
    }
}

impl TableNames {
    pub(crate) fn shared(&self, key: &[u8]) -> RwLockReadGuard<'_, ()> {
        let guard = self.stripe(key).order.read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn exclusive(&self, key: Vec<u8>) -> NameGuard<'_> {
        let stripe = self.stripe(&key);
        let order = stripe.order.write();
        NameGuard {
            stripe,
            key,
            _order: order.unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(crate) fn stripe(&self, key: &[u8]) -> &Stripe {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.0[hasher.finish() as usize % self.0.len()]
    }
}

impl Stripe {
    pub(crate) fn known(&self) -> MutexGuard<'_, KnownTables> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the id of a table, unless a table was created or deleted since `changes` was read.
    pub(crate) fn remember(&self, key: &[u8], id: TableId, changes: u64) {
        let mut known = self.known();
        if known.changes != changes {
            return;
        }
        if known.ids.len() == KNOWN_TABLES_MAX {
            known.ids.clear();
        }
        known.ids.insert(key.into(), id);
    }
}
