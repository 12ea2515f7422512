//! Files: ranges of blocks and contents that records name, and the counts that show when no record
//! names a file any more.
//!
//! A file that only one record has ever named has no row: the record's layer is not marked as
//! shared, and removing the record drops the file. When a second record names the file, both layers
//! are marked as shared and a row counts the records. Invariants: while several records name a
//! file, its blocks are never changed; each content of pages has its own count of references.
//! Counts change under the lock of the file, taken after the locks of the blobs.
//!
//! A container counts foreign references: from its records to files of other containers, and from
//! foreign records to its files. Only a container without foreign references can be dropped by
//! range.

use crate::codec;
use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::keys::Timer;
use crate::keys::{self, File, History};
use crate::keyspaces::Keyspaces;
use crate::model::{Blob, Content, Layer};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Batch, Direction, KeyRange, LargeValue, Transaction};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Maximum number of names that are examined to find the last record that names a file. If that
/// record is not among them, the blocks that it does not list stay until it gets a new list or is
/// deleted.
const NAMERS_MAX: usize = 64;
/// Maximum number of names that are examined while several records name the file. Names whose
/// records no longer name the file count as well.
const NAMERS_MANY: usize = 8;

/// Changes of one operation to the files that records of one container refer to.
#[derive(Debug)]
pub(crate) struct FileChanges {
    home: u128,
    shared: BTreeMap<File, FileChange>,
    /// The change of the number of foreign references of each container.
    foreign: BTreeMap<u128, i64>,
}

/// Changes of one operation to one shared file.
#[derive(Debug, Default)]
struct FileChange {
    /// The change of the number of records that name the file.
    records: i64,
    /// For files of pages: the change of the number of records of each root.
    roots: BTreeMap<u128, i64>,
}

impl FileChanges {
    /// Starts without changes, for records of this container.
    pub(crate) fn new(home: u128) -> FileChanges {
        FileChanges {
            home,
            shared: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// The change of the number of foreign references of each container. Zeros are left out.
    fn foreign_references(&self) -> BTreeMap<[u8; 16], i64> {
        let changed = self.foreign.iter().filter(|(_, change)| **change != 0);
        changed
            .map(|(id, change)| (id.to_be_bytes(), *change))
            .collect()
    }

    /// Whether no shared file changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Notes that one more record names the layer's file, and the root in it.
    pub(crate) fn add(&mut self, layer: &Layer) {
        self.name(layer, 1, self.home);
    }

    /// Like [`FileChanges::remove`], for a record of another container, of a file that is marked as
    /// shared.
    pub(crate) fn remove_shared_of(&mut self, home: u128, layer: &Layer) {
        self.name(layer, -1, home);
    }

    /// Notes that a record no longer names the layer's file. Drops the file if no record names it.
    pub(crate) fn remove(&mut self, rows: &mut FileRows<'_>, layer: &Layer) {
        if layer.shared {
            self.name(layer, -1, self.home);
        } else {
            rows.drop_file(layer.file);
        }
    }

    /// Counts records of the container `home` that name the layer's file.
    fn name(&mut self, layer: &Layer, records: i64, home: u128) {
        if layer.file.home != home {
            for id in [layer.file.home, home] {
                *self.foreign.entry(id).or_default() += records;
            }
        }
        let change = self.shared.entry(layer.file).or_default();
        change.records += records;
        if let Some(root) = layer.root {
            *change.roots.entry(root).or_default() += records;
        }
    }

    /// Like [`FileChanges::remove`], for all layers of a blob that is removed for good.
    pub(crate) fn remove_all(&mut self, rows: &mut FileRows<'_>, blob: &Blob) {
        for layer in &blob.layers {
            if blob.content == Content::Whole && !layer.shared {
                // Deleting the only row costs less than deleting a range.
                if blob.length > 0 {
                    rows.delete_content(&layer.file.whole_content());
                }
            } else {
                self.remove(rows, layer);
            }
        }
    }
}

/// Writes rows of files to a batch: blocks, contents and references. Records of blobs are put and
/// removed only with a permit, not here.
pub(crate) struct FileRows<'b> {
    keyspaces: &'b Keyspaces,
    batch: &'b mut Batch,
}

impl<'b> FileRows<'b> {
    pub(crate) fn new(keyspaces: &'b Keyspaces, batch: &'b mut Batch) -> FileRows<'b> {
        FileRows { keyspaces, batch }
    }

