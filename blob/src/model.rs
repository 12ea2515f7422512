//! Plain data: Container, Blob, BlobBlock and their parts. `codec.rs` encodes the stored ones.

pub use crate::place::PAGE_BLOB_BYTES_MAX;
pub(crate) use crate::place::WINDOW_BYTES;

use crate::access::{AccessControl, Caller};
use crate::etag::{ETag, whole_seconds};
use crate::guid::Guid;
use crate::keys::File;
use crate::lease::Lease;
use crate::snapshot_time::SnapshotTime;
use crate::tier::Tiering;
use std::time::SystemTime;

/// Names and values in the order and case they were sent. Names are unique without regard to case.
pub type Metadata = Vec<(String, String)>;

/// The account, the container and the name of a blob, and which blob of the name a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobAddress<'a> {
    /// The account, known to exist.
    pub account: &'a str,
    /// The container's name, as sent; the call checks it.
    pub container: &'a str,
    /// The blob's name, percent-decoded once; the call checks it.
    pub blob: &'a str,
    /// Selects the current blob of this name, a snapshot or a version.
    pub state: BlobState,
    /// In a hierarchical container: who calls. `None` for a caller with all rights who has no id.
    pub caller: Option<&'a Caller>,
}

impl<'a> BlobAddress<'a> {
    /// The current blob of a name, for a caller with all rights.
    pub const fn current(account: &'a str, container: &'a str, blob: &'a str) -> BlobAddress<'a> {
        BlobAddress {
            account,
            container,
            blob,
            state: BlobState::Current,
            caller: None,
        }
    }
}

/// Selects one of the blobs of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlobState {
    /// The blob as it is now.
    #[default]
    Current,
    /// The snapshot of that moment: parameter `snapshot`.
    Snapshot(SnapshotTime),
    /// The version of that moment, which may be the current one: parameter `versionid`.
    Version(SnapshotTime),
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The start of the container's keys in other keyspaces. Never reused, unlike the name.
    pub(crate) id: u128,
    /// Changes with the metadata and the access policy, but not with blobs.
    pub etag: ETag,
    /// When the ETag last changed, in whole seconds.
    pub last_modified: SystemTime,
    /// The access of anonymous callers.
    pub public_access: PublicAccess,
    /// The stored access policies, at most five, in the order they were set.
    pub policies: Vec<lazurite_base::policies::StoredPolicy>,
    /// Metadata as set.
    pub metadata: Metadata,
    /// The lease of the container.
    pub lease: Lease,
    /// The encryption scope of blobs that name none; `None` is the account's own key.
    pub default_encryption_scope: Option<String>,
    /// Whether blobs must not name another scope.
    pub deny_encryption_scope_override: bool,
    /// Whether blobs of the container may have immutability policies and legal holds.
    pub immutable_versions: bool,
    /// Whether the container has a hierarchical namespace: directories that are real. Set when it
    /// is created.
    pub hierarchical: bool,
    /// When the container was deleted, and until when it may be restored; `None` if it is not
    /// deleted.
    pub deleted: Option<Deleted>,
}

impl Container {
    /// Identifies a deleted container among those of its name: `Version` in listings.
    pub fn deleted_version(&self) -> Option<SnapshotTime> {
        self.deleted.map(|deleted| SnapshotTime::at(deleted.at))
    }

    /// The validators, as returned by a write.
    pub(crate) fn written(&self) -> Written {
        Written {
            etag: self.etag,
            last_modified: self.last_modified,
            version: None,
            encryption_scope: None,
        }
    }
}

/// Retention of an account's deleted and overwritten blobs and containers. The default keeps
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountPolicy {
    /// Whether a blob that is overwritten or deleted stays as a version.
    pub versioning: bool,
    /// Days for which deleted blobs, snapshots and versions can be restored; `None` if they cannot.
    /// Source: Set Blob Service Properties, `DeleteRetentionPolicy`.
    pub delete_retention_days: Option<u16>,
    /// Whether deleted records that are still kept may be deleted for good.
    pub permanent_delete: bool,
    /// Days for which deleted containers can be restored; `None` if they cannot.
    pub container_retention_days: Option<u16>,
    /// Seconds until a blob is back from the archive tier. The hosted service takes hours.
    pub rehydrate_seconds: u32,
}

