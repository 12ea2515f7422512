//! Change: one change of a batch, as in the model, and the way in which its value reaches the
//! store.

use crate::model::Value;
use lazurite_engine::KeyRange;

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the model")]
pub enum Change {
    Put {
        keyspace: usize,
        key: Vec<u8>,
        value: Value,
        way: Way,
    },
    Delete {
        keyspace: usize,
        key: Vec<u8>,
    },
    DeleteRange {
        keyspace: usize,
        range: KeyRange,
    },
}

/// How the value of a put reaches the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In the batch; the engine separates it if it is large.
    Batch,
    /// By `write_value`.
    Whole,
    /// By `write_values`, with the others of its batch.
    Together,
    /// By a `ValueWriter`, in pieces.
    Streamed,
}

impl Change {
    /// The index of the keyspace that is changed.
    pub fn keyspace(&self) -> usize {
        match self {
            Change::Put { keyspace, .. }
            | Change::Delete { keyspace, .. }
            | Change::DeleteRange { keyspace, .. } => *keyspace,
        }
    }

    /// Whether the change deletes a range in which no key can lie.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Change::DeleteRange { range, .. } if range.is_empty())
    }

    /// The key; `None` for a change of a range.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Change::Put { key, .. } | Change::Delete { key, .. } => Some(key),
            Change::DeleteRange { .. } => None,
        }
    }
}
