//! Copies from other servers: the destination is pending until the content has been fetched, or
//! fetching has failed.

use crate::codec;
use crate::conditions::WriteKind;
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::keys;
use crate::model::AccountPolicy;
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobType, Content, CopyState, CopyStatus, Layer, Metadata,
    Written,
};
use crate::operations::copy::{CopyBlob, CopyOutcome};
use crate::operations::new_blob::NewBlob;
use crate::operations::permit::Action;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use crate::upload::{Upload, UploadKind};
use lazurite_engine::{Direction, KeyRange, Ticket};

/// The fetched source of a copy.
#[derive(Debug)]
pub struct FetchedCopy {
    /// The content, begun as [`UploadKind::PutBlob`] and written to its end.
    pub upload: Upload,
    /// The source's headers.
    pub headers: BlobHeaders,
    /// The source's metadata; used only if the request had none.
    pub metadata: Metadata,
}

/// Pending copies that were ended without content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedCopies {
    /// Number of copies that were ended.
    pub count: u64,
    /// Copies that could not be ended, each a sentence with its place.
    pub failures: Vec<String>,
}

impl BlobService {
    /// Begins a copy from another server: makes the destination an empty block blob with a pending
    /// copy, until [`BlobService::finish_copy`], [`BlobService::fail_copy`] or
    /// [`BlobService::abort_copy`] is called. `length` is the source's. Errors: as
    /// [`BlobService::copy_blob`], except those of the source.
    pub fn start_copy(
        &self,
        destination: &BlobAddress<'_>,
        request: CopyBlob,
        length: u64,
    ) -> Result<(CopyOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        let settings = request.settings.checked(BlobType::BlockBlob)?;
        let mut to = self.begin_write(destination)?;
        to.check_type(BlobType::BlockBlob)?;
        to.check(condition, &request.conditions, WriteKind::Create)?;
        let brought = to.brought(None, &request.conditions)?;
        to.check_infinite_lease()?;
        let permit = to.retire(RetireReason::Overwritten)?;
        let mut blob = to.new_blob(NewBlob {
            content: Content::Whole,
            layers: vec![Layer::new(to.new_file(), 0)],
            length: 0,
            headers: BlobHeaders::default(),
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        let copy_id = self.new_guid();
        blob.copy = Some(CopyState {
            status: CopyStatus::Pending,
            copied: 0,
            completed_at: None,
            ..CopyState::completed(copy_id, request.source_url, length, to.now)
        });
        to.put(&permit, &blob);
        to.list_pending_copy();
        let outcome = CopyOutcome::new(&blob, copy_id, CopyStatus::Pending);
        Ok((outcome, to.commit()?))
    }

    /// Ends a pending copy with the content that was fetched. Errors: `ContainerNotFound`,
    /// `BlobNotFound`; `NoPendingCopyOperation` if the copy has ended meanwhile, `CopyIdMismatch`;
    /// those of the store.
    pub fn finish_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        fetched: FetchedCopy,
    ) -> Result<(Written, Ticket)> {
        let body = fetched.upload.finish(UploadKind::PutBlob, None)?;
        let length = body.length;
        let checksums = body.checksums;
        let mut to = self.begin_write(destination)?;
        let mut blob = to.pending(copy_id)?;
        debug_assert!(
            blob.layers.iter().all(|layer| !layer.shared),
            "a pending copy, which has no content yet, is no source"
        );
        let file = blob.layers.first().map(|layer| layer.file);
        let file = file.unwrap_or_else(|| to.new_file());
        if length > 0 {
            let key = file.whole_content();
            body.put(&mut to.rows(), &key);
        }
        blob.layers = vec![Layer::new(file, length)];
        blob.length = length;
        blob.headers = fetched.headers;
        let computed = checksums.md5.map(Vec::from);
        blob.headers.content_md5 = blob.headers.content_md5.or(computed);
        if blob.metadata.is_empty() {
            blob.metadata = fetched.metadata;
        }
        to.end_copy(blob, CopyStatus::Success, None)
    }

    /// Ends a pending copy without content, and records the reason. Errors: as
    /// [`BlobService::finish_copy`].
    pub fn fail_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        description: &str,
    ) -> Result<(Written, Ticket)> {
        let to = self.begin_housekeeping(destination)?;
        let blob = to.pending(copy_id)?;
        to.end_copy(blob, CopyStatus::Failed, Some(description.to_string()))
    }

