//! A blob as a listing shows it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: String,
    /// Without quotes, as in listings.
    pub etag: String,
    pub bytes: u64,
    /// Its line for the layout; empty if only the name is needed.
    pub fields: Map<String, Value>,
}
