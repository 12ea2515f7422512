//! Operations on page blobs.

use super::new_blob::{BlobSettings, NewBlob};
use super::state::check_tier_holds;
use super::write::{BlobWrite, Retired};
use crate::BlobService;
use crate::checksum::Checksums;
use crate::conditions::{Conditions, WriteKind};
use crate::download::ByteRange;
use crate::error::{Error, Result};
use crate::keys::{self, File, History};
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobState, BlobType, Content, Encryption, Layer, Metadata,
    Written,
};
use crate::moment::Moment;
use crate::names;
use crate::pages::{self, Overlay, PAGE_BYTES, PageWrite};
use crate::upload::{Upload, UploadKind, Uploaded};
use lazurite_engine::Ticket;
use std::ops::Range;
use std::time::SystemTime;

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
    /// What else the blob is made with.
    pub settings: BlobSettings,
    /// What must hold of the blob before. A key among them is what its pages are going to be encrypted with.
    pub conditions: Conditions,
}

/// What a write of pages demands of the blob's sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceConditions {
    /// `x-ms-if-sequence-number-le`.
    pub at_most: Option<u64>,
    /// `x-ms-if-sequence-number-lt`.
    pub less_than: Option<u64>,
    /// `x-ms-if-sequence-number-eq`.
    pub equal: Option<u64>,
}

/// What is written to a stretch of pages.
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

/// The request of Put Page.
#[derive(Debug)]
pub struct PutPage {
    /// The stretch, end exclusive; both multiples of 512.
    pub range: Range<u64>,
    /// What is written there.
    pub update: PageUpdate,
    /// What must hold of the sequence number.
    pub sequence: SequenceConditions,
    /// What must hold of the blob before.
    pub conditions: Conditions,
}

/// The answer of Put Page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The request of Get Page Ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetPageRanges {
    /// Only pages of this range; `None` is the whole blob.
    pub range: Option<ByteRange>,
    /// Only pages that changed since this snapshot: `prevsnapshot`.
    pub previous: Option<Moment>,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Most ranges of the answer, from 1; `None` for all.
    pub max_results: Option<u32>,
    /// What must hold of the blob.
    pub conditions: Conditions,
}

/// A range of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRange {
    /// The stretch, end exclusive.
    pub range: Range<u64>,
    /// Whether it was cleared since the snapshot before; never so where none was given.
    pub cleared: bool,
}

/// The answer of Get Page Ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRanges {
    /// The blob.
    pub blob: Blob,
    /// Ascending; neighbours of one kind are one.
    pub ranges: Vec<PageRange>,
    /// What to ask the next page with; `None` if there is none.
    pub next_marker: Option<String>,
}

impl BlobService {
    /// Makes a page blob of zeros, which take no space, in place of whatever has the name.
    /// Errors: as [`BlobService::put_blob`]; `InvalidHeaderValue` for a length or sequence number out of range;
    /// `ContentLengthLargerThanTierLimit`.
    pub fn put_page_blob(
        &self,
        address: &BlobAddress<'_>,
        request: PutPageBlob,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        check_length(request.length)?;
        check_sequence(request.sequence)?;
        let condition = request.conditions.for_write()?;
        names::check_metadata(&request.metadata)?;
        let settings = request.settings.checked(BlobType::PageBlob)?;
        check_tier_holds(settings.tier, request.length)?;
        let mut write = self.begin_write(address, now)?;
        write.check(condition, &request.conditions, WriteKind::Create)?;
        write.check_scope(&settings)?;
        write.retire(Retired::Overwritten)?;
        let blob = write.new_blob(NewBlob {
            content: Content::Pages {
                sequence: request.sequence,
            },
            // The first layer is also what tells this blob from another of its name.
            layers: vec![write.new_layer()],
            length: request.length,
            headers: request.headers,
            metadata: request.metadata,
            settings,
            encryption: Encryption::of(request.conditions.customer_key.as_ref()),
        });
        write.put_current(&blob);
        Ok((blob.written(), write.commit()?))
    }

    /// Writes a stretch of pages, or clears it; costs the same whatever the size of the blob.
    /// Errors: of the names; `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`,
    /// `InvalidBlobType`; `InvalidHeaderValue` for a stretch that is not of pages, or of another length than the body;
    /// `InvalidPageRange` for one beyond the end; `Md5Mismatch`, `Crc64Mismatch`; those of the conditions of a write and of
    /// leases; `SequenceNumberConditionNotMet`; `BlobImmutableDueToPolicy`, `PendingCopyOperation`,
    /// `OperationNotAllowedOnIncrementalCopyBlob`.
    pub fn put_page(
        &self,
        address: &BlobAddress<'_>,
        request: PutPage,
        now: SystemTime,
    ) -> Result<(PutPageOutcome, Ticket)> {
        let condition = request.conditions.for_write()?;
        let range = request.range;
        check_pages(&range)?;
        let body = match request.update {
            PageUpdate::Clear => None,
            PageUpdate::Update(upload) if upload.length() != range.end - range.start => {
                return Err(Error::InvalidHeaderValue {
                    header: "Content-Length",
                    value: upload.length().to_string(),
                });
            }
            PageUpdate::Update(upload) => Some(upload.finish(UploadKind::PutPage, None)?),
        };
        let mut write = self.begin_write(address, now)?;
        write.check_type(BlobType::PageBlob)?;
        write.check(condition, &request.conditions, WriteKind::Change)?;
        let mut blob = write.changeable_pages()?;
        if let Some(body) = &body {
            blob.encryption.check(body.key.as_ref())?;
        }
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
        write.put_current(&blob);
        let outcome = PutPageOutcome {
            written,
            checksums,
            sequence,
        };
        Ok((outcome, write.commit()?))
    }

