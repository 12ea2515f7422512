//! Operations on page blobs.

use crate::checksum::Checksums;
use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::keys::{File, Timer};
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobType, Content, Layer, Metadata, PAGE_BLOB_BYTES_MAX,
    Written,
};
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::permit::Permit;
use crate::operations::state::check_tier_holds;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::page_write::PageWrite;
use crate::pages::PAGE_BYTES;
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::Ticket;
use std::ops::Range;

/// The request of Put Blob for a page blob, which is made of zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutPageBlob {
    /// `x-ms-blob-content-length`: a multiple of 512.
    pub length: u64,
    /// `x-ms-blob-sequence-number`: at most 2^63 - 1.
    pub sequence: u64,
    /// Headers of the blob.
    pub headers: BlobHeaders,
    /// Metadata of the blob.
    pub metadata: Metadata,
    /// Other settings of the new blob.
    pub settings: BlobSettings,
    /// Conditions on the current blob. A key among them encrypts the new blob's pages.
    pub conditions: Conditions,
}

/// Conditions on the blob's sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceConditions {
    /// `x-ms-if-sequence-number-le`.
    pub at_most: Option<u64>,
    /// `x-ms-if-sequence-number-lt`.
    pub less_than: Option<u64>,
    /// `x-ms-if-sequence-number-eq`.
    pub equal: Option<u64>,
}

/// A write to a range of pages.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one a request, and it is moved, not stored"
)]
#[derive(Debug)]
pub enum PageUpdate {
    /// A body of the stretch's length, at most 4 MiB. The upload must have been begun as
    /// [`UploadKind::PutPage`] at the stretch's offset.
    Update(Upload),
    /// Zeros, which take no space.
    Clear,
}

impl PageUpdate {
    /// The body, which must be as long as the stretch; `None` for zeros.
    fn finish(self, range: &Range<u64>) -> Result<Option<Uploaded>> {
        let (start, length) = (range.start, range.end - range.start);
        match self {
            PageUpdate::Clear => Ok(None),
            PageUpdate::Update(upload) if upload.length() != length => {
                Err(Error::InvalidHeaderValue {
                    header: "Content-Length",
                    value: upload.length().to_string(),
                })
            }
            PageUpdate::Update(upload) => {
                let kind = UploadKind::PutPage { start };
                upload.finish(kind, None).map(Some)
            }
        }
    }
}

/// The new content of a stretch of pages.
pub(super) enum NewPages {
    Body(Uploaded),
    /// Zeros, which a comparison with a snapshot lists as cleared.
    Cleared,
    /// Zeros beyond the end of the blob.
    Nothing,
}

/// The request of Put Page.
#[derive(Debug)]
pub struct PutPage {
    /// The stretch, end exclusive; both ends are multiples of 512.
    pub range: Range<u64>,
    /// The new content of the stretch.
    pub update: PageUpdate,
    /// Conditions on the sequence number.
    pub sequence: SequenceConditions,
    /// Conditions on the current blob.
    pub conditions: Conditions,
}

/// The answer of Put Page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutPageOutcome {
    /// The blob's validators.
    pub written: Written,
    /// Checksums of the body: CRC64 always, MD5 if the client sent one. None for zeros.
    pub checksums: Checksums,
    /// The blob's sequence number, which stays as it is.
    pub sequence: u64,
}

/// A change of a page blob's sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceAction {
    /// Sets the number.
    Update(u64),
    /// Sets the number, unless that would lower it.
    Max(u64),
    /// Adds one to the number.
    Increment,
}

