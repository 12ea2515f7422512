//! The Blob service on a log-structured store: containers with block, append and page blobs. No
//! HTTP.
//!
//! Calls take and return plain structs. A call that writes returns its outcome and the [`Ticket`]
//! of its batch, or of the last one if it writes several. The change is visible to later reads at
//! once, and may be acknowledged when the ticket completes. Calls that read see one snapshot, never
//! half a write. Every call may block for the disk, so an async caller makes it on another thread.
//!
//! Supported: containers (create, properties, metadata, access policy, leases, delete and restore,
//! list); block blobs (Put Blob, Put Block, Put Block List, Get Block List), append blobs (Append
//! Block, seal), page blobs (Put Page, Get Page Ranges and differences, resize, sequence numbers);
//! reads with ranges, properties, metadata, tags and the search for them, tiers, expiry,
//! immutability, leases, snapshots, versions, delete and undelete, copies; customer-provided keys
//! and encryption scopes; conditional headers; listing by prefix and delimiter, with snapshots,
//! versions and deleted blobs. In a container with a hierarchical namespace: directories, data
//! appended at positions and flushed, renames, owners and access control lists, recursive deletion.
//! [`BlobService::sweep`] removes expired blobs, uncommitted blocks
//! after a week, and deleted blobs after their retention.

mod access;
mod account;
mod block_list;
mod checksum;
mod cipher;
mod codec;
mod conditions;
mod directory;
mod directory_cache;
mod download;
mod error;
mod etag;
mod etag_clock;
mod fields;
mod files;
mod guid;
mod keys;
mod keyspaces;
mod lease;
mod listing;
mod md5;
mod model;
mod names;
mod operations;
mod page_references;
mod page_write;
mod pager;
mod pages;
mod parts;
mod place;
mod service;
mod snapshot_time;
mod sweep;
mod tags;
mod tier;
mod upload;

pub use access::{
    AccessControl, AclChange, AclEntry, Caller, NewAccess, Permissions, Rights, SUPER_USER,
};
pub use block_list::{BlockChoice, BlockListType, BlockSource, COMMITTED_BLOCKS_MAX};
pub use checksum::{Checksummer, Checksums};
pub use cipher::CustomerKey;
pub use conditions::{Conditions, ETags};
pub use download::{BlobReader, ByteRange, Download};
pub use error::{Error, Result};
pub use etag::ETag;
pub use guid::Guid;
pub use lazurite_base::policies::StoredPolicy;
pub use lazurite_engine::Ticket;
pub use lease::{
    AfterWrite, Lease, LeaseAction, LeaseDuration, LeaseOutcome, LeaseState, LeaseSteps,
};
pub use listing::{
    BlobEntry, ListBlobs, ListBlobsPage, ListContainers, ListContainersPage, ListPaths, ListedBlob,
    PAGE_ENTRIES_MAX, PathKind,
};
pub use md5::Md5;
pub use model::{
    AccountPolicy, Blob, BlobAddress, BlobBlock, BlobHeaders, BlobState, BlobType, BlockList,
    Container, CopyState, CopyStatus, Deleted, Encryption, ImmutabilityMode, ImmutabilityPolicy,
    Metadata, PAGE_BLOB_BYTES_MAX, PublicAccess, Tags, Written,
};
pub use names::{check_blob_name, check_container_name, is_system_container};
pub use operations::{
    AccessOutcome, AppendBlock, AppendBlockOutcome, BlobDeletion, BlobSettings,
    COPY_FROM_URL_BYTES_MAX, ContainerSettings, CopyBlob, CopyOutcome, CreatePath, DeleteBlob,
    DeleteSnapshots, Expiry, FailedCopies, FetchedCopy, FindBlobsByTags, FindBlobsByTagsPage,
    FlushData, GetPageRanges, PAGE_RANGES_MAX, POLICY_PERMISSIONS, PageRange, PageRanges,
    PageUpdate, PutAppendBlob, PutBlob, PutBlobOutcome, PutBlockList, PutBlockOutcome, PutPage,
    PutPageBlob, PutPageOutcome, RenameMode, RenamePath, SequenceAction, SequenceConditions,
    TaggedBlob, TierChanged, TierOutcome, check_tier,
};
pub use service::BlobService;
pub use snapshot_time::SnapshotTime;
pub use sweep::Sweep;
pub use tags::{TagCondition, TagQuery, checked as checked_tags};
pub use tier::{AccessTier, RehydratePriority, Tiering};
pub use upload::{
    APPEND_BLOCK_BYTES_MAX, PUT_BLOB_BYTES_MAX, PUT_BLOCK_BYTES_MAX, PUT_PAGE_BYTES_MAX,
    UnwrittenPart, Upload, UploadKind, WrittenPart,
};

/// Compiles only if threads of the server can share the service, and pass uploads and downloads on.
const _: () = {
    const fn sent<T: Send>() {}
    const fn shared<T: Send + Sync>() {}
    shared::<BlobService>();
    sent::<Upload>();
    sent::<Download>();
};