impl Default for AccountPolicy {
    fn default() -> Self {
        AccountPolicy {
            versioning: false,
            delete_retention_days: None,
            permanent_delete: false,
            container_retention_days: None,
            rehydrate_seconds: 2,
        }
    }
}

/// The time of a deletion, and the time until which it can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The time of the deletion.
    pub at: SystemTime,
    /// The time of the removal for good.
    pub until: SystemTime,
    /// The state before the deletion; `None` for containers.
    pub(crate) previous: Option<PreviousState>,
}

impl Deleted {
    /// Whole days left at `now`: `RemainingRetentionDays`.
    pub fn days_left(&self, now: SystemTime) -> u64 {
        let left = self.until.duration_since(now).unwrap_or_default();
        left.as_secs() / (24 * 60 * 60)
    }
}

/// The access of anonymous callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PublicAccess {
    /// Anonymous callers have no access.
    #[default]
    Private,
    /// Anonymous callers may read blobs, by name.
    Blob,
    /// Anonymous callers may also list blobs, and read the container's properties and metadata.
    Container,
}

/// The kind of a blob, fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobType {
    /// A blob made of blocks, or of one body.
    BlockBlob,
    /// A blob that grows at its end only.
    AppendBlob,
    /// A blob of pages of 512 bytes, written in any order.
    PageBlob,
}

/// Headers that the writer of a blob sets and its readers get back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobHeaders {
    /// `x-ms-blob-content-type`. If it is `None`, readers get `application/octet-stream`. If it is
    /// empty, because it was cleared, they get no such header.
    pub content_type: Option<String>,
    /// `x-ms-blob-content-encoding`; only echoed.
    pub content_encoding: Option<String>,
    /// `x-ms-blob-content-language`.
    pub content_language: Option<String>,
    /// `x-ms-blob-cache-control`.
    pub cache_control: Option<String>,
    /// `x-ms-blob-content-disposition`.
    pub content_disposition: Option<String>,
    /// `x-ms-blob-content-md5`: as the client sent it, or as Put Blob computed it. Not verified
    /// later. Sixteen bytes, unless Set Blob Properties set another value.
    pub content_md5: Option<Vec<u8>>,
}

/// A blob without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The files that hold the bytes. How they make up the content depends on `content`.
    pub(crate) layers: Vec<Layer>,
    /// How the bytes are filed.
    pub(crate) content: Content,
    /// The id of the file of the blob's uncommitted blocks, if there are any. The file belongs to
    /// the blob's container.
    pub(crate) staging: Option<u128>,
    /// Changes with the content, the properties and the metadata.
    pub etag: ETag,
    /// When the ETag last changed, in whole seconds.
    pub last_modified: SystemTime,
    /// When the blob was created, in whole seconds; overwriting keeps the time.
    pub created_at: SystemTime,
    /// Length of the content in bytes.
    pub length: u64,
    /// The headers, as set by the writer.
    pub headers: BlobHeaders,
    /// Metadata as set.
    pub metadata: Metadata,
    /// The tags, sorted by name.
    pub tags: Tags,
    /// The lease; snapshots and versions have none.
    pub lease: Lease,
    /// The access tier, as set.
    pub tiering: Tiering,
    /// The copy that made the blob, until the blob is changed.
    pub copy: Option<CopyState>,
    /// When the blob expires; `None` for never.
    pub expires_at: Option<SystemTime>,
    /// The moment that names the snapshot; `None` if the blob is not one.
    pub snapshot: Option<SnapshotTime>,
    /// The moment that names the version; `None` if the account kept no versions at the write.
    pub version: Option<SnapshotTime>,
    /// When the blob was deleted; `None` if it is not deleted.
    pub deleted: Option<Deleted>,
    /// Until when the blob must not be changed or deleted.
    pub immutability: Option<ImmutabilityPolicy>,
    /// Whether a legal hold keeps the blob from being changed or deleted.
    pub legal_hold: bool,
    /// The encryption of the content, in addition to that of the whole store.
    pub encryption: Encryption,
    /// Only for a page blob: the ETag of its creation or of its last replacement by a copy, as a
    /// moment. The snapshots taken since then have the same moment.
    pub(crate) replaced_at: Option<SnapshotTime>,
    /// Owner, group and access control lists: only in a hierarchical container.
    pub access: Option<Box<AccessControl>>,
    /// `x-ms-encryption-context`.
    pub encryption_context: Option<String>,
    /// True for the current blob of a name; false for snapshots, older versions and deleted blobs.
    /// Set by reads, not stored.
    pub is_current: bool,
}

