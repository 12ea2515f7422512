//! ScanRange: the keys that a scan walks, and the direction.

use crate::{Direction, KeyRange};

/// The keys that a scan walks, and the direction.
#[derive(Debug, Clone)]
pub(crate) struct ScanRange {
    pub(crate) range: KeyRange,
    pub(crate) direction: Direction,
}
