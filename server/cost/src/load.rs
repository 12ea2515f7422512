//! The load of an application in a month.

use serde::{Deserialize, Serialize};

/// The load of a month.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// Items that are kept: N.
    pub items: f64,
    /// Reads of the application: R.
    pub reads: f64,
    /// Writes of the application: W.
    pub writes: f64,
}

impl Default for Load {
    /// Ten million of each.
    fn default() -> Load {
        Load {
            items: 1e7,
            reads: 1e7,
            writes: 1e7,
        }
    }
}
