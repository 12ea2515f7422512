//! Paths.

use crate::access::NewAccess;
use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::lease::LeaseDuration;
use crate::listing::PathKind;
use crate::model::{BlobAddress, BlobHeaders, Metadata, Written};
use crate::operations::{Expiry, BlobDeletion};
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
    /// Owner, group and rights.
    pub access: NewAccess,
    /// The lease that the path has from the start.
    pub lease: Option<(Guid, LeaseDuration)>,
    /// When the file expires.
    pub expiry: Option<Expiry>,
    /// `x-ms-encryption-context`.
    pub encryption_context: Option<String>,
    /// Conditions on the path that is there.
    pub conditions: Conditions,
}

impl BlobService {
    pub fn create_path(
        &self,
        address: &BlobAddress<'_>,
        request: CreatePath,
    ) -> Result<(Written, Ticket)> {
        let _ = (address, request);
        Err(Error::NotHierarchical)
    }

    /// `recursive`: `None` if the request does not say, which is an error for a directory.
    pub fn delete_path(
        &self,
        address: &BlobAddress<'_>,
        recursive: bool,
        conditions: &Conditions,
    ) -> Result<(BlobDeletion, Ticket)> {
        let _ = (address, recursive, conditions);
        Err(Error::NotHierarchical)
    }
}
