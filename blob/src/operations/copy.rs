//! Copies: within the server by naming the source's files, at once; from elsewhere as a blob that is pending until the
//! server has fetched its content.

use super::checks::check_online;
use super::new_blob::{BlobSettings, NewBlob};
use super::page_blob::is_later;
use super::write::{BlobWrite, Place, Retired};
use crate::BlobService;
use crate::account::AccountPolicy;
use crate::codec;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::download::{ByteRange, Download};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::keys::{self, History};
use crate::lease::LeaseDuration;
use crate::listing::unreadable;
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobState, BlobType, Content, CopyState, CopyStatus,
    Encryption, Layer, Metadata, Written,
};
use crate::moment::Moment;
use crate::names;
use crate::tier::{AccessTier, RehydratePriority};
use crate::upload::{Upload, UploadKind};
use lazurite_engine::{Direction, KeyRange, Ticket};
use std::time::SystemTime;

/// Most bytes of the source of a synchronous copy: 256 MiB. Source: Copy Blob From URL, "Remarks".
pub const COPY_FROM_URL_BYTES_MAX: u64 = 256 << 20;

/// The request of Copy Blob and Copy Blob From URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyBlob {
    /// Where the source is, without credentials: what the destination says of it.
    pub source_url: String,
    /// Metadata of the destination; empty for the source's.
    pub metadata: Metadata,
    /// What else the destination is made with. Its tags are these.
    pub settings: BlobSettings,
    /// Whether the destination gets the source's tags: of Copy Blob From URL.
    pub copy_tags: bool,
    /// Whether an append blob takes no more once it is copied.
    pub seal: bool,
    /// How soon a source in the archive is back at the destination, if that is told another tier.
    pub rehydrate_priority: RehydratePriority,
    /// What must hold of the source.
    pub source_conditions: Conditions,
    /// What must hold of the destination before.
    pub conditions: Conditions,
}

/// The answer of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOutcome {
    /// The destination's validators.
    pub written: Written,
    /// `x-ms-copy-id`.
    pub copy_id: Guid,
    /// `x-ms-copy-status`.
    pub status: CopyStatus,
}

/// What a copy from elsewhere has fetched.
#[derive(Debug)]
pub struct FetchedCopy {
    /// The content, begun as [`UploadKind::PutBlob`] and written to its end.
    pub upload: Upload,
    /// The source's headers.
    pub headers: BlobHeaders,
    /// The source's metadata; counts only if the copy was given none.
    pub metadata: Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyKind {
    Asynchronous,
    Synchronous,
}

impl BlobService {
    /// Copy Blob within the server: at once, whatever the size, and with shared content. The destination gets content, type,
    /// block list, headers and sequence number of the source; a snapshot or version may be copied over its own blob.
    /// Errors: of the names, metadata and tags; `BlobNotFound` of the source, `ContainerNotFound` of the destination;
    /// `SourceConditionNotMet`; those of the conditions of a write and of leases, `InfiniteLeaseDurationRequired`;
    /// `InvalidBlobType`; `BlobArchived`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`,
    /// `OperationNotAllowedOnIncrementalCopyBlob`, `BlobUsesCustomerSpecifiedEncryption`.
    pub fn copy_blob(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        now: SystemTime,
    ) -> Result<(CopyOutcome, Ticket)> {
        self.copy_within(source, destination, request, CopyKind::Asynchronous, now)
    }

    /// Copy Blob From URL within the server: as [`BlobService::copy_blob`], of a block blob of at most 256 MiB.
    /// Errors: as there; `InvalidSourceBlobType`; `InvalidHeaderValue` for a larger one.
    pub fn copy_blob_from_url(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        now: SystemTime,
    ) -> Result<(CopyOutcome, Ticket)> {
        self.copy_within(source, destination, request, CopyKind::Synchronous, now)
    }

