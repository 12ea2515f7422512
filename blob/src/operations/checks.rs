//! Checks of a write against the blob that it found: type, conditions, lease.

use crate::conditions::{Conditions, ETags, Validators, WriteCondition, WriteKind};
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::lease::{Lease, Leased};
use crate::model::{Blob, BlobAddress, BlobState, BlobType, Tags};
use crate::operations::permit::RecordSlot;
use crate::operations::permit::{Action, Permit};
use crate::operations::write::BlobWrite;
use crate::service::BlobService;

impl BlobService {
    /// Begins a change of a blob, of this type if one is given: see [`BlobWrite::check`]. Does not check that the blob exists.
    /// Errors: of [`BlobService::begin_write`]; `InvalidBlobType`; those of the conditions of a write and of leases.
    pub(crate) fn begin_change(
        &self,
        address: &BlobAddress<'_>,
        blob_type: Option<BlobType>,
        conditions: &Conditions,
    ) -> Result<BlobWrite<'_>> {
        let condition = conditions.for_write()?;
        let write = self.begin_write(address)?;
        blob_type.map_or(Ok(()), |wanted| write.check_type(wanted))?;
        write.check(condition, conditions, WriteKind::Change)?;
        Ok(write)
    }
}

impl BlobWrite<'_> {
    /// Checks the conditions and the lease id of a write against the current blob, if there is one.
    pub(crate) fn check(
        &self,
        condition: WriteCondition<'_>,
        conditions: &Conditions,
        kind: WriteKind,
    ) -> Result<()> {
        let condition = match condition {
            // Clients without an overwrite option send this even with the lease id of the blob that they replace. The hosted
            // service was observed to let the lease decide.
            WriteCondition::IfNoneMatch(ETags::Any)
                if conditions.lease_id.is_some()
                    && self.check_lease(conditions.lease_id).is_ok() =>
            {
                WriteCondition::None
            }
            condition => condition,
        };
        self.check_conditions(condition, conditions, kind)?;
        self.check_lease(conditions.lease_id)?;
        match kind {
            WriteKind::Create => self.permit_current(Action::Replace).map(drop),
            WriteKind::Change => Ok(()),
        }
    }

    /// As [`BlobWrite::check`], without the lease and policies.
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

    /// As [`BlobWrite::find`], with the condition of a change. Errors: also those of a missing blob.
    pub(crate) fn find_for_change(
        &self,
        state: BlobState,
        condition: WriteCondition<'_>,
    ) -> Result<(RecordSlot, Blob)> {
        let found = match self.find(state) {
            Err(Error::BlobNotFound) => None,
            found => Some(found?),
        };
        let validators = found.as_ref().map(|(_, blob)| Validators::from(blob));
        condition.check(WriteKind::Change, validators)?;
        found.ok_or(Error::BlobNotFound)
    }

    /// Checks the lease id of a write against the lease of the current blob.
    pub(crate) fn check_lease(&self, given: Option<Guid>) -> Result<()> {
        let lease = self
            .current()
            .map_or_else(Lease::default, |blob| blob.lease);
        lease.check_write(given, self.now, Leased::Blob)
    }

    /// The existing blob, for a change of its content, properties or metadata. Errors: `BlobNotFound`; `PendingCopyOperation`,
    /// `BlobArchived`, `BlobBeingRehydrated`, `BlobImmutableDueToPolicy`.
    pub(crate) fn changeable(&self) -> Result<(Permit, Blob)> {
        let blob = self.existing()?;
        let permit = self.permit(Action::Change, RecordSlot::Current, Some(&blob))?;
        Ok((permit, blob))
    }
}
