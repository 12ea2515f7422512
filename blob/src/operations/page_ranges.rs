//! Get Page Ranges: the pages of a blob that were written, or that changed since a snapshot. A long
//! answer comes in several responses.

use crate::conditions::Conditions;
use crate::download::ByteRange;
use crate::error::{Error, Result};
use crate::keys::{self, History};
use crate::model::{Blob, BlobAddress, BlobState, BlobType, Layer};
use crate::operations::BlobRead;
use crate::pager::{Marker, Pager};
use crate::pages::{Change, Changes};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use std::ops::Range;

/// Maximum number of ranges per response; also the number if the request gives none. Source: Get
/// Page Ranges, `maxresults`.
pub const PAGE_RANGES_MAX: u32 = 10_000;

/// A response ends once it has read more stretches than this. A stretch is up to 64 KiB of content,
/// or cleared pages. Adjacent stretches of one kind form one range.
const STRETCHES_MAX: u64 = if cfg!(test) { 500 } else { 1_000_000 };

/// The request of Get Page Ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetPageRanges {
    /// Only pages of this range; `None` is the whole blob.
    pub range: Option<ByteRange>,
    /// Only pages that changed since this snapshot: `prevsnapshot`.
    pub previous: Option<SnapshotTime>,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Maximum number of ranges of the answer, at least 1. `None` or a value above
    /// [`PAGE_RANGES_MAX`] means [`PAGE_RANGES_MAX`].
    pub max_results: Option<u32>,
    /// Conditions on the blob.
    pub conditions: Conditions,
}

/// A range of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRange {
    /// The stretch, end exclusive.
    pub range: Range<u64>,
    /// Whether the range was cleared since the earlier snapshot; `false` if none was given.
    pub cleared: bool,
}

/// The answer of Get Page Ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRanges {
    /// The blob.
    pub blob: Box<Blob>,
    /// Ranges in ascending order. Adjacent ranges of one kind are joined.
    pub ranges: Vec<PageRange>,
    /// The marker of the next page; `None` on the last.
    pub next_marker: Option<String>,
}

impl BlobService {
    /// Returns the ranges of pages that were written and not cleared since; or, given a snapshot,
    /// those that were written or cleared after it. Errors: invalid names; `ContainerNotFound`,
    /// `BlobNotFound`, `InvalidBlobType`; those of read conditions; a lease id that does not match;
    /// `InvalidRange`; `InvalidQueryParameterValue` for a malformed marker;
    /// `OutOfRangeQueryParameterValue`; `PreviousSnapshotNotFound`,
    /// `PreviousSnapshotCannotBeNewer`, `BlobOverwritten`.
    pub fn get_page_ranges(
        &self,
        address: &BlobAddress<'_>,
        request: &GetPageRanges,
    ) -> Result<PageRanges> {
        let BlobRead {
            snapshot,
            home,
            name,
            blob,
            ..
        } = self.find_content(address, &request.conditions)?;
        if blob.blob_type() != BlobType::PageBlob {
            return Err(Error::InvalidBlobType);
        }
        let before = match request.previous {
            None => None,
            Some(moment) => {
                if let BlobState::Snapshot(target) = address.state
                    && moment > target
                {
                    return Err(Error::PreviousSnapshotCannotBeNewer);
                }
                let key = keys::history(home, History::Snapshot, &name, moment);
                let previous = self.keyspaces.past(&snapshot, home, &key)?;
                let previous = previous.ok_or(Error::PreviousSnapshotNotFound)?;
                root_before(&blob, &previous)?
            }
        };
        let range = request.range_in(blob.length)?;
        let layer = Layer::of_pages(&blob.layers)?;
        let changes = Changes::new(&self.keyspaces, &snapshot, before, layer, range);
        let page = request.collect(changes)?;
        Ok(PageRanges {
            blob,
            ranges: page.entries,
            next_marker: page.next_marker,
        })
    }
}

/// The root of the tree that an earlier snapshot of the blob has.
fn root_before(blob: &Blob, previous: &Blob) -> Result<Option<u128>> {
    let (layer, before) = (
        Layer::of_pages(&blob.layers)?,
        Layer::of_pages(&previous.layers)?,
    );
    if blob.replaced_at == previous.replaced_at && layer.file == before.file {
        Ok(before.root)
    } else {
        Err(Error::BlobOverwritten)
    }
}

impl GetPageRanges {
    fn range_in(&self, length: u64) -> Result<Range<u64>> {
        let mut range = match self.range {
            Some(range) => range.within(length)?,
            None => 0..length,
        };
        let of_ranges = |marker| match marker {
            Marker::Offset(offset) => Some(offset),
            _ => None,
        };
        if let Some(offset) = Marker::read(self.marker.as_deref(), of_ranges)? {
            range.start = range.start.max(offset).min(range.end);
        }
        Ok(range)
    }

    fn collect(&self, mut changes: Changes) -> Result<Pager<PageRange>> {
        let mut page: Pager<PageRange> =
            Pager::new(self.max_results, PAGE_RANGES_MAX, STRETCHES_MAX)?;
        while let Some(Change { range, stored }) = changes.next()? {
            page.rows_examined += 1;
            let marker = || Marker::Offset(range.start);
            if page.is_cut_short(marker) {
                break;
            }
            let cleared = stored.is_none();
            if cleared && self.previous.is_none() {
                continue;
            }
            match page.entries.last_mut() {
                Some(last) if last.range.end == range.start && last.cleared == cleared => {
                    last.range.end = range.end;
                }
                _ => {
                    let entry = PageRange {
                        range: range.clone(),
                        cleared,
                    };
                    if !page.push(entry, 0, marker) {
                        break;
                    }
                }
            }
        }
        Ok(page)
    }
}