    /// Puts a row of `blob.blocks`.
    pub(crate) fn put_block(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(&self.keyspaces.blocks, key, value);
    }

    /// Deletes a row of `blob.blocks`.
    pub(crate) fn delete_block(&mut self, key: &[u8]) {
        self.batch.delete(&self.keyspaces.blocks, key);
    }

    /// Deletes rows of `blob.blocks`.
    pub(crate) fn delete_blocks(&mut self, range: KeyRange) {
        self.batch.delete_range(&self.keyspaces.blocks, range);
    }

    /// Puts a row of `blob.content`.
    pub(crate) fn put_content(&mut self, key: &[u8], content: &[u8]) {
        self.batch.put(&self.keyspaces.content, key, content);
    }

    /// Puts a row of `blob.content` whose value is in the value log.
    pub(crate) fn put_large_content(&mut self, key: &[u8], content: LargeValue) {
        self.batch.put_large(&self.keyspaces.content, key, content);
    }

    /// Deletes a row of `blob.content`.
    pub(crate) fn delete_content(&mut self, key: &[u8]) {
        self.batch.delete(&self.keyspaces.content, key);
    }

    /// Deletes rows of `blob.content`.
    pub(crate) fn delete_contents(&mut self, range: KeyRange) {
        self.batch.delete_range(&self.keyspaces.content, range);
    }

    /// Puts a row of `blob.references`.
    pub(crate) fn put_reference(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(&self.keyspaces.references, key, value);
    }

    /// Deletes rows of `blob.references`.
    pub(crate) fn delete_references(&mut self, range: KeyRange) {
        self.batch.delete_range(&self.keyspaces.references, range);
    }

    /// Drops a file that no record names.
    pub(crate) fn drop_file(&mut self, file: File) {
        self.delete_blocks(file.all());
        self.delete_contents(file.all());
    }
}

impl BlobService {
    /// Locks the counts of the files, and adds the new ones to the batch of `transaction`.
    pub(crate) fn settle_files(
        &self,
        transaction: &mut Transaction<'_>,
        changes: &FileChanges,
        now: SystemTime,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = changes.shared.keys().map(File::references).collect();
        let foreign = changes.foreign_references();
        let containers = foreign.keys().map(|id| &id[..]);
        let files = keys.iter().map(|key| &key[..]);
        let references = &self.keyspaces.references;
        transaction.lock(files.chain(containers).map(|key| (references, key)))?;
        let batch = transaction.batch();
        for ((file, change), key) in changes.shared.iter().zip(&keys) {
            let after = self.references_after(file, change.records)?;
            if after == 0 {
                let mut rows = FileRows::new(&self.keyspaces, batch);
                rows.drop_file(*file);
                rows.delete_references(KeyRange::prefix(key));
                continue;
            }
            if change.records != 0 {
                batch.put(references, key, &codec::encode_count(after));
            }
            if change.records < 0 {
                // If several records are left, one of them is enough: its trim reads the lists of
                // the others.
                let names = if after == 1 { NAMERS_MAX } else { NAMERS_MANY };
                self.trim_namers_later(batch, file, names, now)?;
            }
            self.settle_roots(batch, *file, &change.roots, now)?;
        }
        for (container_id, change) in foreign {
            self.settle_foreign_references(batch, container_id, change)?;
        }
        Ok(())
    }

