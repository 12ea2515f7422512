//! Path - Delete, and the removal of what was in a directory that is gone.
//!
//! Deleting a directory removes its row, in one step, whatever is below it: nothing leads there any
//! more. If the account retains deleted blobs, the row goes to the history, and undeleting it brings
//! everything back. Otherwise, or when the retention ends, a timer makes the sweep remove what is in
//! the directory, a few rows at a time; each directory among them sets a timer of its own.

use crate::access::{Caller, Rights};
use crate::codec;
use crate::conditions::{Conditions, WriteKind};
use crate::directory::stored_name;
use crate::error::{Error, Result};
use crate::keys::{self, Timer};
use crate::model::{Blob, BlobAddress};
use crate::operations::blob::{BlobDeletion, DeleteSnapshots};
use crate::operations::check_access;
use crate::operations::permit::{Action, check_allowed};
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use lazurite_engine::{Direction, KeyRange, Ticket};

impl BlobService {
    /// Deletes a file with its snapshots, or a directory. Without `recursive`, the directory must be
    /// empty; with it, it goes with all that is in it, at the same cost whatever that is. One
    /// exception: if any blob of the container ever had a policy or a hold, all below the directory
    /// is looked at first. Errors: invalid names; `NotHierarchical`; `ContainerNotFound`,
    /// `BlobNotFound`; `OperationNotSupportedOnDirectory` for the root; those of write conditions
    /// and leases; `DirectoryNotEmpty`; `AuthorizationPermissionMismatch`;
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`, `PendingCopyOperation`.
    pub fn delete_path(
        &self,
        address: &BlobAddress<'_>,
        recursive: bool,
        conditions: &Conditions,
    ) -> Result<(BlobDeletion, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_deletion(address)?;
        write.check_hierarchical()?;
        write.check(condition, conditions, WriteKind::Change)?;
        if !write.is_directory() {
            write.existing()?;
            let mut is_first = true;
            let permanent = loop {
                match write.delete_current(Some(DeleteSnapshots::Include), is_first)? {
                    Some(permanent) => break permanent,
                    None => write.commit_step()?,
                }
                is_first = false;
            };
            let deletion = BlobDeletion {
                permanent,
                deletion_id: write.deleted_at,
            };
            return Ok((deletion, write.commit()?));
        }
        if let Some(caller) = address.caller.filter(|caller| !caller.has_all_rights) {
            write.check_rights_below(caller)?;
        }
        write.remove_directory(recursive)?;
        let deletion = BlobDeletion {
            permanent: write.deleted_at.is_none(),
            deletion_id: write.deleted_at,
        };
        Ok((deletion, write.commit()?))
    }
}

impl BlobWrite<'_> {
    /// Removes the current directory: its row only. Errors: as [`BlobService::delete_path`].
    pub(crate) fn remove_directory(&mut self, recursive: bool) -> Result<()> {
        let directory = self.existing()?;
        let id = directory.directory().ok_or(Error::BlobNotFound)?;
        if id == crate::directory::ROOT {
            return Err(Error::OperationNotSupportedOnDirectory);
        }
        if !recursive {
            self.check_empty_directory(id)?;
        } else if self.service.may_hold_protected(self.home())? {
            self.check_unprotected_below()?;
        }
        let permit = self.retire(RetireReason::Deleted)?;
        self.remove(&permit);
        self.end_current();
        self.moves_directory = true;
        Ok(())
    }

    /// Fails if something is in the directory. The caller has locked the directory's row.
    pub(crate) fn check_empty_directory(&self, id: u128) -> Result<()> {
        let snapshot = self.service.db.snapshot();
        let range = KeyRange::prefix(&keys::blob_name_start(self.home(), &stored_name(id, "")));
        let blobs = &self.service.keyspaces.blobs;
        let mut rows = snapshot.scan(blobs, range, Direction::Forward);
        while rows.advance()? {
            let blob = codec::decode_blob(&rows.value()?, self.home())?;
            if !blob.is_expired(self.now) {
                return Err(Error::DirectoryNotEmpty);
            }
        }
        Ok(())
    }

    /// Fails if a record below the directory is protected.
    pub(super) fn check_unprotected_below(&self) -> Result<()> {
        let directory = self.existing()?;
        self.check_below(directory, |_, blob| {
            check_allowed(Action::Remove, blob, self.now, false)
        })
    }

    /// Fails unless the caller may list and change every directory from the current one on, and
    /// delete what is in those with the sticky bit. Source: Access control lists in Azure Data Lake
    /// Storage, "Common scenarios related to ACL permissions", "Sticky bit".
    fn check_rights_below(&self, caller: &Caller) -> Result<()> {
        let all = Rights::READ.and(Rights::WRITE).and(Rights::EXECUTE);
        let owns = |blob: &Blob| {
            let access = blob.access.as_ref();
            access.is_none_or(|access| access.is_owned_by(caller))
        };
        let is_sticky = |blob: &Blob| blob.access.as_ref().is_some_and(|access| access.sticky);
        let check = |above: Option<&Blob>, blob: &Blob| {
            if above.is_some_and(|above| is_sticky(above) && !owns(above) && !owns(blob)) {
                return Err(Error::AuthorizationPermissionMismatch);
            }
            match blob.is_directory() {
                true => check_access(blob, Some(caller), all),
                false => Ok(()),
            }
        };
        let directory = self.existing()?;
        check(None, &directory)?;
        self.check_below(directory, |above, blob| check(Some(above), blob))
    }

    /// Checks all that is below a directory, each with the directory that it is in. Memory is
    /// bounded by the number of directories.
    fn check_below(
        &self,
        directory: Box<Blob>,
        check: impl Fn(&Blob, &Blob) -> Result<()>,
    ) -> Result<()> {
        let snapshot = self.service.db.snapshot();
        let blobs = &self.service.keyspaces.blobs;
        let mut left = vec![directory];
        while let Some(above) = left.pop() {
            let Some(id) = above.directory() else {
                continue;
            };
            let range = KeyRange::prefix(&keys::blob_name_start(self.home(), &stored_name(id, "")));
            let mut rows = snapshot.scan(blobs, range, Direction::Forward);
            while rows.advance()? {
                let blob = codec::decode_blob(&rows.value()?, self.home())?;
                check(&above, &blob)?;
                if blob.is_directory() {
                    left.push(blob);
                }
            }
        }
        Ok(())
    }

    /// Notes that what is in a directory is to be removed: its record is gone for good.
    pub(crate) fn remove_below_later(&mut self, gone: &Blob) {
        if let Some(id) = gone.directory() {
            let start = keys::blob_name_start(self.home(), &stored_name(id, ""));
            self.set_timer(self.now, Timer::Directory, &start);
        }
    }
}
