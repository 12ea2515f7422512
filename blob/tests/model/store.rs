//! The service of `history` and `terms`, on a disk that can lose power.

use crate::ACCOUNT;
use lazurite_base::wall_clock::ManualWallClock;
use lazurite_blob::{AccountPolicy, BlobService};
use lazurite_engine::fs::{Keep, MemoryFs};
use lazurite_engine::{Config, CountingIds, Db, Durability, Environment};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time at which a run begins.
pub(crate) fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(crate) struct Store {
    disk: MemoryFs,
    directory: tempfile::TempDir,
    pub(crate) db: Db,
    pub(crate) service: BlobService,
    clock: Arc<ManualWallClock>,
    ids: Arc<CountingIds>,
}

fn open(directory: &tempfile::TempDir, disk: &MemoryFs) -> Db {
    let config = Config {
        durability: Durability::Disk,
        memtable_bytes_max: 64 << 10,
        ..Config::default()
    };
    let mut environment = Environment::system(Durability::Disk);
    environment.fs = Arc::new(disk.clone());
    Db::open_with(directory.path(), config, environment).unwrap()
}

impl Store {
    pub(crate) fn new(policy: AccountPolicy) -> Store {
        let directory = tempfile::tempdir().unwrap();
        let disk = MemoryFs::crashable();
        let db = open(&directory, &disk);
        let ids = Arc::new(CountingIds::default());
        let clock = Arc::new(ManualWallClock::new(start()));
        let service = BlobService::open(&db, ids.clone(), clock.clone()).unwrap();
        let set = service.set_account_policy(ACCOUNT, policy, None);
        set.unwrap().wait().unwrap();
        Store {
            disk,
            directory,
            db,
            service,
            clock,
            ids,
        }
    }

    /// The service, with its clock set to `now`.
    pub(crate) fn at(&self, now: SystemTime) -> &BlobService {
        self.clock.set(now);
        &self.service
    }

    /// Waits for writes whose tickets were dropped, such as those of a sweep: a later write becomes
    /// durable only together with them.
    pub(crate) fn wait_for_disk(&self) {
        let set = self.service.set_service_properties(ACCOUNT, b"");
        set.unwrap().wait().unwrap();
    }

    /// Kills the process, or cuts its power, and opens the store again.
    pub(crate) fn crash(&mut self, seed: u64, keep: Keep) {
        self.disk = self.disk.crash(seed, keep);
        self.reopen();
    }

    /// Opens the store again after it was closed.
    pub(crate) fn reopen(&mut self) {
        self.db = open(&self.directory, &self.disk);
        self.service = BlobService::open(&self.db, self.ids.clone(), self.clock.clone()).unwrap();
    }
}
