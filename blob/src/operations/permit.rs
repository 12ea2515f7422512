//! Permits: which actions the record of a blob allows, given policies, legal holds, pending copies
//! and the archive tier.
//!
//! Putting or removing a record takes a [`Permit`], and only [`Permit::new`] makes one. Every
//! operation passes its action to this function, so no operation can skip the checks. Leases and
//! conditions are checked with the request: see `checks.rs`.

use crate::codec;
use crate::error::{Error, Result};
use crate::keys::{self, History};
use crate::model::{Blob, Container, CopyStatus};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use bytes::Bytes;
use lazurite_engine::Direction;
use std::time::SystemTime;

/// An action on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Content, properties or metadata of the current blob change.
    Change,
    /// The current blob gets an expiry.
    SetExpiry,
    /// Tags, tier, lease, policy or legal hold are set.
    Set,
    /// Another blob replaces the current one.
    Replace,
    /// The current blob is deleted.
    Delete,
    /// A snapshot, a version or a deleted record is removed, or a blob has expired.
    Remove,
    /// A deleted record is restored.
    Restore,
    /// The pending copy to the current blob ends.
    EndCopy,
    /// A record is filed in an empty place.
    Add,
    /// Readers see no change: only the place of content and uncommitted blocks changes.
    Refile,
    /// The record is removed with its container, because the container is deleted or its retention
    /// has ended.
    DeleteContainer,
    /// The record is removed after its container, one at a time.
    Purge,
}

/// The place of a blob's record.
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
    /// Allows an action on a record. `blob` is the stored record; `keeps` says that a replaced or
    /// deleted blob stays as a version. Errors: `PendingCopyOperation`; `BlobArchived`,
    /// `BlobBeingRehydrated`; `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`.
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

/// Fails if this record forbids the action. `keeps` says that a replaced or deleted blob stays as a
/// version. Errors: as [`Permit::new`].
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
        // Source: a recorded answer to Put Blob (rclone, issue 3982).
        Action::Replace => {
            check_not_pending(blob)?;
            check_online(blob, now)?;
            if keeps {
                Ok(())
            } else {
                check_unprotected(blob, now)
            }
        }
        Action::Delete => {
            check_not_pending(blob)?;
            if keeps && !blob.legal_hold {
                Ok(())
            } else {
                check_unprotected(blob, now)
            }
        }
        Action::Remove | Action::Purge => check_unprotected(blob, now),
        // The container's error names neither the blob nor its protection.
        Action::DeleteContainer if blob.is_protected(now) => Err(Error::BlobImmutableDueToPolicy),
        Action::DeleteContainer => Ok(()),
        Action::Restore | Action::EndCopy | Action::Add | Action::Refile => Ok(()),
    }
}

/// The right to delete everything in a container. The caller must keep writers out from the time it
/// gets the right until the container is removed.
#[must_use]
#[derive(Debug)]
pub(crate) struct ContainerPermit {
    home: u128,
}

impl ContainerPermit {
    /// A permit for a removal that no policy prevents.
    pub(crate) fn unchecked(home: u128) -> ContainerPermit {
        ContainerPermit { home }
    }

    /// The id of the container.
    pub(crate) fn home(&self) -> u128 {
        self.home
    }
}

/// Evidence that a container held no protected record before it was locked.
pub(crate) struct Unprotected {
    home: u128,
    /// The row of `blob.protected` before the search. It changes whenever a record becomes
    /// protected.
    mark: Option<Bytes>,
}

/// The row of `blob.protected` of a container that never had a protected record.
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

    /// Searches for protected records before the container is locked, because the search may take
    /// long. `None` if there is one.
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

    /// Allows deleting the container with everything in it. The caller must hold its lock; `found`
    /// is the result of [`BlobService::find_unprotected`]. Error: `BlobImmutableDueToPolicy`.
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

    /// Fails if a record of the container is protected.
    fn check_nothing_protected(&self, home: u128, now: SystemTime) -> Result<()> {
        let snapshot = self.db.snapshot();
        for keyspace in [&self.keyspaces.blobs, &self.keyspaces.history] {
            let range = keys::all_of_container(home);
            let mut rows = snapshot.scan(keyspace, range, Direction::Forward);
            while rows.advance()? {
                if *keyspace == self.keyspaces.history && keys::is_uncommitted_marker(rows.key()) {
                    continue;
                }
                let blob = codec::decode_blob(&rows.value()?, home)?;
                check_allowed(Action::DeleteContainer, &blob, now, false)?;
            }
        }
        Ok(())
    }
}

/// Fails while a copy to the blob is pending.
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
