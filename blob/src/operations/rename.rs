//! Rename of a file or directory: one batch moves one row, whatever is below a directory, because
//! what is in it is filed under the directory's id. From one container to another, the batch has the
//! rows of everything below it: see `move_between.rs`.

use crate::conditions::{Conditions, WriteKind};
use crate::error::{Error, Result};
use crate::keys::{self, History, Timer};
use crate::model::{Blob, BlobAddress, Metadata, Written};
use crate::operations::history::{FIRST, HISTORY_STEP};
use crate::operations::path::Purpose;
use crate::operations::permit::{Action, RecordSlot};
use crate::operations::staging::STAGING_LIFETIME;
use crate::operations::write::{BlobWrite, RetireReason};
use crate::service::BlobService;
use lazurite_engine::Ticket;

/// Times that a rename is tried while the sweep holds a row that it needs.
const ATTEMPTS: u32 = 20;

/// What a rename to a directory that exists does: parameter `mode`. Source: Path - Create, `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    /// A directory replaces an empty directory.
    Legacy,
    /// A directory moves into the directory, under its own name.
    #[default]
    Posix,
}

/// The request of Path - Create with `x-ms-rename-source`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenamePath {
    /// What happens if both are directories.
    pub mode: RenameMode,
    /// Conditions on the source, with its lease id.
    pub source_conditions: Conditions,
    /// Conditions on the destination, with its lease id.
    pub conditions: Conditions,
    /// Replaces the metadata; `None` keeps it.
    pub metadata: Option<Metadata>,
}

