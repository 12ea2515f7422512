//! The snapshots, versions and deleted blobs of a name.

use crate::codec;
use crate::error::Result;
use crate::error::corrupt_record;
use crate::keys::Timer;
use crate::keys::{self, History};
use crate::operations::permit::Action;
use crate::operations::permit::RecordSlot;
use crate::operations::write::BlobWrite;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::{Direction, KeyRange};

/// Maximum number of rows of a history that one batch changes: each may hold 8 KiB of metadata, and
/// a batch may have 64 MiB.
pub(crate) const HISTORY_STEP: usize = 256;
/// Earlier than every assigned snapshot time: a scan from here reads the whole history.
pub(crate) const FIRST: SnapshotTime = SnapshotTime(0);

impl BlobWrite<'_> {
    /// The moments of the rows of this kind from `from` on, ascending, at most `max` of them.
    pub(crate) fn moments(
        &self,
        kind: History,
        from: SnapshotTime,
        max: usize,
    ) -> Result<Vec<SnapshotTime>> {
        let range = KeyRange {
            start: keys::history(self.home(), kind, &self.name, from),
            ..KeyRange::prefix(&keys::history_of(self.home(), kind, &self.name))
        };
        let history = &self.service.keyspaces.history;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(history, range, Direction::Forward);
        let mut moments = Vec::new();
        while moments.len() < max && rows.advance()? {
            moments.push(moment(rows.key())?);
        }
        Ok(moments)
    }

    /// The latest moment of a record of this kind.
    pub(crate) fn last_moment(&self, kind: History) -> Result<Option<SnapshotTime>> {
        let range = KeyRange::prefix(&keys::history_of(self.home(), kind, &self.name));
        let history = &self.service.keyspaces.history;
        let snapshot = self.service.db.snapshot();
        let mut rows = snapshot.scan(history, range, Direction::Backward);
        if !rows.advance()? {
            return Ok(None);
        }
        moment(rows.key()).map(Some)
    }

    /// Fails if a snapshot is protected. Reads all snapshots, or none if no record of the container
    /// was ever protected.
    pub(crate) fn check_snapshots_unprotected(&self) -> Result<()> {
        let service = self.service;
        let home = self.home();
        if !service.may_hold_protected(home)? {
            return Ok(());
        }
        let range = KeyRange::prefix(&keys::history_of(home, History::Snapshot, &self.name));
        let snapshot = service.db.snapshot();
        let mut rows = snapshot.scan(&service.keyspaces.history, range, Direction::Forward);
        while rows.advance()? {
            let blob = codec::decode_blob(&rows.value()?, home)?;
            let place = RecordSlot::Past(History::Snapshot, moment(rows.key())?);
            let _ = self.permit(Action::Remove, place, Some(&blob))?;
        }
        Ok(())
    }

    /// Removes snapshots of an expired blob, from the oldest up to `last`, except protected ones.
    /// Examines at most [`HISTORY_STEP`] snapshots. Returns `true` if it has examined that many and
    /// removed one: then there may be more to remove.
    pub(crate) fn end_snapshots(&mut self, last: SnapshotTime) -> Result<bool> {
        let present = self.moments(History::Snapshot, FIRST, HISTORY_STEP)?;
        let is_full = present.len() == HISTORY_STEP;
        let mut any = false;
        for moment in present.into_iter().filter(|moment| *moment <= last) {
            let place = RecordSlot::Past(History::Snapshot, moment);
            let Some(blob) = self.past(place)? else {
                continue;
            };
            if let Ok(permit) = self.permit(Action::Remove, place, Some(&blob)) {
                self.remove(&permit);
                self.forget_past(place, &blob);
                self.expired_snapshots.push(moment);
                any = true;
            }
        }
        Ok(is_full && any)
    }

    /// Removes all snapshots like [`BlobWrite::end_snapshots`], and leaves those beyond one step to
    /// the sweep.
    pub(crate) fn end_all_snapshots(&mut self) -> Result<()> {
        let Some(last) = self.last_moment(History::Snapshot)? else {
            return Ok(());
        };
        if self.end_snapshots(last)? {
            let key = keys::history(self.home(), History::Snapshot, &self.name, last);
            self.set_timer(self.now, Timer::Snapshots, &key);
        }
        Ok(())
    }
}

fn moment(key: &[u8]) -> Result<SnapshotTime> {
    let name = keys::history_name(key);
    name.and_then(|(_, moment)| moment)
        .ok_or_else(corrupt_record)
}
