//! Plain data: Container, Blob, BlobBlock and what they are made of. `codec.rs` gives the stored ones their bytes.

use crate::etag::ETag;
use std::time::SystemTime;

/// Names and values in the order and case they were sent. Names are unique without regard to case.
pub type Metadata = Vec<(String, String)>;

/// An MD5 digest.
pub type Md5 = [u8; 16];

/// Which blob a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobAddress<'a> {
    /// The account, known to exist.
    pub account: &'a str,
    /// The container's name, as sent; the call checks it.
    pub container: &'a str,
    /// The blob's name, percent-decoded once; the call checks it.
    pub blob: &'a str,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// What its rows in the other keyspaces begin with; never reused, so a name may be.
    pub(crate) id: u128,
    /// Changes when metadata or the access policy do; blobs do not touch it.
    pub etag: ETag,
    /// When the ETag last changed, in whole seconds.
    pub last_modified: SystemTime,
    /// What may be read without credentials.
    pub public_access: PublicAccess,
    /// The stored access policies, at most five, in the order they were set.
    pub policies: Vec<StoredPolicy>,
    /// Metadata as set.
    pub metadata: Metadata,
}

/// What may be read without credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PublicAccess {
    /// Nothing.
    #[default]
    Private,
    /// Blobs, by name.
    Blob,
    /// Blobs, their list, and the container's properties and metadata.
    Container,
}

/// A stored access policy: what a shared access signature may leave to the server. Absent parts stay absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its name, at most 64 characters.
    pub id: String,
    /// Valid from then on. Kept in steps of 100 ns.
    pub start: Option<SystemTime>,
    /// Valid until then. Kept in steps of 100 ns.
    pub expiry: Option<SystemTime>,
    /// Permission letters, as sent.
    pub permission: Option<String>,
}

/// The kind of a blob, fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobType {
    /// Made of blocks, or of one body.
    BlockBlob,
}

/// The headers that a blob is given by its writer and that its readers get back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobHeaders {
    /// `x-ms-blob-content-type`; a reader of a blob without one is told `application/octet-stream`.
    pub content_type: Option<String>,
    /// `x-ms-blob-content-encoding`; only echoed.
    pub content_encoding: Option<String>,
    /// `x-ms-blob-content-language`.
    pub content_language: Option<String>,
    /// `x-ms-blob-cache-control`.
    pub cache_control: Option<String>,
    /// `x-ms-blob-content-disposition`.
    pub content_disposition: Option<String>,
    /// `x-ms-blob-content-md5`: a property of the blob, not a promise of the server.
    pub content_md5: Option<Md5>,
}

/// A committed blob without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// What its blocks and contents are filed under; its own until it is deleted.
    pub(crate) id: u128,
    /// Where its bytes are.
    pub(crate) content: Content,
    /// Changes with content, properties and metadata.
    pub etag: ETag,
    /// When the ETag last changed, in whole seconds.
    pub last_modified: SystemTime,
    /// When it was created, in whole seconds; overwriting keeps it.
    pub created_at: SystemTime,
    /// Bytes of content.
    pub length: u64,
    /// As set by its writer.
    pub headers: BlobHeaders,
    /// Metadata as set.
    pub metadata: Metadata,
}

impl Blob {
    /// The kind of blob.
    pub fn blob_type(&self) -> BlobType {
        match self.content {
            Content::Whole | Content::Blocks { .. } => BlobType::BlockBlob,
        }
    }

    /// The validators, as a write answers them.
    pub(crate) fn written(&self) -> Written {
        Written {
            etag: self.etag,
            last_modified: self.last_modified,
        }
    }
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// One value under the blob's own content key; none at all when the length is 0.
    Whole,
    /// One row per block, by the offset where it ends.
    Blocks {
        /// Rows in the list.
        count: u32,
    },
}

/// What stands under a blob's name.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are blobs: a box would cost more than it saves"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobRecord {
    /// Blocks were put but no list committed: to all but Get Block List and Put Block List there is no blob.
    Uncommitted {
        /// As in [`Blob::id`].
        id: u128,
    },
    /// A blob.
    Committed(Blob),
}

impl BlobRecord {
    pub(crate) fn id(&self) -> u128 {
        match self {
            BlobRecord::Uncommitted { id } => *id,
            BlobRecord::Committed(blob) => blob.id,
        }
    }

    pub(crate) fn committed(&self) -> Option<&Blob> {
        match self {
            BlobRecord::Uncommitted { .. } => None,
            BlobRecord::Committed(blob) => Some(blob),
        }
    }
}

/// One block of a block list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobBlock {
    /// Its id, decoded from base64: 1 to 64 bytes.
    pub id: Vec<u8>,
    /// Bytes of content, at least one.
    pub length: u64,
    /// The content it refers to.
    pub(crate) content: u128,
}

/// What is known of all uncommitted blocks of a blob together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staging {
    /// How many there are; at least one.
    pub(crate) count: u32,
    /// Length of each of their ids.
    pub(crate) id_bytes: u8,
    /// When the last of them was put: they may be dropped a week later.
    pub(crate) touched_at: SystemTime,
}

/// The answer of Get Block List. A list that was not asked for is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockList {
    /// The committed blob; `None` while there are only uncommitted blocks.
    pub blob: Option<Blob>,
    /// In the order of the content. Empty for a blob that came by Put Blob.
    pub committed: Vec<BlobBlock>,
    /// By id, in byte order.
    pub uncommitted: Vec<BlobBlock>,
}

/// What a write left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The new ETag.
    pub etag: ETag,
    /// The new Last-Modified, in whole seconds.
    pub last_modified: SystemTime,
}
