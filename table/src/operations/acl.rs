//! Stored access policies of a table. The server applies them when it authorises requests.

use crate::error::Result;
use crate::{TableService, check, codec, keys};
use lazurite_base::policies::StoredPolicy;
use lazurite_engine::Ticket;

impl TableService {
    /// The stored access policies, in the order they were set. Errors: `TableNotFound`.
    pub fn get_table_acl(&self, account: &str, table: &str) -> Result<Vec<StoredPolicy>> {
        let table = self.table_id(account, table)?;
        let bytes = self.db.get(&self.catalog, &keys::acl(table))?;
        bytes.map_or(Ok(Vec::new()), |bytes| codec::decode_acl(&bytes))
    }

    /// Replaces all stored access policies. Errors: `TableNotFound`; `InvalidXmlDocument` for
    /// policies that break a rule.
    pub fn set_table_acl(
        &self,
        account: &str,
        table: &str,
        policies: &[StoredPolicy],
    ) -> Result<Ticket> {
        check::check_acl(policies)?;
        let mut transaction = self.db.begin()?;
        let table = self.lock_table(&mut transaction, account, table)?;
        let value = codec::encode_acl(policies);
        transaction
            .batch()
            .put(&self.catalog, &keys::acl(table), &value);
        Ok(transaction.commit()?)
    }
}
