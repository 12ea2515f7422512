//! References to the nodes and contents of a file of pages: by branches, leaves and records. Only
//! nodes and contents with more than one reference have a row. A file that only one record has ever
//! named has no such rows.
//!
//! A node without references is dropped in the background, with everything below it that has no
//! other references.

use crate::codec;
use crate::error::{Error, Result, corrupt_record};
use crate::files::FileRows;
use crate::keys::{self, File, Timer};
use crate::place::{Child, Place};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Batch, Direction};
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

/// A step of dropping nodes ends once it has deleted this many rows.
const DROPPED_ROWS: usize = 2000;

/// The references in one file as a batch changes them. The caller must hold the lock of the file,
/// unless only one record names it.
pub(crate) struct References<'a> {
    service: &'a BlobService,
    file: File,
    /// Whether references are counted; otherwise each node and content has one.
    counted: bool,
    /// The counts that the batch has changed.
    changed: HashMap<u128, u64>,
}

impl<'a> References<'a> {
    pub(crate) fn new(service: &'a BlobService, file: File, counted: bool) -> References<'a> {
        References {
            service,
            file,
            counted,
            changed: HashMap::new(),
        }
    }

    /// Number of references to a node or a content.
    pub(crate) fn count(&self, id: u128) -> Result<u64> {
        if let Some(count) = self.changed.get(&id) {
            return Ok(*count);
        }
        if !self.counted {
            return Ok(1);
        }
        let blocks = &self.service.keyspaces.blocks;
        let value = self.service.db.get(blocks, &self.file.reference(id))?;
        value.map_or(Ok(1), |value| codec::decode_count(&value))
    }

    /// Adds references, or removes some. Returns their new number. Error: `InternalError` if it
    /// would be negative.
    pub(crate) fn add(&mut self, rows: &mut FileRows<'_>, id: u128, change: i64) -> Result<u64> {
        let before = self.count(id)?;
        let after = before.checked_add_signed(change);
        let after = after.ok_or_else(|| Error::InternalError {
            reason: format!("a node of pages has {before} references, and {change} more are to be"),
        })?;
        self.changed.insert(id, after);
        let key = self.file.reference(id);
        if after > 1 {
            rows.put_block(&key, &codec::encode_count(after));
        } else if before > 1 {
            rows.delete_block(&key);
        }
        Ok(after)
    }

    /// Removes a reference to a node. Returns whether it was the last one; then the node is dropped
    /// in the background.
    pub(crate) fn release(
        &mut self,
        rows: &mut FileRows<'_>,
        place: Place,
        id: u128,
    ) -> Result<bool> {
        let is_last = self.add(rows, id, -1)? == 0;
        if is_last {
            rows.put_block(&self.file.dropped(place, id), b"");
        }
        Ok(is_last)
    }

    /// Removes a reference to a content, and the content with the last.
    pub(crate) fn release_content(
        &mut self,
        rows: &mut FileRows<'_>,
        window: u64,
        content: u128,
    ) -> Result<()> {
        if self.add(rows, content, -1)? == 0 {
            rows.delete_content(&self.file.page_content(window, content));
        }
        Ok(())
    }

    /// Deletes a node without references, and its references to others. Returns the number of its
    /// contents or children.
    fn delete_node(&mut self, rows: &mut FileRows<'_>, place: Place, id: u128) -> Result<usize> {
        let (db, keyspaces) = (&self.service.db, &self.service.keyspaces);
        rows.delete_block(&self.file.dropped(place, id));
        rows.delete_block(&self.file.node(place, id));
        let node = Some(Child::Node(id));
        if place.is_leaf() {
            let extents = keyspaces.leaf(db, self.file, place, node)?;
            let contents = codec::contents(&extents);
            for content in &contents {
                self.release_content(rows, place.number, *content)?;
            }
            return Ok(contents.len());
        }
        let branch = keyspaces.branch(db, self.file, place, node)?;
        for (number, child) in &branch {
            if let Child::Node(id) = child {
                self.release(rows, place.child(*number), *id)?;
            }
        }
        Ok(branch.len())
    }
}

impl BlobService {
    /// Adds to `batch` the changed references of records to roots of a file. The caller must hold
    /// the lock of the file.
    pub(crate) fn settle_roots(
        &self,
        batch: &mut Batch,
        file: File,
        roots: &BTreeMap<u128, i64>,
        now: SystemTime,
    ) -> Result<()> {
        let mut references = References::new(self, file, true);
        let mut is_dropped = false;
        for (&root, &change) in roots {
            let mut rows = FileRows::new(&self.keyspaces, batch);
            if references.add(&mut rows, root, change)? == 0 {
                rows.put_block(&file.dropped(Place::ROOT, root), b"");
                is_dropped = true;
            }
        }
        if is_dropped {
            let timer = keys::timer(SnapshotTime::at(now), Timer::Pages, &file.references());
            batch.put(&self.keyspaces.timers, &timer, b"");
        }
        Ok(())
    }

    /// Runs one step of dropping nodes of a file that have no references. Returns whether there was
    /// nothing to do. The caller must hold the lock of the file. Rows of leaves come first, so that
    /// few rows wait at a time.
    pub(crate) fn drop_nodes(&self, batch: &mut Batch, file: File) -> Result<bool> {
        let mut references = References::new(self, file, true);
        let snapshot = self.db.snapshot();
        let blocks = &self.keyspaces.blocks;
        let mut dropped = snapshot.scan(blocks, file.all_dropped(), Direction::Forward);
        let mut count = 0;
        while count < DROPPED_ROWS && dropped.advance()? {
            let (place, id) = keys::dropped_node(dropped.key()).ok_or_else(corrupt_record)?;
            let mut rows = FileRows::new(&self.keyspaces, batch);
            count += 1 + references.delete_node(&mut rows, place, id)?;
        }
        Ok(count == 0)
    }
}
