//! What may be done with the record of a blob, and what forbids it: policies, legal holds, copies under way, the archive.
//!
//! A record is put and removed with a [`Permit`], and only [`Permit::new`] makes one. An operation names its action there, so none can
//! forget what forbids it. Leases and conditions are checked where the request is at hand: see `checks.rs`.

use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{self, History};
use crate::model::{Blob, BlobRecord, Container, CopyStatus};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use bytes::Bytes;
use lazurite_engine::Direction;
use std::time::SystemTime;

/// What is about to be done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Content, properties or metadata of the current blob change.
    Change,
    /// The current blob is told when it is gone by itself.
    SetExpiry,
    /// What stands beside content and properties is set: tags, tier, lease, policy, legal hold.
    Set,
    /// Another blob takes the place of the current one.
    Replace,
    /// The current blob is deleted.
    Delete,
    /// A snapshot, a version or what is deleted already is deleted; a blob is gone by itself.
    Remove,
    /// What is deleted comes back.
    Restore,
    /// The copy that is under way to the current blob ends.
    EndCopy,
    /// A snapshot, a version or a deleted blob is filed where nothing stands.
    Add,
    /// Nothing changes that a reader sees: only where content and uncommitted blocks lie.
    Refile,
    /// The record goes with its container, which is deleted or was kept long enough.
    DeleteContainer,
    /// The record goes after its container, piece by piece.
    Purge,
}

/// Where the record of a blob stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordSlot {
    Current,
    Past(History, SnapshotTime),
}

/// The right to put or remove the record at a place.
#[must_use]
#[derive(Debug)]
pub(crate) struct Permit {
    place: RecordSlot,
}

impl Permit {
    /// Allows the action at a place. `blob` is what stands there now; `keeps`: what is replaced or deleted stays as a version.
    /// Errors: `PendingCopyOperation`; `BlobArchived`, `BlobBeingRehydrated`; `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`.
    pub(super) fn new(
        action: Action,
        place: RecordSlot,
        blob: Option<&Blob>,
        now: SystemTime,
        keeps: bool,
    ) -> Result<Permit> {
        if let Some(blob) = blob {
            check_allowed(action, blob, now, keeps)?;
        }
        Ok(Permit { place })
    }

    pub(crate) fn place(&self) -> RecordSlot {
        self.place
    }
}

/// Whether the action is allowed with this record. `keeps`: what is replaced or deleted stays as a version.
/// Errors: as [`Permit::new`].
pub(crate) fn check_allowed(
    action: Action,
    blob: &Blob,
    now: SystemTime,
    keeps: bool,
) -> Result<()> {
    match action {
        Action::Change => {
            check_not_pending(blob)?;
            check_online(blob, now)?;
            check_unprotected(blob, now)
        }
        Action::SetExpiry => {
            check_not_pending(blob)?;
            check_unprotected(blob, now)
        }
        Action::Set => check_not_pending(blob),
        Action::Replace | Action::Delete => {
            check_not_pending(blob)?;
            if action == Action::Delete && blob.legal_hold {
                return Err(Error::BlobImmutableDueToLegalHold);
            }
            if keeps {
                Ok(())
            } else {
                check_unprotected(blob, now)
            }
        }
        Action::Remove | Action::Purge => check_unprotected(blob, now),
        // The container's answer does not say which of its blobs is kept, or by what.
        Action::DeleteContainer if blob.is_protected(now) => Err(Error::BlobImmutableDueToPolicy),
        Action::DeleteContainer => Ok(()),
        Action::Restore | Action::EndCopy | Action::Add | Action::Refile => Ok(()),
    }
}

/// The right to drop all that a container holds. The caller keeps writers out from before it is given until the container is gone.
#[must_use]
#[derive(Debug)]
pub(crate) struct ContainerPermit {
    home: u128,
}

impl ContainerPermit {
    /// The id of the container.
    pub(crate) fn home(&self) -> u128 {
        self.home
    }
}