    /// Set Blob Properties of a page blob: another length, another sequence number, and, if they are given, other headers.
    /// Answers the sequence number as well. What lies beyond a shorter length is gone; what a longer one adds is zero.
    /// Errors: as [`BlobService::set_blob_properties`]; `InvalidBlobType`; `InvalidHeaderValue`;
    /// `SequenceNumberIncrementTooLarge`, `ContentLengthLargerThanTierLimit`; `OperationNotAllowedOnIncrementalCopyBlob`.
    pub fn set_page_blob_properties(
        &self,
        address: &BlobAddress<'_>,
        length: Option<u64>,
        sequence: Option<SequenceAction>,
        headers: Option<BlobHeaders>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(Written, u64, Ticket)> {
        length.map_or(Ok(()), check_length)?;
        let condition = conditions.for_write()?;
        let mut write = self.begin_write(address, now)?;
        write.check_type(BlobType::PageBlob)?;
        write.check(condition, conditions, WriteKind::Change)?;
        let mut blob = write.changeable_pages()?;
        if let Some(length) = length {
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
        write.put_current(&blob);
        Ok((written, number, write.commit()?))
    }

    /// The ranges of pages that were written and not cleared since; or those that were written or cleared after a snapshot.
    /// Errors: as [`BlobService::get_blob`]; `InvalidBlobType`; `InvalidQueryParameterValue` for a marker that is none;
    /// `OutOfRangeQueryParameterValue`; `PreviousSnapshotNotFound`, `PreviousSnapshotCannotBeNewer`, `BlobOverwritten`.
    pub fn get_page_ranges(
        &self,
        address: &BlobAddress<'_>,
        request: &GetPageRanges,
        now: SystemTime,
    ) -> Result<PageRanges> {
        let (snapshot, home, blob) = self.find_for_read(address, &request.conditions, now)?;
        if blob.blob_type() != BlobType::PageBlob {
            return Err(Error::InvalidBlobType);
        }
        let before = match request.previous {
            None => 0,
            Some(moment) => {
                if let BlobState::Snapshot(target) = address.state
                    && moment > target
                {
                    return Err(Error::PreviousSnapshotCannotBeNewer);
                }
                let name = names::blob_name(address.blob)?;
                let key = keys::history(home, History::Snapshot, &name, moment);
                let previous = self.keyspaces.past(&snapshot, home, &key)?;
                layers_since(&blob, &previous.ok_or(Error::PreviousSnapshotNotFound)?)?
            }
        };
        let range = request.range_in(blob.length)?;
        let layers = &blob.layers[before..];
        let overlay = Overlay::new(&self.keyspaces, &snapshot, layers, range);
        let (ranges, next_marker) = request.collect(overlay)?;
        Ok(PageRanges {
            blob,
            ranges,
            next_marker,
        })
    }
}

/// How many of the blob's layers were there when the snapshot was taken: the others have all that changed since.
fn layers_since(blob: &Blob, previous: &Blob) -> Result<usize> {
    let count = previous.layers.len();
    let same = blob.layers.len() >= count
        && blob
            .layers
            .iter()
            .zip(&previous.layers)
            .all(|(a, b)| a.file == b.file);
    match same && count > 0 {
        true => Ok(count),
        false => Err(Error::BlobOverwritten),
    }
}

/// What a marker of page ranges begins with.
const MARKER_VERSION: &str = "1!";

impl GetPageRanges {
    fn range_in(&self, length: u64) -> Result<Range<u64>> {
        if self.max_results == Some(0) {
            return Err(Error::OutOfRangeQueryParameterValue {
                parameter: "maxresults",
                value: "0".to_string(),
                minimum: 1,
                maximum: u32::MAX.into(),
            });
        }
        let mut range = match self.range {
            Some(range) => range.within(length)?,
            None => 0..length,
        };
        if let Some(marker) = self.marker.as_deref().filter(|marker| !marker.is_empty()) {
            let offset = marker.strip_prefix(MARKER_VERSION);
            let offset: u64 = offset.and_then(|text| text.parse().ok()).ok_or_else(|| {
                Error::InvalidQueryParameterValue {
                    parameter: "marker",
                    value: marker.to_string(),
                    reason: "it is not the NextMarker of a page",
                }
            })?;
            range.start = range.start.max(offset).min(range.end);
        }
        Ok(range)
    }

    fn collect(&self, mut overlay: Overlay) -> Result<(Vec<PageRange>, Option<String>)> {
        let mut ranges: Vec<PageRange> = Vec::new();
        while let Some(segment) = overlay.next()? {
            let cleared = match segment.what {
                pages::Written::Never => continue,
                pages::Written::Cleared if self.previous.is_none() => continue,
                pages::Written::Cleared => true,
                pages::Written::Pages(..) => false,
            };
            let full = self
                .max_results
                .is_some_and(|max| ranges.len() >= max as usize);
            match ranges.last_mut() {
                Some(last) if last.range.end == segment.range.start && last.cleared == cleared => {
                    last.range.end = segment.range.end;
                }
                _ if full => {
                    let marker = format!("{MARKER_VERSION}{}", segment.range.start);
                    return Ok((ranges, Some(marker)));
                }
                _ => ranges.push(PageRange {
                    range: segment.range,
                    cleared,
                }),
            }
        }
        Ok((ranges, None))
    }
}

impl SequenceConditions {
    fn check(&self, sequence: u64) -> Result<()> {
        let met = self.at_most.is_none_or(|most| sequence <= most)
            && self.less_than.is_none_or(|limit| sequence < limit)
            && self.equal.is_none_or(|wanted| sequence == wanted);
        match met {
            true => Ok(()),
            false => Err(Error::SequenceNumberConditionNotMet),
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
    match length.is_multiple_of(PAGE_BYTES) && length <= PAGE_BLOB_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::InvalidHeaderValue {
            header: "x-ms-blob-content-length",
            value: length.to_string(),
        }),
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
    match aligned && range.start < range.end {
        true => Ok(()),
        false => Err(Error::InvalidHeaderValue {
            header: "x-ms-range",
            value: format!("bytes={}-{}", range.start, range.end.wrapping_sub(1)),
        }),
    }
}

impl<'a> BlobWrite<'a> {
    fn changeable_pages(&self) -> Result<Blob> {
        let blob = self.changeable()?;
        match &blob.copy {
            Some(copy) if copy.incremental => Err(Error::OperationNotAllowedOnIncrementalCopyBlob),
            _ => Ok(blob),
        }
    }

    fn pages(&mut self, file: File) -> PageWrite<'_> {
        PageWrite {
            service: self.service,
            batch: &mut self.batch,
            file,
        }
    }

    fn replace(&mut self, blob: &mut Blob, range: Range<u64>, body: Uploaded) -> Result<()> {
        let top = self.layer_to_append(blob)?;
        self.cut_all(blob, &range)?;
        self.pages(top).put(range.start, body);
        Ok(())
    }

    /// Makes room in every layer that no other record names. Answers whether there are layers that some do name.
    fn cut_all(&mut self, blob: &Blob, range: &Range<u64>) -> Result<bool> {
        let mut any_shared = false;
        for layer in &blob.layers {
            match self.service.is_shared(layer)? {
                true => any_shared = true,
                false => self.pages(layer.file).cut(std::slice::from_ref(range))?,
            }
        }
        Ok(any_shared)
    }

    /// Drops what nobody sees since this operation has let go of snapshots: what of the blob's own layers lies hidden under
    /// those above.
    pub(crate) fn drop_hidden_pages(&mut self) -> Result<()> {
        let Some(blob) = self.current().cloned() else {
            return Ok(());
        };
        if blob.blob_type() != BlobType::PageBlob {
            return Ok(());
        }
        for (at, layer) in blob.layers.iter().enumerate() {
            let change = self.files.change(&layer.file);
            if change < 0 && self.service.references_after(&layer.file, change)? == 1 {
                let hidden = self.service.covered(&blob.layers[at + 1..])?;
                self.pages(layer.file).cut(&hidden)?;
            }
        }
        Ok(())
    }

    /// Lets go of layers that have nothing to say and that no other record names; the first stays.
    pub(crate) fn drop_blank_layers(&mut self) -> Result<()> {
        let Some(mut blob) = self.current().cloned() else {
            return Ok(());
        };
        if blob.blob_type() != BlobType::PageBlob || blob.layers.len() == 1 {
            return Ok(());
        }
        let mut blank = Vec::new();
        for layer in &blob.layers[1..] {
            if !self.service.is_shared(layer)? && self.service.is_blank(layer)? {
                blank.push(*layer);
            }
        }
        for layer in &blank {
            let keyspaces = &self.service.keyspaces;
            self.files.remove(keyspaces, &mut self.batch, layer);
        }
        blob.layers.retain(|layer| !blank.contains(layer));
        self.set_layers(blob.layers);
        Ok(())
    }

    fn new_layer(&self) -> Layer {
        Layer {
            file: self.new_file(),
            shared: false,
            end: 0,
        }
    }

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
        let top = self.layer_to_append(blob)?;
        if self.cut_all(blob, &range)? {
            self.pages(top).put_cleared(range);
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
