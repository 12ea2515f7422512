//! Path - Create: files and directories of a hierarchical container.

use crate::access::{AccessControl, Caller, NewAccess};
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::lease::{LeaseAction, LeaseDuration};
use crate::listing::PathKind;
use crate::model::{Blob, BlobAddress, BlobHeaders, Content, Encryption, Metadata, Written};
use crate::operations::Expiry;
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::path::{Purpose, new_directory};
use crate::operations::path_write::check_owner;
use crate::operations::permit::Action;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use lazurite_engine::Ticket;

/// The request of Path - Create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePath {
    /// File or directory.
    pub kind: PathKind,
    /// Headers of the path.
    pub headers: BlobHeaders,
    /// Metadata of the path: `x-ms-properties`.
    pub metadata: Metadata,
    /// Owner, group and rights of the path. A path that exists keeps those that the request does
    /// not name.
    pub access: NewAccess,
    /// Whether the credentials cover a change of the rights of a path that exists: a SAS needs the
    /// letter `p`.
    pub may_set_rights: bool,
    /// The lease that the path has from the start: its id and its length.
    pub lease: Option<(Guid, LeaseDuration)>,
    /// When the file expires.
    pub expiry: Option<Expiry>,
    /// `x-ms-encryption-context`.
    pub encryption_context: Option<String>,
    /// Conditions on the path that is there.
    pub conditions: Conditions,
}

impl CreatePath {
    /// The request for a path with nothing but defaults. It may not change the rights of a path that
    /// exists.
    pub fn of(kind: PathKind) -> CreatePath {
        CreatePath {
            kind,
            headers: BlobHeaders::default(),
            metadata: Metadata::default(),
            access: NewAccess::default(),
            may_set_rights: false,
            lease: None,
            expiry: None,
            encryption_context: None,
            conditions: Conditions::default(),
        }
    }
}

impl BlobService {
    /// Makes a directory, or an empty file in place of any file that has the name; makes the
    /// directories on the way. A directory that is there keeps what is in it. Errors: invalid names;
    /// `NotHierarchical`; `ContainerNotFound`; `PathConflict` if an element of the path is of the
    /// other kind; those of write conditions and leases, `BlobAlreadyExists` for
    /// `If-None-Match: *`; `AuthorizationPermissionMismatch`; `InvalidInput` for a wrong list of
    /// entries, or the expiry of a directory; `PendingCopyOperation`, `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`; those of keys and scopes.
    pub fn create_path(
        &self,
        address: &BlobAddress<'_>,
        request: CreatePath,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        let mut write = self.begin_path_write(address, Purpose::WriteAny)?;
        write.check_hierarchical()?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        let is_directory = request.kind == PathKind::Directory;
        if write.current().is_some() && write.is_directory() != is_directory {
            return Err(Error::PathConflict);
        }
        let access = match write.current() {
            Some(current) => write.access_again(current, &request, address.caller)?,
            None => write.access_of_new(is_directory, &request.access, address.caller)?,
        };
        let (lease, expiry) = (request.lease, request.expiry);
        let mut blob = match request.kind {
            PathKind::Directory if expiry.is_some() => {
                return Err(Error::InvalidInput {
                    reason: "a directory does not expire",
                });
            }
            PathKind::Directory => write.made_directory(request, access),
            PathKind::File => write.made_file(request, access)?,
        };
        if let Some((id, duration)) = lease {
            let acquire = LeaseAction::Acquire {
                duration,
                proposed: Some(id),
            };
            blob.lease.apply(acquire, write.now, || id)?;
        }
        if let Some(expiry) = expiry {
            blob.expires_at = expiry.time(&blob, write.now)?;
            write.set_expiry_timer(&blob);
        }
        let permit = write.permit_current(Action::Replace)?;
        write.put(&permit, &blob);
        Ok((blob.written(), write.commit()?))
    }
}

