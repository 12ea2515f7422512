//! The Blob service on a log-structured store: containers, block blobs, listings. No HTTP here.
//!
//! Plain structs in, plain structs out. A call that writes returns its outcome and the [`Ticket`] of its one batch: what
//! it did is visible to later reads at once, and may be acknowledged when the ticket completes. Calls that read see one
//! snapshot, never half a write. Every call blocks for the disk, so an async caller makes them off its own threads.
//!
//! Supported: containers (create, properties, metadata, access policy, delete, list), block blobs (Put Blob, Put Block,
//! Put Block List, Get Block List, Get Blob with ranges, properties, metadata, delete), conditional headers, listing by
//! prefix and delimiter. Not yet: leases, snapshots, versions, tiers, tags, append and page blobs, copy.

mod block_list;
mod checksum;
mod codec;
mod conditions;
mod download;
mod error;
mod etag;
mod keys;
mod listing;
mod locks;
mod model;
mod names;
mod operations;
mod upload;

pub use block_list::{BlockChoice, BlockListType, BlockSource};
pub use checksum::{Checksummer, Checksums};
pub use conditions::{Conditions, ETags};
pub use download::{BlobReader, ByteRange, Download};
pub use error::{Error, Result};
pub use etag::ETag;
pub use lazurite_engine::Ticket;
pub use listing::{
    BlobEntry, ListBlobs, ListBlobsPage, ListContainers, ListContainersPage, ListedBlob,
    PAGE_ENTRIES_MAX,
};
pub use model::{
    Blob, BlobAddress, BlobBlock, BlobHeaders, BlobType, BlockList, Container, Md5, Metadata,
    PublicAccess, StoredPolicy, Written,
};
pub use operations::{PutBlob, PutBlobOutcome, PutBlockList};
pub use upload::{PUT_BLOB_BYTES_MAX, PUT_BLOCK_BYTES_MAX, Upload, UploadKind};

use etag::EtagClock;
use lazurite_engine::{Db, IdSource, KeyLocks, Keyspace, KeyspaceOptions};
use locks::ContainerGates;
use std::sync::Arc;

/// The Blob service over one store. Shared by all threads; holds no state of its own but locks and the ETag clock.
#[derive(Debug)]
pub struct BlobService {
    db: Db,
    ids: Arc<dyn IdSource>,
    keyspaces: Keyspaces,
    gates: ContainerGates,
    locks: KeyLocks,
    etags: EtagClock,
}

/// What the service owns in the store. `keys.rs` says what the keys of each look like.
#[derive(Debug, Clone)]
struct Keyspaces {
    accounts: Keyspace,
    containers: Keyspace,
    blobs: Keyspace,
    blocks: Keyspace,
    content: Keyspace,
}

impl BlobService {
    /// Opens the service's keyspaces in `db`, creating them if absent. Containers, blobs and contents get ids from `ids`.
    pub fn open(db: &Db, ids: Arc<dyn IdSource>) -> Result<BlobService> {
        let keyspace = |name| db.keyspace(name, KeyspaceOptions::default());
        Ok(BlobService {
            db: db.clone(),
            ids,
            keyspaces: Keyspaces {
                accounts: keyspace("blob.accounts")?,
                containers: keyspace("blob.containers")?,
                blobs: keyspace("blob.blobs")?,
                blocks: keyspace("blob.blocks")?,
                content: keyspace("blob.content")?,
            },
            gates: ContainerGates::default(),
            locks: KeyLocks::default(),
            etags: EtagClock::default(),
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
