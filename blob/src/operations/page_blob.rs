//! Operations on page blobs.

use crate::checksum::Checksums;
use crate::conditions::{Conditions, WriteKind};
use crate::epochs::Writer;
use crate::error::{Error, Result};
use crate::keys::File;
use crate::model::{Blob, BlobAddress, BlobHeaders, BlobType, Content, Layer, Metadata, Written};
use crate::operations::new_blob::{BlobSettings, NewBlob};
use crate::operations::permit::Permit;
use crate::operations::state::check_tier_holds;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::page_write::{PageWrite, is_large};
use crate::pages::PAGE_BYTES;
use crate::service::BlobService;
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::Ticket;
use std::ops::Range;

/// Most bytes of a page blob: 8 TiB. Source: Put Blob, "Remarks".
pub const PAGE_BLOB_BYTES_MAX: u64 = 8 << 40;

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
    /// A body as long as the stretch, begun as [`UploadKind::PutPage`]. At most 4 MiB.
    Update(Upload),
    /// Zeros, which take no space.
    Clear,
}

impl PageUpdate {
    /// The body, which must be as long as the stretch; `None` for zeros.
    fn finish(self, length: u64) -> Result<Option<Uploaded>> {
        match self {
            PageUpdate::Clear => Ok(None),
            PageUpdate::Update(upload) if upload.length() != length => {
                Err(Error::InvalidHeaderValue {
                    header: "Content-Length",
                    value: upload.length().to_string(),
                })
            }
            PageUpdate::Update(upload) => upload.finish(UploadKind::PutPage, None).map(Some),
        }
    }
}

/// The request of Put Page.
#[derive(Debug)]
pub struct PutPage {
    /// The stretch, end exclusive; both multiples of 512.
    pub range: Range<u64>,
    /// The new content.
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
    /// Of the body: CRC64 always, MD5 if the client sent one. None of zeros.
    pub checksums: Checksums,
    /// The blob's sequence number, which stays as it is.
    pub sequence: u64,
}

/// A change of a page blob's sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceAction {
    /// Sets it.
    Update(u64),
    /// Sets it if that is more than it is.
    Max(u64),
    /// Adds one.
    Increment,
}

impl BlobService {
    /// Makes a page blob of zeros, which take no space, in place of any blob that has the name.
    /// Errors: as [`BlobService::put_blob`]; `InvalidHeaderValue` for a length or sequence number out of range;
    /// `ContentLengthLargerThanTierLimit`.
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
        let blob = write.new_blob(NewBlob {
            content: Content::Pages {
                sequence: request.sequence,
            },
            // The first layer also distinguishes this blob from others of its name.
            layers: vec![write.new_layer()],
            length: request.length,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: brought.encryption,
        })?;
        write.put(&permit, &blob);
        Ok((blob.written(), write.commit()?))
    }

    /// Writes a stretch of pages, or clears it. The cost does not depend on the size of the blob.
    /// Errors: of the names; `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`,
    /// `InvalidBlobType`; `InvalidHeaderValue` for a stretch that is not of pages, or of another length than the body;
    /// `InvalidPageRange` for one beyond the end; `Md5Mismatch`, `Crc64Mismatch`; those of the conditions of a write and of
    /// leases; `BlobUsesCustomerSpecifiedEncryption` and its like, cleared or written; `SequenceNumberConditionNotMet`;
    /// `BlobImmutableDueToPolicy`, `PendingCopyOperation`, `OperationNotAllowedOnIncrementalCopyBlob`.
    pub fn put_page(
        &self,
        address: &BlobAddress<'_>,
        request: PutPage,
    ) -> Result<(PutPageOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        let range = request.range;
        check_pages(&range)?;
        let body = request.update.finish(range.end - range.start)?;
        let mut write = self.begin_page_write(address)?;
        write.check_type(BlobType::PageBlob)?;
        write.check(condition, &request.conditions, WriteKind::Change)?;
        let (permit, mut blob) = write.changeable_pages()?;
        // Clearing writes no content, but it changes the blob: that needs the key.
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
        match body {
            Some(body) => write.replace(&mut blob, range, body)?,
            None => write.clear(&mut blob, range)?,
        }
        let written = write.touch(&mut blob);
        write.put(&permit, &blob);
        let outcome = PutPageOutcome {
            written,
            checksums,
            sequence,
        };
        Ok((outcome, write.commit()?))
    }

    /// Set Blob Properties of a page blob: another length, another sequence number, and, if they are given, other headers.
    /// Returns the sequence number as well. Bytes beyond a shorter length are removed; a longer one adds zeros. Another
    /// length needs the blob's key or scope, if it has one; the rest does not: the clients send none with it.
    /// Errors: as [`BlobService::set_blob_properties`]; `InvalidBlobType`; `InvalidHeaderValue`;
    /// `SequenceNumberIncrementTooLarge`, `ContentLengthLargerThanTierLimit`; `OperationNotAllowedOnIncrementalCopyBlob`.
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
        blob.copy = blob.copy.filter(|copy| copy.incremental);
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

