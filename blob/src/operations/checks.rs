//! Checks of a write against the blob that it found: type, conditions, lease.

use crate::conditions::{Conditions, ETags, Validators, WriteCondition, WriteKind};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::lease::{Lease, Leased};
use crate::model::{Blob, BlobAddress, BlobState, BlobType, Tags};
use crate::operations::path::Purpose;
use crate::operations::permit::RecordSlot;
use crate::operations::permit::{Action, Permit};
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use std::time::SystemTime;

impl BlobService {
    /// Begins a change of a blob, and checks its type, if one is given, the conditions and the
    /// lease id. Does not check that the blob exists. Errors: those of
    /// [`BlobService::begin_write`]; `InvalidBlobType`; those of write conditions and leases.
    pub(crate) fn begin_change(
        &self,
        address: &BlobAddress<'_>,
        blob_type: Option<BlobType>,
        conditions: &Conditions,
    ) -> Result<BlobWrite<'_>> {
        let condition = conditions.for_write()?;
        // A directory has no type, and takes changes that are for any type.
        let purpose = match blob_type {
            Some(_) => Purpose::Write,
            None => Purpose::WriteAny,
        };
        let write = self.begin_path_write(address, purpose)?;
        blob_type.map_or(Ok(()), |wanted| write.check_type(wanted))?;
        write.check(condition, conditions, WriteKind::Change)?;
        Ok(write)
    }
}

/// Fails if the caller may only create a blob, and there is one.
pub(super) fn check_may_create(conditions: &Conditions, current: Option<&Blob>) -> Result<()> {
    if conditions.must_be_new && current.is_some() {
        Err(Error::BlobAlreadyExists)
    } else {
        Ok(())
    }
}

/// Checks the lease of a leased blob before `If-None-Match: *`, and returns the condition that is
/// still to be checked. Without the lease id, a client learns that the blob is locked, not that it
/// exists. With the lease id, the condition is dropped: clients without an overwrite option send it
/// even when they replace a blob. Source: recorded answers of the hosted service.
pub(super) fn lease_before_existence<'a>(
    condition: WriteCondition<'a>,
    conditions: &Conditions,
    lease: Lease,
    now: SystemTime,
) -> Result<WriteCondition<'a>> {
    if !matches!(condition, WriteCondition::IfNoneMatch(ETags::Any)) || !lease.is_locked(now) {
        return Ok(condition);
    }
    lease.check_write(conditions.lease_id, now, Leased::Blob)?;
    Ok(WriteCondition::None)
}

impl BlobWrite<'_> {
    /// Checks the conditions and the lease id of a write against the current blob, or against its
    /// absence. A creation also needs a permit to replace the current blob.
    pub(crate) fn check(
        &self,
        condition: WriteCondition<'_>,
        conditions: &Conditions,
        kind: WriteKind,
    ) -> Result<()> {
        check_may_create(conditions, self.current())?;
        let lease = self.lease();
        let condition = lease_before_existence(condition, conditions, lease, self.now)?;
        self.check_conditions(condition, conditions, kind)?;
        self.check_lease(conditions.lease_id)?;
        match kind {
            WriteKind::Create => self.permit_current(Action::Replace).map(drop),
            WriteKind::Change => Ok(()),
        }
    }

    /// Checks the conditions of a write, tags included, but neither lease nor policies.
    pub(crate) fn check_conditions(
        &self,
        condition: WriteCondition<'_>,
        conditions: &Conditions,
        kind: WriteKind,
    ) -> Result<()> {
        condition.check(kind, self.validators())?;
        match self.current() {
            Some(blob) => conditions.check_tags(&blob.tags),
            None => conditions.check_tags(&Tags::new()),
        }
    }

    /// Like [`BlobWrite::find`], and also checks the condition of a change, but not the one on
    /// tags. If the blob is missing, a failed condition comes before `BlobNotFound`.
    pub(crate) fn find_for_change(
        &self,
        state: BlobState,
        condition: WriteCondition<'_>,
    ) -> Result<(RecordSlot, Box<Blob>)> {
        let found = match self.find(state) {
            Err(Error::BlobNotFound) => None,
            found => Some(found?),
        };
        let validators = found.as_ref().map(|(_, blob)| Validators::from(&**blob));
        condition.check(WriteKind::Change, validators)?;
        found.ok_or(Error::BlobNotFound)
    }

    /// Checks the lease id of a write against the lease of the current blob.
    pub(crate) fn check_lease(&self, given: Option<Guid>) -> Result<()> {
        self.lease().check_write(given, self.now, Leased::Blob)
    }

    fn lease(&self) -> Lease {
        self.current()
            .map_or_else(Lease::default, |blob| blob.lease)
    }

    /// Returns the existing blob, for a change of its content, properties or metadata. Errors:
    /// `BlobNotFound`; `PendingCopyOperation`, `BlobArchived`, `BlobBeingRehydrated`,
    /// `BlobImmutableDueToPolicy`, `BlobImmutableDueToLegalHold`.
    pub(crate) fn changeable(&self) -> Result<(Permit, Box<Blob>)> {
        let blob = self.existing()?;
        let permit = self.permit(Action::Change, RecordSlot::Current, Some(&blob))?;
        Ok((permit, blob))
    }
}
