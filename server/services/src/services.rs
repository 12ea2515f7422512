//! An open store and its services, which the parts of the server share.

use crate::clock::Clock;
use crate::connection::blocking_pool::Writers;
use crate::faults::Faults;
use crate::faults::targets::{Meter, Usage};
use lazurite_base::wall_clock::WallClock;
use lazurite_blob::{BlobService, ContainerSettings};
use lazurite_engine::{Db, Durability, RandomIds, Recovered, Stats};
use lazurite_protocol::accounts::Accounts;
use lazurite_queue::QueueService;
use lazurite_table::TableService;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// The status of a copy from another server that a restart interrupted. Such a copy cannot be
/// continued, because the credentials of its source are not kept.
const COPY_CUT_OFF: &str =
    "500 OperationCancelled \"The server was restarted before the copy had ended.\"";

/// The services of one store, and the accounts that they serve. Other parts of the server use the
/// store only through the services.
#[derive(Debug)]
pub struct Services {
    pub accounts: Arc<Accounts>,
    /// The clock that gives the services their time.
    pub clock: Arc<Clock>,
    pub faults: Arc<Faults>,
    /// What the requests of this store have used of the scalability targets.
    pub usage: Usage,
    pub blobs: BlobService,
    pub queues: QueueService,
    pub tables: TableService,
    pub writers: Writers,
    db: Db,
    /// Its drop shows [`Ending`] that nothing uses the services any more.
    life: watch::Sender<()>,
}

impl Services {
    /// The settings of a new private container, with the namespace that its account has.
    pub fn container_settings(&self, account: &str) -> ContainerSettings {
        ContainerSettings {
            hierarchical: self.accounts.is_hierarchical(account),
            ..ContainerSettings::default()
        }
    }

    /// Opens the services on an open store, and marks copies that a restart interrupted as failed.
    /// Blocks for the disk. The error is a sentence.
    pub fn open(
        db: Db,
        accounts: Arc<Accounts>,
        clock: Arc<dyn WallClock>,
        faults: Arc<Faults>,
    ) -> Result<Services, String> {
        let clock = Arc::new(Clock::open(&db, clock)?);
        let ids = Arc::new(RandomIds);
        let blobs = BlobService::open(&db, ids.clone(), clock.clone()).map_err(text)?;
        let tables = TableService::open(&db, clock.clone()).map_err(text)?;
        let queues = QueueService::open(&db, ids, clock.clone()).map_err(text)?;
        let cut_off = blobs.fail_interrupted_copies(COPY_CUT_OFF);
        for failure in cut_off.map_err(text)?.failures {
            tracing::error!("a copy that was cut off is still pending: {failure}");
        }
        Ok(Services {
            accounts,
            clock,
            faults,
            usage: Usage::default(),
            blobs,
            queues,
            tables,
            writers: Writers::of(&db),
            db,
            life: watch::Sender::default(),
        })
    }

    /// Ensures that these services issue no ETag and no Timestamp that `before` has issued. The
    /// store of these services replaces that of `before`.
    pub fn follow(&self, before: &Services) {
        self.blobs.follow(&before.blobs);
        self.tables.follow(&before.tables);
    }

    /// Measures requests against the scalability targets; `None` if no target is set.
    pub fn meter(&self) -> Option<Meter<'_>> {
        self.faults.targets().map(|targets| Meter {
            targets,
            usage: &self.usage,
            now: self.clock.now(),
        })
    }

    pub fn stats(&self) -> Stats {
        self.db.stats()
    }

    /// The reason why the store refuses to write; `None` if it accepts writes.
    pub fn failure(&self) -> Option<lazurite_engine::Error> {
        self.db.failure()
    }

    /// What the opening of the store recovered from its WAL.
    pub fn recovered(&self) -> &Recovered {
        self.db.recovered()
    }

    /// Makes all earlier writes durable. Waits for the disk.
    pub fn sync(&self) -> lazurite_engine::Result<()> {
        self.db.sync()
    }

    /// Writes all memtables to the disk, and waits for that.
    pub fn flush(&self) -> lazurite_engine::Result<()> {
        self.db.flush_all()
    }

    /// Makes a copy of the store in a directory, by hard links. Waits for the disk.
    pub fn checkpoint(&self, directory: &Path) -> lazurite_engine::Result<()> {
        self.db.checkpoint(directory)
    }

    /// Like [`Services::checkpoint`], for a copy that will be opened with another durability.
    pub fn checkpoint_for(
        &self,
        directory: &Path,
        durability: Durability,
    ) -> lazurite_engine::Result<()> {
        self.db.checkpoint_for(directory, durability)
    }

    /// Closes the store after making all earlier writes durable. Waits for the disk.
    pub fn close(&self) -> lazurite_engine::Result<()> {
        self.db.close()
    }

    /// A handle that shows when these services are unused, so that the store can be removed.
    pub fn ending(&self) -> Ending {
        Ending {
            db: self.db.clone(),
            life: self.life.subscribe(),
        }
    }
}

#[cfg(test)]
impl Services {
    /// The services of a store in memory, with the accounts of the published signature vectors.
    pub fn in_memory(clock: Arc<dyn WallClock>) -> Services {
        let durability = Durability::Memory;
        let config = lazurite_engine::Config {
            durability,
            ..lazurite_engine::Config::default()
        };
        let environment = lazurite_engine::Environment::system(durability);
        let db = Db::open_with(Path::new("nowhere"), config, environment).unwrap();
        let accounts = Arc::new(lazurite_protocol::testing::accounts());
        Services::open(db, accounts, clock, Arc::new(Faults::new(false, false))).unwrap()
    }

    pub fn db(&self) -> Db {
        self.db.clone()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Waits for the end of a store: the last request, response or task that uses the services of the
/// store drops them.
#[derive(Debug)]
pub struct Ending {
    db: Db,
    life: watch::Receiver<()>,
}

impl Ending {
    /// Waits until nothing uses the services.
    pub async fn wait(&mut self) {
        // Nothing is ever sent: `changed` fails once the sender is dropped.
        while self.life.changed().await.is_ok() {}
    }

    /// True if nothing uses the services and no snapshot of the store is open.
    pub fn has_come(&self) -> bool {
        self.life.has_changed().is_err() && self.db.stats().snapshots == 0
    }

    /// Closes the store and discards what it has in memory. Requests that still use it fail.
    pub fn abandon(self) {
        self.db.abandon();
    }
}
