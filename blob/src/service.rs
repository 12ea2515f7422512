//! BlobService: the state that all operations share. Their files add the methods.

use crate::account::AccountPolicies;
use crate::codec;
use crate::directory_cache::DirectoryCache;
use crate::error::Result;
use crate::etag_clock::EtagClock;
use crate::keys;
use crate::keyspaces::Keyspaces;
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{Db, IdSource};
use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// The Blob service over one store, shared by all threads. Its state in memory: the policies of
/// accounts, the ETag clock, and notes about sweeps and long operations.
#[derive(Debug)]
pub struct BlobService {
    pub(crate) db: Db,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) keyspaces: Keyspaces,
    /// Held by a sweep, so that no two sweeps drop the same records. Holds the keys of timers whose
    /// values are corrupt, which earlier sweeps reported.
    pub(crate) sweep_state: Mutex<HashSet<Vec<u8>>>,
    pub(crate) policies: AccountPolicies,
    pub(crate) etags: EtagClock,
    /// Number of operations under way that hold locks for long.
    pub(crate) long_operations: AtomicUsize,
    /// The directories that paths led through lately.
    pub(crate) directories: DirectoryCache,
}

impl BlobService {
    /// Opens the service's keyspaces in `db`, creating them if absent. Containers, blobs and
    /// contents get ids from `ids`.
    ///
    /// Each operation reads `clock`. A write reads it under the lock that orders the write, so that
    /// the times of records are in the order of writes.
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
            sweep_state: Mutex::default(),
            policies: AccountPolicies::default(),
            etags,
            long_operations: AtomicUsize::new(0),
            directories: DirectoryCache::default(),
        })
    }

    /// Makes the service issue no ETag that `before` has issued, because clients may still have
    /// those ETags. `before` is the service of the store that this one replaces. Call it once
    /// `before` takes no more writes.
    pub fn follow(&self, before: &BlobService) {
        self.etags.follow(&before.etags, self.now());
    }

    /// The time of day. A write reads it under the lock that orders the write; a read reads it
    /// once.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }
}
