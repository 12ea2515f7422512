//! Undelete Blob.

use crate::error::corrupt_record;
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::keys::History;
use crate::lease::{Lease, Leased};
use crate::model::{Blob, BlobAddress, PreviousState};
use crate::operations::history::{FIRST, HISTORY_STEP};
use crate::operations::path::Purpose;
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::write::BlobWrite;
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::Ticket;

impl BlobService {
    /// Restores everything that was deleted under the name and is still kept: snapshots, versions
    /// and blobs. If there is no blob now, the blob that was deleted last becomes the current one;
    /// other deleted blobs become snapshots. Snapshots of an expired blob stay deleted unless
    /// another blob exists under the name: they would conflict with the next blob of the name. It
    /// is not an error if nothing can be restored but a blob or a version exists: in an account
    /// with versions, a deleted blob is a version. Source: recorded answers of the hosted service.
    ///
    /// Needs no lease id, because no client sends one, and a leased blob does not change. A given
    /// id must be that of the blob's lease; deleted blobs have none. Errors: invalid names;
    /// `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`; a lease
    /// id that does not match.
    pub fn undelete_blob(
        &self,
        address: &BlobAddress<'_>,
        lease_id: Option<Guid>,
    ) -> Result<Ticket> {
        let undeleted = self.undelete_in_steps(address, lease_id, u32::MAX)?;
        undeleted.ok_or_else(corrupt_record)
    }

    /// Like [`BlobService::undelete_blob`], in at most `steps_max` steps; `None` if there is more
    /// to restore. The lease is checked in the first step only: a lease acquired between two steps
    /// does not stop the undeletion.
    pub(super) fn undelete_in_steps(
        &self,
        address: &BlobAddress<'_>,
        lease_id: Option<Guid>,
        steps_max: u32,
    ) -> Result<Option<Ticket>> {
        let _long = self.begin_long_operation();
        let mut undeletion = Undeletion {
            from: FIRST,
            has_blob: None,
            last: None,
            any: false,
        };
        for step in 0..steps_max {
            let mut write = self.begin_path_write(address, Purpose::Restore)?;
            let is_done = write.undelete_step(&mut undeletion)?;
            if is_done && !undeletion.any && !write.has_current_or_version()? {
                return Err(Error::BlobNotFound);
            }
            if step == 0 {
                let current = write.current();
                let lease = current.map_or_else(Lease::default, |blob| blob.lease);
                lease.check_read(lease_id, write.now, Leased::Blob)?;
            }
            if is_done {
                write.put_last(undeletion.last)?;
                return Ok(Some(write.commit()?));
            }
            // The ticket of the last step covers this one.
            drop(write.commit()?);
        }
        Ok(None)
    }

    /// Restores a deleted file or directory of a hierarchical container, a directory with all that
    /// was in it. `deletion_id` is the one of [`BlobDeletion`] and [`ListedBlob`]. Errors: invalid
    /// names; `NotHierarchical`; `ContainerNotFound`; `BlobNotFound` if there is nothing to restore;
    /// `BlobAlreadyExists` if something else has the name; `AuthorizationPermissionMismatch`.
    ///
    /// [`BlobDeletion`]: crate::BlobDeletion
    /// [`ListedBlob`]: crate::ListedBlob
    pub fn undelete_path(
        &self,
        address: &BlobAddress<'_>,
        deletion_id: SnapshotTime,
    ) -> Result<(Box<Blob>, Ticket)> {
        let mut write = self.begin_path_write(address, Purpose::Restore)?;
        write.check_hierarchical()?;
        let blob = write.put_deleted_back(deletion_id)?;
        Ok((blob, write.commit()?))
    }
}

/// The progress of an undeletion in bounded steps. If a kill interrupts an undeletion, the next
/// request completes it.
struct Undeletion {
    from: SnapshotTime,
    /// True if a blob or version exists or can be restored; otherwise snapshots stay deleted.
    /// `None` before the first step.
    has_blob: Option<bool>,
    /// The moment of the last record, among those seen so far, that was the current blob before its
    /// deletion. The record is still deleted.
    last: Option<SnapshotTime>,
    any: bool,
}

