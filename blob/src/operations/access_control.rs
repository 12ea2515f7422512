//! Access control of paths: owner, group and rights of one path, or of all paths below a directory.

use crate::access::{AccessControl, AclChange, Caller};
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::listing::{BlobEntry, ListPaths};
use crate::model::{BlobAddress, Written};
use crate::operations::path::Purpose;
use crate::operations::permit::Action;
use crate::service::BlobService;
use lazurite_engine::Ticket;

/// Maximum number of paths that one page changes. Source: Path - Update, `maxRecords`.
const RECORDS_MAX: u32 = 2000;

/// The outcome of one page of Path - Update, `action=setAccessControlRecursive`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessOutcome {
    /// Directories that were changed.
    pub directories: u64,
    /// Files that were changed.
    pub files: u64,
    /// Paths that were not changed, each with whether it is a directory, and the reason.
    pub failed: Vec<(String, bool, String)>,
    /// The continuation of the next page; `None` on the last.
    pub next_marker: Option<String>,
}

impl BlobService {
    /// Sets owner, group and rights of a path, as far as they are given. Errors: invalid names;
    /// `NotHierarchical`; `ContainerNotFound`, `BlobNotFound`; those of write conditions and leases;
    /// `AuthorizationPermissionMismatch` unless the caller owns the path; `InvalidInput` for a wrong
    /// list of entries.
    pub fn set_access_control(
        &self,
        address: &BlobAddress<'_>,
        owner: Option<String>,
        group: Option<String>,
        change: Option<&AclChange>,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_path_write(address, Purpose::SetAccess)?;
        write.check_hierarchical()?;
        write.check(condition, conditions, WriteKind::Change)?;
        let mut blob = write.existing()?;
        let is_directory = blob.is_directory();
        if let Some(access) = &mut blob.access {
            check_new_owner(access, address.caller, owner.as_ref(), group.as_ref())?;
            access.owner = owner.unwrap_or_else(|| access.owner.clone());
            access.group = group.unwrap_or_else(|| access.group.clone());
            if let Some(change) = change {
                access.change(change, is_directory)?;
            }
        }
        let permit = write.permit_current(Action::Set)?;
        let written = write.touch(&mut blob);
        write.put(&permit, &blob);
        Ok((written, write.commit()?))
    }

    /// Changes the entries of a directory and of everything below it, or of one file: one page of
    /// at most `max_records` paths, each of them on its own. `continuation` is the `next_marker` of
    /// the page before. A path that cannot be changed is reported; unless `goes_on`, it ends the
    /// page, and the work. The ticket covers all paths of the page. Errors: as
    /// [`BlobService::set_access_control`] for the path itself; `OutOfRangeQueryParameterValue`.
    pub fn set_access_control_recursive(
        &self,
        address: &BlobAddress<'_>,
        change: &AclChange,
        max_records: u32,
        continuation: Option<&str>,
        goes_on: bool,
    ) -> Result<(AccessOutcome, Option<Ticket>)> {
        let mut outcome = AccessOutcome::default();
        let mut ticket = None;
        let mut left = max_records.min(RECORDS_MAX);
        let continuation = continuation.filter(|marker| !marker.is_empty());
        let found = self.get_blob_properties(address, &Conditions::default())?;
        if continuation.is_none() {
            let none = Conditions::default();
            ticket = Some(
                self.set_access_control(address, None, None, Some(change), &none)?
                    .1,
            );
            outcome.count(found.is_directory());
            left = left.saturating_sub(1);
        }
        if !found.is_directory() {
            return Ok((outcome, ticket));
        }
        let page = self.list_paths(
            address.account,
            address.container,
            &ListPaths {
                directory: address.blob.to_string(),
                recursive: true,
                marker: continuation.map(str::to_string),
                max_results: Some(left.max(1)),
                // A directory that the caller may not list ends the page, and is not named.
                caller: address.caller.cloned(),
                ..ListPaths::default()
            },
        )?;
        outcome.next_marker = page.next_marker;
        for entry in page.entries {
            let BlobEntry::Blob(listed) = entry else {
                continue;
            };
            let is_directory = listed.blob.is_some_and(|blob| blob.is_directory());
            let path = BlobAddress {
                blob: &listed.name,
                ..*address
            };
            // Lists of a file have no default entries: for files, those of the change do not count.
            let change = match is_directory {
                true => change.clone(),
                false => change.for_file(),
            };
            match self.set_access_control(&path, None, None, Some(&change), &Conditions::default())
            {
                Ok((_, later)) => {
                    ticket = Some(later);
                    outcome.count(is_directory);
                }
                Err(Error::BlobNotFound) => {}
                Err(error @ (Error::Engine(_) | Error::InternalError { .. })) => return Err(error),
                Err(error) => {
                    let reason = error.to_string();
                    outcome.failed.push((listed.name, is_directory, reason));
                    if !goes_on {
                        outcome.next_marker = None;
                        return Ok((outcome, ticket));
                    }
                }
            }
        }
        Ok((outcome, ticket))
    }
}

/// Fails unless the caller may set this owner and this group. Source: Access control lists in Azure
/// Data Lake Storage, "Changing the owning group".
fn check_new_owner(
    access: &AccessControl,
    caller: Option<&Caller>,
    owner: Option<&String>,
    group: Option<&String>,
) -> Result<()> {
    let Some(caller) = caller.filter(|caller| !caller.has_all_rights) else {
        return Ok(());
    };
    let keeps_owner = owner.is_none_or(|owner| *owner == access.owner);
    let may_have = |group: &String| *group == access.group || caller.groups.contains(group);
    match keeps_owner && group.is_none_or(may_have) {
        true => Ok(()),
        false => Err(Error::AuthorizationPermissionMismatch),
    }
}

impl AccessOutcome {
    fn count(&mut self, is_directory: bool) {
        match is_directory {
            true => self.directories += 1,
            false => self.files += 1,
        }
    }
}
