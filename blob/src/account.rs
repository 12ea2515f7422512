//! AccountPolicies: the policies of accounts, kept in memory once read.

use crate::codec;
use crate::error::Result;
use crate::keys;
use crate::keyspaces::Keyspaces;
use crate::model::AccountPolicy;
use lazurite_base::locks::{self, lock};
use lazurite_engine::Db;
use std::collections::HashMap;
use std::sync::{Mutex, RwLock};

/// The policies of accounts. Each is read from the store once, so that later writes need not read
/// it.
#[derive(Debug, Default)]
pub(crate) struct AccountPolicies {
    known: RwLock<HashMap<String, AccountPolicy>>,
    /// Held while a policy is stored and then put into `known`, so that `known` keeps the policy
    /// that was stored last. Readers do not wait for this lock.
    changing: Mutex<()>,
}

impl AccountPolicies {
    pub(crate) fn get(
        &self,
        db: &Db,
        keyspaces: &Keyspaces,
        account: &str,
    ) -> Result<AccountPolicy> {
        let known = locks::read(&self.known);
        if let Some(policy) = known.get(account) {
            return Ok(*policy);
        }
        drop(known);
        // Held during the read: otherwise `set` could store a newer policy meanwhile, and the
        // insert below would replace it.
        let mut known = locks::write(&self.known);
        let stored = db.get(&keyspaces.accounts, &keys::account_policy(account))?;
        let policy = stored.map(|value| codec::decode_policy(&value));
        let policy = policy.transpose()?.unwrap_or_default();
        known.insert(account.to_string(), policy);
        Ok(policy)
    }

    /// Stores a policy with `write`, then replaces the policy in memory. Readers do not wait for
    /// `write`.
    pub(crate) fn set<T>(
        &self,
        account: &str,
        policy: AccountPolicy,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _alone = lock(&self.changing);
        let written = write()?;
        let mut known = locks::write(&self.known);
        known.insert(account.to_string(), policy);
        Ok(written)
    }
}
