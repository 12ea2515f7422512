//! Access control of paths: owner, group and rights of one path, or of all paths below a directory.

use crate::access::AclChange;
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::listing::{Next, Visited, check_listable};
use crate::model::{Blob, BlobAddress, Written};
use crate::operations::path::Purpose;
use crate::operations::permit::Action;
use crate::pager::Marker;
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
    /// Paths that were not changed, and directories whose content was not: each with whether it is
    /// a directory, and the reason.
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
        let (blob, ticket) = self.set_access(address, owner, group, change, conditions)?;
        Ok((blob.written(), ticket))
    }

    /// Like [`BlobService::set_access_control`]. Returns the record after the change.
    fn set_access(
        &self,
        address: &BlobAddress<'_>,
        owner: Option<String>,
        group: Option<String>,
        change: Option<&AclChange>,
        conditions: &Conditions,
    ) -> Result<(Box<Blob>, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_path_write(address, Purpose::SetAccess)?;
        write.check_hierarchical()?;
        write.check(condition, conditions, WriteKind::Change)?;
        let mut blob = write.existing()?;
        let is_directory = blob.is_directory();
        if let Some(access) = &mut blob.access {
            let caller = address.caller.filter(|caller| !caller.has_all_rights);
            let may_set = |caller| access.may_belong_to(caller, owner.as_ref(), group.as_ref());
            if !caller.is_none_or(may_set) {
                return Err(Error::AuthorizationPermissionMismatch);
            }
            access.owner = owner.unwrap_or_else(|| access.owner.clone());
            access.group = group.unwrap_or_else(|| access.group.clone());
            if let Some(change) = change {
                access.change(change, is_directory)?;
            }
        }
        let permit = write.permit_current(Action::Set)?;
        write.touch(&mut blob);
        write.put(&permit, &blob);
        Ok((blob, write.commit()?))
    }

    /// Changes the entries of a directory and of everything below it, or of one file: one page of
    /// at most `max_records` paths, each of them on its own. `continuation` is the `next_marker` of
    /// the page before. A path that cannot be changed is reported, and so is a directory that the
    /// caller may not list after the change. Unless `goes_on`, the first of them ends the page, and
    /// the work. The ticket covers all paths of the page. Errors: as
    /// [`BlobService::set_access_control`] for the path itself; `OutOfRangeQueryParameterValue`.
    pub fn set_access_control_recursive(
        &self,
        address: &BlobAddress<'_>,
        change: &AclChange,
        max_records: u32,
        continuation: Option<&str>,
        goes_on: bool,
    ) -> Result<(AccessOutcome, Option<Ticket>)> {
        let mut work = RecursiveChange {
            service: self,
            address,
            change,
            for_files: change.for_file(),
            goes_on,
            outcome: AccessOutcome::default(),
            ticket: None,
        };
        let mut left = max_records.min(RECORDS_MAX);
        let continuation = continuation.filter(|marker| !marker.is_empty());
        let is_directory = match continuation {
            None => {
                left = left.saturating_sub(1);
                work.change_first()?
            }
            Some(_) => {
                let found = self.get_blob_properties(address, &Conditions::default())?;
                found.is_directory()
            }
        };
        if is_directory && left == 0 {
            work.outcome.next_marker = Some(Marker::start());
        } else if is_directory {
            let visit = &mut |visited: Visited<'_>| work.visit(visited);
            let next = self.visit_paths(address, continuation, left, visit)?;
            work.outcome.next_marker = next;
        }
        Ok((work.outcome, work.ticket))
    }
}

/// A recursive change of access control under way.
struct RecursiveChange<'a> {
    service: &'a BlobService,
    /// The path where it begins.
    address: &'a BlobAddress<'a>,
    change: &'a AclChange,
    /// The change for files, whose lists have no default entries.
    for_files: AclChange,
    goes_on: bool,
    outcome: AccessOutcome,
    /// Covers all changes so far.
    ticket: Option<Ticket>,
}

impl RecursiveChange<'_> {
    /// Changes the path where the change begins. Returns whether it is a directory.
    fn change_first(&mut self) -> Result<bool> {
        let (change, none) = (Some(self.change), Conditions::default());
        let set = self
            .service
            .set_access(self.address, None, None, change, &none);
        let (blob, ticket) = set?;
        self.ticket = Some(ticket);
        self.outcome.count(blob.is_directory());
        Ok(blob.is_directory())
    }

    fn visit(&mut self, visited: Visited<'_>) -> Result<Next> {
        match visited {
            Visited::Path(path, blob) => self.change(path, blob),
            Visited::Unlisted(directory) => {
                let reason =
                    "The caller may not list the directory: what is in it was not changed.";
                let path = match directory.trim_end_matches('/') {
                    "" => "/",
                    path => path,
                };
                Ok(self.fail(path, true, reason.to_string()))
            }
        }
    }

    /// Changes one path. `before` is its record when the page began.
    fn change(&mut self, path: &str, before: &Blob) -> Result<Next> {
        let is_directory = before.is_directory();
        let change = if is_directory {
            self.change
        } else {
            &self.for_files
        };
        let address = BlobAddress {
            blob: path,
            ..*self.address
        };
        let none = Conditions::default();
        match self
            .service
            .set_access(&address, None, None, Some(change), &none)
        {
            Ok((blob, ticket)) => {
                self.ticket = Some(ticket);
                self.outcome.count(is_directory);
                let directory = is_directory.then_some(blob);
                Ok(directory.map_or(Next::On, Next::Below))
            }
            // It was removed or renamed meanwhile.
            Err(Error::BlobNotFound) => Ok(Next::On),
            Err(error @ (Error::Engine(_) | Error::InternalError { .. })) => Err(error),
            // Reported once: when the walk comes to what is in it.
            Err(_)
                if self.goes_on
                    && is_directory
                    && check_listable(before, address.caller).is_err() =>
            {
                Ok(Next::On)
            }
            Err(error) => Ok(self.fail(path, is_directory, error.to_string())),
        }
    }

    fn fail(&mut self, path: &str, is_directory: bool, reason: String) -> Next {
        let failed = &mut self.outcome.failed;
        failed.push((path.to_string(), is_directory, reason));
        if self.goes_on { Next::On } else { Next::Stop }
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
