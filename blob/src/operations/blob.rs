//! Operations on blobs of any type.

use crate::conditions::{Conditions, Validators, WriteCondition, WriteKind};
use crate::download::{ByteRange, Download};
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::etag::whole_seconds;
use crate::keys::History;
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobState, Metadata, PreviousState, Tags, Written,
};
use crate::operations::BlobRead;
use crate::operations::history::{FIRST, HISTORY_STEP};
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::permit::check_online;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::Ticket;
use std::time::SystemTime;

/// The request of Delete Blob.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteBlob {
    /// `x-ms-delete-snapshots`; without it a blob with snapshots is not deleted.
    pub snapshots: Option<DeleteSnapshots>,
    /// `deletetype=permanent`: for a snapshot or version that is deleted already.
    pub permanent: bool,
    /// Conditions on the blob to delete.
    pub conditions: Conditions,
    /// Conditions on the time at which the tier changed.
    pub tier_changed: TierChanged,
}

/// Conditions on the last change of a blob's tier, or on its creation if there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierChanged {
    /// `x-ms-access-tier-if-modified-since`.
    pub since: Option<SystemTime>,
    /// `x-ms-access-tier-if-unmodified-since`.
    pub not_since: Option<SystemTime>,
}

impl TierChanged {
    fn check(&self, blob: &Blob, now: SystemTime) -> Result<()> {
        let changed = whole_seconds(blob.tiering.changed_at(now).unwrap_or(blob.created_at));
        let late = self.since.is_none_or(|date| changed > date);
        let early = self.not_since.is_none_or(|date| changed <= date);
        if late && early {
            Ok(())
        } else {
            Err(Error::AccessTierChangeTimeConditionNotMet)
        }
    }
}

/// The effect of a deletion on the blob's snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteSnapshots {
    /// The snapshots are deleted with the blob.
    Include,
    /// The snapshots are deleted, and the blob is not.
    Only,
}

/// The result of Delete Blob: `x-ms-delete-type-permanent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobDeletion {
    /// `false` if the blob can be restored.
    pub permanent: bool,
    /// What was deleted last, if it can be restored: `x-ms-deletion-id`.
    pub deletion_id: Option<SnapshotTime>,
}

impl BlobService {
    /// Returns the blob and its content, or a range of it, from a snapshot: later writes do not
    /// change the result. Errors: invalid names; `ContainerNotFound`, `BlobNotFound`; those of read
    /// conditions; a lease id that does not match; `BlobArchived`, `BlobBeingRehydrated`;
    /// `BlobUsesCustomerSpecifiedEncryption`, `BlobDoesNotUseCustomerSpecifiedEncryption`,
    /// `BlobCustomerSpecifiedEncryptionMismatch`; `InvalidRange`.
    pub fn get_blob(
        &self,
        address: &BlobAddress<'_>,
        range: Option<ByteRange>,
        conditions: &Conditions,
    ) -> Result<Download> {
        let BlobRead {
            snapshot,
            blob,
            now,
            ..
        } = self.find_content(address, conditions)?;
        check_online(&blob, now)?;
        let key = conditions.customer_key;
        if !blob.is_directory() {
            blob.encryption.check(key.as_ref())?;
        }
        Download::open(&self.keyspaces, snapshot, blob, range, key)
    }

