//! The tables that the server keeps for its account: `$Metrics…`.

use crate::error::{Error, Result};
use crate::{TableService, keys, limits};
use lazurite_engine::{Batch, Direction, Ticket};

impl TableService {
    /// Makes a table for metrics unless it is there: durable, either way, once the ticket completes. Its name must be that of one.
    pub fn make_metrics_table(&self, account: &str, table: &str) -> Result<Ticket> {
        assert!(limits::is_metrics_table(table), "clients make the others");
        match self.make_table(account, table) {
            Err(Error::TableAlreadyExists) => Ok(self.db.ticket()),
            made => made,
        }
    }

    /// Deletes all entities whose PartitionKey is less, at the cost of one; `None` if there are none. Errors: `TableNotFound`.
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
        let admission = self.db.admit_deletion()?;
        // Alone: a merge that has read a row must not put it back.
        let (_alone, id) = self.table_alone(account, table, &admission)?;
        let mut batch = Batch::new();
        batch.delete_range(&self.entities, keys::entities_before(id, partition_key));
        Ok(Some(self.db.write_admitted(batch, &admission)?))
    }
}
