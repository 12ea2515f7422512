//! Lease Blob and Lease Container.

use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::Result;
use crate::guid::Guid;
use crate::lease::{LeaseAction, LeaseOutcome};
use crate::model::{BlobAddress, Written};
use crate::operations::path::Purpose;
use crate::operations::permit::Action;
use crate::service::BlobService;
use crate::{keys, names};
use lazurite_engine::Ticket;

impl BlobService {
    /// Acquires, renews, changes, releases or breaks the lease of a blob. ETag and Last-Modified of
    /// the blob stay as they are. Errors: invalid names; `InvalidOperation` for a snapshot or
    /// version; `ContainerNotFound`, `BlobNotFound`; those of write conditions; those of leases;
    /// `PendingCopyOperation`.
    pub fn lease_blob(
        &self,
        address: &BlobAddress<'_>,
        action: LeaseAction,
        conditions: &Conditions,
    ) -> Result<(LeaseOutcome, Written, Ticket)> {
        let condition = conditions.for_write()?;
        let mut write = self.begin_path_write(address, Purpose::WriteAny)?;
        write.check_conditions(condition, conditions, WriteKind::Change)?;
        let mut blob = write.existing()?;
        let permit = write.permit_current(Action::Set)?;
        let outcome = blob.lease.apply(action, write.now, || self.new_guid())?;
        write.put(&permit, &blob);
        Ok((outcome, blob.written(), write.commit()?))
    }

    /// Like [`BlobService::lease_blob`], for a container. Only conditions on dates are supported.
    /// Errors: an invalid name; `ConditionHeadersNotSupported`, `ConditionNotMet`,
    /// `ContainerNotFound`; those of leases.
    pub fn lease_container(
        &self,
        account: &str,
        container: &str,
        action: LeaseAction,
        conditions: &Conditions,
    ) -> Result<(LeaseOutcome, Written, Ticket)> {
        names::check_container_name(container)?;
        let condition = conditions.for_container_write()?;
        let key = keys::container(account, container);
        let mut transaction = self.begin_container_change(&key)?;
        let mut container = self.keyspaces.container(&self.db, &key)?;
        condition.check(WriteKind::Change, Some(Validators::from(&container)))?;
        let outcome = container
            .lease
            .apply(action, self.now(), || self.new_guid())?;
        let ticket = self.write_container(&mut transaction, &key, &container)?;
        Ok((outcome, container.written(), ticket))
    }

    pub(crate) fn new_guid(&self) -> Guid {
        Guid(self.ids.next_id())
    }
}
