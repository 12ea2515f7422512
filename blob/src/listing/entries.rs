//! Entries: what a page of a listing is filled from, and the positions in it.

use crate::error::Result;
use crate::listing::entry::BlobEntry;
use crate::snapshot_time::SnapshotTime;

/// A position in a listing: the name, then the moment, then the kind. The position has the kind
/// because a clock that was set back can assign a moment twice. A position without a moment is
/// before all entries of the name.
pub(super) type Position = (String, Option<(SnapshotTime, u8)>);

/// A step of the walk.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are entries: a box would cost more than it saves"
)]
pub(super) enum Step {
    Entry(BlobEntry),
    /// A row that is not listed.
    Skipped,
}

/// The entries of a listing, one after the other.
pub(super) trait Entries {
    /// Moves to the first entry at or after this position. For the start of a page.
    fn seek(&mut self, to: &Position) -> Result<()>;

    /// The next step and its position; `None` at the end.
    fn next(&mut self) -> Result<Option<(Position, Step)>>;

    /// Rows of the store that were read so far.
    fn rows_examined(&self) -> u64;
}
