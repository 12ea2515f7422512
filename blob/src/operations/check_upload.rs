//! The checks of an upload before its body arrives.

use crate::conditions::{Conditions, WriteKind};
use crate::error::Result;
use crate::model::{BlobAddress, BlobType};
use crate::operations::append_blob::unsealed;
use crate::operations::checks::check_may_create;
use crate::operations::permit::Action;
use crate::service::BlobService;
use crate::upload::UploadKind;

impl BlobService {
    /// Runs the checks of an upload that need no body, for a server that refuses a request before
    /// it asks for the body. The operation checks again. [`UploadKind::PutBlob`] serves Put Block
    /// List as well. Blocks like the operation, and has its errors.
    pub fn check_upload(
        &self,
        address: &BlobAddress<'_>,
        kind: UploadKind,
        conditions: &Conditions,
    ) -> Result<()> {
        let condition = conditions.for_write()?;
        let write = self.begin_write(address)?;
        match kind {
            UploadKind::PutBlob => {
                write.check(condition, conditions, WriteKind::Create)?;
                let _ = write.permit_current(Action::Replace)?;
            }
            UploadKind::PutBlock => {
                write.check_type(BlobType::BlockBlob)?;
                check_may_create(conditions, write.current())?;
                write.check_lease(conditions.lease_id)?;
                write.check_online()?;
            }
            UploadKind::AppendBlock => {
                write.check_type(BlobType::AppendBlob)?;
                write.check(condition, conditions, WriteKind::Change)?;
                let (_permit, blob) = write.changeable()?;
                unsealed(&blob)?;
            }
            UploadKind::PutPage { .. } => {
                write.check_type(BlobType::PageBlob)?;
                write.check(condition, conditions, WriteKind::Change)?;
                let _ = write.changeable_pages()?;
            }
        }
        Ok(())
    }
}
