//! The keyspaces of the service, and the reading of records from them.

use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{self, History};
use crate::model::{Blob, Container, LayerMerge};
use bytes::Bytes;
use lazurite_engine::{Db, Keyspace, KeyspaceOptions, Snapshot};

/// The keyspaces of the service. `keys.rs` documents the keys of each.
#[derive(Debug, Clone)]
pub(crate) struct Keyspaces {
    pub(crate) accounts: Keyspace,
    pub(crate) containers: Keyspace,
    pub(crate) blobs: Keyspace,
    pub(crate) blocks: Keyspace,
    pub(crate) content: Keyspace,
    pub(crate) copies: Keyspace,
    pub(crate) history: Keyspace,
    pub(crate) merges: Keyspace,
    pub(crate) moved: Keyspace,
    pub(crate) protected: Keyspace,
    pub(crate) references: Keyspace,
    pub(crate) tags: Keyspace,
    pub(crate) timers: Keyspace,
}

/// The state that an operation reads. Writers hold locks and read the newest state; readers read a
/// snapshot.
pub(crate) trait Source {
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
    /// Opens the keyspaces, and creates those that are absent.
    pub(crate) fn open(db: &Db) -> Result<Keyspaces> {
        let keyspace = |name| db.keyspace(name, KeyspaceOptions::default());
        Ok(Keyspaces {
            accounts: keyspace("blob.accounts")?,
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
        })
    }

    /// The container whose row has this key. Error: `ContainerNotFound`.
    pub(crate) fn container(&self, source: &impl Source, key: &[u8]) -> Result<Container> {
        let value = source.get(&self.containers, key)?;
        codec::decode_container(&value.ok_or(Error::ContainerNotFound)?)
    }

    /// The current record at this key in `blob.blobs`, if there is one.
    pub(crate) fn record(
        &self,
        source: &impl Source,
        home: u128,
        key: &[u8],
    ) -> Result<Option<Box<Blob>>> {
        let value = source.get(&self.blobs, key)?;
        value
            .map(|value| codec::decode_blob(&value, home))
            .transpose()
    }

    /// The record in the history at this key.
    pub(crate) fn past(
        &self,
        source: &impl Source,
        home: u128,
        key: &[u8],
    ) -> Result<Option<Box<Blob>>> {
        let value = source.get(&self.history, key)?;
        value
            .map(|value| codec::decode_blob(&value, home))
            .transpose()
    }

    /// The merge of layers of the blob with this key in `blob.blobs`, if one is under way.
    pub(crate) fn merge(
        &self,
        source: &impl Source,
        home: u128,
        key: &[u8],
    ) -> Result<Option<LayerMerge>> {
        let value = source.get(&self.merges, key)?;
        value
            .map(|value| codec::decode_merge(&value, home))
            .transpose()
    }

    /// The file of the uncommitted blocks of a name without a blob.
    pub(crate) fn uncommitted(
        &self,
        source: &impl Source,
        home: u128,
        name: &str,
    ) -> Result<Option<u128>> {
        let key = keys::history_of(home, History::Uncommitted, name);
        let value = source.get(&self.history, &key)?;
        value
            .map(|value| codec::decode_uncommitted(&value))
            .transpose()
    }
}
