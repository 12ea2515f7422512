//! Operations on page blobs.

use super::new_blob::{BlobSettings, NewBlob};
use super::state::check_tier_holds;
use super::write::{BlobWrite, Retired};
use crate::BlobService;
use crate::checksum::Checksums;
use crate::conditions::{Conditions, WriteKind};
use crate::download::ByteRange;
use crate::epochs::Writer;
use crate::error::{Error, Result};
use crate::keys::{self, File, History};
use crate::model::{
    Blob, BlobAddress, BlobHeaders, BlobState, BlobType, Content, Encryption, Layer, Metadata,
    Written,
};
use crate::moment::Moment;
use crate::names;
use crate::page_write::{PageWrite, is_large};
use crate::pages::{self, Overlay, PAGE_BYTES};
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
    /// leases; `BlobUsesCustomerSpecifiedEncryption` and its like, cleared or written; `SequenceNumberConditionNotMet`;
    /// `BlobImmutableDueToPolicy`, `PendingCopyOperation`, `OperationNotAllowedOnIncrementalCopyBlob`.
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
        // Clearing writes nothing that would be encrypted, but it is a change of what only the key's owner may change.
        let key = match &body {
            Some(body) => body.key.as_ref(),
            None => request.conditions.customer_key.as_ref(),
        };
        blob.encryption.check(key)?;
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
    /// Answers the sequence number as well. What lies beyond a shorter length is gone; what a longer one adds is zero. Another
    /// length needs the blob's key, if a client brought it one; the rest does not: the clients send none with it.
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
        let mut write = self.begin_change(address, Some(BlobType::PageBlob), conditions, now)?;
        let mut blob = write.changeable_pages()?;
        if let Some(length) = length {
            blob.encryption.check(conditions.customer_key.as_ref())?;
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
            None => (0, 0),
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
        let keyspaces = &self.keyspaces;
        let overlay = Overlay::of_changes(keyspaces, &snapshot, &blob.layers, before, range);
        let (ranges, next_marker) = request.collect(overlay)?;
        Ok(PageRanges {
            blob,
            ranges,
            next_marker,
        })
    }
}

/// How many of the blob's layers were there when the snapshot was taken, and the epoch as of which it saw the last of them: what
/// is later has all that changed since.
fn layers_since(blob: &Blob, previous: &Blob) -> Result<(usize, u64)> {
    match (is_later(blob, previous), previous.layers.last()) {
        (true, Some(last)) => Ok((previous.layers.len(), last.end)),
        _ => Err(Error::BlobOverwritten),
    }
}

/// Whether a blob has become, by writes alone, what the other is, or is the same.
pub(crate) fn is_later(blob: &Blob, than: &Blob) -> bool {
    let Some((last, lower)) = than.layers.split_last() else {
        return false;
    };
    let same = |a: &Layer, b: &Layer| a.file == b.file && a.end == b.end;
    let Some(own) = blob.layers.get(lower.len()) else {
        return false;
    };
    let is_below = blob.layers.iter().zip(lower).all(|(a, b)| same(a, b));
    is_below && own.file == last.file && (own.end >= last.end || !own.windowed)
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

    fn pages(&mut self, file: File, writer: Writer) -> PageWrite<'_> {
        PageWrite {
            service: self.service,
            batch: &mut self.batch,
            file,
            writer,
        }
    }

    /// The file of the topmost layer, or of a new one if others see what that shows.
    fn page_file(&mut self, blob: &mut Blob) -> Result<(File, Writer)> {
        let service = self.service;
        if let Some(layer) = blob.layers.last() {
            if layer.shared {
                // What others see of the file must not change meanwhile.
                let key = layer.file.references();
                self.file_lock = Some(service.file_locks.lock(&key));
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
        let writer = Writer {
            epoch: layer.end,
            base: None,
            has_past: false,
        };
        (layer.file, writer)
    }

    fn new_layer(&self) -> Layer {
        Layer {
            file: self.new_file(),
            shared: false,
            end: 0,
            windowed: true,
        }
    }

    fn replace(&mut self, blob: &mut Blob, range: Range<u64>, body: Uploaded) -> Result<()> {
        let (file, writer) = self.page_file(blob)?;
        self.cut_lower_layers(blob, &range)?;
        self.pages(file, writer).put(range.start, body)
    }

    /// Makes room in all layers but the topmost that no other record names.
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

    /// Costs at most so many windows, however large the stretch is: those of a larger one are dropped by range if nobody else
    /// sees them, and hidden by a layer over them if somebody does.
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
        let hides = blob.layers.len() > 1 || self.service.has_extents(file)?;
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

    /// Another record has just been given what `blob` sees: what is written from now on, only `blob` sees. If it is not the one
    /// that writes to the file of its topmost layer, it gets a layer of its own by the first write.
    pub(crate) fn begin_epoch(&mut self, blob: &mut Blob) -> Result<()> {
        let service = self.service;
        if let Some(layer) = blob.layers.last_mut()
            && service.writer(layer)?.is_some()
        {
            let counted = service.is_counted(layer.file)?;
            self.files.begin_epoch(layer.file, layer.end, counted);
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
