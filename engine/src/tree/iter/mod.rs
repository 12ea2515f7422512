//! Reading in order: `visible.rs` gives the rows of one source as of a sequence number, `merge.rs`
//! merges the sources and steps over the spans that range tombstones cover.

mod merge;
mod scan_range;
mod visible;

pub(crate) use merge::Rows;
pub(crate) use scan_range::ScanRange;
pub(crate) use visible::Source;
