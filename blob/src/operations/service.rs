//! An account's service properties, whose bytes only the server reads, and its policy for deleted
//! blobs.

use crate::codec;
use crate::error::Result;
use crate::keys;
use crate::model::AccountPolicy;
use crate::service::BlobService;
use lazurite_engine::{Batch, Ticket};

impl BlobService {
    /// The properties as last set; `None` if they were never set.
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

    /// The policy of the account; the default if it was never set.
    pub fn get_account_policy(&self, account: &str) -> Result<AccountPolicy> {
        self.policies.get(&self.db, &self.keyspaces, account)
    }

    /// Replaces the account's policy and, in the same batch, its service properties if given. Does
    /// not change the retention of records that are already deleted.
    pub fn set_account_policy(
        &self,
        account: &str,
        policy: AccountPolicy,
        properties: Option<&[u8]>,
    ) -> Result<Ticket> {
        let mut batch = Batch::new();
        let accounts = &self.keyspaces.accounts;
        let value = codec::encode_policy(&policy);
        batch.put(accounts, &keys::account_policy(account), &value);
        if let Some(properties) = properties {
            batch.put(accounts, &keys::service_properties(account), properties);
        }
        let admission = self.db.admit()?;
        self.policies.set(account, policy, || {
            Ok(self.db.write_admitted(batch, &admission)?)
        })
    }
}
