//! AccountPolicy: what an account does with what is deleted or overwritten. Kept in memory once read.

use crate::codec;
use crate::error::Result;
use crate::{Keyspaces, keys};
use lazurite_engine::Db;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// What an account does with what is deleted or overwritten. The default keeps nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountPolicy {
    /// Whether a blob that is overwritten or deleted stays as a version.
    pub versioning: bool,
    /// Days for which deleted blobs, snapshots and versions can be had back; `None` for not at all.
    /// Source: Set Blob Service Properties, `DeleteRetentionPolicy`.
    pub delete_retention_days: Option<u16>,
    /// Whether what is deleted but still kept may be deleted for good.
    pub permanent_delete: bool,
    /// Days for which deleted containers can be restored; `None` for not at all.
    pub container_retention_days: Option<u16>,
    /// Seconds until a blob is back from the archive tier. The hosted service takes hours.
    pub rehydrate_seconds: u32,
}

impl Default for AccountPolicy {
    fn default() -> Self {
        AccountPolicy {
            versioning: false,
            delete_retention_days: None,
            permanent_delete: false,
            container_retention_days: None,
            rehydrate_seconds: 2,
        }
    }
}

/// The policies of the accounts that were asked for, so that a write need not read its account's.
#[derive(Debug, Default)]
pub(crate) struct AccountPolicies(RwLock<HashMap<String, AccountPolicy>>);

impl AccountPolicies {
    pub(crate) fn get(
        &self,
        db: &Db,
        keyspaces: &Keyspaces,
        account: &str,
    ) -> Result<AccountPolicy> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = known.get(account) {
            return Ok(*policy);
        }
        drop(known);
        // Held across the read, so that a policy set meanwhile is not replaced by the one before it.
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let stored = db.get(&keyspaces.accounts, &keys::account_policy(account))?;
        let policy = stored.map(|value| codec::decode_policy(&value));
        let policy = policy.transpose()?.unwrap_or_default();
        known.insert(account.to_string(), policy);
        Ok(policy)
    }

    /// Replaces the policy by what `write` has stored.
    pub(crate) fn set<T>(
        &self,
        account: &str,
        policy: AccountPolicy,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let written = write()?;
        known.insert(account.to_string(), policy);
        Ok(written)
    }
}