    /// Sets timers to trim the last record that names the file. There are several timers, because
    /// any of the names may be a copy that lists few blocks of the file.
    fn trim_namers_later(
        &self,
        batch: &mut Batch,
        file: &File,
        mut left: usize,
        now: SystemTime,
    ) -> Result<()> {
        let snapshot = self.db.snapshot();
        let references = &self.keyspaces.references;
        let mut rows = snapshot.scan(references, file.namers(), Direction::Forward);
        while left > 0 && rows.advance()? {
            left -= 1;
            let blob_key = keys::namer(rows.key()).ok_or_else(corrupt_record)?;
            let home = keys::container_of(blob_key).ok_or_else(corrupt_record)?;
            let name = keys::blob_name(blob_key).ok_or_else(corrupt_record)?;
            let last = keys::history(home, History::Snapshot, &name, SnapshotTime(u64::MAX));
            let timer = keys::timer(SnapshotTime::at(now), Timer::Trim, &last);
            batch.put(&self.keyspaces.timers, &timer, &rows.value()?);
        }
        Ok(())
    }

    /// Adds the new count of a container's foreign references to `batch`. Error: `InternalError` if
    /// the count of an existing container would be negative. Nothing uses the count of a removed
    /// container.
    pub(crate) fn settle_foreign_references(
        &self,
        batch: &mut Batch,
        container_id: [u8; 16],
        change: i64,
    ) -> Result<()> {
        let references = &self.keyspaces.references;
        let before = match self.db.get(references, &container_id)? {
            None => 0,
            Some(value) => codec::decode_count(&value)?,
        };
        match before.checked_add_signed(change) {
            Some(0) => batch.delete(references, &container_id),
            Some(after) => batch.put(references, &container_id, &codec::encode_count(after)),
            // An error only for an existing container: nothing uses the count of a removed one.
            None if self.container_exists(&container_id)? => {
                return Err(Error::InternalError {
                    reason: format!("{before} references are foreign, and {change} more are to be"),
                });
            }
            None => batch.delete(references, &container_id),
        }
        Ok(())
    }

    /// Whether the container exists, or was deleted and can be restored. Only such a container has
    /// a row in `blob.protected`.
    fn container_exists(&self, container_id: &[u8; 16]) -> Result<bool> {
        let protected = &self.keyspaces.protected;
        Ok(self.db.get(protected, container_id)?.is_some())
    }

    /// Number of records that name the file.
    fn references(&self, file: &File) -> Result<u64> {
        let value = self
            .db
            .get(&self.keyspaces.references, &file.references())?;
        value.map_or(Ok(1), |value| codec::decode_count(&value))
    }

    /// Returns how many records will name the file after a change. Error: `InternalError` if the
    /// number would be negative: the file would be dropped twice.
    pub(crate) fn references_after(&self, file: &File, change: i64) -> Result<u64> {
        let before = self.references(file)?;
        before
            .checked_add_signed(change)
            .ok_or_else(|| Error::InternalError {
                reason: format!("{before} records name a file, and {change} more are to"),
            })
    }

    /// True if another record names the layer's file. The caller must hold the lock of a blob that
    /// names the file; `false` stays valid until the caller releases the lock.
    pub(crate) fn is_shared(&self, layer: &Layer) -> Result<bool> {
        Ok(layer.shared && self.references(&layer.file)? > 1)
    }

    /// True if records of the container refer to files of other containers, or records of other
    /// containers refer to its files. `false` stays valid while the caller has the container
    /// locked, because only copies from or to the container add such references.
    pub(crate) fn has_foreign_references(&self, container_id: u128) -> Result<bool> {
        let key = container_id.to_be_bytes();
        Ok(self.db.get(&self.keyspaces.references, &key)?.is_some())
    }
}

/// Returns the key ranges of a container's blobs, of their history and tags, and of the blocks and
/// contents of its files.
pub(crate) fn container_ranges(
    keyspaces: &Keyspaces,
    container_id: u128,
) -> [(&lazurite_engine::Keyspace, KeyRange); 5] {
    let range = || crate::keys::all_of_container(container_id);
    [
        (&keyspaces.blobs, range()),
        (&keyspaces.history, range()),
        (&keyspaces.tags, range()),
        (&keyspaces.blocks, range()),
        (&keyspaces.content, range()),
    ]
}
