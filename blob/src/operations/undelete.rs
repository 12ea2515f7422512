//! Undelete Blob.

use super::write::{BlobWrite, Place};
use crate::BlobService;
use crate::error::{Error, Result};
use crate::guid::Guid;
use crate::keys::History;
use crate::lease::{Lease, Leased};
use crate::model::{Blob, BlobAddress};
use crate::moment::Moment;
use lazurite_engine::Ticket;

impl BlobService {
    /// Puts back all that was deleted under the name and is still kept: snapshots and versions as what they were, and the blob
    /// that was deleted last if there is none now. Nothing to put back under a blob that is there is no error.
    ///
    /// No lease id is needed, because no client sends one, and what is leased stays as it is; one that is given must be that
    /// of a lease that the blob has now, and what is deleted has none.
    /// Errors: of the names; `InvalidOperation` for a snapshot or version; `ContainerNotFound`, `BlobNotFound`; of a lease id
    /// that does not match.
    pub fn undelete_blob(
        &self,
        address: &BlobAddress<'_>,
        lease_id: Option<Guid>,
    ) -> Result<Ticket> {
        let mut write = self.begin_write(address)?;
        let now = write.now;
        let mut current = None;
        let mut any = false;
        for moment in write.moments_of(History::Deleted)? {
            let place = Place::Past(History::Deleted, moment);
            let Some(mut blob) = write.past(place)? else {
                continue;
            };
            let gone = blob.deleted.is_none_or(|deleted| deleted.until <= now);
            if gone || blob.is_expired(now) {
                continue;
            }
            any = true;
            write.remove(place);
            blob.deleted = None;
            match (blob.snapshot, blob.version) {
                (Some(snapshot), _) => write.put(Place::Past(History::Snapshot, snapshot), &blob),
                (None, Some(version)) => write.put(Place::Past(History::Version, version), &blob),
                (None, None) => {
                    let older = current.replace((moment, blob));
                    write.put_older(older);
                }
            }
        }
        if write.current().is_none() && !any {
            return Err(Error::BlobNotFound);
        }
        let lease = write
            .current()
            .map_or_else(Lease::default, |blob| blob.lease);
        lease.check_read(lease_id, now, Leased::Blob)?;
        match (current, write.current()) {
            (Some((_, blob)), None) => write.put_back(blob),
            (older, Some(_)) => write.put_older(older),
            (None, None) => {}
        }
        write.commit()
    }
}

impl BlobWrite<'_> {
    /// A blob that was deleted before another of its name: now it is a snapshot.
    fn put_older(&mut self, older: Option<(Moment, Blob)>) {
        if let Some((moment, mut blob)) = older {
            blob.snapshot = Some(moment);
            blob.expires_at = None;
            self.put(Place::Past(History::Snapshot, moment), &blob);
        }
    }

    fn put_back(&mut self, mut blob: Blob) {
        blob.staging = self.staging();
        self.set_expiry_timer(&blob);
        self.put_current(&blob);
    }
}
