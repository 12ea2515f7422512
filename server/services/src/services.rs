//! The open store and its services: plain data that the parts of the server share.

use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::faults::Faults;
use crate::faults::targets::{Meter, Usage};
use lazurite_blob::BlobService;
use lazurite_engine::Db;
use lazurite_queue::QueueService;
use lazurite_table::TableService;
use std::sync::Arc;

/// The services of one store, and the accounts that they serve.
#[derive(Debug)]
pub struct Services {
    pub accounts: Arc<Accounts>,
    /// The clock of the services.
    pub clock: Arc<Clock>,
    pub faults: Arc<Faults>,
    /// What the requests of this store have used of the targets.
    pub usage: Usage,
    pub db: Db,
    pub blobs: BlobService,
    pub queues: QueueService,
    pub tables: TableService,
}

impl Services {
    /// Issues no ETag and no Timestamp again that these services have issued, of a store whose
    /// place this one takes.
    pub fn follow(&self, before: &Services) {
        self.blobs.follow(&before.blobs);
        self.tables.follow(&before.tables);
    }

    /// The targets at work for a request; `None` if none is set.
    pub fn meter(&self) -> Option<Meter<'_>> {
        self.faults.targets().map(|targets| Meter {
            targets,
            usage: &self.usage,
            now: self.clock.now(),
        })
    }
}
