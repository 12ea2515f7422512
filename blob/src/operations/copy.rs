//! Copies within the server: the destination names the source's files. Also copies from other
//! servers in one call, whose content was fetched before. Asynchronous copies from other servers
//! are in `pending_copy.rs`, incremental ones in `incremental_copy.rs`.

use crate::checksum::Checksums;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::download::{ByteRange, Download};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::lease::LeaseDuration;
use crate::model::{
    Blob, BlobAddress, BlobState, BlobType, Content, CopyState, CopyStatus, Encryption, Metadata,
    Written,
};
use crate::operations::BlobRead;
use crate::operations::block_blob::PutBlob;
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::permit::RecordSlot;
use crate::operations::permit::check_online;
use crate::operations::permit::{Action, check_not_pending};
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use crate::tier::{AccessTier, RehydratePriority};
use lazurite_engine::Ticket;
use std::time::SystemTime;

/// Maximum size of the source of a synchronous copy: 256 MiB. Source: Copy Blob From URL,
/// "Remarks".
pub const COPY_FROM_URL_BYTES_MAX: u64 = 256 << 20;

/// The request of Copy Blob and Copy Blob From URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyBlob {
    /// The URL of the source, without credentials: `x-ms-copy-source` of the destination.
    pub source_url: String,
    /// Metadata of the destination; empty for the source's.
    pub metadata: Metadata,
    /// Other settings of the destination, tags included.
    pub settings: BlobSettings,
    /// Whether the destination gets the source's tags. Only for Copy Blob From URL.
    pub copy_tags: bool,
    /// Whether an append blob is sealed at the destination; `None`: as the source is.
    pub seal: Option<bool>,
    /// The priority of rehydration, if the source is archived and the destination gets another
    /// tier.
    pub rehydrate_priority: RehydratePriority,
    /// Conditions on the source.
    pub source_conditions: Conditions,
    /// Conditions on the blob at the destination.
    pub conditions: Conditions,
}

/// The response of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOutcome {
    /// The destination's validators.
    pub written: Written,
    /// `x-ms-copy-id`.
    pub copy_id: Guid,
    /// `x-ms-copy-status`.
    pub status: CopyStatus,
}

