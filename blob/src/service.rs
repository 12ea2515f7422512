//! BlobService: what all operations share. Their files have the rest of it.

use crate::account::AccountPolicies;
use crate::codec;
use crate::error::Result;
use crate::etag_clock::EtagClock;
use crate::keys;
use crate::keyspaces::Keyspaces;
use crate::locks::ContainerGates;
use lazurite_engine::{Db, IdSource, KeyLocks, WallClock};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// The Blob service over one store. Shared by all threads; holds no state of its own but locks and the ETag clock.
#[derive(Debug)]
pub struct BlobService {
    pub(crate) db: Db,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) gates: ContainerGates,
    /// Held across read, check and write of the blobs of a name, by the key of the current one.
    pub(crate) locks: KeyLocks,
    /// Held across a change of how many records name a file; taken after those of blobs.
    pub(crate) file_locks: KeyLocks,
    /// Held by a sweep, so that no two of them drop the same records.
    pub(crate) sweeping: Mutex<()>,
    pub(crate) policies: AccountPolicies,
    pub(crate) etags: EtagClock,
    /// Operations under way that hold locks for long.
    pub(crate) long_operations: AtomicUsize,
}

impl BlobService {
    /// Opens the service's keyspaces in `db`, creating them if absent. Containers, blobs and contents get ids from `ids`.
    ///
    /// `clock` is read by each operation: by a write under the lock that orders it, so that the times of records are in the
    /// order of writes.
    pub fn open(db: &Db, ids: Arc<dyn IdSource>, clock: Arc<dyn WallClock>) -> Result<BlobService> {
        let keyspaces = Keyspaces::open(db)?;
        let bound = db.get(&keyspaces.accounts, keys::ETAG_BOUND)?;
        let bound = bound.map(|value| codec::decode_count(&value)).transpose()?;
        let etags = EtagClock::open(bound, clock.now());
        Ok(BlobService {
            db: db.clone(),
            ids,
            clock,
            keyspaces,
            gates: ContainerGates::default(),
            locks: KeyLocks::default(),
            file_locks: KeyLocks::default(),
            sweeping: Mutex::default(),
            policies: AccountPolicies::default(),
            etags,
            long_operations: AtomicUsize::new(0),
        })
    }
}
