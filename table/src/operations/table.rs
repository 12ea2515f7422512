//! Operations on tables. A table is one record in the catalog; its rows carry its id, not its name, so creating, deleting
//! and creating again cost the same whatever it holds.

use crate::codec::TableRecord;
use crate::error::{Error, Result};
use crate::keys::{self, TableId};
use crate::{TableService, limits};
use lazurite_engine::{Batch, Snapshot, Ticket};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

impl TableService {
    /// Creates an empty table; its name keeps this spelling and is found in any. Errors: `TableAlreadyExists`, and for a
    /// name that cannot be, `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput`.
    pub fn create_table(&self, account: &str, table: &str) -> Result<Ticket> {
        limits::check_table_name(table)?;
        let _name_guard = self.name_locks.exclusive(account, table);
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
        batch.put(&self.catalog, &keys::table(account, table), &record);
        Ok(self.db.write(batch)?)
    }

    /// Removes a table with its entities and policies, in one write; its name is free at once. Errors: `ResourceNotFound`.
    pub fn delete_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let _name_guard = self.name_locks.exclusive(account, table);
        let record = self.table_record(account, table, None)?;
        let id = record.ok_or(Error::ResourceNotFound)?.id;
        let mut batch = Batch::new();
        batch.delete(&self.catalog, &keys::table(account, table));
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
        if limits::check_table_name(table).is_err() {
            return Ok(None);
        }
        let key = keys::table(account, table);
        let bytes = match snapshot {
            Some(snapshot) => snapshot.get(&self.catalog, &key)?,
            None => self.db.get(&self.catalog, &key)?,
        };
        bytes.map(|bytes| TableRecord::decode(&bytes)).transpose()
    }

    /// The id of a table. Errors: `TableNotFound`.
    pub(crate) fn table_id(&self, account: &str, table: &str) -> Result<TableId> {
        let record = self.table_record(account, table, None)?;
        Ok(record.ok_or(Error::TableNotFound)?.id)
    }

    /// The id of a table that cannot be deleted while the guard lives. Errors: `TableNotFound`.
    pub(crate) fn table_for_write(
        &self,
        account: &str,
        table: &str,
    ) -> Result<(RwLockReadGuard<'_, ()>, TableId)> {
        let guard = self.name_locks.shared(account, table);
        Ok((guard, self.table_id(account, table)?))
    }

    fn next_table_id(&self) -> Result<TableId> {
        let Some(stored) = self.db.get(&self.catalog, keys::NEXT_TABLE_ID)? else {
            return Ok(1);
        };
        let id = stored[..].try_into().map(u64::from_le_bytes);
        id.map_err(|_| Error::InternalError("stored next table id: not 8 bytes".into()))
    }
}

/// Locks on table names: shared by who writes entities, exclusive to who creates or deletes the table, so that no row is
/// ever written under the id of a deleted table, where nobody would find it or clear it away.
#[derive(Debug)]
pub(crate) struct NameLocks(Box<[RwLock<()>]>);

impl Default for NameLocks {
    fn default() -> NameLocks {
        NameLocks((0..256).map(|_| RwLock::new(())).collect())
    }
}

impl NameLocks {
    fn shared(&self, account: &str, table: &str) -> RwLockReadGuard<'_, ()> {
        let guard = self.stripe(account, table).read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self, account: &str, table: &str) -> RwLockWriteGuard<'_, ()> {
        let guard = self.stripe(account, table).write();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    fn stripe(&self, account: &str, table: &str) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        (account, table.to_ascii_lowercase()).hash(&mut hasher);
        &self.0[hasher.finish() as usize % self.0.len()]
    }
}
