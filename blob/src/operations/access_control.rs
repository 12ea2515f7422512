//! Access control of paths.

use crate::access::AclChange;
use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::model::{BlobAddress, Written};
use crate::service::BlobService;
use lazurite_engine::Ticket;

/// The outcome of one page of Path - Update, `action=setAccessControlRecursive`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessOutcome {
    /// Directories that were changed.
    pub directories: u64,
    /// Files that were changed.
    pub files: u64,
    /// Paths that were not changed, directories marked by `true`, each with the reason.
    pub failed: Vec<(String, bool, String)>,
    /// The continuation of the next page; `None` on the last.
    pub next_marker: Option<String>,
}

impl BlobService {
    /// Owner and group: `None` leaves them.
    pub fn set_access_control(
        &self,
        address: &BlobAddress<'_>,
        owner: Option<String>,
        group: Option<String>,
        change: Option<&AclChange>,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let _ = (address, owner, group, change, conditions);
        Err(Error::NotHierarchical)
    }

    /// `max_records`: of 1 to 2,000. `go_on`: `forceFlag`.
    pub fn set_access_control_recursive(
        &self,
        address: &BlobAddress<'_>,
        change: &AclChange,
        max_records: u32,
        continuation: Option<&str>,
        go_on: bool,
    ) -> Result<(AccessOutcome, Option<Ticket>)> {
        let _ = (address, change, max_records, continuation, go_on);
        Err(Error::NotHierarchical)
    }
}