    /// Returns the blob without its content. Serves Get Blob Properties and Get Blob Metadata.
    /// Errors: as [`BlobService::get_blob`], except those about the archive tier.
    pub fn get_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
    ) -> Result<Box<Blob>> {
        let blob = self.find_for_read(address, conditions)?.blob;
        if !blob.is_directory() {
            // A directory has no content to encrypt, whatever key it was made with.
            blob.encryption.check(conditions.customer_key.as_ref())?;
        }
        Ok(blob)
    }

    /// Replaces all headers of the blob; `None` clears a header. Errors: invalid names;
    /// `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`; those of
    /// write conditions and leases; `PendingCopyOperation`, `BlobArchived`, `BlobBeingRehydrated`,
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`.
    pub fn set_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        headers: BlobHeaders,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let write = self.begin_change(address, None, conditions)?;
        let (permit, mut blob) = write.changeable()?;
        blob.headers = headers;
        blob.copy = blob.copy.filter(|copy| copy.incremental.is_some());
        write.commit_changed(&permit, blob)
    }

    /// Replaces the blob's metadata. Makes a version if the account keeps versions. Errors: as
    /// [`BlobService::set_blob_properties`]; `BlobUsesCustomerSpecifiedEncryption` and similar
    /// ones, `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn set_blob_metadata(
        &self,
        address: &BlobAddress<'_>,
        metadata: Metadata,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        let write = self.begin_change(address, None, conditions)?;
        let brought = write.brought(conditions.customer_key.as_ref(), conditions)?;
        if !write.is_directory() {
            brought.check(&write.existing()?.encryption)?;
        }
        if write.keeps_versions() {
            return self.set_metadata_of_new_version(write, metadata);
        }
        let (permit, mut blob) = write.changeable()?;
        blob.metadata = metadata;
        write.commit_changed(&permit, blob)
    }

    /// Makes a new version with this metadata. The blob before the change becomes an older version.
    fn set_metadata_of_new_version(
        &self,
        mut write: BlobWrite<'_>,
        metadata: Metadata,
    ) -> Result<(Written, Ticket)> {
        let permit = write.permit_current(Action::Replace)?;
        write.share_layers(|_| true);
        let mut blob = write.existing()?;
        write.retire_blob(RetireReason::Overwritten)?;
        blob.metadata = metadata;
        let written = write.touch(&mut blob);
        blob.version = write.new_version(written)?;
        // The new version inherits neither policy nor hold.
        (blob.immutability, blob.legal_hold) = (None, false);
        write.put(&permit, &blob);
        Ok((blob.written(), write.commit()?))
    }

    /// Deletes the blob with its uncommitted blocks, or a snapshot or version of it. Running reads
    /// are not affected. What was deleted can be undeleted while the account retains it. Errors:
    /// invalid names; `ContainerNotFound`, `BlobNotFound`; those of write conditions and leases;
    /// `AccessTierChangeTimeConditionNotMet`; `SnapshotsPresent`; `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`, `PendingCopyOperation`; `OperationNotAllowedOnRootBlob` for
    /// the version that is current; `InvalidOperation` for `snapshots` with a snapshot or version,
    /// and for `permanent` without one or where the account does not allow it.
    pub fn delete_blob(
        &self,
        address: &BlobAddress<'_>,
        request: &DeleteBlob,
    ) -> Result<(BlobDeletion, Ticket)> {
        let deleted = self.delete_in_steps(address, request, u32::MAX)?;
        deleted.ok_or_else(corrupt_record)
    }

    /// Like [`BlobService::delete_blob`], in at most `steps_max` steps; `None` if snapshots are
    /// left. Each step is a batch of bounded size. The locks are held over all steps, so a refused
    /// deletion has deleted nothing. A deletion that is interrupted by a kill was not acknowledged;
    /// deleting again completes it.
    pub(super) fn delete_in_steps(
        &self,
        address: &BlobAddress<'_>,
        request: &DeleteBlob,
        steps_max: u32,
    ) -> Result<Option<(BlobDeletion, Ticket)>> {
        let _long = request.snapshots.map(|_| self.begin_long_operation());
        let condition = request.conditions.for_write()?;
        let mut write = self.begin_deletion(address)?;
        let permanent = if request.permanent {
            write.delete_permanently(address.state, condition, request)?;
            true
        } else if address.state != BlobState::Current {
            let (place, blob) = write.find_for_change(address.state, condition)?;
            request.conditions.check_tags(&blob.tags)?;
            request.tier_changed.check(&blob, write.now)?;
            write.delete_past(place, blob, request.snapshots)?
        } else {
            write.check(condition, &request.conditions, WriteKind::Change)?;
            request.tier_changed.check(&*write.existing()?, write.now)?;
            let mut steps = 0;
            loop {
                match write.delete_current(request.snapshots, steps == 0)? {
                    Some(permanent) => break permanent,
                    None => write.commit_step()?,
                }
                steps += 1;
                if steps == steps_max {
                    return Ok(None);
                }
            }
        };
        let deletion = BlobDeletion {
            permanent,
            deletion_id: write.deleted_at,
        };
        Ok(Some((deletion, write.commit()?)))
    }
}