/// Names and values of tags, sorted by name.
pub type Tags = Vec<(String, String)>;

impl Blob {
    /// A blob made at this time, with nothing but its content. All others begin as this one.
    pub(crate) fn empty(content: Content, etag: ETag, last_modified: SystemTime) -> Blob {
        Blob {
            layers: Vec::new(),
            content,
            staging: None,
            etag,
            last_modified,
            created_at: last_modified,
            length: 0,
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            tags: Tags::new(),
            lease: Lease::default(),
            tiering: Tiering::default(),
            copy: None,
            expires_at: None,
            snapshot: None,
            version: None,
            deleted: None,
            immutability: None,
            legal_hold: false,
            encryption: Encryption::None,
            replaced_at: None,
            access: None,
            encryption_context: None,
            is_current: false,
        }
    }

    /// The kind of blob.
    pub fn blob_type(&self) -> BlobType {
        match self.content {
            Content::Whole | Content::Blocks { .. } | Content::Directory { .. } => {
                BlobType::BlockBlob
            }
            Content::Appends { .. } => BlobType::AppendBlob,
            Content::Pages { .. } => BlobType::PageBlob,
        }
    }

    /// Whether this is a directory of a hierarchical container.
    pub fn is_directory(&self) -> bool {
        self.directory().is_some()
    }

    /// The id of the directory, if this is one.
    pub(crate) fn directory(&self) -> Option<u128> {
        match self.content {
            Content::Directory { id } => Some(id),
            _ => None,
        }
    }

    /// Appends that an append blob has taken: `x-ms-blob-committed-block-count`.
    pub fn committed_block_count(&self) -> Option<u32> {
        match self.content {
            Content::Appends { count, .. } => Some(count),
            _ => None,
        }
    }

    /// Whether this is an append blob that takes no more appends.
    pub fn is_sealed(&self) -> bool {
        matches!(self.content, Content::Appends { sealed: true, .. })
    }

    /// The counter of a page blob: `x-ms-blob-sequence-number`.
    pub fn sequence_number(&self) -> Option<u64> {
        match self.content {
            Content::Pages { sequence } => Some(sequence),
            _ => None,
        }
    }

    /// The state of a deleted blob before its deletion.
    pub(crate) fn previous_state(&self) -> PreviousState {
        let stored = self.deleted.and_then(|deleted| deleted.previous);
        stored.unwrap_or(PreviousState::Blob)
    }

    /// Whether a deleted record was this snapshot or version before.
    pub(crate) fn was(&self, state: BlobState) -> bool {
        match (self.previous_state(), state) {
            (PreviousState::Snapshot(was), BlobState::Snapshot(named)) => was == named,
            (PreviousState::Version(was), BlobState::Version(named)) => was == named,
            _ => false,
        }
    }

    /// Whether the blob was deleted and can still be restored.
    pub(crate) fn is_kept(&self, now: SystemTime) -> bool {
        self.deleted.is_some_and(|deleted| deleted.until > now)
    }

    /// The validators and the other results of a write.
    pub(crate) fn written(&self) -> Written {
        Written {
            etag: self.etag,
            last_modified: self.last_modified,
            version: self.version,
            encryption_scope: self.encryption_scope().map(str::to_string),
        }
    }

    /// Whether the blob has expired. A protected blob does not expire until its protection ends.
    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now) && !self.is_protected(now)
    }

    /// Whether a policy or a legal hold protects the blob.
    pub(crate) fn is_protected(&self, now: SystemTime) -> bool {
        let until = self.immutability.map(|policy| policy.until);
        self.legal_hold || until.is_some_and(|until| until > now)
    }
}

