//! The tables that the server keeps for its account: `$Metrics…`.

use crate::error::{Error, Result};
use crate::{TableService, keys, limits};
use lazurite_engine::{Batch, Direction, Ticket};

impl TableService {
    /// Makes a table for metrics; `None` if it is there. Its name must be that of one.
    pub fn make_metrics_table(&self, account: &str, table: &str) -> Result<Option<Ticket>> {
        assert!(limits::is_metrics_table(table), "clients make the others");
        match self.make_table(account, table) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(Error::TableAlreadyExists) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes all entities whose PartitionKey is less, at the cost of one; `None` if there are none. Errors: `TableNotFound`.
    pub fn delete_partitions_before(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
    ) -> Result<Option<Ticket>> {
        let (_guard, id) = self.table_for_write(account, table)?;
        let old = keys::entities_before(id, partition_key);
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.entities, old.clone(), Direction::Forward);
        if !rows.advance()? {
            return Ok(None);
        }
        let mut batch = Batch::new();
        batch.delete_range(&self.entities, old);
        Ok(Some(self.db.write(batch)?))
    }
}
