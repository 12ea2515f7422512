//! Path - Update, `action=setProperties`: headers and metadata of a file or directory.

use crate::conditions::Conditions;
use crate::error::Result;
use crate::model::{BlobAddress, BlobHeaders, Metadata, Written};
use crate::service::BlobService;
use lazurite_engine::Ticket;

impl BlobService {
    /// Replaces those headers of a path that are given, and its metadata if some is given, in one
    /// step. Errors: `NotHierarchical`; as [`BlobService::set_blob_properties`] and
    /// [`BlobService::set_blob_metadata`].
    pub fn set_path_properties(
        &self,
        address: &BlobAddress<'_>,
        headers: &BlobHeaders,
        metadata: Option<Metadata>,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let write = self.begin_change(address, None, conditions)?;
        write.check_hierarchical()?;
        let (permit, mut blob) = write.changeable()?;
        let brought = write.brought(conditions.customer_key.as_ref(), conditions)?;
        if !write.is_directory() {
            brought.check(&blob.encryption)?;
        }
        let sets_headers = *headers != BlobHeaders::default();
        if !sets_headers && metadata.is_none() {
            return Ok((blob.written(), write.commit()?));
        }
        if sets_headers {
            blob.headers.replace_with(headers);
            blob.copy = blob.copy.filter(|copy| copy.incremental.is_some());
        }
        blob.metadata = metadata.unwrap_or(blob.metadata);
        write.commit_changed(&permit, blob)
    }
}