/// The state of a record before it was deleted. Deleting a current blob that has a version makes an
/// older version of it, not a deleted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreviousState {
    /// The current blob of the name.
    Blob,
    /// The snapshot of this moment.
    Snapshot(SnapshotTime),
    /// The version of this moment.
    Version(SnapshotTime),
}

/// One of the files that hold a blob's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) file: File,
    /// True if other records may name the file too; `blob.references` then counts the records.
    /// While there are several, the blocks of the file are never changed.
    pub(crate) shared: bool,
    /// The offset at which the layer's part of a block or append blob ends; 0 in a page blob. The
    /// part begins where the part of the layer before it ends. A layer with an empty part only
    /// keeps contents that rows of another layer refer to.
    pub(crate) end: u64,
    /// The root of the file's tree of pages; `None` without pages.
    pub(crate) root: Option<u128>,
}

impl Layer {
    /// A file that no other record names, without pages.
    pub(crate) fn new(file: File, end: u64) -> Layer {
        Layer {
            file,
            shared: false,
            end,
            root: None,
        }
    }
}

/// Layers of a blob that are being copied to one file, which then takes their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerMerge {
    /// The file that the layers are copied to.
    pub(crate) target: File,
    /// The offset in the blob up to which the layers have been copied.
    pub(crate) next: u64,
    /// The layers, the lowest first.
    pub(crate) layers: Vec<Layer>,
}

impl LayerMerge {
    /// Fewer layers than this are not merged in steps.
    pub(crate) const LAYERS_MIN: usize = 8;

    /// Returns the indices of these layers in the record of a blob. `None` if the layers do not
    /// follow one another there, or if no other layer is above them.
    pub(crate) fn place_in(&self, blob: &Blob) -> Option<std::ops::Range<usize>> {
        let same = |(a, b): (&Layer, &Layer)| (a.file, a.end) == (b.file, b.end);
        let count = self.layers.len();
        let mut windows = blob.layers.windows(count.max(1));
        let start = windows.position(|layers| layers.iter().zip(&self.layers).all(same))?;
        (start + count < blob.layers.len()).then_some(start..start + count)
    }
}

/// How the bytes of a blob are filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// One value under the file's own content key; none at all when the length is 0.
    Whole,
    /// One row for each block, by the offset at which the block ends.
    Blocks {
        /// Number of blocks in the list.
        count: u32,
    },
    /// One row for each append, filed like a block.
    Appends {
        /// Number of appends so far.
        count: u32,
        /// Whether no more appends are taken.
        sealed: bool,
    },
    /// A tree of pages in the file of the blob's only layer: see `pages.rs`.
    Pages {
        /// The sequence number of the page blob.
        sequence: u64,
    },
    /// None: this is a directory. The names of what is in it begin with the id: see `directory.rs`.
    Directory {
        /// The id of the directory, which a rename does not change.
        id: u128,
    },
}

/// The state of a copy, in the record of its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyState {
    /// `x-ms-copy-id`.
    pub id: Guid,
    /// The URL of the source, without credentials.
    pub source: String,
    /// Whether the copy is under way, and how it ended.
    pub status: CopyStatus,
    /// Number of bytes copied so far.
    pub copied: u64,
    /// Length of the source in bytes.
    pub total: u64,
    /// When the copy succeeded, failed or was aborted.
    pub completed_at: Option<SystemTime>,
    /// Why the copy failed.
    pub description: Option<String>,
    /// For an incremental copy: the snapshot of the destination that the copy made last.
    pub destination_snapshot: Option<SnapshotTime>,
    /// The snapshot of the source that was copied last, if the blob is the destination of
    /// incremental copies.
    pub incremental: Option<SnapshotTime>,
}

impl CopyState {
    /// The state of a copy that is complete.
    pub(crate) fn completed(id: Guid, source: String, length: u64, now: SystemTime) -> CopyState {
        CopyState {
            id,
            source,
            status: CopyStatus::Success,
            copied: length,
            total: length,
            completed_at: Some(whole_seconds(now)),
            description: None,
            destination_snapshot: None,
            incremental: None,
        }
    }
}

/// The status of a copy, named as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStatus {
    /// The copy is under way.
    Pending,
    /// The copy is complete.
    Success,
    /// A client has aborted the copy.
    Aborted,
    /// The service has given up the copy.
    Failed,
}

