//! The open store and its services: plain data that the parts of the server share.

use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::faults::Faults;
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
    pub db: Db,
    pub blobs: BlobService,
    pub queues: QueueService,
    pub tables: TableService,
}
