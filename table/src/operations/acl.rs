//! Stored access policies of a table. The server applies them when it authorises requests.

use crate::error::Result;
use crate::model::SignedIdentifier;
use crate::{TableService, check, codec, keys};
use lazurite_engine::{Batch, Ticket};

impl TableService {
    /// The stored access policies, in the order they were set. Errors: `TableNotFound`.
    pub fn get_table_acl(&self, account: &str, table: &str) -> Result<Vec<SignedIdentifier>> {
        let table = self.table_id(account, table)?;
        let bytes = self.db.get(&self.catalog, &keys::acl(table))?;
        bytes.map_or(Ok(Vec::new()), |bytes| codec::decode_acl(&bytes))
    }

    /// Replaces all stored access policies. Errors: `TableNotFound`; `InvalidXmlDocument` for more than five policies,
    /// a repeated id, an id over 64 characters, or a permission letter other than `raud`.
    pub fn set_table_acl(
        &self,
        account: &str,
        table: &str,
        identifiers: &[SignedIdentifier],
    ) -> Result<Ticket> {
        check::check_acl(identifiers)?;
        let admission = self.db.admit()?;
        let (_name_guard, table) = self.table_for_write(account, table, &admission)?;
        let mut batch = Batch::new();
        batch.put(
            &self.catalog,
            &keys::acl(table),
            &codec::encode_acl(identifiers),
        );
        Ok(self.db.write_admitted(batch, &admission)?)
    }
}
