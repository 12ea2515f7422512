//! The metrics tables `$Metrics…`, which the server maintains for each account.

use crate::error::{Error, Result};
use crate::{TableService, check, keys};
use lazurite_engine::{Direction, Ticket};

impl TableService {
    /// Creates a metrics table unless it exists. Either way the table is durable once the ticket
    /// completes. Panics for any other name.
    pub fn make_metrics_table(&self, account: &str, table: &str) -> Result<Ticket> {
        assert!(
            check::is_metrics_table(table),
            "clients create all other tables"
        );
        match self.make_table(account, table) {
            Err(Error::TableAlreadyExists) => Ok(self.db.ticket()),
            made => made,
        }
    }

    /// Deletes all entities whose PartitionKey is less than `partition_key`, in one write; `None`
    /// if there are none. Errors: `TableNotFound`.
    pub fn delete_partitions_before(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
    ) -> Result<Option<Ticket>> {
        let old = keys::entities_before(self.table_id(account, table)?, partition_key);
        let snapshot = self.db.snapshot();
        if !snapshot
            .scan(&self.entities, old, Direction::Forward)
            .advance()?
        {
            return Ok(None);
        }
        let mut transaction = self.db.begin_deletion()?;
        // All writers are locked out, so that a merge that has read a row does not put it back.
        let id = self.lock_table_alone(&mut transaction, account, table)?;
        let old = keys::entities_before(id, partition_key);
        transaction.batch().delete_range(&self.entities, old);
        Ok(Some(transaction.commit()?))
    }
}