impl BlobWrite<'_> {
    /// Error: `NotHierarchical`.
    pub(crate) fn check_hierarchical(&self) -> Result<()> {
        match self.container.hierarchical {
            true => Ok(()),
            false => Err(Error::NotHierarchical),
        }
    }

    /// The access control of a path that does not exist yet. Error:
    /// `AuthorizationPermissionMismatch` for an owner or a group that the caller may not set.
    fn access_of_new(
        &self,
        is_directory: bool,
        new: &NewAccess,
        caller: Option<&Caller>,
    ) -> Result<Option<Box<AccessControl>>> {
        let unasked = NewAccess {
            owner: None,
            group: None,
            ..new.clone()
        };
        if let (Some(caller), Some(own)) = (caller, self.new_access(is_directory, &unasked)?) {
            check_new_owner(&own, caller, new)?;
        }
        self.new_access(is_directory, new)
    }

    /// The access control of a path that exists and is written again. It keeps its owner and its
    /// group unless the request names others. If the request names rights, they replace the rights
    /// as for a new path. Error: `AuthorizationPermissionMismatch` unless the caller may set them,
    /// which a right to write does not include.
    fn access_again(
        &self,
        current: &Blob,
        request: &CreatePath,
        caller: Option<&Caller>,
    ) -> Result<Option<Box<AccessControl>>> {
        let is_directory = current.is_directory();
        let new = &request.access.of_existing(is_directory);
        let names_any = *new != NewAccess::default();
        let Some(access) = current.access.as_ref().filter(|_| names_any) else {
            return Ok(current.access.clone());
        };
        if new.names_rights() && !request.may_set_rights {
            return Err(Error::AuthorizationPermissionMismatch);
        }
        if let Some(caller) = caller.filter(|caller| !caller.has_all_rights) {
            check_owner(current, caller)?;
            check_new_owner(access, caller, new)?;
        }
        let mut again = access.clone();
        if new.names_rights() {
            again = self.new_access(is_directory, new)?.unwrap_or(again);
        }
        if new.permissions.is_none() {
            again.sticky = access.sticky;
        }
        again.owner = new.owner.clone().unwrap_or_else(|| access.owner.clone());
        again.group = new.group.clone().unwrap_or_else(|| access.group.clone());
        Ok(Some(again))
    }

    fn made_directory(&self, request: CreatePath, access: Option<Box<AccessControl>>) -> Box<Blob> {
        let written = self.service.stamp(self.now, self.validators());
        let id = self.current().and_then(Blob::directory);
        let access = access.map_or_else(AccessControl::of_root, |access| *access);
        let id = id.unwrap_or_else(|| self.service.ids.next_id());
        let mut blob = new_directory(&self.container, id, written, access);
        blob.metadata = request.metadata;
        blob.headers = request.headers;
        if let Some(current) = self.current() {
            blob.created_at = current.created_at;
            blob.lease = current.lease.after_write(self.now);
        }
        blob
    }

    fn made_file(
        &mut self,
        request: CreatePath,
        access: Option<Box<AccessControl>>,
    ) -> Result<Box<Blob>> {
        let key = request.conditions.customer_key.as_ref();
        let brought = self.brought(key, &request.conditions)?;
        let _ = self.retire(RetireReason::Overwritten)?;
        let encryption: Encryption = brought.encryption;
        let mut blob = self.new_blob(NewBlob {
            content: Content::Blocks { count: 0 },
            layers: Vec::new(),
            length: 0,
            headers: request.headers,
            metadata: request.metadata,
            settings: BlobSettings::default(),
            encryption,
        })?;
        blob.access = access;
        blob.encryption_context = request.encryption_context;
        Ok(blob)
    }
}

/// Fails unless the caller may give a path with this access control the owner and the group of the
/// request.
fn check_new_owner(access: &AccessControl, caller: &Caller, new: &NewAccess) -> Result<()> {
    let (owner, group) = (new.owner.as_ref(), new.group.as_ref());
    if caller.has_all_rights || access.may_belong_to(caller, owner, group) {
        return Ok(());
    }
    Err(Error::AuthorizationPermissionMismatch)
}