impl BlobService {
    /// Renames a file or directory, atomically. ETag, rights, lease, appended data and snapshots
    /// stay with it. A file replaces a file that has the name. Errors: invalid names;
    /// `NotHierarchical`; `ContainerNotFound` of the destination; `SourcePathNotFound`,
    /// `SourceConditionNotMet`; `RenameDestinationParentPathNotFound`, `PathConflict`;
    /// `InvalidRenameSourcePath` for the root, for a path onto itself, and for a directory into
    /// itself; `InvalidSourceOrDestinationResourceType` for a file and a directory;
    /// `DirectoryNotEmpty`; those of write conditions and leases, `BlobAlreadyExists` for
    /// `If-None-Match: *`; `AuthorizationPermissionMismatch`; `PendingCopyOperation`,
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`; `FeatureNotSupportedInHierarchy`
    /// for a file with more than 256 snapshots, and, from one container to another, for snapshots, data
    /// that is not flushed, and a directory with more than 1,000 paths; `Conflict` of the engine if
    /// such a directory is being swept: try again.
    pub fn rename_path(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: &RenamePath,
    ) -> Result<(Written, Ticket)> {
        for _ in 1..ATTEMPTS {
            match self.rename_once(source, destination, request) {
                Err(Error::Engine(lazurite_engine::Error::Conflict)) => {}
                done => return done,
            }
        }
        self.rename_once(source, destination, request)
    }

    fn rename_once(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: &RenamePath,
    ) -> Result<(Written, Ticket)> {
        let condition = request.conditions.for_write()?;
        let purposes = [Purpose::Remove, Purpose::Replace];
        let both = self.begin_both(source, destination, purposes);
        let [from, mut to] = both.map_err(|error| match error {
            // The container of the source.
            Error::BlobNotFound => Error::SourcePathNotFound,
            Error::PathConflict if !self.leads_somewhere(source) => Error::SourcePathNotFound,
            other => other,
        })?;
        to.check_hierarchical()?;
        from.check_hierarchical()?;
        let mut blob = from.existing().map_err(|_| Error::SourcePathNotFound)?;
        from.check_renamed(&to)?;
        to.check(condition, &request.conditions, WriteKind::Create)?;
        if let (RenameMode::Posix, true, true) =
            (request.mode, blob.is_directory(), to.is_directory())
        {
            let inside = inside(source.blob, destination.blob);
            drop((from, to));
            // The conditions are on the destination that the request names.
            let request = RenamePath {
                mode: RenameMode::Legacy,
                conditions: Conditions::default(),
                ..request.clone()
            };
            let destination = BlobAddress {
                blob: &inside,
                ..*destination
            };
            return self.rename_once(source, &destination, &request);
        }
        if to.current().is_some() && blob.is_directory() != to.is_directory() {
            return Err(Error::InvalidSourceOrDestinationResourceType);
        }
        from.check_source(&request.source_conditions)?;
        if blob.is_directory() && self.may_hold_protected(from.home())? {
            from.check_unprotected_below()?;
        }
        if let Some(metadata) = &request.metadata {
            blob.metadata.clone_from(metadata);
        }
        if let Some(id) = to.current().and_then(Blob::directory) {
            to.check_empty_directory(id)?;
        }
        let permit = to.retire(RetireReason::Overwritten)?;
        to.moves_directory = blob.is_directory();
        if from.home() != to.home() {
            to.take_from_container(&from, &mut blob)?;
        }
        to.take_history(&from)?;
        to.take_record(&from, &blob);
        to.put(&permit, &blob);
        Ok((blob.written(), to.commit()?))
    }
}

impl BlobService {
    /// Whether there is something at a path, or may be.
    fn leads_somewhere(&self, path: &BlobAddress<'_>) -> bool {
        self.find(path).is_ok_and(|found| found.blob.is_some())
    }
}

/// The path of the source's last segment in the destination.
fn inside(source: &str, destination: &str) -> String {
    let source = source.trim_end_matches(['/', '\\']);
    let last = source.rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{destination}/{last}")
}

impl BlobWrite<'_> {
    /// Checks where the paths of a rename lead. `self` is the source.
    fn check_renamed(&self, to: &BlobWrite<'_>) -> Result<()> {
        let id = self.current().and_then(Blob::directory);
        let is_root = id == Some(crate::directory::ROOT);
        if is_root || self.key == to.key || id.is_some_and(|id| to.path.is_below(id)) {
            return Err(Error::InvalidRenameSourcePath);
        }
        match to.path.lacks_parent() {
            true => Err(Error::RenameDestinationParentPathNotFound),
            false => Ok(()),
        }
    }

    /// Checks the conditions and the lease of the source of a rename, and that it may go.
    fn check_source(&self, conditions: &Conditions) -> Result<()> {
        let condition = conditions.for_write()?;
        let met = self.check_conditions(condition, conditions, WriteKind::Change);
        met.map_err(|error| match error {
            Error::ConditionNotMet => Error::SourceConditionNotMet,
            other => other,
        })?;
        self.check_lease(conditions.lease_id)?;
        let blob = self.current();
        let slot = RecordSlot::Current;
        let _ = super::permit::Permit::new(Action::Delete, slot, blob, self.now, false)?;
        Ok(())
    }

    /// Moves the snapshots of the source here.
    fn take_history(&mut self, from: &BlobWrite<'_>) -> Result<()> {
        let moments = from.moments(History::Snapshot, FIRST, HISTORY_STEP + 1)?;
        if moments.len() > HISTORY_STEP {
            return Err(Error::FeatureNotSupportedInHierarchy {
                feature: "a rename of a file with more than 256 snapshots",
            });
        }
        for moment in moments {
            let Some(mut snapshot) = from.past(RecordSlot::Past(History::Snapshot, moment))? else {
                continue;
            };
            // A file that is replaced leaves its snapshots, and the clock may have been set back.
            let mut free = moment;
            while self
                .past(RecordSlot::Past(History::Snapshot, free))?
                .is_some()
            {
                free = free.next();
            }
            snapshot.snapshot = Some(free);
            let permit =
                self.permit(Action::Add, RecordSlot::Past(History::Snapshot, free), None)?;
            self.put(&permit, &snapshot);
            self.note_namers(from, &snapshot);
            let key = keys::history(from.home(), History::Snapshot, &from.name, moment);
            let history = &self.service.keyspaces.history;
            self.transaction.batch().delete(history, &key);
        }
        Ok(())
    }

    /// Removes the row of the source, and sets the timers of the record here.
    fn take_record(&mut self, from: &BlobWrite<'_>, blob: &Blob) {
        let keyspaces = &self.service.keyspaces;
        self.transaction.batch().delete(&keyspaces.blobs, &from.key);
        if let Some(merge) = from.merge() {
            self.transaction
                .batch()
                .delete(&keyspaces.merges, &from.key);
            let target = merge.target;
            self.rows().drop_file(target);
        }
        self.merge_later(blob.layers.len());
        self.set_expiry_timer(blob);
        if blob.staging.is_some() {
            let key = self.key.clone();
            self.set_timer(self.now + STAGING_LIFETIME, Timer::Staging, &key);
        }
        if blob.layers.iter().any(|layer| layer.shared) {
            self.note_namers(from, blob);
        }
    }
}
