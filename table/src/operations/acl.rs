//! Stored access policies of a table. The server applies them when it authorises requests.

use crate::error::Result;
use crate::model::SignedIdentifier;
use crate::{TableService, check, codec, keys};
use lazurite_engine::Ticket;

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
        let mut transaction = self.db.begin()?;
        let table = self.lock_table(&mut transaction, account, table)?;
        let policies = codec::encode_acl(identifiers);
        transaction
            .batch()
            .put(&self.catalog, &keys::acl(table), &policies);
        Ok(transaction.commit()?)
    }
}