    fn copy_within(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        kind: CopyKind,
        now: SystemTime,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        if destination.state != BlobState::Current {
            return Err(Error::InvalidOperation {
                reason: "snapshots and versions are not copied to",
            });
        }
        let [mut from, mut to] = self.begin_two_writes(source, destination, now)?;
        let (place, found) = from.find(source.state)?;
        let mut settings = request.settings.clone().checked(found.blob_type())?;
        check_source(&found, &request.source_conditions)?;
        check_copyable(&found, &request, kind, now)?;
        to.check_destination(&found)?;
        to.check(condition, &request.conditions, WriteKind::Create)?;
        if kind == CopyKind::Asynchronous {
            to.check_infinite_lease()?;
        }
        to.check_scope(&settings)?;
        let found = to.share_source(&mut from, place, found)?;
        if from.key != to.key || place != Place::Current {
            // Of a copy onto itself, the record that is replaced has told how many name its files.
            to.name_layers(&found);
        }
        to.retire(Retired::Overwritten)?;
        if request.copy_tags {
            settings.tags = found.tags.clone();
        }
        let mut blob = to.new_blob(NewBlob {
            content: copied_content(&found, request.seal),
            layers: found.layers.clone(),
            length: found.length,
            headers: found.headers.clone(),
            metadata: match request.metadata.is_empty() {
                true => found.metadata.clone(),
                false => request.metadata,
            },
            settings,
            encryption: Encryption::None,
        });
        blob.tiering = to.copied_tiering(&found, blob.tiering, request.rehydrate_priority);
        let copy_id = self.new_guid();
        blob.copy = Some(completed(copy_id, request.source_url, found.length, now));
        if from.key == to.key && place == Place::Current {
            to.begin_epoch(&mut blob)?;
        }
        to.put_current(&blob);
        let outcome = CopyOutcome {
            written: blob.written(),
            copy_id,
            status: CopyStatus::Success,
        };
        Ok((outcome, to.commit()?))
    }

    /// The content of what another operation copies from, with the conditions of a source. For Put Block From URL and its
    /// like: write it to their upload with [`Upload::write_from`].
    /// Errors: as [`BlobService::get_blob`], but `SourceConditionNotMet` for all that its conditions refuse.
    pub fn open_source(
        &self,
        source: &BlobAddress<'_>,
        range: Option<ByteRange>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<Download> {
        let (snapshot, _, blob) = self.find_for_read(source, &Conditions::default(), now)?;
        check_source(&blob, conditions)?;
        check_online(&blob, now)?;
        let key = conditions.customer_key;
        blob.encryption.check(key.as_ref())?;
        Download::open(&self.keyspaces, snapshot, blob, range, key)
    }

    /// Begins a copy from elsewhere: the destination is an empty block blob, pending, until [`BlobService::finish_copy`],
    /// [`BlobService::fail_copy`] or [`BlobService::abort_copy`]. `length` is the source's.
    /// Errors: as [`BlobService::copy_blob`], but for those of the source.
    pub fn start_copy(
        &self,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        length: u64,
        now: SystemTime,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        let mut to = self.begin_write(destination, now)?;
        to.check_type(BlobType::BlockBlob)?;
        to.check(condition, &request.conditions, WriteKind::Create)?;
        to.check_scope(&settings)?;
        to.check_infinite_lease()?;
        to.retire(Retired::Overwritten)?;
        let mut blob = to.new_blob(NewBlob {
            content: Content::Whole,
            layers: vec![Layer {
                file: to.new_file(),
                shared: false,
                end: 0,
                windowed: false,
            }],
            length: 0,
            headers: BlobHeaders::default(),
            metadata: request.metadata,
            settings,
            encryption: Encryption::None,
        });
        let copy_id = self.new_guid();
        blob.copy = Some(CopyState {
            status: CopyStatus::Pending,
            copied: 0,
            completed_at: None,
            ..completed(copy_id, request.source_url, length, now)
        });
        to.put_current(&blob);
        to.batch
            .put(&self.keyspaces.copies, &to.key, &to.container_key);
        let outcome = CopyOutcome {
            written: blob.written(),
            copy_id,
            status: CopyStatus::Pending,
        };
        Ok((outcome, to.commit()?))
    }

    /// Ends a pending copy with the content that was fetched.
    /// Errors: `NoPendingCopyOperation` if it was aborted meanwhile, `CopyIdMismatch`; of the store.
    pub fn finish_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        fetched: FetchedCopy,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        let body = fetched.upload.finish(UploadKind::PutBlob, None)?;
        let (length, checksums) = (body.length, body.checksums);
        let mut to = self.begin_write(destination, now)?;
        let mut blob = to.pending(copy_id)?;
        let file = blob.layers.first().map(|layer| layer.file);
        let file = file.unwrap_or_else(|| to.new_file());
        if length > 0 {
            let key = file.whole_content();
            body.put(&mut to.batch, &self.keyspaces.content, &key);
        }
        blob.layers = vec![Layer {
            file,
            shared: false,
            end: length,
            windowed: false,
        }];
        blob.length = length;
        blob.headers = fetched.headers;
        blob.headers.content_md5 = blob.headers.content_md5.or(checksums.md5);
        if blob.metadata.is_empty() {
            blob.metadata = fetched.metadata;
        }
        to.end_copy(blob, CopyStatus::Success, None)
    }