impl BlobWrite<'_> {
    fn has_current_or_version(&self) -> Result<bool> {
        Ok(self.current().is_some() || self.last_moment(History::Version)?.is_some())
    }

    /// Restores some deleted records. Returns whether none is left to be restored.
    fn undelete_step(&mut self, undeletion: &mut Undeletion) -> Result<bool> {
        let has_blob = match undeletion.has_blob {
            Some(has_blob) => has_blob,
            None => self.has_current_or_version()? || self.has_deleted_blob()?,
        };
        undeletion.has_blob = Some(has_blob);
        let moments = self.moments(History::Deleted, undeletion.from, HISTORY_STEP)?;
        let is_done = moments.len() < HISTORY_STEP;
        for moment in moments {
            undeletion.from = moment.next();
            let place = RecordSlot::Past(History::Deleted, moment);
            let Some(mut blob) = self.past(place)? else {
                continue;
            };
            let was = blob.previous_state();
            let is_alone = !has_blob && matches!(was, PreviousState::Snapshot(_));
            if is_alone || !self.is_restorable(&blob) {
                continue;
            }
            undeletion.any = true;
            blob.deleted = None;
            let place_before = match was {
                PreviousState::Snapshot(snapshot) => RecordSlot::Past(History::Snapshot, snapshot),
                PreviousState::Version(version) => RecordSlot::Past(History::Version, version),
                PreviousState::Blob => {
                    let older = undeletion.last.replace(moment);
                    self.put_older(older)?;
                    continue;
                }
            };
            let permit = self.permit(Action::Restore, place, Some(&blob))?;
            self.remove(&permit);
            let permit = self.permit(Action::Add, place_before, None)?;
            self.put(&permit, &blob);
        }
        Ok(is_done)
    }

    fn is_restorable(&self, blob: &Blob) -> bool {
        blob.is_kept(self.now) && !blob.is_expired(self.now)
    }

    /// True if there is a deleted blob or version to restore. Looks at the newest record first,
    /// because that record usually can be restored. After a blob has expired, only older records
    /// may be left.
    fn has_deleted_blob(&self) -> Result<bool> {
        let is_one = |moment| {
            let blob = self.past(RecordSlot::Past(History::Deleted, moment))?;
            Ok::<_, Error>(blob.is_some_and(|blob| {
                let is_snapshot = matches!(blob.previous_state(), PreviousState::Snapshot(_));
                !is_snapshot && self.is_restorable(&blob)
            }))
        };
        if let Some(last) = self.last_moment(History::Deleted)?
            && is_one(last)?
        {
            return Ok(true);
        }
        let mut from = FIRST;
        loop {
            let moments = self.moments(History::Deleted, from, HISTORY_STEP)?;
            for moment in &moments {
                if is_one(*moment)? {
                    return Ok(true);
                }
                from = moment.next();
            }
            if moments.len() < HISTORY_STEP {
                return Ok(false);
            }
        }
    }

    /// Makes the blob that was deleted last the current one, if there is none.
    fn put_last(&mut self, last: Option<SnapshotTime>) -> Result<()> {
        let place = match last {
            Some(moment) if self.current().is_none() => RecordSlot::Past(History::Deleted, moment),
            _ => return self.put_older(last),
        };
        if let Some(mut blob) = self.past(place)? {
            let permit = self.permit(Action::Restore, place, Some(&blob))?;
            self.remove(&permit);
            blob.deleted = None;
            self.put_back(blob)?;
        }
        Ok(())
    }

    /// Restores a deleted blob that does not become the current one, as a snapshot.
    fn put_older(&mut self, older: Option<SnapshotTime>) -> Result<()> {
        // In a hierarchical container it stays deleted, and has a deletion id.
        let Some(moment) = older.filter(|_| !self.container.hierarchical) else {
            return Ok(());
        };
        let place = RecordSlot::Past(History::Deleted, moment);
        if let Some(mut blob) = self.past(place)? {
            let permit = self.permit(Action::Restore, place, Some(&blob))?;
            self.remove(&permit);
            blob.deleted = None;
            blob.snapshot = Some(moment);
            blob.expires_at = None;
            let place = RecordSlot::Past(History::Snapshot, moment);
            let permit = self.permit(Action::Add, place, None)?;
            self.put(&permit, &blob);
        }
        Ok(())
    }

    /// Restores the deleted record of this moment as the current one.
    fn put_deleted_back(&mut self, moment: SnapshotTime) -> Result<Box<Blob>> {
        let place = RecordSlot::Past(History::Deleted, moment);
        let deleted = self.past(place)?;
        let deleted = deleted.filter(|blob| {
            blob.previous_state() == PreviousState::Blob && self.is_restorable(blob)
        });
        let mut blob = deleted.ok_or(Error::BlobNotFound)?;
        if self.current().is_some() {
            return Err(Error::BlobAlreadyExists);
        }
        let permit = self.permit(Action::Restore, place, Some(&blob))?;
        self.remove(&permit);
        blob.deleted = None;
        self.put_back(blob.clone())?;
        Ok(blob)
    }

    fn put_back(&mut self, mut blob: Box<Blob>) -> Result<()> {
        blob.staging = self.staging();
        self.set_expiry_timer(&blob);
        let permit = self.permit_current(Action::Add)?;
        self.put(&permit, &blob);
        Ok(())
    }
}
