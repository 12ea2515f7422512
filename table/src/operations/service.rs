//! The service properties of an account, stored as bytes that only the server interprets.

use crate::error::Result;
use crate::{TableService, keys};
use lazurite_engine::{Batch, Ticket};

impl TableService {
    /// The properties as last set; `None` if they were never set.
    pub fn get_service_properties(&self, account: &str) -> Result<Option<Vec<u8>>> {
        let bytes = self
            .db
            .get(&self.catalog, &keys::service_properties(account))?;
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    /// Replaces the properties. The caller defines their format and versions it.
    pub fn set_service_properties(&self, account: &str, properties: &[u8]) -> Result<Ticket> {
        let mut batch = Batch::new();
        batch.put(
            &self.catalog,
            &keys::service_properties(account),
            properties,
        );
        Ok(self.db.write(batch)?)
    }
}