    /// Ends a pending copy without content, and says why. Errors: as [`BlobService::finish_copy`].
    pub fn fail_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        description: &str,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        let to = self.begin_write(destination, now)?;
        let blob = to.pending(copy_id)?;
        to.end_copy(blob, CopyStatus::Failed, Some(description.to_string()))
    }

    /// Ends the pending copies that whoever had the store before did not end, as [`BlobService::fail_copy`] does, and says how
    /// many there were. To be called before the first [`BlobService::start_copy`]; reads what is pending and nothing else.
    pub fn fail_interrupted_copies(&self, description: &str, now: SystemTime) -> Result<u64> {
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.keyspaces.copies, KeyRange::all(), Direction::Forward);
        let mut failed = 0;
        while rows.advance()? {
            let container_key = rows.value()?.to_vec();
            failed +=
                u64::from(self.fail_interrupted(rows.key(), container_key, description, now)?);
        }
        Ok(failed)
    }

    fn fail_interrupted(
        &self,
        key: &[u8],
        container_key: Vec<u8>,
        description: &str,
        now: SystemTime,
    ) -> Result<bool> {
        let home = keys::container_of(key).ok_or_else(unreadable)?;
        let name = keys::blob_name(key).ok_or_else(unreadable)?;
        let _gate = self.gates.shared(&container_key);
        let _lock = self.locks.lock(key);
        let container = self.db.get(&self.keyspaces.containers, &container_key)?;
        let container = container.map(|value| codec::decode_container(&value));
        // Of a deleted container: it may be restored, and looked at again.
        let Some(container) = container.transpose()?.filter(|found| found.id == home) else {
            return Ok(false);
        };
        let policy = AccountPolicy::default();
        let mut to = self.open_write(container_key, container, policy, name, now)?;
        let copy = to.current().and_then(|blob| blob.copy.as_ref());
        let is_pending = copy.is_some_and(|copy| copy.status == CopyStatus::Pending);
        // Not waited for: what a power cut undoes is done again at the next start.
        match to.current().cloned().filter(|_| is_pending) {
            Some(blob) => {
                drop(to.end_copy(blob, CopyStatus::Failed, Some(description.to_string()))?)
            }
            None => {
                to.batch.delete(&self.keyspaces.copies, key);
                drop(to.commit()?);
            }
        }
        Ok(is_pending)
    }

    /// Abort Copy Blob: the destination stays, empty.
    /// Errors: of the names; `ContainerNotFound`, `BlobNotFound`; those of leases; `NoPendingCopyOperation`,
    /// `CopyIdMismatch`.
    pub fn abort_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        lease_id: Option<Guid>,
        now: SystemTime,
    ) -> Result<Ticket> {
        let to = self.begin_write(destination, now)?;
        to.existing()?;
        to.check_lease(lease_id)?;
        let blob = to.pending(copy_id)?;
        Ok(to.end_copy(blob, CopyStatus::Aborted, None)?.1)
    }

    /// Incremental Copy Blob within the server: the destination becomes what a snapshot of a page blob is, and gets a snapshot
    /// of its own; what both had already is shared.
    /// Errors: as [`BlobService::copy_blob`]; `IncrementalCopySourceMustBeSnapshot`, `InvalidSourceBlobType`,
    /// `IncrementalCopyBlobMismatch`, `IncrementalCopyOfEarlierSnapshotNotAllowed`.
    pub fn incremental_copy_blob(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        source_url: String,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = conditions.for_write()?;
        if !matches!(source.state, BlobState::Snapshot(_)) {
            return Err(Error::IncrementalCopySourceMustBeSnapshot);
        }
        let [mut from, mut to] = self.begin_two_writes(source, destination, now)?;
        let (place, found) = from.find(source.state)?;
        if found.blob_type() != BlobType::PageBlob {
            return Err(Error::InvalidSourceBlobType);
        }
        check_needs_no_key(&found)?;
        to.check(condition, conditions, WriteKind::Create)?;
        to.check_increment(&found)?;
        let found = to.share_source(&mut from, place, found)?;
        to.name_layers(&found);
        to.retire(Retired::Overwritten)?;
        let mut blob = to.new_blob(NewBlob {
            content: found.content,
            layers: found.layers.clone(),
            length: found.length,
            headers: found.headers.clone(),
            metadata: found.metadata.clone(),
            settings: BlobSettings::default(),
            encryption: Encryption::None,
        });
        let (copy_id, moment) = (self.new_guid(), to.new_moment()?);
        blob.copy = Some(CopyState {
            incremental: true,
            destination_snapshot: Some(moment),
            ..completed(copy_id, source_url, found.length, now)
        });
        to.name_layers(&blob);
        to.put_snapshot(&blob, moment);
        to.put_current(&blob);
        let outcome = CopyOutcome {
            written: blob.written(),
            copy_id,
            status: CopyStatus::Success,
        };
        Ok((outcome, to.commit()?))
    }
}