impl CopyOutcome {
    pub(super) fn new(destination: &Blob, copy_id: Guid, status: CopyStatus) -> CopyOutcome {
        CopyOutcome {
            written: destination.written(),
            copy_id,
            status,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyKind {
    Asynchronous,
    Synchronous,
}

impl BlobService {
    /// Copy Blob within the server. Takes the same time for any size, because the content is
    /// shared. The destination gets content, type, block list, headers and sequence number of the
    /// source. A snapshot or version may be copied over the current blob of its name. Errors:
    /// invalid names or tags; `InvalidOperation` for a snapshot or version as the destination;
    /// `BlobNotFound` of the source, `ContainerNotFound` of the destination;
    /// `SourceConditionNotMet`; those of write conditions and leases,
    /// `InfiniteLeaseDurationRequired`; `InvalidBlobType`, `InvalidBlobTier`; `BlobArchived`,
    /// `BlobBeingRehydrated`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`, `OperationNotAllowedOnIncrementalCopyBlob`;
    /// `BlobUsesCustomerSpecifiedEncryption`, `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn copy_blob(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
    ) -> Result<(CopyOutcome, Ticket)> {
        self.copy_within(source, destination, request, CopyKind::Asynchronous)
    }

    /// Copy Blob From URL within the server: like [`BlobService::copy_blob`], for a block blob of
    /// at most 256 MiB. Errors: as [`BlobService::copy_blob`]; `InvalidSourceBlobType`;
    /// `InvalidHeaderValue` for a larger blob.
    pub fn copy_blob_from_url(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
    ) -> Result<(CopyOutcome, Ticket)> {
        self.copy_within(source, destination, request, CopyKind::Synchronous)
    }

    /// Copy Blob From URL from another server, with content that was fetched before: like
    /// [`BlobService::put_blob`], and stores the properties of a copy. An MD5 among the headers is
    /// the source's, and is stored unchecked. Returns the checksums of the content. Errors: as
    /// [`BlobService::put_blob`]; `InvalidBlobType`.
    pub fn copy_fetched_blob(
        &self,
        destination: &BlobAddress<'_>,
        source_url: String,
        request: PutBlob,
    ) -> Result<(CopyOutcome, Checksums, Ticket)> {
        let put = self.put_whole(destination, request, None, Some(source_url));
        let (blob, checksums, ticket) = put?;
        let copy_id = blob.copy.as_ref().map_or(Guid(0), |copy| copy.id);
        let outcome = CopyOutcome::new(&blob, copy_id, CopyStatus::Success);
        Ok((outcome, checksums, ticket))
    }

    fn copy_within(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        kind: CopyKind,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        if destination.state != BlobState::Current {
            return Err(Error::InvalidOperation {
                reason: "snapshots and versions are not copied to",
            });
        }
        let [mut from, mut to] = self.begin_two_writes(source, destination)?;
        let (place, found) = from.find(source.state)?;
        let settings = request.settings.clone().checked(found.blob_type())?;
        check_source(&found, &request.source_conditions)?;
        check_copyable(&found, &request, kind, to.now)?;
        to.check_destination(&found)?;
        to.check(condition, &request.conditions, WriteKind::Create)?;
        if kind == CopyKind::Asynchronous {
            to.check_infinite_lease()?;
        }
        let brought = to.brought(None, &request.conditions)?;
        let found = to.share_source(&mut from, place, found)?;
        if from.key != to.key || place != RecordSlot::Current {
            // In a copy onto itself, `share_source` has counted the new record.
            to.name_layers(&found);
            to.note_namers(&from, &found);
        }
        let permit = to.retire(RetireReason::Overwritten)?;
        let request = CopyBlob {
            settings,
            ..request
        };
        let copy_id = self.new_guid();
        let blob = to.copied_blob(&found, request, brought.encryption, copy_id)?;
        to.put(&permit, &blob);
        let outcome = CopyOutcome::new(&blob, copy_id, CopyStatus::Success);
        Ok((outcome, to.commit()?))
    }

    /// Opens the content that [`BlobService::copy_blob_from_url`] would copy, to compute its
    /// checksums. Errors: those of the source.
    pub fn open_copied_blob(
        &self,
        source: &BlobAddress<'_>,
        request: &CopyBlob,
    ) -> Result<Download> {
        let BlobRead {
            snapshot,
            blob,
            now,
            ..
        } = self.find_content(source, &Conditions::default())?;
        check_source(&blob, &request.source_conditions)?;
        check_copyable(&blob, request, CopyKind::Synchronous, now)?;
        Download::open(&self.keyspaces, snapshot, blob, None, None)
    }

    /// Opens the source of Put Block From URL and similar operations, and checks the conditions on
    /// the source. The operation writes the content to its upload with `Upload::write_from`.
    /// Errors: as [`BlobService::get_blob`]; `PendingCopyOperation`.
    pub fn open_source(
        &self,
        source: &BlobAddress<'_>,
        range: Option<ByteRange>,
        conditions: &Conditions,
    ) -> Result<Download> {
        let BlobRead {
            snapshot,
            blob,
            now,
            ..
        } = self.find_content(source, &Conditions::default())?;
        check_not_pending(&blob)?;
        conditions.check_read(Validators::from(&*blob))?;
        conditions.check_tags(&blob.tags)?;
        check_online(&blob, now)?;
        let key = conditions.customer_key;
        blob.encryption.check(key.as_ref())?;
        Download::open(&self.keyspaces, snapshot, blob, range, key)
    }
}

fn check_source(source: &Blob, conditions: &Conditions) -> Result<()> {
    // The destination of a pending copy has no content yet. Source: Copy Blob, "Remarks".
    check_not_pending(source)?;
    let met = conditions.check_read(Validators::from(source));
    met.map_err(|error| match error {
        Error::ConditionNotMet | Error::NotModified { .. } => Error::SourceConditionNotMet,
        other => other,
    })?;
    // The hosted service was observed to answer `ConditionNotMet` for tags.
    conditions.check_tags(&source.tags)
}

/// Fails for a source with a customer's key: copies share stored content, and their requests name
/// no key.
pub(super) fn check_needs_no_key(source: &Blob) -> Result<()> {
    match source.encryption {
        Encryption::CustomerKey(_) => Err(Error::BlobUsesCustomerSpecifiedEncryption),
        _ => Ok(()),
    }
}

fn check_copyable(
    source: &Blob,
    request: &CopyBlob,
    kind: CopyKind,
    now: SystemTime,
) -> Result<()> {
    check_needs_no_key(source)?;
    if kind == CopyKind::Synchronous && source.blob_type() != BlobType::BlockBlob {
        return Err(Error::InvalidSourceBlobType);
    }
    if kind == CopyKind::Synchronous && source.length > COPY_FROM_URL_BYTES_MAX {
        return Err(Error::InvalidHeaderValue {
            header: "x-ms-copy-source",
            value: request.source_url.clone(),
        });
    }
    match request.settings.tier {
        // A copy of an archived blob to an explicit tier is rehydrated, or is archived itself.
        Some(_) if kind == CopyKind::Asynchronous => Ok(()),
        _ => check_online(source, now),
    }
}

fn copied_content(source: &Blob, seal: Option<bool>) -> Content {
    match source.content {
        Content::Appends { count, sealed } => Content::Appends {
            count,
            sealed: seal.unwrap_or(sealed),
        },
        other => other,
    }
}

impl BlobWrite<'_> {
    /// Makes the record of the destination of a complete copy, with the checked settings of
    /// `request`.
    fn copied_blob(
        &self,
        source: &Blob,
        request: CopyBlob,
        encryption: Encryption,
        copy_id: Guid,
    ) -> Result<Box<Blob>> {
        let mut new = NewBlob {
            content: copied_content(source, request.seal),
            settings: request.settings,
            ..NewBlob::copy_of(source, encryption)
        };
        if request.copy_tags {
            new.settings.tags = source.tags.clone();
        }
        if !request.metadata.is_empty() {
            new.metadata = request.metadata;
        }
        let mut blob = self.new_blob(new)?;
        blob.tiering = self.copied_tiering(source, blob.tiering, request.rehydrate_priority);
        if blob.blob_type() == BlobType::PageBlob {
            blob.replaced_at = Some(SnapshotTime(blob.etag.0));
        }
        let length = source.length;
        blob.copy = Some(CopyState::completed(
            copy_id,
            request.source_url,
            length,
            self.now,
        ));
        Ok(blob)
    }

    fn check_destination(&self, source: &Blob) -> Result<()> {
        self.check_type(source.blob_type())?;
        let copy = self.current().and_then(|blob| blob.copy.as_ref());
        if copy.is_some_and(|copy| copy.incremental.is_some()) {
            Err(Error::OperationNotAllowedOnIncrementalCopyBlob)
        } else {
            Ok(())
        }
    }

    /// Fails for a finite lease, which a copy may outlive. Call it after the lease id was checked.
    pub(super) fn check_infinite_lease(&self) -> Result<()> {
        let lease = self.current().map(|blob| blob.lease).unwrap_or_default();
        match lease.duration(self.now) {
            Some(LeaseDuration::Seconds(_)) => Err(Error::InfiniteLeaseDurationRequired),
            _ => Ok(()),
        }
    }

    /// Marks the files of the source as named by more than one record. Returns the record for the
    /// destination.
    pub(super) fn share_source(
        &mut self,
        from: &mut BlobWrite<'_>,
        place: RecordSlot,
        mut source: Box<Blob>,
    ) -> Result<Box<Blob>> {
        let onto_itself = from.key == self.key && place == RecordSlot::Current;
        if onto_itself {
            // The record is about to be retired: the new one names the same files.
            self.share_layers(|_| true);
        }
        let before = source.layers.clone();
        for layer in &mut source.layers {
            layer.shared = true;
        }
        if !onto_itself && source.layers != before {
            let permit = from.permit(Action::Refile, place, Some(&source))?;
            self.put_for(from, &permit, &source);
        }
        Ok(source)
    }

    /// Notes that both blobs name the files that a copy shares. When a single record still names a
    /// file, these notes serve to find that record, so that the file can be trimmed. See `trim.rs`.
    pub(super) fn note_namers(&mut self, from: &BlobWrite<'_>, copied: &Blob) {
        if !matches!(copied.content, Content::Blocks { .. }) {
            return;
        }
        let namers = [
            (from.key.clone(), from.container_key.clone()),
            (self.key.clone(), self.container_key.clone()),
        ];
        for layer in &copied.layers {
            for (blob, container) in &namers {
                self.note_namer(layer.file, blob, container);
            }
        }
    }

    /// Notes that one more record names the files of these layers.
    pub(super) fn name_layers(&mut self, blob: &Blob) {
        for layer in &blob.layers {
            self.name_file(layer);
        }
    }

    /// The tier of a copy: as requested, after rehydration if the source is archived.
    fn copied_tiering(
        &self,
        source: &Blob,
        shown: crate::tier::Tiering,
        priority: RehydratePriority,
    ) -> crate::tier::Tiering {
        match shown.tier(self.now) {
            Some(tier) if tier != AccessTier::Archive && source.tiering.is_archived(self.now) => {
                self.rehydrating(tier, priority)
            }
            _ => shown,
        }
    }
}