impl BlobService {
    /// Makes a page blob of zeros, which take no space, and replaces any blob that has the name.
    /// Errors: as [`BlobService::put_blob`]; `InvalidHeaderValue` for a length or sequence number
    /// out of range; `ContentLengthLargerThanTierLimit`.
    pub fn put_page_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutPageBlob,
    ) -> Result<(Written, Ticket)> {
        check_length(request.length)?;
        check_sequence(request.sequence)?;
        let condition = request.conditions.for_write()?;
        let settings = request.settings.checked(BlobType::PageBlob)?;
        check_tier_holds(settings.tier, request.length)?;
        let mut write = self.begin_write(address)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        let key = request.conditions.customer_key.as_ref();
        let brought = write.brought(key, &request.conditions)?;
        let permit = write.retire(RetireReason::Overwritten)?;
        let mut blob = write.new_blob(NewBlob {
            content: Content::Pages {
                sequence: request.sequence,
            },
            layers: vec![Layer::new(write.new_file(), 0)],
            length: request.length,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        blob.replaced_at = Some(SnapshotTime(blob.etag.0));
        write.put(&permit, &blob);
        Ok((blob.written(), write.commit()?))
    }

    /// Writes a stretch of pages, or clears it. The cost does not depend on the size of the blob.
    /// Errors: invalid names; `InvalidOperation` for a snapshot or version; `ContainerNotFound`,
    /// `BlobNotFound`, `InvalidBlobType`; `InvalidHeaderValue` for a stretch that does not consist
    /// of whole pages, or does not have the length of the body; `InvalidPageRange` for one beyond
    /// the end; `Md5Mismatch`, `Crc64Mismatch`; those of write conditions and leases;
    /// `BlobUsesCustomerSpecifiedEncryption` and similar ones, also for clearing;
    /// `RequestForbiddenByContainerEncryptionPolicy`; `SequenceNumberConditionNotMet`;
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`, `PendingCopyOperation`,
    /// `OperationNotAllowedOnIncrementalCopyBlob`.
    pub fn put_page(
        &self,
        address: &BlobAddress<'_>,
        request: PutPage,
    ) -> Result<(PutPageOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        let range = request.range;
        check_pages(&range)?;
        let body = request.update.finish(&range)?;
        let mut write = self.begin_write(address)?;
        write.check_type(BlobType::PageBlob)?;
        write.check(condition, &request.conditions, WriteKind::Change)?;
        let (permit, mut blob) = write.changeable_pages()?;
        // Clearing writes no content, but it changes the blob, which needs the key.
        let key = match &body {
            Some(body) => body.key.as_ref(),
            None => request.conditions.customer_key.as_ref(),
        };
        let brought = write.brought(key, &request.conditions)?;
        brought.check(&blob.encryption)?;
        let sequence = blob.sequence_number().unwrap_or_default();
        request.sequence.check(sequence)?;
        if range.end > blob.length {
            return Err(Error::InvalidPageRange);
        }
        let checksums = body.as_ref().map(|body| body.checksums).unwrap_or_default();
        let pages = body.map_or(NewPages::Cleared, NewPages::Body);
        write.write_pages(&mut blob, range, pages)?;
        let written = write.touch(&mut blob);
        write.put(&permit, &blob);
        let outcome = PutPageOutcome {
            written,
            checksums,
            sequence,
        };
        Ok((outcome, write.commit()?))
    }

    /// Set Blob Properties of a page blob: sets another length, another sequence number, and, if
    /// given, other headers. Also returns the sequence number. A shorter length removes the bytes
    /// beyond it; a longer one adds zeros. A change of length needs the blob's key or scope, if the
    /// blob has one; other changes do not, because the clients send none with them. Errors: as
    /// [`BlobService::set_blob_properties`]; `InvalidBlobType`; `InvalidHeaderValue`;
    /// `SequenceNumberIncrementTooLarge`, `ContentLengthLargerThanTierLimit`;
    /// `OperationNotAllowedOnIncrementalCopyBlob`; for a change of length,
    /// `BlobUsesCustomerSpecifiedEncryption` and similar ones,
    /// `RequestForbiddenByContainerEncryptionPolicy`.
    pub fn set_page_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        length: Option<u64>,
        sequence: Option<SequenceAction>,
        headers: Option<BlobHeaders>,
        conditions: &Conditions,
    ) -> Result<(Written, u64, Ticket)> {
        length.map_or(Ok(()), check_length)?;
        let mut write = self.begin_change(address, Some(BlobType::PageBlob), conditions)?;
        let (permit, mut blob) = write.changeable_pages()?;
        if let Some(length) = length {
            let brought = write.brought(conditions.customer_key.as_ref(), conditions)?;
            brought.check(&blob.encryption)?;
            check_tier_holds(blob.tiering.explicit, length)?;
            write.resize(&mut blob, length)?;
        }
        let mut number = blob.sequence_number().unwrap_or_default();
        if let Some(action) = sequence {
            number = action.apply(number)?;
            blob.content = Content::Pages { sequence: number };
        }
        if let Some(headers) = headers {
            blob.headers = headers;
        }
        blob.copy = blob.copy.filter(|copy| copy.incremental.is_some());
        let written = write.touch(&mut blob);
        write.put(&permit, &blob);
        Ok((written, number, write.commit()?))
    }
}

impl SequenceConditions {
    fn check(&self, sequence: u64) -> Result<()> {
        let met = self.at_most.is_none_or(|most| sequence <= most)
            && self.less_than.is_none_or(|limit| sequence < limit)
            && self.equal.is_none_or(|wanted| sequence == wanted);
        if met {
            Ok(())
        } else {
            Err(Error::SequenceNumberConditionNotMet)
        }
    }
}

impl SequenceAction {
    fn apply(self, sequence: u64) -> Result<u64> {
        match self {
            SequenceAction::Update(value) => check_sequence(value).map(|()| value),
            SequenceAction::Max(value) => check_sequence(value).map(|()| value.max(sequence)),
            SequenceAction::Increment if sequence >= i64::MAX as u64 => {
                Err(Error::SequenceNumberIncrementTooLarge)
            }
            SequenceAction::Increment => Ok(sequence + 1),
        }
    }
}

fn check_length(length: u64) -> Result<()> {
    if length.is_multiple_of(PAGE_BYTES) && length <= PAGE_BLOB_BYTES_MAX {
        Ok(())
    } else {
        Err(Error::InvalidHeaderValue {
            header: "x-ms-blob-content-length",
            value: length.to_string(),
        })
    }
}

fn check_sequence(sequence: u64) -> Result<()> {
    match i64::try_from(sequence) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::InvalidHeaderValue {
            header: "x-ms-blob-sequence-number",
            value: sequence.to_string(),
        }),
    }
}

fn check_pages(range: &Range<u64>) -> Result<()> {
    let aligned = range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES);
    if aligned && range.start < range.end {
        Ok(())
    } else {
        Err(Error::InvalidHeaderValue {
            header: "x-ms-range",
            value: format!("bytes={}-{}", range.start, range.end.wrapping_sub(1)),
        })
    }
}

impl BlobWrite<'_> {
    pub(super) fn changeable_pages(&self) -> Result<(Permit, Box<Blob>)> {
        let (permit, blob) = self.changeable()?;
        match &blob.copy {
            Some(copy) if copy.incremental.is_some() => {
                Err(Error::OperationNotAllowedOnIncrementalCopyBlob)
            }
            _ => Ok((permit, blob)),
        }
    }

    /// Replaces the pages of a stretch.
    pub(super) fn write_pages(
        &mut self,
        blob: &mut Blob,
        range: Range<u64>,
        new: NewPages,
    ) -> Result<()> {
        let layer = Layer::of_pages(&blob.layers)?;
        if layer.shared {
            self.lock_pages(layer.file)?;
        }
        let mut write = PageWrite::new(self.service, self.rows(), layer, range)?;
        match new {
            NewPages::Body(body) => write.put(body),
            NewPages::Cleared => write.clear(),
            NewPages::Nothing => {}
        }
        let root = write.apply(layer.root)?;
        if write.drops {
            let subject = layer.file.references();
            self.set_timer(self.now, Timer::Pages, &subject);
        }
        blob.layers = vec![Layer { root, ..*layer }];
        Ok(())
    }

    /// Locks a file of pages: other writers to the file wait, and so does the sweep.
    fn lock_pages(&mut self, file: File) -> Result<()> {
        // A second file could come before the first in the order of locks, and would then be
        // refused if another writer has it locked.
        assert!(!self.has_file_lock, "a write locks one file of pages");
        let references = &self.service.keyspaces.references;
        self.transaction
            .lock([(references, &file.references()[..])])?;
        self.has_file_lock = true;
        Ok(())
    }

    fn resize(&mut self, blob: &mut Blob, length: u64) -> Result<()> {
        if length < blob.length {
            // Clears everything after the new end, wherever the blob once ended.
            self.write_pages(blob, length..PAGE_BLOB_BYTES_MAX, NewPages::Nothing)?;
        }
        blob.length = length;
        Ok(())
    }
}
