//! The services under test, and the state that all threads of the soak share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use lazurite_bench_common::Outcome;
use lazurite_blob::BlobService;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{ClockSteps, Config, Db, Environment, RandomIds, SystemWallClock, WallClock};
use lazurite_queue::QueueService;
use lazurite_table::TableService;

use super::ledger::Ledger;

pub(super) const ACCOUNT: &str = "account";

/// The services on one open store.
pub(super) struct Services {
    pub(super) db: Db,
    pub(super) clock: Arc<dyn WallClock>,
    pub(super) blobs: BlobService,
    pub(super) queues: QueueService,
    pub(super) tables: TableService,
}

impl Services {
    pub(super) fn open(
        directory: &Path,
        fault: &FaultFs,
        steps: &Arc<ClockSteps>,
    ) -> Outcome<Services> {
        let config = Config::default();
        let environment = Environment {
            fs: Arc::new(fault.clone()),
            ..Environment::system(config.durability)
        };
        let db = Db::open_with(directory, config, environment)?;
        let ids = Arc::new(RandomIds);
        let clock: Arc<dyn WallClock> = Arc::new(SystemWallClock::with_steps(steps.clone()));
        Ok(Services {
            blobs: BlobService::open(&db, ids.clone(), clock.clone())?,
            queues: QueueService::open(&db, ids, clock.clone())?,
            tables: TableService::open(&db, clock.clone())?,
            db,
            clock,
        })
    }
}

/// The state that all threads share.
pub(super) struct Soak {
    /// Locked shared by each request, and exclusively to reopen the store.
    pub(super) services: RwLock<Services>,
    pub(super) ledger: Ledger,
    pub(super) is_over: AtomicBool,
    /// Whether the disk fails, so that errors of the store are expected.
    pub(super) is_failing: AtomicBool,
    pub(super) is_slow: AtomicBool,
}

impl Soak {
    pub(super) fn services(&self) -> RwLockReadGuard<'_, Services> {
        self.services.read().expect("no request panics")
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
