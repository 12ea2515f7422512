//! Operations on blobs of any type.

use super::BlobWrite;
use crate::BlobService;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::download::{ByteRange, Download};
use crate::error::{Error, Result};
use crate::model::{Blob, BlobAddress, BlobHeaders, BlobRecord, Metadata, Written};
use crate::names;
use lazurite_engine::{Batch, Ticket};
use std::time::SystemTime;

impl BlobService {
    /// The blob and its content, or a range of it, as they are now and whatever is written afterwards.
    /// Errors: of the names; `ContainerNotFound`, `BlobNotFound`; those of the conditions of a read; `InvalidRange`.
    pub fn get_blob(
        &self,
        address: &BlobAddress<'_>,
        range: Option<ByteRange>,
        conditions: &Conditions,
    ) -> Result<Download> {
        let (snapshot, container_id, blob) = self.find_committed(address)?;
        conditions.check_read(Validators::from(&blob))?;
        Download::open(&self.keyspaces, snapshot, container_id, blob, range)
    }

    /// The blob without its content. Serves Get Blob Properties and Get Blob Metadata.
    /// Errors: as [`BlobService::get_blob`].
    pub fn get_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
    ) -> Result<Blob> {
        let (_, _, blob) = self.find_committed(address)?;
        conditions.check_read(Validators::from(&blob))?;
        Ok(blob)
    }

    /// Replaces all the headers of the blob: those that are `None` are cleared.
    /// Errors: of the names; `ContainerNotFound`, `BlobNotFound`; those of the conditions of a write.
    pub fn set_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        headers: BlobHeaders,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        self.change_blob(address, conditions, now, |blob| blob.headers = headers)
    }

    /// Replaces the blob's metadata.
    /// Errors: of the metadata; as [`BlobService::set_blob_properties`].
    pub fn set_blob_metadata(
        &self,
        address: &BlobAddress<'_>,
        metadata: Metadata,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        names::check_metadata(&metadata)?;
        self.change_blob(address, conditions, now, |blob| blob.metadata = metadata)
    }

    /// Deletes the blob with its uncommitted blocks. Readers that have begun read on.
    /// Errors: as [`BlobService::set_blob_properties`].
    pub fn delete_blob(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
    ) -> Result<Ticket> {
        let condition = conditions.for_write()?;
        let write = self.begin_write(address)?;
        write.check(condition, WriteKind::Change)?;
        let mut batch = Batch::new();
        batch.delete(&self.keyspaces.blobs, &write.key);
        write.discard_blocks(&mut batch)?;
        write.discard_whole(&mut batch);
        write.commit(batch)
    }

    fn change_blob(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
        now: SystemTime,
        change: impl FnOnce(&mut Blob),
    ) -> Result<(Written, Ticket)> {
        let condition = conditions.for_write()?;
        let write = self.begin_write(address)?;
        write.check(condition, WriteKind::Change)?;
        let mut blob = write.committed().ok_or(Error::BlobNotFound)?.clone();
        let written = self.stamp(now, write.validators());
        blob.etag = written.etag;
        blob.last_modified = written.last_modified;
        change(&mut blob);
        let mut batch = Batch::new();
        write.put_record(&mut batch, &BlobRecord::Committed(blob));
        Ok((written, BlobWrite::commit(write, batch)?))
    }
}
