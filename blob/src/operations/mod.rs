//! The operations, one file per resource, one function per REST operation under its REST name; and what they share:
//! finding things, and the one way to write to a blob.

mod blob;
mod block_blob;
mod container;
mod service;
#[cfg(test)]
mod tests;

pub use block_blob::{PutBlob, PutBlobOutcome, PutBlockList};

use crate::codec;
use crate::conditions::{Validators, WriteCondition, WriteKind};
use crate::error::{Error, Result};
use crate::etag::whole_seconds;
use crate::keys::{self, BlobFiles};
use crate::model::{Blob, BlobAddress, BlobRecord, Container, Content, Written};
use crate::names;
use crate::{BlobService, Keyspaces};
use bytes::Bytes;
use lazurite_engine::{Batch, Db, KeyGuard, Keyspace, Snapshot, Ticket};
use std::sync::RwLockReadGuard;
use std::time::SystemTime;

/// Where an operation reads: a writer, which holds locks, the newest state; a reader a snapshot.
trait Source {
    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> lazurite_engine::Result<Option<Bytes>>;
}

impl Source for Db {
    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> lazurite_engine::Result<Option<Bytes>> {
        Db::get(self, keyspace, key)
    }
}

impl Source for Snapshot {
    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> lazurite_engine::Result<Option<Bytes>> {
        Snapshot::get(self, keyspace, key)
    }
}

impl Keyspaces {
    /// The container whose row has this key. Error: `ContainerNotFound`.
    fn container(&self, source: &impl Source, key: &[u8]) -> Result<Container> {
        let value = source.get(&self.containers, key)?;
        codec::decode_container(&value.ok_or(Error::ContainerNotFound)?)
    }

    /// What stands under a blob's name, if anything.
    fn record(&self, source: &impl Source, key: &[u8]) -> Result<Option<BlobRecord>> {
        let value = source.get(&self.blobs, key)?;
        value.map(|value| codec::decode_blob(&value)).transpose()
    }
}

/// What a read found, in one snapshot.
struct Found {
    snapshot: Snapshot,
    container_id: u128,
    record: Option<BlobRecord>,
}

/// A write to one blob under way: nobody else changes the blob, or deletes its container, until it is committed or dropped.
struct BlobWrite<'a> {
    service: &'a BlobService,
    container_id: u128,
    key: Vec<u8>,
    record: Option<BlobRecord>,
    // Dropped in this order, the reverse of taking them.
    _lock: KeyGuard<'a>,
    _gate: RwLockReadGuard<'a, ()>,
}

impl BlobService {
    /// What stands under a blob's name, if anything. Errors: of the names; `ContainerNotFound`.
    fn find(&self, address: &BlobAddress<'_>) -> Result<Found> {
        names::check_container_name(address.container)?;
        let name = names::blob_name(address.blob)?;
        let snapshot = self.db.snapshot();
        let key = keys::container(address.account, address.container);
        let container_id = self.keyspaces.container(&snapshot, &key)?.id;
        let key = keys::blob(container_id, &name);
        Ok(Found {
            container_id,
            record: self.keyspaces.record(&snapshot, &key)?,
            snapshot,
        })
    }

    /// As [`BlobService::find`], for what needs a committed blob. Error: `BlobNotFound`.
    fn find_committed(&self, address: &BlobAddress<'_>) -> Result<(Snapshot, u128, Blob)> {
        let found = self.find(address)?;
        match found.record {
            Some(BlobRecord::Committed(blob)) => Ok((found.snapshot, found.container_id, blob)),
            Some(BlobRecord::Uncommitted { .. }) | None => Err(Error::BlobNotFound),
        }
    }

    /// Begins a write to one blob. Blocks while another writes to it, or to the container itself.
    fn begin_write(&self, address: &BlobAddress<'_>) -> Result<BlobWrite<'_>> {
        names::check_container_name(address.container)?;
        let name = names::blob_name(address.blob)?;
        let container_key = keys::container(address.account, address.container);
        let gate = self.gates.shared(&container_key);
        let container_id = self.keyspaces.container(&self.db, &container_key)?.id;
        let key = keys::blob(container_id, &name);
        let lock = self.locks.lock(&key);
        Ok(BlobWrite {
            service: self,
            container_id,
            record: self.keyspaces.record(&self.db, &key)?,
            key,
            _lock: lock,
            _gate: gate,
        })
    }

    /// The validators of a write made now to what had these ones.
    fn stamp(&self, now: SystemTime, previous: Option<Validators>) -> Written {
        Written {
            etag: self
                .etags
                .next(now, previous.map(|validators| validators.etag)),
            last_modified: whole_seconds(now),
        }
    }
}

impl BlobWrite<'_> {
    fn committed(&self) -> Option<&Blob> {
        self.record.as_ref()?.committed()
    }

    fn validators(&self) -> Option<Validators> {
        self.committed().map(Validators::from)
    }

    fn check(&self, condition: WriteCondition<'_>, kind: WriteKind) -> Result<()> {
        condition.check(kind, self.validators())
    }

    /// The id under which the blob's blocks and contents are filed; a new one if nothing stands under the name.
    fn blob_id(&self) -> u128 {
        let existing = self.record.as_ref().map(BlobRecord::id);
        existing.unwrap_or_else(|| self.service.ids.next_id())
    }

    fn files(&self, blob_id: u128) -> BlobFiles {
        BlobFiles {
            container_id: self.container_id,
            blob_id,
        }
    }

    fn has_committed_blocks(&self) -> bool {
        let content = self.committed().map(|blob| blob.content);
        matches!(content, Some(Content::Blocks { count: 1.. }))
    }

    /// Removes, in `batch`, all blocks that the blob has, committed or not, and their contents.
    fn discard_blocks(&self, batch: &mut Batch) -> Result<()> {
        let Some(record) = &self.record else {
            return Ok(());
        };
        let keyspaces = &self.service.keyspaces;
        let files = self.files(record.id());
        let staged = self.service.db.get(&keyspaces.blocks, &files.staging())?;
        if staged.is_some() || self.has_committed_blocks() {
            batch.delete_range(&keyspaces.blocks, files.all());
            batch.delete_range(&keyspaces.content, files.all());
        }
        Ok(())
    }

    /// Removes, in `batch`, the content that came by Put Blob.
    fn discard_whole(&self, batch: &mut Batch) {
        if let Some(blob) = self.committed()
            && blob.content == Content::Whole
            && blob.length > 0
        {
            let key = self.files(blob.id).whole_content();
            batch.delete(&self.service.keyspaces.content, &key);
        }
    }

    fn put_record(&self, batch: &mut Batch, record: &BlobRecord) {
        let value = codec::encode_blob(record);
        batch.put(&self.service.keyspaces.blobs, &self.key, &value);
    }

    /// Writes `batch` and lets go of the blob.
    fn commit(self, batch: Batch) -> Result<Ticket> {
        Ok(self.service.db.write(batch)?)
    }
}
