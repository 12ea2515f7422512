//! Operations on tables. A table is one record in the catalog; its rows carry its id, not its name, so creating, deleting
//! and creating again cost the same whatever it holds.

use crate::codec::TableRecord;
use crate::error::{Error, Result};
use crate::keys::{self, TableId};
use crate::{TableService, limits};
use lazurite_engine::{Batch, Snapshot, Ticket};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

impl TableService {
    /// Creates an empty table; its name keeps this spelling and is found in any. Errors: `TableAlreadyExists`, and for a
    /// name that cannot be, `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput`.
    pub fn create_table(&self, account: &str, table: &str) -> Result<Ticket> {
        limits::check_table_name(table)?;
        let key = keys::table(account, table);
        let _name_guard = self
            .name_lock(&key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.db.get(&self.catalog, &key)?.is_some() {
            return Err(Error::TableAlreadyExists);
        }
        let _id_guard = self
            .next_table_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let id = self.next_table_id()?;
        let record = TableRecord {
            id,
            name: table.to_owned(),
        };
        let mut batch = Batch::new();
        batch.put(&self.catalog, keys::NEXT_TABLE_ID, &(id + 1).to_le_bytes());
        batch.put(&self.catalog, &key, &record.encode());
        Ok(self.db.write(batch)?)
    }

    /// Removes a table with its entities and policies, in one write; its name is free at once. Errors: `ResourceNotFound`.
    pub fn delete_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let _name_guard = self
            .name_lock(&key)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let record = self
            .table_record(&self.db.snapshot(), &key)?
            .ok_or(Error::ResourceNotFound)?;
        let mut batch = Batch::new();
        batch.delete(&self.catalog, &key);
        batch.delete(&self.catalog, &keys::acl(record.id));
        batch.delete_range(&self.entities, keys::entities(record.id));
        Ok(self.db.write(batch)?)
    }

    /// The name of a table as spelled at its creation. Errors: `ResourceNotFound`.
    pub fn get_table(&self, account: &str, table: &str) -> Result<String> {
        let record = self.table_record(&self.db.snapshot(), &keys::table(account, table))?;
        Ok(record.ok_or(Error::ResourceNotFound)?.name)
    }

    /// The record under a key of the catalog.
    pub(crate) fn table_record(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
    ) -> Result<Option<TableRecord>> {
        let bytes = snapshot.get(&self.catalog, key)?;
        bytes.map(|bytes| TableRecord::decode(&bytes)).transpose()
    }

    /// The id of a table. Errors: `TableNotFound`.
    pub(crate) fn table_id(&self, account: &str, table: &str) -> Result<TableId> {
        let bytes = self.db.get(&self.catalog, &keys::table(account, table))?;
        Ok(TableRecord::decode(&bytes.ok_or(Error::TableNotFound)?)?.id)
    }

    /// The id of a table that cannot be deleted while the guard lives. Errors: `TableNotFound`.
    pub(crate) fn table_for_write(
        &self,
        account: &str,
        table: &str,
    ) -> Result<(RwLockReadGuard<'_, ()>, TableId)> {
        let lock = self.name_lock(&keys::table(account, table));
        let guard = lock.read().unwrap_or_else(PoisonError::into_inner);
        Ok((guard, self.table_id(account, table)?))
    }

    fn name_lock(&self, key: &[u8]) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.name_locks[hasher.finish() as usize % self.name_locks.len()]
    }

    fn next_table_id(&self) -> Result<TableId> {
        let stored = self.db.get(&self.catalog, keys::NEXT_TABLE_ID)?;
        let damaged =
            |_| Error::InternalError("stored next table id: it is not 8 bytes long".into());
        stored.map_or(Ok(1), |bytes| {
            bytes[..]
                .try_into()
                .map(u64::from_le_bytes)
                .map_err(damaged)
        })
    }
}
