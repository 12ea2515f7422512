//! Operations on tables. A table is one record in the catalog. The keys of its rows hold its id,
//! not its name, so creating and deleting a table take the same time for any size.

use crate::codec::{self, TableRecord};
use crate::error::{Error, Result};
use crate::keys::{self, TableId};
use crate::{TableService, check};
use lazurite_engine::{Snapshot, Ticket, Transaction};

impl TableService {
    /// Creates an empty table. Its name keeps this spelling, and look-ups ignore case. Errors:
    /// `TableAlreadyExists`; for an invalid name, `OutOfRangeInput`, `InvalidResourceName` or
    /// `InvalidInput`.
    pub fn create_table(&self, account: &str, table: &str) -> Result<Ticket> {
        check::check_table_name(table)?;
        self.make_table(account, table)
    }

    pub(crate) fn make_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let locked = [
            (&self.catalog, &key[..]),
            (&self.catalog, keys::NEXT_TABLE_ID),
        ];
        let mut transaction = self.db.transaction(&locked)?;
        let _changing = self.known_tables.changing(key.clone());
        if self.table_record(account, table, None)?.is_some() {
            return Err(Error::TableAlreadyExists);
        }
        let id = self.next_table_id()?;
        let name = table.to_owned();
        let record = TableRecord { id, name }.encode();
        let batch = transaction.batch();
        batch.put(&self.catalog, keys::NEXT_TABLE_ID, &(id + 1).to_le_bytes());
        batch.put(&self.catalog, &key, &record);
        Ok(transaction.commit()?)
    }

    /// Deletes a table with its entities and policies in one write. The name can be used again at
    /// once. Errors: `ResourceNotFound`.
    pub fn delete_table(&self, account: &str, table: &str) -> Result<Ticket> {
        let key = keys::table(account, table);
        let mut transaction = self.db.begin_deletion()?;
        transaction.lock([(&self.catalog, &key[..])])?;
        let _changing = self.known_tables.changing(key.clone());
        let record = self.table_record(account, table, None)?;
        let id = record.ok_or(Error::ResourceNotFound)?.id;
        let batch = transaction.batch();
        batch.delete(&self.catalog, &key);
        batch.delete(&self.catalog, &keys::acl(id));
        batch.delete_range(&self.entities, keys::entities(id));
        Ok(transaction.commit()?)
    }

    /// The name of a table as spelled at its creation. Errors: `ResourceNotFound`.
    pub fn get_table(&self, account: &str, table: &str) -> Result<String> {
        let record = self.table_record(account, table, None)?;
        Ok(record.ok_or(Error::ResourceNotFound)?.name)
    }

    /// The catalog's record of a table, now or as of a snapshot; `None` also for an invalid name.
    pub(crate) fn table_record(
        &self,
        account: &str,
        table: &str,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<TableRecord>> {
        if check::check_table_name(table).is_err() && !check::is_metrics_table(table) {
            return Ok(None);
        }
        let key = keys::table(account, table);
        let bytes = match snapshot {
            Some(snapshot) => snapshot.get(&self.catalog, &key)?,
            None => self.db.get(&self.catalog, &key)?,
        };
        bytes.map(|bytes| TableRecord::decode(&bytes)).transpose()
    }

    /// Checks that a table exists. Errors: `TableNotFound`; for an invalid name, `OutOfRangeInput`,
    /// `InvalidResourceName` or `InvalidInput`.
    pub fn check_table(&self, account: &str, table: &str) -> Result<()> {
        self.table_id(account, table).map(|_| ())
    }

    /// The id of a table. Never waits for a writer. Errors: as [`TableService::check_table`].
    pub(crate) fn table_id(&self, account: &str, table: &str) -> Result<TableId> {
        self.id_of(&keys::table(account, table), account, table)
    }

    /// Like [`TableService::table_id`], with the key of the table's record.
    fn id_of(&self, key: &[u8], account: &str, table: &str) -> Result<TableId> {
        let stripe = self.known_tables.stripe(key);
        let changes = match stripe.find(key) {
            Ok(id) => return Ok(id),
            Err(changes) => changes,
        };
        let Some(record) = self.table_record(account, table, None)? else {
            if !check::is_metrics_table(table) {
                check::check_table_name(table)?;
            }
            return Err(Error::TableNotFound);
        };
        stripe.remember(key, record.id, changes);
        Ok(record.id)
    }

    /// Locks a table, shared, and returns its id: the table is not deleted before the transaction
    /// ends, and other writers of its entities can proceed. Errors: as
    /// [`TableService::check_table`].
    pub(crate) fn lock_table(
        &self,
        transaction: &mut Transaction<'_>,
        account: &str,
        table: &str,
    ) -> Result<TableId> {
        let key = keys::table(account, table);
        transaction.lock_shared([(&self.catalog, &key[..])])?;
        self.id_of(&key, account, table)
    }

    /// Like [`TableService::lock_table`], but locks out all other writers of its entities.
    pub(crate) fn lock_table_alone(
        &self,
        transaction: &mut Transaction<'_>,
        account: &str,
        table: &str,
    ) -> Result<TableId> {
        let key = keys::table(account, table);
        transaction.lock([(&self.catalog, &key[..])])?;
        self.id_of(&key, account, table)
    }

    fn next_table_id(&self) -> Result<TableId> {
        let Some(stored) = self.db.get(&self.catalog, keys::NEXT_TABLE_ID)? else {
            return Ok(1);
        };
        codec::decode_number("next table id", &stored)
    }
}
