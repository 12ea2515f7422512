//! The Blob service on a log-structured store: containers, block blobs, listings. No HTTP here.
//!
//! Plain structs in, plain structs out. A call that writes returns its outcome and the [`Ticket`] of its one batch: what
//! it did is visible to later reads at once, and may be acknowledged when the ticket completes. Calls that read see one
//! snapshot, never half a write. Every call blocks for the disk, so an async caller makes them off its own threads.
//!
//! Supported: containers (create, properties, metadata, access policy, leases, delete and restore, list); block blobs (Put
//! Blob, Put Block, Put Block List, Get Block List), append blobs (Append Block, seal), page blobs (Put Page, Get Page Ranges
//! and differences, resize, sequence numbers); reads with ranges, properties, metadata, tags and the search for them, tiers,
//! expiry, immutability, leases, snapshots, versions, delete and undelete, copies; keys that clients bring and encryption
//! scopes; conditional headers; listing by prefix and
//! delimiter with all that a name has had. What ends by itself is ended by [`BlobService::sweep`].

mod account;
mod block_list;
mod checksum;
mod cipher;
mod codec;
mod conditions;
mod download;
mod epochs;
mod error;
mod etag;
mod fields;
mod files;
mod guid;
mod keys;
mod lease;
mod listing;
mod locks;
mod model;
mod moment;
mod names;
mod operations;
mod page_write;
mod pager;
mod pages;
mod parts;
mod sweep;
mod tags;
mod tier;
mod upload;
mod windows;

pub use account::AccountPolicy;
pub use block_list::{BlockChoice, BlockListType, BlockSource, COMMITTED_BLOCKS_MAX};
pub use checksum::{Checksummer, Checksums};
pub use cipher::CustomerKey;
pub use conditions::{Conditions, ETags};
pub use download::{BlobReader, ByteRange, Download};
pub use error::{Error, Result};
pub use etag::ETag;
pub use guid::Guid;
pub use lazurite_engine::Ticket;
pub use lease::{Lease, LeaseAction, LeaseDuration, LeaseOutcome, LeaseState};
pub use listing::{
    BlobEntry, ListBlobs, ListBlobsPage, ListContainers, ListContainersPage, ListedBlob,
    PAGE_ENTRIES_MAX,
};
pub use model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobState, BlobType, BlockList, Container,
    CopyState, CopyStatus, Deleted, Encryption, ImmutabilityMode, ImmutabilityPolicy, Md5,
    Metadata, PublicAccess, StoredPolicy, Tags, Written,
};
pub use moment::Moment;
pub use operations::{
    AppendBlock, AppendBlockOutcome, BlobDeletion, BlobSettings, COPY_FROM_URL_BYTES_MAX,
    ContainerSettings, CopyBlob, CopyOutcome, DeleteBlob, DeleteSnapshots, Expiry, FailedCopies,
    FetchedCopy, FindBlobsByTags, FindBlobsByTagsPage, GetPageRanges, PAGE_BLOB_BYTES_MAX,
    PAGE_RANGES_MAX, PageRange, PageRanges, PageUpdate, PutAppendBlob, PutBlob, PutBlobOutcome,
    PutBlockList, PutBlockOutcome, PutPage, PutPageBlob, PutPageOutcome, SequenceAction,
    SequenceConditions, TaggedBlob, TierChanged, TierOutcome,
};
pub use sweep::Swept;
pub use tags::{TagCondition, TagQuery};
pub use tier::{AccessTier, RehydratePriority, Tiering};
pub use upload::{
    APPEND_BLOCK_BYTES_MAX, PUT_BLOB_BYTES_MAX, PUT_BLOCK_BYTES_MAX, PUT_PAGE_BYTES_MAX,
    UnwrittenPart, Upload, UploadKind, WrittenPart,
};

use account::AccountPolicies;
use etag::EtagClock;
use lazurite_engine::{Db, IdSource, KeyLocks, Keyspace, KeyspaceOptions, WallClock};
use locks::ContainerGates;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// The Blob service over one store. Shared by all threads; holds no state of its own but locks and the ETag clock.
#[derive(Debug)]
pub struct BlobService {
    db: Db,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn WallClock>,
    keyspaces: Keyspaces,
    gates: ContainerGates,
    /// Held across read, check and write of the blobs of a name, by the key of the current one.
    locks: KeyLocks,
    /// Held across a change of how many records name a file; taken after those of blobs.
    file_locks: KeyLocks,
    /// Held by a sweep, so that no two of them drop the same records.
    sweeping: Mutex<()>,
    policies: AccountPolicies,
    etags: EtagClock,
    /// Operations under way that hold locks for long.
    long_work: AtomicUsize,
}

/// What the service owns in the store. `keys.rs` says what the keys of each look like.
#[derive(Debug, Clone)]
struct Keyspaces {
    accounts: Keyspace,
    containers: Keyspace,
    blobs: Keyspace,
    blocks: Keyspace,
    content: Keyspace,
    copies: Keyspace,
    history: Keyspace,
    merges: Keyspace,
    moved: Keyspace,
    protected: Keyspace,
    references: Keyspace,
    tags: Keyspace,
    timers: Keyspace,
}

impl BlobService {
    /// Opens the service's keyspaces in `db`, creating them if absent. Containers, blobs and contents get ids from `ids`.
    ///
    /// `clock` is read by each operation: by a write under the lock that orders it, so that the times of records are in the
    /// order of writes.
    pub fn open(db: &Db, ids: Arc<dyn IdSource>, clock: Arc<dyn WallClock>) -> Result<BlobService> {
        let keyspace = |name| db.keyspace(name, KeyspaceOptions::default());
        let accounts = keyspace("blob.accounts")?;
        let bound = db.get(&accounts, keys::ETAG_BOUND)?;
        let bound = bound.map(|value| codec::decode_count(&value)).transpose()?;
        let etags = EtagClock::open(bound, clock.now());
        Ok(BlobService {
            db: db.clone(),
            ids,
            clock,
            keyspaces: Keyspaces {
                accounts,
                containers: keyspace("blob.containers")?,
                blobs: keyspace("blob.blobs")?,
                blocks: keyspace("blob.blocks")?,
                content: keyspace("blob.content")?,
                copies: keyspace("blob.copies")?,
                history: keyspace("blob.history")?,
                merges: keyspace("blob.merges")?,
                moved: keyspace("blob.moved")?,
                protected: keyspace("blob.protected")?,
                references: keyspace("blob.references")?,
                tags: keyspace("blob.tags")?,
                timers: keyspace("blob.timers")?,
            },
            gates: ContainerGates::default(),
            locks: KeyLocks::default(),
            file_locks: KeyLocks::default(),
            sweeping: Mutex::default(),
            policies: AccountPolicies::default(),
            etags,
            long_work: AtomicUsize::new(0),
        })
    }
}

/// The server hands these from thread to thread.
const _: () = {
    const fn sent<T: Send>() {}
    const fn shared<T: Send + Sync>() {}
    shared::<BlobService>();
    sent::<Upload>();
    sent::<Download>();
};
