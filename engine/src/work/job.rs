//! The kinds of background work.

/// A piece of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A sealed memtable becomes an SSTable of level 0.
    Flush,
    /// SSTables are merged downwards.
    Compaction,
    /// Value-log segments that nothing refers to are removed.
    Collection,
}

/// Number of kinds of [`Job`].
pub(super) const JOBS: usize = 3;
