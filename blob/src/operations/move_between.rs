//! A rename from one container to another: the rows move, and the files of the contents stay where
//! they are, named from the other container as those of a copy are.

use crate::codec;
use crate::directory::stored_name;
use crate::error::{Error, Result};
use crate::keys::{self, History, Timer};
use crate::model::Blob;
use crate::operations::permit::{Action, check_allowed};
use crate::operations::write::BlobWrite;
use lazurite_engine::{Direction, KeyRange};

/// Maximum number of paths that one batch moves.
const PATHS_MAX: usize = 1000;

impl BlobWrite<'_> {
    /// Takes over a blob or directory of another container, with all that is below it. Errors:
    /// `FeatureNotSupportedInHierarchy`; `PendingCopyOperation`, `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`; `Conflict` of the engine.
    pub(super) fn take_from_container(
        &mut self,
        from: &BlobWrite<'_>,
        blob: &mut Blob,
    ) -> Result<()> {
        from.check_no_history(|kind| keys::history_of(from.home(), kind, &from.name))?;
        let below = match blob.directory() {
            Some(id) => from.below(id)?,
            None => Vec::new(),
        };
        let blobs = &self.service.keyspaces.blobs;
        let rows = below.iter().map(|name| keys::blob(from.home(), name));
        let rows: Vec<Vec<u8>> = rows.collect();
        // Writers hold the lock of the directory above; the sweep holds those of the rows only.
        self.transaction
            .lock(rows.iter().map(|row| (blobs, &row[..])))?;
        self.take_files(from, blob)?;
        for (name, row) in below.into_iter().zip(rows) {
            // Before it was locked, the sweep may have changed or removed it.
            let moved = self
                .service
                .keyspaces
                .record(&self.service.db, from.home(), &row)?;
            let mut moved = moved.ok_or(Error::Engine(lazurite_engine::Error::Conflict))?;
            check_allowed(Action::Delete, &moved, self.now, false)?;
            self.take_files(from, &mut moved)?;
            let key = keys::blob(self.home(), &name);
            for layer in &moved.layers {
                let container_key = self.container_key.clone();
                self.note_namer(layer.file, &key, &container_key);
            }
            if let Some(at) = moved.expires_at {
                self.set_timer(at, Timer::Expiry, &key);
            }
            self.service
                .drop_merge_of(self.transaction.batch(), from.home(), &row)?;
            self.merge_later_at(&key, moved.layers.len());
            let value = codec::encode_blob(&moved, self.home());
            let blobs = &self.service.keyspaces.blobs;
            let batch = self.transaction.batch();
            batch.put(blobs, &key, &value);
            batch.delete(blobs, &row);
        }
        Ok(())
    }

    /// Names the files of a blob of another container from this one.
    fn take_files(&mut self, from: &BlobWrite<'_>, blob: &mut Blob) -> Result<()> {
        if blob.staging.is_some() {
            return Err(Error::FeatureNotSupportedInHierarchy {
                feature: "a rename of data that is not flushed to another file system",
            });
        }
        for layer in &mut blob.layers {
            layer.shared = true;
            self.name_file(layer);
            self.unname_shared_file_of(from.home(), layer);
        }
        Ok(())
    }

    /// The stored names of all that is below a directory of this container.
    fn below(&self, id: u128) -> Result<Vec<String>> {
        let snapshot = self.service.db.snapshot();
        let blobs = &self.service.keyspaces.blobs;
        let (mut below, mut left) = (Vec::new(), vec![id]);
        while let Some(id) = left.pop() {
            let start = stored_name(id, "");
            self.check_no_history(|kind| keys::history_start(self.home(), kind, &start))?;
            let range = KeyRange::prefix(&keys::blob_name_start(self.home(), &stored_name(id, "")));
            let mut rows = snapshot.scan(blobs, range, Direction::Forward);
            while rows.advance()? {
                if below.len() == PATHS_MAX {
                    return Err(Error::FeatureNotSupportedInHierarchy {
                        feature: "a rename of more than 1,000 paths to another file system",
                    });
                }
                let name = keys::blob_name(rows.key()).ok_or_else(crate::error::corrupt_record)?;
                let blob = codec::decode_blob(&rows.value()?, self.home())?;
                left.extend(blob.directory());
                below.push(name);
            }
        }
        Ok(below)
    }

    /// Fails if there are snapshots, deleted blobs or uncommitted blobs whose keys begin so.
    fn check_no_history(&self, start: impl Fn(History) -> Vec<u8>) -> Result<()> {
        let snapshot = self.service.db.snapshot();
        for kind in History::ALL {
            let range = KeyRange::prefix(&start(kind));
            let history = &self.service.keyspaces.history;
            if snapshot
                .scan(history, range, Direction::Forward)
                .advance()?
            {
                return Err(Error::FeatureNotSupportedInHierarchy {
                    feature: "a rename of snapshots or deleted blobs to another file system",
                });
            }
        }
        Ok(())
    }
}
