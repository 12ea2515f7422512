//! ListBlobs: the request of a listing of blobs, and the entries of its page.

use crate::access::Caller;
use crate::model::Blob;
use crate::snapshot_time::SnapshotTime;

/// The request of List Blobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListBlobs {
    /// Only names that begin with this prefix.
    pub prefix: String,
    /// Groups names: those that are equal up to the first delimiter after the prefix become one
    /// entry. Empty for no delimiter.
    pub delimiter: String,
    /// Only names from this one on. Empty: all.
    pub start_from: String,
    /// Only names before this one. Empty: all.
    pub end_before: String,
    /// Where the page begins: the `next_marker` of the page before. Absent or empty: at the start.
    pub marker: Option<String>,
    /// Maximum number of entries per page, blobs and prefixes together, at least 1. Values above
    /// [`crate::PAGE_ENTRIES_MAX`] are lowered to it.
    pub max_results: Option<u32>,
    /// Whether to return metadata.
    pub metadata: bool,
    /// Whether to list blobs that have only uncommitted blocks.
    pub uncommitted: bool,
    /// Whether to list snapshots, before the blob of their name.
    pub snapshots: bool,
    /// Whether to list versions that are not the current one, before the blob of their name.
    pub versions: bool,
    /// Whether to list deleted blobs, snapshots and versions that are still kept.
    pub deleted: bool,
    /// Whether to list names that have versions and no blob, once each.
    pub deleted_with_versions: bool,
    /// `showonly=deleted`: lists only deleted blobs that can still be restored, and reads nothing
    /// else.
    pub only_deleted: bool,
    /// `showonly=files` and `showonly=directories`: lists only these, in a hierarchical container.
    pub only: Option<PathKind>,
    /// In a hierarchical container: whose rights on directories are checked. `None` for a caller
    /// with all rights.
    pub caller: Option<Caller>,
}

/// One entry of a listing of blobs.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are blobs: a box would cost more than it saves"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobEntry {
    /// A blob, snapshot or version.
    Blob(ListedBlob),
    /// The common prefix of the names of one or more blobs, delimiter included.
    Prefix(String),
    /// In a listing by `/` of a hierarchical container: a directory. Its name ends in `/`.
    Directory(ListedBlob),
}

/// A file or a directory: `showonly` of List Blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A file: a blob that is no directory.
    File,
    /// A directory.
    Directory,
}

/// The request of List Paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPaths {
    /// The directory whose paths are listed; empty for the root.
    pub directory: String,
    /// Whether to list what is in directories below it, too.
    pub recursive: bool,
    /// Only paths from this one on, relative to the directory: `beginFrom`.
    pub begin_from: String,
    /// Where the page begins: the `next_marker` of the page before.
    pub marker: Option<String>,
    /// Maximum number of entries per page, at least 1. Values above [`crate::PAGE_ENTRIES_MAX`] are
    /// lowered to it.
    pub max_results: Option<u32>,
    /// Whose rights on directories are checked. `None` for a caller with all rights.
    pub caller: Option<Caller>,
}

/// A blob in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlob {
    /// The name of the blob.
    pub name: String,
    /// The blob; `None` if it has only uncommitted blocks. Metadata is empty unless requested.
    pub blob: Option<Box<Blob>>,
    /// Whether this is the current blob of its name: no snapshot, older version or deleted blob.
    pub is_current: bool,
    /// Identifies a deleted blob among those of its name; `None` if the entry is no deleted blob.
    pub deletion_id: Option<SnapshotTime>,
    /// Whether the entry represents a name that has versions and no blob.
    pub has_versions_only: bool,
}
