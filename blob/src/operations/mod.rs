//! The operations: one file per resource, and one function per REST operation, under its REST name.
//! They share the look-ups here and, in `write.rs`, the one way to write to a blob.

mod access_control;
#[cfg(test)]
mod access_control_tests;
mod append_blob;
#[cfg(test)]
mod append_tests;
mod blob;
#[cfg(test)]
mod blob_tests;
mod block_blob;
#[cfg(test)]
mod block_blob_tests;
mod check_upload;
mod checks;
mod container;
#[cfg(test)]
mod container_tests;
mod copy;
#[cfg(test)]
mod copy_tests;
mod create_path;
mod delete_path;
mod encryption;
#[cfg(test)]
mod encryption_tests;
mod file;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod held_tests;
mod history;
#[cfg(test)]
mod history_tests;
mod incremental_copy;
#[cfg(test)]
mod kept_tests;
mod lease;
#[cfg(test)]
mod matrix_tests;
pub(crate) mod merge_in_steps;
mod merge_layers;
#[cfg(test)]
mod merge_tests;
mod move_between;
mod new_blob;
mod new_list;
mod page_blob;
#[cfg(test)]
mod page_blob_tests;
#[cfg(test)]
mod page_clear_tests;
#[cfg(test)]
mod page_cost_tests;
#[cfg(test)]
mod page_model_tests;
mod page_ranges;
mod path;
#[cfg(test)]
mod path_model_tests;
mod path_properties;
#[cfg(test)]
mod path_rights_tests;
#[cfg(test)]
mod path_tests;
mod path_write;
mod pending_copy;
pub(crate) mod permit;
mod purge;
#[cfg(test)]
mod purge_tests;
#[cfg(test)]
mod read_cost_tests;
mod rename;
#[cfg(test)]
mod rename_tests;
mod service;
mod snapshot;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod space_tests;
pub(crate) mod staging;
mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod synced_tests;
mod tags;
#[cfg(test)]
mod terms_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
mod trim;
#[cfg(test)]
mod trim_tests;
mod undelete;
#[cfg(test)]
mod version_tests;
mod write;

pub use access_control::AccessOutcome;
pub use append_blob::{AppendBlock, AppendBlockOutcome, PutAppendBlob};
pub use blob::{BlobDeletion, DeleteBlob, DeleteSnapshots, TierChanged};
pub use block_blob::{PutBlob, PutBlobOutcome, PutBlockList, PutBlockOutcome};
pub use container::{ContainerSettings, POLICY_PERMISSIONS};
pub use copy::{COPY_FROM_URL_BYTES_MAX, CopyBlob, CopyOutcome};
pub use create_path::CreatePath;
pub use file::FlushData;
pub use new_blob::BlobSettings;
pub use page_blob::{
    PageUpdate, PutPage, PutPageBlob, PutPageOutcome, SequenceAction, SequenceConditions,
};
pub use page_ranges::{GetPageRanges, PAGE_RANGES_MAX, PageRange, PageRanges};
pub(crate) use path::check_access;
pub use pending_copy::{FailedCopies, FetchedCopy};
pub(crate) use permit::{Action, RecordSlot};
pub use rename::{RenameMode, RenamePath};
pub use state::{Expiry, TierOutcome, check_tier};
pub use tags::{FindBlobsByTags, FindBlobsByTagsPage, TaggedBlob};
pub(crate) use write::BlobWrite;

use crate::access::Rights;
use crate::conditions::{Conditions, Validators};
use crate::directory;
use crate::error::{Error, Result};
use crate::etag::whole_seconds;
use crate::keys::{self, History};
use crate::lease::Leased;
use crate::model::{Blob, BlobAddress, BlobState, Container, Written};
use crate::names;
use crate::service::BlobService;
use lazurite_engine::Snapshot;
use std::time::SystemTime;

/// The result of looking up a blob in one snapshot.
struct BlobLookup {
    snapshot: Snapshot,
    /// The time of the read.
    now: SystemTime,
    container: Container,
    name: String,
    /// The blob of the requested state, unless it has expired.
    blob: Option<Box<Blob>>,
}

/// A committed blob that a read may see, and the snapshot it was found in.
pub(crate) struct BlobRead {
    snapshot: Snapshot,
    /// The time of the read.
    now: SystemTime,
    /// The id of the container.
    home: u128,
    /// The name that the blob is filed under.
    name: String,
    blob: Box<Blob>,
}