/// What was found in a container before its gate was taken: nothing that is protected.
pub(crate) struct Unprotected {
    home: u128,
    /// The row of `blob.protected` before the look. It changes whenever a record becomes protected.
    mark: Option<Bytes>,
}

/// The row of `blob.protected` of a container that never had a protected record. A container of an older store has none.
pub(crate) const NEVER_PROTECTED: &[u8] = &[0];

impl BlobService {
    fn protection(&self, home: u128) -> Result<Option<Bytes>> {
        let protected = &self.keyspaces.protected;
        Ok(self.db.get(protected, &home.to_be_bytes())?)
    }

    /// Whether a record of the container may be protected.
    pub(crate) fn may_hold_protected(&self, home: u128) -> Result<bool> {
        let mark = self.protection(home)?;
        Ok(mark.is_none_or(|mark| mark != NEVER_PROTECTED))
    }

    /// Looks for protected records before the gate of the container is taken, because it may take long; `None` if there are some.
    pub(crate) fn find_unprotected(
        &self,
        container: &Container,
        now: SystemTime,
    ) -> Result<Option<Unprotected>> {
        let home = container.id;
        let mark = self.protection(home)?;
        if mark.as_ref().is_some_and(|mark| *mark == NEVER_PROTECTED) {
            return Ok(Some(Unprotected { home, mark }));
        }
        match self.check_nothing_protected(home, now) {
            Ok(()) => Ok(Some(Unprotected { home, mark })),
            Err(Error::BlobImmutableDueToPolicy) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Whether the container may be deleted with all in it. The caller has its gate alone; `found` is what it looked for before.
    /// Error: `BlobImmutableDueToPolicy`.
    pub(crate) fn permit_container(
        &self,
        container: &Container,
        found: Option<&Unprotected>,
        now: SystemTime,
    ) -> Result<ContainerPermit> {
        let home = container.id;
        let permit = ContainerPermit { home };
        let mark = self.protection(home)?;
        if mark.as_ref().is_some_and(|mark| *mark == NEVER_PROTECTED)
            || found.is_some_and(|found| found.home == home && found.mark == mark)
        {
            return Ok(permit);
        }
        self.check_nothing_protected(home, now)?;
        Ok(permit)
    }

    /// Looks at all records of the container.
    fn check_nothing_protected(&self, home: u128, now: SystemTime) -> Result<()> {
        let snapshot = self.db.snapshot();
        for keyspace in [&self.keyspaces.blobs, &self.keyspaces.history] {
            let range = keys::all_of_container(home);
            let mut rows = snapshot.scan(keyspace, range, Direction::Forward);
            while rows.advance()? {
                if *keyspace == self.keyspaces.history && keys::is_uncommitted_marker(rows.key()) {
                    continue;
                }
                if let BlobRecord::Committed(blob) = codec::decode_blob(&rows.value()?, home)? {
                    check_allowed(Action::DeleteContainer, &blob, now, false)?;
                }
            }
        }
        Ok(())
    }
}

/// Fails while the blob is being copied to.
pub(super) fn check_not_pending(blob: &Blob) -> Result<()> {
    match blob.copy.as_ref().map(|copy| copy.status) {
        Some(CopyStatus::Pending) => Err(Error::PendingCopyOperation),
        _ => Ok(()),
    }
}

/// Fails while a policy or a legal hold keeps the blob as it is.
pub(super) fn check_unprotected(blob: &Blob, now: SystemTime) -> Result<()> {
    if blob.legal_hold {
        Err(Error::BlobImmutableDueToLegalHold)
    } else if blob.is_protected(now) {
        Err(Error::BlobImmutableDueToPolicy)
    } else {
        Ok(())
    }
}

/// Fails while the blob's content is in the archive.
pub(crate) fn check_online(blob: &Blob, now: SystemTime) -> Result<()> {
    match (blob.tiering.rehydrating(now), blob.tiering.is_archived(now)) {
        (Some(_), _) => Err(Error::BlobBeingRehydrated),
        (None, true) => Err(Error::BlobArchived),
        (None, false) => Ok(()),
    }
}
