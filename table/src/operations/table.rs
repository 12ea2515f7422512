//! Operations on tables. A table is one record in the catalog; its rows carry its id, not its name, so creating, deleting
//! and creating again cost the same whatever it holds.

use crate::codec::{self, TableRecord};
use crate::error::{Error, Result};
use crate::keys::{self, TableId};
use crate::{TableService, limits};
use lazurite_engine::{Batch, Snapshot, Ticket};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

impl TableService {
    /// Creates an empty table; its name keeps this spelling and is found in any. Errors: `TableAlreadyExists`, and for a
    /// name that cannot be, `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput`.
    pub fn create_table(&self, account: &str, table: &str) -> Result<Ticket> {
        limits::check_table_name(table)?;
        self.make_table(account, table)
    }

    pub(crate) fn make_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let mut known = self.name_locks.exclusive(&key);
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
        known.forget(&key);
        Ok(self.db.write(batch)?)
    }

    /// Removes a table with its entities and policies, in one write; its name is free at once. Errors: `ResourceNotFound`.
    pub fn delete_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let mut known = self.name_locks.exclusive(&key);
        let record = self.table_record(account, table, None)?;
        let id = record.ok_or(Error::ResourceNotFound)?.id;
        known.forget(&key);
        let mut batch = Batch::new();
        batch.delete(&self.catalog, &key);
        batch.delete(&self.catalog, &keys::acl(id));
        batch.delete_range(&self.entities, keys::entities(id));
        Ok(self.db.write(batch)?)
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

    /// The id of a table. Errors: as [`TableService::check_table`].
    pub(crate) fn table_id(&self, account: &str, table: &str) -> Result<TableId> {
        self.table_for_write(account, table).map(|(_, id)| id)
    }

    /// The id of a table that cannot be deleted while the guard lives. Errors: as [`TableService::check_table`].
    pub(crate) fn table_for_write(
        &self,
        account: &str,
        table: &str,
    ) -> Result<(RwLockReadGuard<'_, KnownTables>, TableId)> {
        let key = keys::table(account, table);
        loop {
            let known = self.name_locks.shared(&key);
            if let Some(id) = known.id(&key) {
                return Ok((known, id));
            }
            drop(known);
            let mut known = self.name_locks.exclusive(&key);
            let Some(record) = self.table_record(account, table, None)? else {
                if !limits::is_metrics_table(table) {
                    limits::check_table_name(table)?;
                }
                return Err(Error::TableNotFound);
            };
            known.remember(&key, record.id);
        }
    }

    fn next_table_id(&self) -> Result<TableId> {
        let Some(stored) = self.db.get(&self.catalog, keys::NEXT_TABLE_ID)? else {
            return Ok(1);
        };
        codec::decode_number("next table id", &stored)
    }
}

/// Locks on table names: shared by who writes entities, exclusive to who creates or deletes the table, so that no row is
/// ever written under the id of a deleted table, where nobody would find it or clear it away. Each guards what is known of
/// its tables, so that most operations on entities do not read the catalog.
#[derive(Debug)]
pub(crate) struct NameLocks(Box<[RwLock<KnownTables>]>);

/// Ids of tables that exist, by the keys of their records.
#[derive(Debug, Default)]
pub(crate) struct KnownTables(HashMap<Box<[u8]>, TableId>);

/// Most tables known by one of the 256 locks: some megabytes in all.
const KNOWN_TABLES_MAX: usize = 64;

impl KnownTables {
    fn id(&self, key: &[u8]) -> Option<TableId> {
        self.0.get(key).copied()
    }

    fn remember(&mut self, key: &[u8], id: TableId) {
        if self.0.len() == KNOWN_TABLES_MAX {
            self.0.clear();
        }
        self.0.insert(key.into(), id);
    }

    /// To be called before a write that may change the table: whether that succeeds or not, the next reads the record.
    fn forget(&mut self, key: &[u8]) {
        self.0.remove(key);
    }
}

impl Default for NameLocks {
    fn default() -> NameLocks {
        NameLocks((0..256).map(|_| RwLock::default()).collect())
    }
}

impl NameLocks {
    fn shared(&self, key: &[u8]) -> RwLockReadGuard<'_, KnownTables> {
        let guard = self.stripe(key).read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self, key: &[u8]) -> RwLockWriteGuard<'_, KnownTables> {
        let guard = self.stripe(key).write();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    fn stripe(&self, key: &[u8]) -> &RwLock<KnownTables> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.0[hasher.finish() as usize % self.0.len()]
    }
}