impl BlobService {
    /// The record of the blob that a state selects.
    fn record(
        &self,
        snapshot: &Snapshot,
        home: u128,
        name: &str,
        state: BlobState,
    ) -> Result<Option<Box<Blob>>> {
        let past = |kind, moment| {
            let key = keys::history(home, kind, name, moment);
            self.keyspaces.past(snapshot, home, &key)
        };
        if let BlobState::Snapshot(moment) = state {
            return past(History::Snapshot, moment);
        }
        let key = keys::blob(home, name);
        let mut current = self.keyspaces.record(snapshot, home, &key)?;
        if let Some(blob) = &mut current {
            blob.is_current = true;
        }
        match (state, &current) {
            (BlobState::Version(moment), Some(blob)) if blob.version == Some(moment) => Ok(current),
            (BlobState::Version(moment), _) => past(History::Version, moment),
            _ => Ok(current),
        }
    }

    /// Looks up a blob, which may be missing. Errors: invalid names; `ContainerNotFound`.
    fn find(&self, address: &BlobAddress<'_>) -> Result<BlobLookup> {
        names::check_container_name(address.container)?;
        let moves = self.directories.moves();
        let snapshot = self.db.snapshot();
        let key = keys::container(address.account, address.container);
        let container = self.keyspaces.container(&snapshot, &key)?;
        let (name, mut blob) =
            match self.path(&snapshot, moves, &container, address.blob, address.caller) {
                Ok(path) => {
                    let name = path.stored_name;
                    let blob = self.record(&snapshot, container.id, &name, address.state)?;
                    (name, blob)
                }
                // Nothing is below a file.
                Err(Error::PathConflict) => (directory::NOWHERE.to_string(), None),
                Err(error) => return Err(error),
            };
        if blob.is_none() && container.hierarchical && directory::is_root(&name) {
            blob = Some(self.root(&snapshot, &container)?);
        }
        let now = self.now();
        Ok(BlobLookup {
            now,
            blob: blob.filter(|blob| !blob.is_expired(now)),
            snapshot,
            container,
            name,
        })
    }

    /// Like [`BlobService::find`], for operations that need a committed blob; checks the conditions
    /// of a read, also the one on tags, and the lease id. Errors: `BlobNotFound`; those of the
    /// conditions; a lease id that does not match.
    fn find_for_read(
        &self,
        address: &BlobAddress<'_>,
        conditions: &Conditions,
    ) -> Result<BlobRead> {
        let found = self.find(address)?;
        let blob = found.blob.ok_or(Error::BlobNotFound)?;
        conditions.check_read(Validators::from(&*blob))?;
        conditions.check_tags(&blob.tags)?;
        if address.state == BlobState::Current {
            let lease = blob.lease;
            lease.check_read(conditions.lease_id, found.now, Leased::Blob)?;
        }
        Ok(BlobRead {
            snapshot: found.snapshot,
            now: found.now,
            home: found.container.id,
            name: found.name,
            blob,
        })
    }

    /// Like [`BlobService::find_for_read`], for a read of the content, which a caller needs a right
    /// for. Error: `AuthorizationPermissionMismatch`.
    fn find_content(&self, address: &BlobAddress<'_>, conditions: &Conditions) -> Result<BlobRead> {
        let read = self.find_for_read(address, conditions)?;
        check_access(&read.blob, address.caller, Rights::READ)?;
        Ok(read)
    }

    /// True if a missing snapshot or version was deleted and can still be restored. Errors: invalid
    /// names; `ContainerNotFound`.
    pub fn is_soft_deleted(&self, address: &BlobAddress<'_>) -> Result<bool> {
        let (BlobState::Snapshot(moment) | BlobState::Version(moment)) = address.state else {
            return Ok(false);
        };
        let found = self.find(address)?;
        let home = found.container.id;
        let key = keys::history(home, History::Deleted, &found.name, moment);
        let deleted = self.keyspaces.past(&found.snapshot, home, &key)?;
        Ok(deleted.is_some_and(|blob| blob.was(address.state) && blob.is_kept(found.now)))
    }

    /// Returns ETag and Last-Modified for a write to a blob that had `previous`. Neither goes back,
    /// even if the clock was set back over a restart: a client that has read a later state must not
    /// be told that nothing has changed since.
    fn stamp(&self, now: SystemTime, previous: Option<Validators>) -> Written {
        let last_modified = whole_seconds(now);
        Written {
            etag: self
                .etags
                .next(now, previous.map(|validators| validators.etag)),
            last_modified: previous.map_or(last_modified, |previous| {
                last_modified.max(previous.last_modified)
            }),
            version: None,
            encryption_scope: None,
        }
    }
}
