//! The service properties of an account: bytes that the server gives meaning to.

use crate::error::Result;
use crate::{BlobService, keys};
use lazurite_engine::{Batch, Ticket};

impl BlobService {
    /// The properties as last set; `None` if they never were.
    pub fn get_service_properties(&self, account: &str) -> Result<Option<Vec<u8>>> {
        let key = keys::service_properties(account);
        let bytes = self.db.get(&self.keyspaces.accounts, &key)?;
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    /// Replaces the properties. The caller owns their format and its version.
    pub fn set_service_properties(&self, account: &str, properties: &[u8]) -> Result<Ticket> {
        let mut batch = Batch::new();
        let key = keys::service_properties(account);
        batch.put(&self.keyspaces.accounts, &key, properties);
        Ok(self.db.write(batch)?)
    }
}
