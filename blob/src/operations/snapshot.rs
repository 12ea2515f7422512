//! Snapshot Blob.

use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::Result;
use crate::keys::History;
use crate::lease::{Lease, Leased};
use crate::model::{Blob, BlobAddress, Metadata, Written};
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::permit::check_online;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::Ticket;

impl BlobService {
    /// Makes a snapshot of the blob, and returns its moment. The content is shared. If `metadata`
    /// is not empty, the snapshot has this metadata instead of the blob's, and its own ETag and
    /// Last-Modified. The blob does not change, but if the account keeps versions, its state
    /// becomes a version, and the blob gets a new version id. Source: Blob versioning, "Blob
    /// versioning and blob snapshots". Errors: invalid names; `InvalidOperation` for a snapshot or
    /// version; `ContainerNotFound`, `BlobNotFound`; those of write conditions; a lease id that
    /// does not match; `PendingCopyOperation`, `BlobArchived`, `BlobBeingRehydrated`;
    /// `BlobUsesCustomerSpecifiedEncryption` and similar ones,
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn snapshot_blob(
        &self,
        address: &BlobAddress<'_>,
        metadata: Metadata,
        conditions: &Conditions,
    ) -> Result<(SnapshotTime, Written, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_write(address)?;
        let now = write.now;
        write.check_conditions(condition, conditions, WriteKind::Change)?;
        let lease = write.existing()?.lease;
        lease.check_read(conditions.lease_id, now, Leased::Blob)?;
        // With versioning the blob is replaced; otherwise only its layers are marked as shared.
        let action = if write.policy.versioning {
            Action::Replace
        } else {
            Action::Set
        };
        let permit = write.permit_current(action)?;
        check_online(&*write.existing()?, now)?;
        let brought = write.brought(conditions.customer_key.as_ref(), conditions)?;
        brought.check(&write.existing()?.encryption)?;
        write.share_layers(|_| true);
        let mut blob = write.existing()?;
        let moment = write.new_moment()?;
        let snapshot = write.snapshot_of(&blob, moment, metadata);
        let place = RecordSlot::Past(History::Snapshot, moment);
        let new = write.permit(Action::Add, place, None)?;
        write.put(&new, &snapshot);
        if write.policy.versioning {
            write.begin_version(&mut blob)?;
        }
        write.put(&permit, &blob);
        let written = Written {
            version: blob.version,
            ..snapshot.written()
        };
        Ok((moment, written, write.commit()?))
    }
}

impl BlobWrite<'_> {
    /// The record of a snapshot. Metadata that is not empty replaces the blob's.
    fn snapshot_of(&self, blob: &Blob, moment: SnapshotTime, metadata: Metadata) -> Box<Blob> {
        let mut snapshot = Box::new(Blob {
            snapshot: Some(moment),
            staging: None,
            lease: Lease::default(),
            expires_at: None,
            ..blob.clone()
        });
        if !metadata.is_empty() {
            let written = self.service.stamp(self.now, Some(Validators::from(blob)));
            snapshot.etag = written.etag;
            snapshot.last_modified = written.last_modified;
            snapshot.metadata = metadata;
        }
        snapshot
    }

    /// Makes the current record a version, and `blob` the next one.
    fn begin_version(&mut self, blob: &mut Blob) -> Result<()> {
        self.share_layers(|_| true);
        let _ = self.retire_blob(RetireReason::Overwritten)?;
        blob.version = Some(self.new_moment()?);
        // The next version inherits neither policy nor hold.
        (blob.immutability, blob.legal_hold) = (None, false);
        Ok(())
    }
}