fn check_source(source: &Blob, conditions: &Conditions) -> Result<()> {
    let met = conditions.check_read(Validators::from(source));
    let met = met.and_then(|()| conditions.check_tags(&source.tags));
    met.map_err(|error| match error {
        Error::ConditionNotMet | Error::NotModified { .. } => Error::SourceConditionNotMet,
        other => other,
    })
}

/// Copies share content as it is, and have no key to tell of.
fn check_needs_no_key(source: &Blob) -> Result<()> {
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
        // From the archive to a tier that is told, the copy is on its way back; or it goes to the archive itself.
        Some(_) if kind == CopyKind::Asynchronous => Ok(()),
        _ => check_online(source, now),
    }
}

fn copied_content(source: &Blob, seal: bool) -> Content {
    match source.content {
        Content::Appends { count, .. } => Content::Appends {
            count,
            sealed: seal,
        },
        other => other,
    }
}

fn completed(id: Guid, source: String, length: u64, now: SystemTime) -> CopyState {
    CopyState {
        id,
        source,
        status: CopyStatus::Success,
        copied: length,
        total: length,
        completed_at: Some(crate::etag::whole_seconds(now)),
        description: None,
        destination_snapshot: None,
        incremental: false,
    }
}

impl BlobWrite<'_> {
    fn check_destination(&self, source: &Blob) -> Result<()> {
        self.check_type(source.blob_type())?;
        let copy = self.current().and_then(|blob| blob.copy.as_ref());
        match copy.is_some_and(|copy| copy.incremental) {
            true => Err(Error::OperationNotAllowedOnIncrementalCopyBlob),
            false => Ok(()),
        }
    }

    /// An asynchronous copy may outlive a lease that ends by itself. For who has shown that the lease is its own.
    fn check_infinite_lease(&self) -> Result<()> {
        let lease = self.current().map(|blob| blob.lease).unwrap_or_default();
        match lease.duration(self.now) {
            Some(LeaseDuration::Seconds(_)) => Err(Error::InfiniteLeaseDurationRequired),
            _ => Ok(()),
        }
    }

    /// Marks the files of the source as named by more than one record, and the containers as entangled if there are two. Answers
    /// the source as it is copied; if it is written to, that is not seen by the copy.
    fn share_source(
        &mut self,
        from: &mut BlobWrite<'_>,
        place: Place,
        mut source: Blob,
    ) -> Result<Blob> {
        if from.home() != self.home() {
            // Whatever files of third containers the source names, its own container is entangled with those already.
            let homes = [from.home(), self.home()];
            self.service.entangle(&mut self.batch, homes);
        }
        let onto_itself = from.key == self.key && place == Place::Current;
        if onto_itself {
            // The record is about to be retired: what it names, the new one does.
            self.share_layers(|_| true);
        }
        let before = source.layers.clone();
        for layer in &mut source.layers {
            layer.shared = true;
        }
        let copied = source.clone();
        if onto_itself {
            return Ok(copied);
        }
        if place == Place::Current && source.blob_type() == BlobType::PageBlob {
            self.begin_epoch(&mut source)?;
        }
        if source.layers != before {
            let (keyspace, key) = match place {
                Place::Current => (&self.service.keyspaces.blobs, from.key.clone()),
                Place::Past(kind, moment) => {
                    let key = keys::history(from.home(), kind, &from.name, moment);
                    (&self.service.keyspaces.history, key)
                }
            };
            let value = codec::encode_blob(&source, from.home());
            self.batch.put(keyspace, &key, &value);
        }
        Ok(copied)
    }

    /// One record more names the files of these layers.
    fn name_layers(&mut self, blob: &Blob) {
        for layer in &blob.layers {
            self.files.add(layer);
        }
    }

    /// The tier of a copy: as told, and if the source is in the archive only after a while.
    fn copied_tiering(
        &self,
        source: &Blob,
        told: crate::tier::Tiering,
        priority: RehydratePriority,
    ) -> crate::tier::Tiering {
        match told.tier(self.now) {
            Some(tier) if tier != AccessTier::Archive && source.tiering.is_archived(self.now) => {
                self.rehydrating(tier, priority)
            }
            _ => told,
        }
    }

    fn put_snapshot(&mut self, blob: &Blob, moment: Moment) {
        let snapshot = Blob {
            snapshot: Some(moment),
            lease: Default::default(),
            staging: None,
            ..blob.clone()
        };
        self.put(Place::Past(History::Snapshot, moment), &snapshot);
    }

    /// The destination of a pending copy of that id.
    fn pending(&self, copy_id: Guid) -> Result<Blob> {
        let blob = self.existing()?;
        match &blob.copy {
            Some(copy) if copy.status == CopyStatus::Pending && copy.id != copy_id => {
                Err(Error::CopyIdMismatch)
            }
            Some(copy) if copy.status == CopyStatus::Pending => Ok(blob),
            _ => Err(Error::NoPendingCopyOperation),
        }
    }

    fn end_copy(
        mut self,
        mut blob: Blob,
        status: CopyStatus,
        description: Option<String>,
    ) -> Result<(Written, Ticket)> {
        let now = crate::etag::whole_seconds(self.now);
        if let Some(copy) = &mut blob.copy {
            copy.status = status;
            copy.description = description;
            copy.completed_at = Some(now);
            if status == CopyStatus::Success {
                (copy.copied, copy.total) = (blob.length, blob.length);
            }
        }
        self.batch.delete(&self.service.keyspaces.copies, &self.key);
        self.commit_changed(blob)
    }

    /// Fails unless the destination is none yet, or an earlier copy of the same blob.
    fn check_increment(&self, source: &Blob) -> Result<()> {
        let Some(blob) = self.current() else {
            return Ok(());
        };
        if blob.copy.as_ref().is_none_or(|copy| !copy.incremental) {
            return Err(Error::IncrementalCopyBlobMismatch);
        }
        match (is_later(source, blob), is_later(blob, source)) {
            (_, true) => Err(Error::IncrementalCopyOfEarlierSnapshotNotAllowed),
            (true, false) => Ok(()),
            (false, false) => Err(Error::IncrementalCopyBlobMismatch),
        }
    }
}