impl BlobWrite<'_> {
    /// Runs one step: deletes some of the snapshots, oldest first. The last step deletes the
    /// remaining snapshots and, unless only snapshots are to be deleted, the blob. Returns whether
    /// the deletion is permanent; `None` if there is more to delete. Checks for protected records
    /// before it deletes anything.
    pub(super) fn delete_current(
        &mut self,
        snapshots: Option<DeleteSnapshots>,
        is_first: bool,
    ) -> Result<Option<bool>> {
        let present = self.moments(History::Snapshot, FIRST, HISTORY_STEP)?;
        if snapshots.is_none() && !present.is_empty() {
            return Err(Error::SnapshotsPresent);
        }
        if snapshots != Some(DeleteSnapshots::Only) {
            let _ = self.permit_current(Action::Delete)?;
        }
        let is_whole = present.len() < HISTORY_STEP;
        if is_first && !is_whole {
            self.check_snapshots_unprotected()?;
        }
        for moment in present {
            let (place, blob) = self.find(BlobState::Snapshot(moment))?;
            self.delete_past(place, blob, None)?;
        }
        if !is_whole {
            return Ok(None);
        }
        // Retention alone keeps snapshots; versioning does not.
        if snapshots == Some(DeleteSnapshots::Only) {
            return Ok(Some(self.policy.delete_retention_days.is_none()));
        }
        let kept = self.keeps(RetireReason::Deleted);
        if self.is_directory() {
            self.remove_directory(false)?;
            return Ok(Some(!kept));
        }
        let permit = self.retire(RetireReason::Deleted)?;
        self.remove(&permit);
        Ok(Some(!kept))
    }

    /// Deletes a snapshot or version. Returns whether it is deleted for good.
    fn delete_past(
        &mut self,
        place: RecordSlot,
        blob: Box<Blob>,
        snapshots: Option<DeleteSnapshots>,
    ) -> Result<bool> {
        let RecordSlot::Past(kind, moment) = place else {
            return Err(Error::OperationNotAllowedOnRootBlob);
        };
        if snapshots.is_some() {
            return Err(Error::InvalidOperation {
                reason: "a snapshot or version has no snapshots to delete",
            });
        }
        let permit = self.permit(Action::Remove, place, Some(&blob))?;
        self.remove(&permit);
        if let RecordSlot::Past(History::Version, moment) = place {
            self.index(&blob.tags, &Tags::new(), Some(moment));
        }
        match self.policy.delete_retention_days {
            Some(_) => {
                let was = if kind == History::Version {
                    PreviousState::Version(moment)
                } else {
                    PreviousState::Snapshot(moment)
                };
                self.put_deleted(moment, was, blob)?;
            }
            None => self.forget_past(place, &blob),
        }
        Ok(self.policy.delete_retention_days.is_none())
    }

    /// Deletes a deleted record for good.
    fn delete_permanently(
        &mut self,
        state: BlobState,
        condition: WriteCondition<'_>,
        request: &DeleteBlob,
    ) -> Result<()> {
        let (BlobState::Snapshot(moment) | BlobState::Version(moment)) = state else {
            return Err(Error::InvalidOperation {
                reason: "only deleted snapshots and versions are deleted for good",
            });
        };
        if !self.policy.permanent_delete {
            return Err(Error::InvalidOperation {
                reason: "the account does not allow to delete for good",
            });
        }
        let place = RecordSlot::Past(History::Deleted, moment);
        let blob = self.past(place)?.ok_or(Error::BlobNotFound)?;
        condition.check(WriteKind::Change, Some(Validators::from(&*blob)))?;
        request.conditions.check_tags(&blob.tags)?;
        request.tier_changed.check(&blob, self.now)?;
        let permit = self.permit(Action::Remove, place, Some(&blob))?;
        self.remove(&permit);
        self.forget_past(place, &blob);
        Ok(())
    }

    /// Like [`BlobWrite::forget`], for a snapshot, version or deleted blob.
    pub(crate) fn forget_past(&mut self, place: RecordSlot, blob: &Blob) {
        if let RecordSlot::Past(kind, moment) = place {
            self.trim_later(kind, moment, blob);
        }
        self.forget(blob);
    }
}