/// The time until which a blob must not be changed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImmutabilityPolicy {
    /// The time at which the protection ends, in whole seconds.
    pub until: SystemTime,
    /// Whether the policy itself may be taken back.
    pub mode: ImmutabilityMode,
}

/// Whether an immutability policy can be taken back. Named as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImmutabilityMode {
    /// The policy may be changed and deleted.
    Unlocked,
    /// The policy may only be extended.
    Locked,
}

/// The encryption of a blob's content, in addition to that of the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Encryption {
    /// No encryption beyond that of the store.
    #[default]
    None,
    /// A key that every request supplies; the store keeps its SHA-256.
    CustomerKey([u8; 32]),
    /// The encryption scope of this name.
    Scope(String),
}

/// One block of a block list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobBlock {
    /// The id of the block, decoded from base64: 1 to 64 bytes.
    pub id: Vec<u8>,
    /// Length of the content in bytes, at least one.
    pub length: u64,
    /// The id of the content of the block.
    pub(crate) content: u128,
    /// The file that the content is in; `None` if it is the file that the row is in.
    pub(crate) file: Option<File>,
}

/// A stretch of a window that was written or cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) range: std::ops::Range<u64>,
    pub(crate) fill: Fill,
}

/// The content of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    Pages(Pages),
    /// Zeros, written by the clear with this id.
    Cleared(u128),
}

/// The content of an extent of pages. Other extents of its window, in any tree of the file, may
/// share the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) content: u128,
    /// Number of bytes of the content before those of the extent.
    pub(crate) skipped: u64,
    /// Length of the whole content in bytes.
    pub(crate) stored: u64,
    /// The content and offset that the bytes were encrypted for, if they come from another content.
    pub(crate) sealed_as: Option<(u128, u64)>,
}

impl Fill {
    pub(crate) fn pages(self) -> Option<Pages> {
        match self {
            Fill::Pages(pages) => Some(pages),
            Fill::Cleared(_) => None,
        }
    }

    /// The fill without its first `bytes` bytes.
    pub(crate) fn skip(self, bytes: u64) -> Fill {
        match self {
            Fill::Pages(pages) => Fill::Pages(pages.skip(bytes)),
            cleared => cleared,
        }
    }

    /// Returns the write or the clear that the first page comes from. Pages that were only copied
    /// to another content keep their origin.
    pub(crate) fn origin(&self) -> (u128, u64) {
        match self {
            Fill::Pages(pages) => pages.counter(),
            Fill::Cleared(id) => (*id, 0),
        }
    }
}

impl Pages {
    /// The pages without their first `bytes` bytes.
    pub(crate) fn skip(mut self, bytes: u64) -> Pages {
        self.skipped += bytes;
        self
    }

    /// The content and the offset for which the first byte of the extent was encrypted.
    pub(crate) fn counter(&self) -> (u128, u64) {
        let (content, offset) = self.sealed_as.unwrap_or((self.content, 0));
        (content, offset + self.skipped)
    }
}

/// The common record of all uncommitted blocks of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Staging {
    /// Number of uncommitted blocks, at least one.
    pub(crate) count: u32,
    /// Length of the id of each block, in bytes.
    pub(crate) id_bytes: u8,
    /// When the last block was put: the blocks are dropped a week later.
    pub(crate) touched_at: SystemTime,
    /// The encryption of all these blocks.
    pub(crate) encryption: Encryption,
}

/// The response of Get Block List. A list that was not requested is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockList {
    /// The committed blob; `None` while there are only uncommitted blocks.
    pub blob: Option<Box<Blob>>,
    /// The blocks in the order of the content. Empty for a blob that was made by Put Blob.
    pub committed: Vec<BlobBlock>,
    /// The uncommitted blocks by id, in byte order.
    pub uncommitted: Vec<BlobBlock>,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The new ETag.
    pub etag: ETag,
    /// The new Last-Modified, in whole seconds.
    pub last_modified: SystemTime,
    /// The version written, if the account keeps versions. Always `None` for a container.
    pub version: Option<SnapshotTime>,
    /// The encryption scope of the blob, even if the write did not name it. `None` for a blob
    /// without a scope, and for a container.
    pub encryption_scope: Option<String>,
}
