//! Incremental copies of page blobs within the server: each copies a later snapshot of the source.

use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::keys::History;
use crate::model::{Blob, BlobAddress, BlobState, BlobType, CopyState, CopyStatus};
use crate::operations::copy::{CopyOutcome, check_needs_no_key};
use crate::operations::new_blob::NewBlob;
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::Ticket;

impl BlobService {
    /// Incremental Copy Blob within the server: the destination gets the content of a snapshot of a
    /// page blob, and then a snapshot of the destination is made. The content is shared. Errors: as
    /// [`BlobService::copy_blob`]; `IncrementalCopySourceMustBeSnapshot`, `InvalidSourceBlobType`,
    /// `IncrementalCopyBlobMismatch`, `IncrementalCopyOfEarlierSnapshotNotAllowed`.
    pub fn incremental_copy_blob(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        source_url: String,
        conditions: &Conditions,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = conditions.for_write()?;
        let BlobState::Snapshot(copied) = source.state else {
            return Err(Error::IncrementalCopySourceMustBeSnapshot);
        };
        let [mut from, mut to] = self.begin_two_writes(source, destination)?;
        let (place, found) = from.find(source.state)?;
        if found.blob_type() != BlobType::PageBlob {
            return Err(Error::InvalidSourceBlobType);
        }
        check_needs_no_key(&found)?;
        to.check(condition, conditions, WriteKind::Create)?;
        to.check_increment(&found, copied)?;
        let brought = to.brought(None, conditions)?;
        let found = to.share_source(&mut from, place, found)?;
        to.name_layers(&found);
        let permit = to.retire(RetireReason::Overwritten)?;
        let mut blob = to.new_blob(NewBlob::copy_of(&found, brought.encryption))?;
        let copy_id = self.new_guid();
        let moment = to.new_moment()?;
        blob.replaced_at = found.replaced_at;
        blob.copy = Some(CopyState {
            incremental: Some(copied),
            destination_snapshot: Some(moment),
            ..CopyState::completed(copy_id, source_url, found.length, to.now)
        });
        to.name_layers(&blob);
        to.put_snapshot(&blob, moment)?;
        to.put(&permit, &blob);
        let outcome = CopyOutcome::new(&blob, copy_id, CopyStatus::Success);
        Ok((outcome, to.commit()?))
    }
}

impl BlobWrite<'_> {
    /// Checks the destination: it must be missing, or a copy of an earlier snapshot of the same
    /// blob.
    fn check_increment(&self, source: &Blob, copied: SnapshotTime) -> Result<()> {
        let Some(blob) = self.current() else {
            return Ok(());
        };
        let last = blob.copy.as_ref().and_then(|copy| copy.incremental);
        let last = last.filter(|_| blob.replaced_at == source.replaced_at);
        match last {
            None => Err(Error::IncrementalCopyBlobMismatch),
            Some(last) if copied <= last => Err(Error::IncrementalCopyOfEarlierSnapshotNotAllowed),
            Some(_) => Ok(()),
        }
    }

    fn put_snapshot(&mut self, blob: &Blob, moment: SnapshotTime) -> Result<()> {
        let snapshot = Blob {
            snapshot: Some(moment),
            lease: Default::default(),
            staging: None,
            ..blob.clone()
        };
        let place = RecordSlot::Past(History::Snapshot, moment);
        let permit = self.permit(Action::Add, place, None)?;
        self.put(&permit, &snapshot);
        Ok(())
    }
}
