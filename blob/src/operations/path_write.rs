//! A write that goes to a path: its checks of kind and rights, and the directories that it makes on
//! its way.

use crate::access::{AccessControl, Caller, NewAccess, Rights};
use crate::directory::{self, stored_name};
use crate::error::{Error, Result};
use crate::keys;
use crate::model::Blob;
use crate::operations::path::{Path, Purpose, check_access, new_directory, root_of};
use crate::operations::write::BlobWrite;

/// Fails unless the caller owns the path.
pub(crate) fn check_owner(blob: &Blob, caller: &Caller) -> Result<()> {
    match &blob.access {
        Some(access) if !access.is_owned_by(caller) => Err(Error::AuthorizationPermissionMismatch),
        _ => Ok(()),
    }
}

impl BlobWrite<'_> {
    /// Takes the path of the write. Checks that it may be written to for this purpose, by this
    /// caller. Errors: `OperationNotSupportedOnDirectory`, `AuthorizationPermissionMismatch`.
    pub(crate) fn enter(
        &mut self,
        path: Path,
        purpose: Purpose,
        caller: Option<&Caller>,
    ) -> Result<()> {
        if !path.is_hierarchical {
            return Ok(());
        }
        // The hosted service keeps no versions in a hierarchical namespace.
        self.policy.versioning = false;
        self.owner = caller.map(|caller| caller.id.clone());
        if self.current().is_none() && directory::is_root(&self.name) {
            self.set_current(root_of(&self.container));
        }
        self.path = path;
        self.check_length(purpose)?;
        if matches!(purpose, Purpose::Read | Purpose::Write) && self.is_directory() {
            return Err(Error::OperationNotSupportedOnDirectory);
        }
        match caller.filter(|caller| !caller.has_all_rights) {
            Some(caller) => self.check_rights(purpose, caller),
            None => Ok(()),
        }
    }

    /// Fails if the write would make a path that is too long. Error: `OutOfRangeInput`.
    fn check_length(&self, purpose: Purpose) -> Result<()> {
        let makes = match purpose {
            Purpose::Replace => true,
            Purpose::Write | Purpose::WriteAny => self.current().is_none(),
            Purpose::Read | Purpose::Remove | Purpose::SetAccess | Purpose::Restore => false,
        };
        match self.path.too_long {
            Some(reason) if makes => Err(Error::OutOfRangeInput { reason }),
            _ => Ok(()),
        }
    }

    /// Whether a directory has the name.
    pub(crate) fn is_directory(&self) -> bool {
        self.current().is_some_and(Blob::is_directory)
    }

    fn check_rights(&self, purpose: Purpose, caller: &Caller) -> Result<()> {
        let in_parent = || {
            let changes = Rights::WRITE.and(Rights::EXECUTE);
            check_access(&*self.parent()?, Some(caller), changes)
        };
        match (purpose, self.current()) {
            (Purpose::Read, Some(blob)) => check_access(blob, Some(caller), Rights::READ),
            (Purpose::Write | Purpose::WriteAny | Purpose::Restore, Some(blob)) => {
                check_access(blob, Some(caller), Rights::WRITE)
            }
            (Purpose::Write | Purpose::WriteAny | Purpose::Restore | Purpose::Replace, None) => {
                in_parent()
            }
            (Purpose::Remove | Purpose::Replace, Some(blob)) => {
                in_parent()?;
                let owns = |blob: &Blob| {
                    let access = blob.access.as_ref();
                    access.is_some_and(|access| access.is_owned_by(caller))
                };
                let parent = self.parent()?;
                let is_sticky = parent.access.as_ref().is_some_and(|access| access.sticky);
                match is_sticky && !owns(blob) && !owns(&parent) {
                    true => Err(Error::AuthorizationPermissionMismatch),
                    false => Ok(()),
                }
            }
            (Purpose::SetAccess, Some(blob)) => check_owner(blob, caller),
            (Purpose::Read | Purpose::Remove | Purpose::SetAccess, None) => Ok(()),
        }
    }

    /// The last directory on the path that exists: the parent, unless it is missing.
    fn parent(&self) -> Result<Box<Blob>> {
        match &self.path.parent {
            Some(directory) => Ok(directory.blob.clone()),
            None => self.service.root(&self.service.db, &self.container),
        }
    }

    /// The access control of a new file or directory; `None` in a container without hierarchy.
    pub(crate) fn new_access(
        &self,
        is_directory: bool,
        new: &NewAccess,
    ) -> Result<Option<Box<AccessControl>>> {
        if !self.container.hierarchical {
            return Ok(None);
        }
        let parent = match self.new_directories()?.pop() {
            Some((_, parent)) => parent,
            None => self.parent()?,
        };
        let parent = parent
            .access
            .unwrap_or_else(|| Box::new(AccessControl::of_root()));
        let new = NewAccess {
            owner: new.owner.clone().or_else(|| self.owner.clone()),
            ..new.clone()
        };
        AccessControl::of_new(&parent, is_directory, &new).map(|access| Some(Box::new(access)))
    }

    /// The rows of the directories that the write makes on its way, with their keys.
    fn new_directories(&self) -> Result<Vec<(Vec<u8>, Box<Blob>)>> {
        let mut made: Vec<(Vec<u8>, Box<Blob>)> = Vec::new();
        if !self.path.lacks_parent() {
            return Ok(made);
        }
        let mut above = self.parent()?;
        let mut parent = above.directory().unwrap_or(directory::ROOT);
        let new = NewAccess {
            owner: self.owner.clone(),
            ..NewAccess::default()
        };
        for (id, segment) in &self.path.missing {
            let access = above
                .access
                .as_deref()
                .cloned()
                .unwrap_or_else(AccessControl::of_root);
            let access = AccessControl::of_new(&access, true, &new)?;
            let written = self.service.stamp(self.now, None);
            above = new_directory(&self.container, *id, written, access);
            let key = keys::blob(self.home(), &stored_name(parent, segment));
            made.push((key, above.clone()));
            parent = *id;
        }
        Ok(made)
    }

    /// Adds to the batch the directories that the write makes on its way, unless it does nothing.
    pub(crate) fn put_new_directories(&mut self) -> Result<()> {
        if !self.path.lacks_parent() || self.transaction.batch().is_empty() {
            return Ok(());
        }
        for (key, blob) in self.new_directories()? {
            let value = crate::codec::encode_blob(&blob, self.home());
            let blobs = &self.service.keyspaces.blobs;
            self.transaction.batch().put(blobs, &key, &value);
        }
        self.path.missing.clear();
        Ok(())
    }
}
