//! What a scan walks.

use crate::{Direction, KeyRange};

/// Which keys a scan walks, and which way.
#[derive(Debug, Clone)]
pub(crate) struct ScanRange {
    pub(crate) range: KeyRange,
    pub(crate) direction: Direction,
}