    /// Ends the copies that were pending when the store was closed, as [`BlobService::fail_copy`]
    /// does. Call it before the first [`BlobService::start_copy`]. Reads only the list of pending
    /// copies. The next call tries again to end the copies that this one could not. Errors: those
    /// of reading the list.
    pub fn fail_interrupted_copies(&self, description: &str) -> Result<FailedCopies> {
        self.fail_copies(KeyRange::all(), description)
    }

    /// Ends the pending copies to the blobs of this range, as far as possible.
    pub(super) fn fail_copies(&self, range: KeyRange, description: &str) -> Result<FailedCopies> {
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.keyspaces.copies, range, Direction::Forward);
        let mut failed = FailedCopies::default();
        while rows.advance()? {
            let container_key = rows.value()?.to_vec();
            match self.fail_interrupted(rows.key(), container_key, description) {
                Ok(was_pending) => failed.count += u64::from(was_pending),
                Err(error) => {
                    let key = rows.key().escape_ascii();
                    failed.failures.push(format!("Copy to {key}: {error}"));
                }
            }
        }
        Ok(failed)
    }

    fn fail_interrupted(
        &self,
        key: &[u8],
        container_key: Vec<u8>,
        description: &str,
    ) -> Result<bool> {
        let home = keys::container_of(key).ok_or_else(corrupt_record)?;
        let container_key = self.current_key(home, container_key)?;
        let name = keys::blob_name(key).ok_or_else(corrupt_record)?;
        let mut transaction = self.db.begin_deletion()?;
        transaction.lock_shared([(&self.keyspaces.containers, &container_key[..])])?;
        transaction.lock([(&self.keyspaces.blobs, key)])?;
        let container = self.db.get(&self.keyspaces.containers, &container_key)?;
        let container = container.map(|value| codec::decode_container(&value));
        // A deleted container may be restored: the copy is ended then.
        let Some(container) = container.transpose()?.filter(|found| found.id == home) else {
            return Ok(false);
        };
        let policy = AccountPolicy::default();
        let mut to = self.open_write(container_key, container, policy, name, transaction)?;
        let copy = to.current().and_then(|blob| blob.copy.as_ref());
        let is_pending = copy.is_some_and(|copy| copy.status == CopyStatus::Pending);
        // Does not wait for the disk: the next start repeats work that a power cut undoes.
        match to.existing().ok().filter(|_| is_pending) {
            Some(blob) => {
                drop(to.end_copy(blob, CopyStatus::Failed, Some(description.to_string()))?)
            }
            None => {
                to.unlist_pending_copy();
                drop(to.commit()?);
            }
        }
        Ok(is_pending)
    }

    /// Abort Copy Blob: ends a pending copy; the destination stays as an empty blob. Errors:
    /// invalid names; `ContainerNotFound`, `BlobNotFound`; those of leases;
    /// `NoPendingCopyOperation`, `CopyIdMismatch`.
    pub fn abort_copy(
        &self,
        destination: &BlobAddress<'_>,
        copy_id: Guid,
        lease_id: Option<Guid>,
    ) -> Result<Ticket> {
        let to = self.begin_housekeeping(destination)?;
        to.existing()?;
        to.check_lease(lease_id)?;
        let blob = to.pending(copy_id)?;
        Ok(to.end_copy(blob, CopyStatus::Aborted, None)?.1)
    }
}

impl BlobWrite<'_> {
    /// The destination of a pending copy of that id.
    fn pending(&self, copy_id: Guid) -> Result<Box<Blob>> {
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
        mut blob: Box<Blob>,
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
        self.unlist_pending_copy();
        let permit = self.permit_current(Action::EndCopy)?;
        self.commit_changed(&permit, blob)
    }
}
