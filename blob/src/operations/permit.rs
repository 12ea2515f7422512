//! What may be done with the record of a blob, and what forbids it: policies, legal holds, copies under way, the archive.
//!
//! A record is put and removed with a [`Permit`], and only [`BlobWrite::permit`] makes one. An operation names its action there, so none can
//! forget what forbids it. Leases and conditions are checked where the request is at hand: see `checks.rs`.

use super::checks::{check_online, check_unprotected};
use super::write::{BlobWrite, Place};
use crate::error::{Error, Result};
use crate::model::{Blob, CopyStatus};

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
}

/// The right to put or remove the record at a place.
#[must_use]
#[derive(Debug)]
pub(crate) struct Permit {
    place: Place,
}

impl Permit {
    pub(crate) fn place(&self) -> Place {
        self.place
    }
}

impl BlobWrite<'_> {
    /// Whether the action is allowed with what stands at the place now. `blob` is that record, if there is one.
    /// Errors: `PendingCopyOperation`; `BlobArchived`, `BlobBeingRehydrated`; `BlobImmutableDueToPolicy`,
    /// `BlobImmutableDueToLegalHold`.
    pub(crate) fn permit(
        &self,
        action: Action,
        place: Place,
        blob: Option<&Blob>,
    ) -> Result<Permit> {
        match blob {
            Some(blob) => self.check_action(action, blob)?,
            None => debug_assert!(
                action != Action::Add || self.past(place)?.is_none(),
                "something stands at {place:?}"
            ),
        }
        Ok(Permit { place })
    }

    /// As [`BlobWrite::permit`], with the current blob.
    pub(crate) fn permit_current(&self, action: Action) -> Result<Permit> {
        self.permit(action, Place::Current, self.current())
    }

    fn check_action(&self, action: Action, blob: &Blob) -> Result<()> {
        match action {
            Action::Change => {
                check_not_pending(blob)?;
                check_online(blob, self.now)?;
                check_unprotected(blob, self.now)
            }
            Action::SetExpiry => {
                check_not_pending(blob)?;
                check_unprotected(blob, self.now)
            }
            Action::Set => check_not_pending(blob),
            Action::Replace | Action::Delete => {
                check_not_pending(blob)?;
                if action == Action::Delete && blob.legal_hold {
                    return Err(Error::BlobImmutableDueToLegalHold);
                }
                // What becomes a version is kept.
                match self.keeps_versions() {
                    true => Ok(()),
                    false => check_unprotected(blob, self.now),
                }
            }
            Action::Remove => check_unprotected(blob, self.now),
            Action::Restore | Action::EndCopy | Action::Add | Action::Refile => Ok(()),
        }
    }
}

/// Fails while the blob is being copied to.
fn check_not_pending(blob: &Blob) -> Result<()> {
    match blob.copy.as_ref().map(|copy| copy.status) {
        Some(CopyStatus::Pending) => Err(Error::PendingCopyOperation),
        _ => Ok(()),
    }
}
