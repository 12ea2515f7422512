//! Files of a hierarchical container: data appended at a position, and the flush that makes it the
//! file's content.

use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::model::{BlobAddress, BlobHeaders, Written};
use crate::operations::PutBlockOutcome;
use crate::service::BlobService;
use crate::upload::Upload;
use lazurite_engine::Ticket;

/// The request of Path - Update, `action=flush`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlushData {
    /// `position`: the length of the file after the flush.
    pub position: u64,
    /// `retainUncommittedData`: whether data after the position stays, to be flushed later.
    pub retain_uncommitted: bool,
    /// Headers of the file that replace those before; an absent one stays as it is.
    pub headers: BlobHeaders,
    /// Conditions on the file.
    pub conditions: Conditions,
}

impl BlobService {
    pub fn append_data(
        &self,
        address: &BlobAddress<'_>,
        position: u64,
        upload: Upload,
        conditions: &Conditions,
    ) -> Result<(PutBlockOutcome, Ticket)> {
        let _ = (address, position, upload, conditions);
        Err(Error::NotHierarchical)
    }

    pub fn flush_data(
        &self,
        address: &BlobAddress<'_>,
        request: &FlushData,
    ) -> Result<(Written, Ticket)> {
        let _ = (address, request);
        Err(Error::NotHierarchical)
    }
}