impl<'a> BlobWrite<'a> {
    fn changeable_pages(&self) -> Result<(Permit, Blob)> {
        let (permit, blob) = self.changeable()?;
        match &blob.copy {
            Some(copy) if copy.incremental => Err(Error::OperationNotAllowedOnIncrementalCopyBlob),
            _ => Ok((permit, blob)),
        }
    }

    fn pages(&mut self, file: File, writer: Writer) -> PageWrite<'_> {
        PageWrite {
            service: self.service,
            rows: self.rows(),
            file,
            writer,
        }
    }

    /// The file of the topmost layer, or of a new one if other records see its epoch.
    pub(super) fn page_file(&mut self, blob: &mut Blob) -> Result<(File, Writer)> {
        let service = self.service;
        if let Some(layer) = blob.layers.last() {
            if layer.shared {
                // The epochs that other records see must not change meanwhile.
                let key = layer.file.references();
                // Of two files the second could come before the first, and would be refused if another writer has it.
                assert!(!self.has_file_lock, "a write locks one file of pages");
                let references = &service.keyspaces.references;
                self.transaction.lock([(references, &key[..])])?;
                self.has_file_lock = true;
            }
            if let Some(writer) = service.writer(layer)? {
                return Ok((layer.file, writer));
            }
        }
        Ok(self.push_layer(blob))
    }

    fn push_layer(&mut self, blob: &mut Blob) -> (File, Writer) {
        let layer = self.new_layer();
        blob.layers.push(layer);
        self.merge_later(blob.layers.len());
        let writer = Writer {
            epoch: layer.end,
            base: None,
            has_past: false,
        };
        (layer.file, writer)
    }

    fn new_layer(&self) -> Layer {
        Layer {
            windowed: true,
            ..Layer::new(self.new_file(), 0)
        }
    }

    fn replace(&mut self, blob: &mut Blob, range: Range<u64>, body: Uploaded) -> Result<()> {
        let (file, writer) = self.page_file(blob)?;
        self.cut_lower_layers(blob, &range)?;
        self.pages(file, writer).put(range.start, body)
    }

    /// Cuts the stretch from all layers but the topmost that no other record names.
    fn cut_lower_layers(&mut self, blob: &Blob, range: &Range<u64>) -> Result<()> {
        let lower = blob.layers.split_last().map_or(&[][..], |(_, lower)| lower);
        for layer in lower {
            if !self.service.is_shared(layer)? {
                let writer = Writer {
                    epoch: layer.end,
                    base: None,
                    has_past: layer.shared,
                };
                let mut pages = self.pages(layer.file, writer);
                pages.cut_below(range)?;
                pages.cut(range)?;
            }
        }
        Ok(())
    }

    /// Examines a bounded number of windows, however large the stretch is. Windows of a larger one are dropped by range if no other
    /// record sees them, and otherwise hidden by a new layer.
    fn clear(&mut self, blob: &mut Blob, range: Range<u64>) -> Result<()> {
        let covers_all = range.start == 0 && range.end >= blob.length;
        if let [layer] = &blob.layers[..]
            && covers_all
            && !self.service.is_shared(layer)?
        {
            self.forget(blob);
            blob.layers = vec![self.new_layer()];
            return Ok(());
        }
        let large = is_large(&range);
        let (mut file, mut writer) = self.page_file(blob)?;
        if large && writer.base.is_some() {
            (file, writer) = self.push_layer(blob);
        }
        self.cut_lower_layers(blob, &range)?;
        let mut pages = self.pages(file, writer);
        if writer.base.is_none() {
            pages.cut_below(&range)?;
        }
        // A comparison with a snapshot distinguishes pages that were cleared since from pages that were never written.
        let is_compared = writer.base.is_some();
        let hides = is_compared || blob.layers.len() > 1 || self.service.has_extents(file)?;
        let mut pages = self.pages(file, writer);
        match (hides, large) {
            (false, _) => pages.cut(&range),
            (true, false) => pages.put_cleared(&range),
            (true, true) => {
                pages.cut(&range)?;
                pages.put_cleared_below(range);
                Ok(())
            }
        }
    }

    /// Another record now sees the same pages as `blob`: later writes belong to a new epoch, which only `blob` sees. If `blob` does
    /// not write to the file of its topmost layer, its next write adds a layer.
    pub(crate) fn begin_epoch(&mut self, blob: &mut Blob) -> Result<()> {
        let service = self.service;
        if let Some(layer) = blob.layers.last_mut()
            && service.writer(layer)?.is_some()
        {
            let counted = service.is_counted(layer.file)?;
            self.end_epoch(layer.file, layer.end, counted);
            layer.end += 1;
        }
        Ok(())
    }

    fn resize(&mut self, blob: &mut Blob, length: u64) -> Result<()> {
        if length < blob.length {
            self.clear(blob, length..blob.length)?;
        }
        blob.length = length;
        Ok(())
    }
}
