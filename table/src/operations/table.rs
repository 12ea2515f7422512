//! Operations on tables. A table is one record in the catalog; its rows carry its id, not its name, so creating, deleting
//! and creating again cost the same whatever it holds.

use crate::codec::{self, TableRecord};
use crate::error::{Error, Result};
use crate::keys::{self, TableId};
use crate::{TableService, limits};
use lazurite_engine::{Admission, Batch, Snapshot, Ticket};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

impl TableService {
    /// Creates an empty table; its name keeps this spelling and is found in any. Errors: `TableAlreadyExists`, and for a
    /// name that cannot be, `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput`.
    pub fn create_table(&self, account: &str, table: &str) -> Result<Ticket> {
        limits::check_table_name(table)?;
        self.make_table(account, table)
    }

    pub(crate) fn make_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let admission = self.db.admit()?;
        let _alone = self.names.exclusive(key.clone());
        if self.table_record(account, table, None)?.is_some() {
            return Err(Error::TableAlreadyExists);
        }
        let next_id = self.next_table_id.lock();
        let _id_guard = next_id.unwrap_or_else(PoisonError::into_inner);
        let id = self.next_table_id()?;
        let name = table.to_owned();
        let record = TableRecord { id, name }.encode();
        let mut batch = Batch::new();
        batch.put(&self.catalog, keys::NEXT_TABLE_ID, &(id + 1).to_le_bytes());
        batch.put(&self.catalog, &key, &record);
        Ok(self.db.write_admitted(batch, &admission)?)
    }

    /// Removes a table with its entities and policies, in one write; its name is free at once. Errors: `ResourceNotFound`.
    pub fn delete_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let admission = self.db.admit_deletion()?;
        let _alone = self.names.exclusive(key.clone());
        let record = self.table_record(account, table, None)?;
        let id = record.ok_or(Error::ResourceNotFound)?.id;
        let mut batch = Batch::new();
        batch.delete(&self.catalog, &key);
        batch.delete(&self.catalog, &keys::acl(id));
        batch.delete_range(&self.entities, keys::entities(id));
        Ok(self.db.write_admitted(batch, &admission)?)
    }

    /// The name of a table as spelled at its creation. Errors: `ResourceNotFound`.
    pub fn get_table(&self, account: &str, table: &str) -> Result<String> {
        let record = self.table_record(account, table, None)?;
        Ok(record.ok_or(Error::ResourceNotFound)?.name)
    }

    /// What the catalog knows of a table, now or as of a snapshot; `None` also for what is no name.
    pub(crate) fn table_record(
        &self,
        account: &str,
        table: &str,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<TableRecord>> {
        if limits::check_table_name(table).is_err() && !limits::is_metrics_table(table) {
            return Ok(None);
        }
        let key = keys::table(account, table);
        let bytes = match snapshot {
            Some(snapshot) => snapshot.get(&self.catalog, &key)?,
            None => self.db.get(&self.catalog, &key)?,
        };
        bytes.map(|bytes| TableRecord::decode(&bytes)).transpose()
    }

    /// Errors: `TableNotFound`; for what cannot be a name, `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput`.
    pub fn check_table(&self, account: &str, table: &str) -> Result<()> {
        self.table_id(account, table).map(|_| ())
    }

    /// The id of a table. Waits for no writer. Errors: as [`TableService::check_table`].
    pub(crate) fn table_id(&self, account: &str, table: &str) -> Result<TableId> {
        let key = keys::table(account, table);
        let stripe = self.names.stripe(&key);
        let changes = {
            let known = stripe.known();
            if let Some(id) = known.ids.get(&*key) {
                return Ok(*id);
            }
            known.changes
        };
        let Some(record) = self.table_record(account, table, None)? else {
            if !limits::is_metrics_table(table) {
                limits::check_table_name(table)?;
            }
            return Err(Error::TableNotFound);
        };
        stripe.remember(&key, record.id, changes);
        Ok(record.id)
    }

    /// The id of a table that cannot be deleted while the guard lives. The caller was admitted before: nobody waits for the disk
    /// with the lock. Errors: as [`TableService::check_table`].
    pub(crate) fn table_for_write(
        &self,
        account: &str,
        table: &str,
        _admission: &Admission,
    ) -> Result<(RwLockReadGuard<'_, ()>, TableId)> {
        let guard = self.names.shared(&keys::table(account, table));
        Ok((guard, self.table_id(account, table)?))
    }

    /// The id of a table that nobody writes to while the guard lives. Otherwise as [`TableService::table_for_write`].
    pub(crate) fn table_alone(
        &self,
        account: &str,
        table: &str,
        _admission: &Admission,
    ) -> Result<(NameGuard<'_>, TableId)> {
        let guard = self.names.exclusive(keys::table(account, table));
        Ok((guard, self.table_id(account, table)?))
    }

    fn next_table_id(&self) -> Result<TableId> {
        let Some(stored) = self.db.get(&self.catalog, keys::NEXT_TABLE_ID)? else {
            return Ok(1);
        };
        codec::decode_number("next table id", &stored)
    }
}

/// Locks on table names, and the ids of tables that exist, so that most operations on entities do not read the catalog. Writers
/// hold the lock of their table shared, those who make or delete it exclusively: so no row is ever written under the id of a
/// deleted table, where nobody would find it or clear it away. Readers take the id without that lock.
#[derive(Debug)]
pub(crate) struct TableNames(Box<[Stripe]>);

#[derive(Debug, Default)]
struct Stripe {
    order: RwLock<()>,
    /// Held for a look-up or a change in memory only.
    known: Mutex<KnownTables>,
}

#[derive(Debug, Default)]
struct KnownTables {
    /// By the keys of their records.
    ids: HashMap<Box<[u8]>, TableId>,
    /// How often a table was made or deleted: what a record said before may no longer hold.
    changes: u64,
}

/// Most tables known by one of the 256 stripes: some megabytes in all.
const KNOWN_TABLES_MAX: usize = 64;

/// Holds the lock of a table's name exclusively. What is known of the table is forgotten at the end, whether it was changed or not.
pub(crate) struct NameGuard<'a> {
    stripe: &'a Stripe,
    key: Vec<u8>,
    _order: RwLockWriteGuard<'a, ()>,
}

impl Drop for NameGuard<'_> {
    /// Comes before the lock is released, and after the write: nobody can learn the old id again.
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
    fn shared(&self, key: &[u8]) -> RwLockReadGuard<'_, ()> {
        let guard = self.stripe(key).order.read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self, key: Vec<u8>) -> NameGuard<'_> {
        let stripe = self.stripe(&key);
        let order = stripe.order.write();
        NameGuard {
            stripe,
            key,
            _order: order.unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn stripe(&self, key: &[u8]) -> &Stripe {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.0[hasher.finish() as usize % self.0.len()]
    }
}

impl Stripe {
    fn known(&self) -> MutexGuard<'_, KnownTables> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a table, unless one was made or deleted since there were so many `changes`.
    fn remember(&self, key: &[u8], id: TableId, changes: u64) {
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
